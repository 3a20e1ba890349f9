"""What a stream of ours may show: no secret, and any text on any terminal."""

from __future__ import annotations

import io
import re
from typing import TextIO, cast


class Discreet(io.TextIOWrapper):
    """A stream that keeps the user and the password of a URL out of terminals and logs.

    A file name may be no text, and a terminal no Unicode.
    """

    def __init__(self, stream: TextIO) -> None:
        encoding, eager = stream.encoding, bool(stream.line_buffering)
        raw = cast(io.TextIOWrapper, stream).detach()
        super().__init__(raw, encoding, "backslashreplace", line_buffering=eager)

    def write(self, text: str) -> int:
        return super().write(re.sub(r"://[^/\s]+@", "://", text))
