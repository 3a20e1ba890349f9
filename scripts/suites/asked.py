"""What the baseline does not tell is asked of the unpatched tree, in the same environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scripts.core.layout import Layout
from scripts.environment import hub
from scripts.release.pin import Pin
from scripts.suites import record
from scripts.suites.areas import Suite
from scripts.suites.baseline import Baseline, Recorded
from scripts.suites.outcomes import Outcome, resource
from scripts.suites.sessions import Ended, Say, Session

_NONE = Recorded(0.0, frozenset(), frozenset())


@dataclass(frozen=True)
class Answer:
    """`base` with what was asked; `asked` is suite → what of it, `faults` the sessions that do not
    end well there either."""

    base: Baseline
    asked: Mapping[str, str]
    faults: frozenset[str]


def of_unpatched(
    layout: Layout, pin: Pin, device: str, base: Baseline | None, ended: Mapping[Session, Ended],
    say: Say,
) -> Answer:  # fmt: skip
    """Ask for each failure that `base` says nothing of: of a suite without a record all of it.

    Then `make baseline` has nothing left to run for these.
    """
    base = base or Baseline(hub.tier(device), pin.tag)
    unknown = _unknown(base, ended)
    if not unknown:
        return Answer(base, {}, frozenset())
    narrow = {suite: _only(suite, tests) if tests else suite for suite, tests in unknown.items()}
    names = {suite.name: f"{len(t)} tests" if t else "all of it" for suite, t in unknown.items()}
    say(f"the unpatched tree is asked, for want of a record: {len(names)} suites")
    there = record.unpatched(layout, pin, device, list(narrow.values()), say)
    for suite, one in narrow.items():
        ran: dict[str, Outcome] = {}
        for session, end in there.items():
            if session.suite == one:
                ran.update(end.outcomes)
        base = _with(base, suite.name, ran)
    return Answer(base, names, frozenset(s.name for s, one in there.items() if one.fault))


def _unknown(base: Baseline, ended: Mapping[Session, Ended]) -> dict[Suite, tuple[str, ...]]:
    """Suite → its failures of which `base` says nothing; no tests where it has no record at all."""
    found: dict[Suite, tuple[str, ...]] = {}
    for session, one in ended.items():
        suite, recorded = session.suite, base.suites.get(session.suite.name)
        failed = {test for test, o in one.outcomes.items() if o.result == "failed"}
        if recorded is None and (failed or one.fault):
            found[suite] = ()
        elif recorded is not None:
            new = failed - recorded.passed - recorded.skipped - base.known.keys()
            if new:
                found[suite] = tuple(sorted({*found.get(suite, ()), *new}))
    return found


def _only(suite: Suite, tests: tuple[str, ...]) -> Suite:
    return replace(suite, step=suite.name, args=tests, cwd="", shards=1)


def _with(base: Baseline, name: str, ran: Mapping[str, Outcome]) -> Baseline:
    old = base.suites.get(name, _NONE)
    by = {
        result: frozenset(test for test, one in ran.items() if one.result == result)
        for result in ("passed", "skipped", "failed")
    }
    seconds = old.seconds + sum(one.seconds for one in ran.values())
    new = Recorded(seconds, old.passed | by["passed"], old.skipped | by["skipped"])
    known = {test: resource(ran[test].reason) or "other" for test in by["failed"]}
    return replace(base, suites={**base.suites, name: new}, known={**base.known, **known})
