"""What each verb does and prints: the one place that prints, one module a group of verbs."""

from __future__ import annotations

import shutil
import sys
import time

_CLEAR = "\r\x1b[K"  # what a terminal shows of the line
_QUIET = 60.0  # seconds
_said_at = 0.0


def say(line: str) -> None:
    """Print a line at once: work of minutes tells how far it is."""
    global _said_at
    _said_at = time.monotonic()
    print(f"{_CLEAR if sys.stdout.isatty() else ''}{line}", flush=True)


def note(line: str) -> None:
    """Show a line until the next one takes its place; a file or a pipe gets one a minute."""
    global _said_at
    if sys.stdout.isatty():
        print(f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
    elif time.monotonic() - _said_at > _QUIET:
        print(line, flush=True)
        _said_at = time.monotonic()
