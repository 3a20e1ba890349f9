"""What upstream's tests did on the unpatched pin, as recorded, and how a run differs from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.suites.outcomes import Outcome


@dataclass(frozen=True)
class Recorded:
    """What one suite did: seconds of its tests in all, ids of those that passed or skipped."""

    seconds: float
    passed: frozenset[str]
    skipped: frozenset[str]


@dataclass(frozen=True)
class Baseline:
    """One tier: a device, with the model hub in reach or without.

    `known` is test id → what it lacks, for each failure that is let pass. It may only shrink.
    """

    tier: str
    pin: str
    environment: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, Recorded] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)


def path(layout: Layout, tier: str) -> Path:
    return layout.root / "tests" / "upstream" / "baseline" / f"{tier}.json"


def known_path(layout: Layout, tier: str) -> Path:
    return path(layout, tier).with_name(f"{tier}-known-failures.json")


def read(layout: Layout, tier: str) -> Baseline | None:
    """The recorded baseline of `tier`, None where there is none."""
    file = path(layout, tier)
    if not file.is_file():
        return None
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        listed = json.loads(known_path(layout, tier).read_text(encoding="utf-8"))
        suites = {
            name: Recorded(one["seconds"], _joined(one["passed"]), _joined(one["skipped"]))
            for name, one in raw["suites"].items()
        }
        known = {test: lacks for lacks, files in listed.items() for test in _joined(files)}
        return Baseline(tier, raw["pin"], raw["environment"], suites, known)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise OverlayError(
            f"cannot read the baseline {layout.shown(file)}: {error}",
            hint="take it from git again, or record it anew: make baseline",
        ) from error


def write(layout: Layout, base: Baseline) -> list[Path]:
    """Write both files of a tier, sorted; the old ones vanish only when both new ones exist."""
    suites = {
        name: {
            "seconds": round(one.seconds),
            "passed": _split(one.passed),
            "skipped": _split(one.skipped),
        }
        for name, one in base.suites.items()
    }
    lacking: dict[str, list[str]] = {}
    for test, lacks in base.known.items():
        lacking.setdefault(lacks, []).append(test)
    contents = {
        path(layout, base.tier): {
            "pin": base.pin,
            "environment": base.environment,
            "suites": suites,
        },
        known_path(layout, base.tier): {what: _split(tests) for what, tests in lacking.items()},
    }
    for file, content in contents.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        file.with_name(f"{file.name}.part").write_text(text + "\n", encoding="utf-8")
    for file in contents:
        os.replace(file.with_name(f"{file.name}.part"), file)
    return list(contents)


def _split(ids: Iterable[str]) -> dict[str, list[str]]:
    """File → its tests, so that no line repeats the file's name."""
    files: dict[str, list[str]] = {}
    for test in sorted(ids):
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(name)
    return files


def _joined(files: Mapping[str, list[str]]) -> frozenset[str]:
    return frozenset(
        f"{file}::{name}" if name else file for file, names in files.items() for name in names
    )


@dataclass(frozen=True)
class Share:
    """How many of the `tests` of a suite pass here and `on_base`, None where that is unknown."""

    tests: int
    passed: int
    on_base: int | None

    @property
    def shown(self) -> str:
        """A sentence: `62 % of 2211 tests pass, 61 % on base`."""
        here = f"{self.passed / max(1, self.tests):.0%} of {self.tests} tests pass"
        there = "" if self.on_base is None else f", {self.on_base / max(1, self.tests):.0%} on base"
        return (here + there).replace("%", " %")


def total(shares: Iterable[Share]) -> Share:
    """All of `shares` as one; on base unknown where it is for one of them."""
    parts = list(shares)
    bases = [part.on_base for part in parts if part.on_base is not None]
    return Share(
        sum(part.tests for part in parts),
        sum(part.passed for part in parts),
        sum(bases) if len(bases) == len(parts) else None,
    )


@dataclass(frozen=True)
class Comparison:
    """How a run differs from base: test id → the reason that pytest gave, sorted.

    `shares` is suite → how many of its tests pass; `asked` is suite → what of it was asked of the
    unpatched tree, for want of a record.

    Findings: `broken` passed on base and does not now; `failing` fails and is not known to; `stale`
    is a known failure that passes now. No findings: `gained` did not pass on base and does now;
    `unsteady` passed when it was run a second time; `known` fails as it is known to.
    """

    counts: Mapping[str, int]
    shares: Mapping[str, Share]
    broken: Mapping[str, str]
    failing: Mapping[str, str]
    stale: Mapping[str, str]
    gained: Mapping[str, str]
    unsteady: Mapping[str, str]
    known: Mapping[str, str]
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def differing(self) -> Iterator[tuple[str, str, str]]:
        """Each difference that must not be: the test, how it differs, the reason."""
        for tests, what in (
            (self.broken, "passed on base; now"),
            (self.failing, "fails, and is no known failure;"),
            (self.stale, "passes now: take it out of the known failures;"),
        ):
            yield from ((test, what, why) for test, why in tests.items())

    @property
    def findings(self) -> list[str]:
        """A line for each of them."""
        return [
            f"{test}: {what} {first_line(why)}".rstrip("; ") for test, what, why in self.differing
        ]


def first_line(reason: str) -> str:
    return reason.strip().partition("\n")[0][:160]


def compare(base: Baseline | None, ran: Mapping[str, Mapping[str, Outcome]]) -> Comparison:
    """`ran` is suite → test id → outcome. What `base` does not have, and fails, is a finding."""
    known = base.known if base else {}
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    kinds = ("broken", "failing", "stale", "gained", "unsteady", "known")
    found: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    shares = {}
    for suite, outcomes in ran.items():
        recorded = base.suites.get(suite) if base else None
        passed = recorded.passed if recorded else frozenset()
        passes = sum(outcome.result == "passed" for outcome in outcomes.values())
        shares[suite] = Share(len(outcomes), passes, len(passed) if recorded else None)
        found["broken"] |= dict.fromkeys(passed - outcomes.keys(), "it did not run")
        for test, outcome in outcomes.items():
            counts[outcome.result] += 1
            kind = _kind(outcome, test in passed, test in known)
            if kind:
                found[kind][test] = outcome.reason or outcome.result
    sorted_by_test = {kind: dict(sorted(found[kind].items())) for kind in kinds}
    return Comparison(counts, shares, **sorted_by_test)


def _kind(outcome: Outcome, passed: bool, known: bool) -> str:
    """How a test differs from base, "" where it does not. `passed` and `known`: what base says."""
    if outcome.result == "passed":
        if known:
            return "stale"
        return ("unsteady" if outcome.reason else "") if passed else "gained"
    if passed:
        return "broken"
    if outcome.result == "failed":
        return "known" if known else "failing"
    return ""
