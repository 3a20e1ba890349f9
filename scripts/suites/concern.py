"""Whose a test is: the patches that name it, or that touch what its suite depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scripts.series.mails import Patch
from scripts.suites.areas import Suite


def of_suite(suite: Suite, patches: Iterable[Patch]) -> list[Patch]:
    """The patches that touch what a suite of upstream's depends on."""
    return [patch for patch in patches if suite.touched([diff.path for diff in patch.diffs])]


def of_test(test: str, suites: Iterable[Suite], patches: Sequence[Patch]) -> list[Patch]:
    """The patches whose `Regression-Test` has the test, by its id, else those of its suites."""
    path = test.partition("::")[0]
    named = [patch for patch in patches if path in patch.values("Regression-Test")]
    if named:
        return named
    holding = [
        suite
        for suite in suites
        if any(arg.partition("::")[0] in path for arg in suite.args if "/" in arg)
    ]
    concerned = {patch.name for suite in holding for patch in of_suite(suite, patches)}
    return [patch for patch in patches if patch.name in concerned]


def shown(patches: Iterable[Patch]) -> str:
    """Their numbers: `0001, 0004`."""
    return ", ".join(patch.name[:4] for patch in patches)
