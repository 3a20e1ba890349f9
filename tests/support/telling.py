"""What a probe prints, apart from what vLLM and its workers log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def telling() -> Iterator[Callable[[object], None]]:
    """Yield what prints an object as a line of JSON to stdout; all else goes to stderr.

    By descriptor, since workers inherit it, and log to it when their parent has ended.
    """
    with os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8") as out:
        os.dup2(2, 1)

        def tell(found: object) -> None:
            out.write(json.dumps(found, sort_keys=True) + "\n")

        yield tell
