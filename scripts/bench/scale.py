"""What the broadcast costs at scale: a model with measured constants, and a simulation beside it.

A turn of a rolling window of n images is broadcast once by the engine process and read by each of
w workers, r turns a second. With constants by least squares from the bench's rolling window:

    bytes a turn          b(n) = b0 + b1 n
    engine CPU a turn     t(n) = t0 + t1 n
    read by all workers   B = r w b(n)           bytes a second
    engine is busy        u = r t(n)             it keeps up while u < 1
    a turn waits          W = u t(n) / 2(1 - u)  M/D/1: turns come at random, one at a time is sent

and on each worker, for n images that the prefix does not cover, c(n) = c0 + c1 n copies to the
device, from the bench's audit: r w c(n) a second in all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from scripts.bench.samples import Measured, Spread

WORKERS, IMAGES = 64, 1000
"""How far the curves go."""
_TOLERANCE = 0.05  # of a measured point's spread; the CPU clock has steps


@dataclass(frozen=True)
class Line:
    """y(n) = start + slope n through measured `points`, n → spread."""

    start: float
    slope: float
    points: Mapping[int, Spread]

    @classmethod
    def through(cls, points: Mapping[int, Spread]) -> Line:
        """Least squares of the relative distances, since points are far apart in size.

        Level where that line would fall: no image makes a turn cheaper.
        """
        rows = [(n, p.median, 1 / p.median**2 if p.median else 1.0) for n, p in points.items()]
        total = sum(w for _, _, w in rows)
        x = sum(w * n for n, _, w in rows) / total
        y = sum(w * value for _, value, w in rows) / total
        wide = sum(w * (n - x) ** 2 for n, _, w in rows)
        slope = sum(w * (n - x) * (value - y) for n, value, w in rows) / wide if wide else 0.0
        slope = max(slope, 0.0)
        return cls(y - slope * x, slope, points)

    def at(self, images: float) -> float:
        return self.start + self.slope * images

    def strays(self) -> list[int]:
        """The points whose spread the line misses."""
        return [
            n
            for n, p in self.points.items()
            if not p.low * (1 - _TOLERANCE) <= self.at(n) <= p.high * (1 + _TOLERANCE)
        ]


@dataclass(frozen=True)
class Model:
    """The lines of one contender."""

    sent: Line
    """Bytes a turn."""
    busy: Line
    """Seconds of engine CPU a turn."""
    copied: Line | None
    """Copies to the device on each worker."""

    def read_by_all(self, rate: float, workers: int, images: int) -> float:
        """Bytes a second."""
        return rate * workers * self.sent.at(images)

    def most(self, images: int) -> float:
        """Turns a second that the engine keeps up with."""
        return 1 / self.busy.at(images)

    def wait(self, rate: float, images: int) -> float:
        """Mean seconds that a turn waits for those before it; infinite where they pile up."""
        service = self.busy.at(images)
        used = rate * service
        return used * service / (2 * (1 - used)) if used < 1 else float("inf")


def models(window: Measured, copies: Measured | None) -> dict[str, Model]:
    """Contender → model, of those that the rolling window has figures of."""
    found = {}
    for name in ("base", "patched"):
        sent = _points(window, "broadcast_bytes", name)
        busy = _points(window, "engine_cpu_seconds", name)
        if len(sent) > 1 and len(busy) > 1:
            copied = _copied(copies, name) if copies else {}
            line = Line.through(copied) if len(copied) > 1 else None
            found[name] = Model(Line.through(sent), Line.through(busy), line)
    return found


def _points(window: Measured, figure: str, contender: str) -> dict[int, Spread]:
    spreads = {int(case.split()[0]): window.spread(case, figure, contender)
               for case in window.values}  # fmt: skip
    return {images: spread for images, spread in sorted(spreads.items()) if spread}


def _copied(copies: Measured, contender: str) -> dict[int, Spread]:
    numbers = {"qwen3_vl, few images": 2, "qwen3_vl, many images": 16}
    spreads = {n: copies.spread(case, "h2d_copies", contender) for case, n in numbers.items()}
    return {n: spread for n, spread in spreads.items() if spread}


def simulated_wait(model: Model, rate: float, images: int) -> float:
    """Mean seconds that a turn waits, turn by turn: the engine sends one at a time."""
    turns = 50_000
    chance = random.Random(0)
    service = model.busy.at(images)
    now = free = waited = 0.0
    for _ in range(turns):
        now += chance.expovariate(rate)
        waited += max(free - now, 0)
        free = max(free, now) + service
    return waited / turns
