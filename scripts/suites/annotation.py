"""What a failed test run comes down to, for people who look at a build and not at its log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from scripts.core.layout import Layout
from scripts.series import mails
from scripts.series.mails import Patch
from scripts.suites.runner import Result, Suite
from scripts.suites.upstream import Choice

_SHOWN = 50  # findings of a suite; the report has them all


def leave(
    layout: Layout,
    device: str,
    share: tuple[int, int],
    chosen: Iterable[Suite],
    results: Iterable[Result],
) -> None:
    """Write `build/reports/annotation.md`; empty where everything passed.

    `share` (k of n) is this agent's part of upstream's suites.
    """
    choices = [choice for suite in chosen for choice in suite.choices]
    title = os.environ.get("BUILDKITE_LABEL") or f"Tests on {device}"
    part = f" SHARD={share[0]}/{share[1]}" if share[1] > 1 else ""
    said = write(results, choices, mails.load(layout.patches), title, f"DEVICE={device}{part}")
    (layout.reports / "annotation.md").write_text(said, encoding="utf-8")


def write(
    results: Iterable[Result],
    choices: Sequence[Choice],
    patches: Sequence[Patch],
    title: str,
    settings: str,
) -> str:
    """Markdown: the failed suites, the tests that changed, whose patches they are, how to rerun.

    Empty where everything passed; `settings` of make bring about this run.
    """
    failed = [result for result in results if not result.passed]
    parts = []
    for result in failed:
        lines = [f"#### {result.name}: {result.summary}", ""]
        for finding in result.findings[:_SHOWN]:
            test = finding.partition(": ")[0]
            names = ", ".join(patch.name[:4] for patch in concerned(test, choices, patches))
            lines.append(f"- `{finding}`" + f" — patches {names}" * bool(names))
        if len(result.findings) > _SHOWN:
            lines.append(f"- … and {len(result.findings) - _SHOWN} more, see the report")
        parts += [*lines, "", f"Again: `make apply test SUITES={result.name} {settings}`", ""]
    return "\n".join([f"### {title}", "", *parts]) if failed else ""


def concerned(test: str, choices: Sequence[Choice], patches: Sequence[Patch]) -> list[Patch]:
    """The patches that a test is there for, or that touch what its suite depends on."""
    named = [
        patch
        for patch in patches
        if any(path in _as_path(test) for path in patch.values("Regression-Test"))
    ]
    if named:
        return named
    sources = tuple(
        source
        for choice in choices
        if any(arg.split("::")[0] in test for arg in choice.suite.args if "/" in arg)
        for source in choice.suite.sources
    )
    return [
        patch
        for patch in patches
        if sources and any(diff.path.startswith(sources) for diff in patch.diffs)
    ]


def _as_path(test: str) -> str:
    """`tests.regression.test_x.test_y` of JUnit as the path that a trailer names."""
    if "::" in test or "/" in test:
        return test
    parts = test.split(".")
    module = next((i for i, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    return "/".join(parts[: module + 1]) + ".py"
