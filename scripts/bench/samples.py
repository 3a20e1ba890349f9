"""What `bench` measured: every sample, kept in one JSON file; medians and spreads of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from scripts.core.layout import write_whole

Values = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Case → figure → contender → samples, in the order in which they were taken."""


@dataclass(frozen=True)
class Measured:
    """One measurement. `failed` has the last line of the log of what should have given figures,
    `absent` why the others gave none.
    """

    date: str
    rounds: int
    values: Values
    failed: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    """What a contender said in words; keys are as those of `failed`: row, contender."""

    def spread(self, case: str, figure: str, contender: str) -> Spread | None:
        found = self.values.get(case, {}).get(figure, {}).get(contender)
        return Spread.of(found) if found else None


@dataclass(frozen=True)
class Run:
    """`made_with`: the machine, the versions and the trees that all measurements share."""

    made_with: Mapping[str, str]
    measured: Mapping[str, Measured] = field(default_factory=dict)

    def with_one(self, name: str, measured: Measured) -> Run:
        return replace(self, measured={**self.measured, name: measured})


@dataclass(frozen=True)
class Spread:
    """The median of samples, the least and the most of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        return cls(statistics.median(samples), min(samples), max(samples))

    def overlaps(self, other: Spread) -> bool:
        return self.low <= other.high and other.low <= self.high


def read(path: Path) -> Run | None:
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    measured = {name: Measured(**one) for name, one in found["measured"].items()}
    return Run(found["made_with"], measured)


def write(path: Path, run: Run) -> None:
    """The same bytes for the same samples. The file is whole at all times."""
    write_whole(path, _text(run))


def _text(run: Run) -> str:
    """Indented, with the samples of one contender in one line."""
    lines = [
        "{",
        f' "made_with": {json.dumps(run.made_with, sort_keys=True)},',
        ' "measured": {',
    ]
    blocks = []
    for name, one in sorted(run.measured.items()):
        facts = {key: value for key, value in asdict(one).items() if key != "values"}
        rows = [
            f"    {json.dumps(case)}: {json.dumps(figures, sort_keys=True)}"
            for case, figures in one.values.items()
        ]
        inner = ",\n".join(rows)
        head = json.dumps(facts, sort_keys=True)[:-1]
        blocks.append(f'  {json.dumps(name)}: {head},\n   "values": {{\n{inner}\n   }}}}')
    return "\n".join(lines) + "\n" + ",\n".join(blocks) + "\n }\n}\n"
