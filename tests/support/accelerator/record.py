"""What the simulated accelerator notes, and the line of the tree that it blames."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Direction = Literal["h2d", "d2h"]

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Copy:
    """One transfer of `size` bytes between host and device."""

    direction: Direction
    size: int
    pinned: bool
    blocking: bool
    line: str


@dataclass(frozen=True)
class Sync:
    """The host waits for the device.

    `allowed` inside `gpu_sync_allowed()`; `strict` if only the strict mode counts it.
    """

    op: str
    reason: str
    line: str
    allowed: bool = False
    strict: bool = False

    def __str__(self) -> str:
        return f"{self.line}: {self.op} synchronises: {self.reason}"


@dataclass(frozen=True)
class Mismatch:
    """An operation on tensors that CUDA wants on one device."""

    op: str
    operands: tuple[str, ...]
    line: str

    def __str__(self) -> str:
        return f"{self.line}: {self.op} mixes devices: {', '.join(self.operands)}"


@dataclass
class Record:
    """Everything that happened, in order."""

    strict: bool = False
    copies: list[Copy] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)

    def copied(self, direction: Direction, *, pinned: bool | None = None) -> int:
        """Bytes that went in one direction, or only those from or to such host memory."""
        return sum(
            c.size for c in self.copies if c.direction == direction and pinned in (None, c.pinned)
        )

    def faults(self) -> list[Sync | Mismatch]:
        """Mismatches, and syncs that nothing allows."""
        syncs = [s for s in self.syncs if not s.allowed and (self.strict or not s.strict)]
        return [*self.mismatches, *syncs]


def calling_line(root: Path | None) -> str:
    """`path:line` of the innermost frame below `root`, the path relative to it.

    Without such a frame, or without a root, the innermost one outside torch and this package.
    """
    outside = ""
    prefix = f"{root}/" if root else None
    for path, number in _frames():
        if prefix and path.startswith(prefix):
            return f"{path.removeprefix(prefix)}:{number}"
        if not outside and not path.startswith(_HERE) and "/torch/" not in path:
            outside = f"{path}:{number}"
    return outside


def _frames() -> Iterator[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
