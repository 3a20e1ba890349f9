"""Questions with right answers, put to any release: what is wrong, and what cannot be asked."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])


@dataclass
class Answers:
    """`rows`: what is asked → what is wrong of the answer, empty where it is right.

    `unasked`: what the release has by another name or not at all → the error.
    """

    rows: dict[str, str] = field(default_factory=dict)
    unasked: dict[str, str] = field(default_factory=dict)

    def put(self, asked: str, question: Callable[[], str]) -> None:
        """`question` tells what is wrong; its error is the release's, or else it was not asked."""
        try:
            self.rows[asked] = question()
        except Exception as error:
            self.failed([asked], error)

    def failed(self, asked: Iterable[str], error: Exception) -> None:
        """An error that our own line has raised is none of the release: it has not such a call."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = last.filename.startswith(_TESTS) and not isinstance(error, AssertionError)
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        (self.unasked if ours else self.rows).update(dict.fromkeys(asked, said))
