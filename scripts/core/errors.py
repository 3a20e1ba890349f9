"""The one error type: what went wrong, and the next thing to type."""

from __future__ import annotations


class OverlayError(Exception):
    """Cannot run: usage, a missing tool, a wrong hash, a dirty tree (exit code 2).

    `hint` is the next step for the reader, a command where there is one.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CheckFailed(OverlayError):
    """A check ran and found something (exit code 1)."""

    exit_code = 1


class Conflict(OverlayError):
    """Stopped half-way on purpose; a person continues (exit code 3)."""

    exit_code = 3
