"""What a failed test run comes down to, for people who look at a build and not at its log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from scripts.core.layout import Layout
from scripts.suites.cases import Case
from scripts.suites.runner import Result

BYTES = 48 << 10
"""Of one run. Buildkite's limit is 1 MiB for all that is appended: that of twenty agents."""
_MESSAGE = 600  # letters of one


def leave(layout: Layout, device: str, share: tuple[int, int], results: Iterable[Result]) -> None:
    """Write `build/reports/annotation.md`; empty where everything passed.

    `share` (k of n) is this agent's part of upstream's suites.
    """
    title = os.environ.get("BUILDKITE_LABEL") or f"Tests on {device}"
    part = f" SHARD={share[0]}/{share[1]}" if share[1] > 1 else ""
    said = write(list(results), title, f"DEVICE={device}{part}")
    (layout.reports / "annotation.md").write_text(said, encoding="utf-8")


def write(results: Sequence[Result], title: str, settings: str) -> str:
    """Markdown: the failed suites, their failures with message and patch, how to rerun each.

    Empty where everything passed, `BYTES` at most; `settings` of make bring about this run.
    """
    failed = [result for result in results if not result.passed]
    parts = [f"### {title}"]
    for result in failed:
        head = f"#### {result.name}: {result.summary}"
        again = f"Again: `make apply test SUITES={result.name} {settings}`"
        room = BYTES // len(failed) - len(head.encode()) - len(again.encode()) - 100
        parts += [head, *_failures(result.failures, room), again]
    return "\n\n".join([*parts, ""]) if failed else ""


def _failures(failures: Sequence[Case], room: int) -> list[str]:
    """As many as `room` bytes hold."""
    shown: list[str] = []
    for case in failures:
        room -= len((one := _failure(case)).encode()) + 2
        if room < 0:
            return [*shown, f"… and {len(failures) - len(shown)} more, see the report"]
        shown.append(one)
    return shown


def _failure(case: Case) -> str:
    of = f" — patch {case.patch}" if case.patch[:1].isdigit() else ""
    # Indented: whatever a message holds ends neither the block nor the list.
    said = "\n".join(f"      {line}" for line in case.message[:_MESSAGE].strip().splitlines())
    return f"- `{case.test}`{of}\n\n{said}\n\n  `{case.again}`"
