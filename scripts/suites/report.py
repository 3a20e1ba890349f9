"""The page of a test run: what each patch has to show, what failed, the rest folded away."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from scripts.core import markup
from scripts.core.layout import Layout
from scripts.core.markup import code, table, text
from scripts.environment import hub
from scripts.release.pin import Pin
from scripts.series.mails import Patch
from scripts.suites import against, baseline, cases, concern
from scripts.suites.cases import Case
from scripts.suites.runner import Result, Suite
from scripts.suites.watched import clock

_SLOWEST = 15
_SHOWN = 50  # failures with their traceback; the rest are a list
_MESSAGE = 2000  # letters of one


@dataclass(frozen=True)
class Run:
    """What ran, and what is known of each patch beside: name of it → hunks, → figures."""

    device: str
    chosen: Sequence[Suite]
    results: Sequence[Result]
    patches: Sequence[Patch]
    hunks: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def failures(self) -> list[Case]:
        return [case for result in self.results for case in result.failures]


def write(layout: Layout, pin: Pin, run: Run) -> Path:
    """Write `build/reports/index.html`, which needs no other file, and return its path."""
    parts = [f"<p>{_sentence(run)}</p>", _patches(run), *_failures(layout, run), *_suites(run)]
    for suite in run.chosen:
        found = next((r.comparison for r in run.results if r.name == suite.name), None)
        if found:
            base = baseline.read(layout, hub.tier(run.device))
            parts += against.parts(layout, found, base, suite.choices)
    title = f"{pin.project} {pin.tag} with {len(run.patches)} patches, on {hub.tier(run.device)}"
    return markup.put(layout.reports, "index.html", markup.document(title, parts))


def _sentence(run: Run) -> str:
    tests = sum(len(result.cases) for result in run.results)
    took = clock(sum(result.seconds for result in run.results))
    names = [result.name for result in run.results if not result.passed]
    if not names:
        return f'<b class="ok">Everything passed</b>: {tests:,} tests in {took}.'
    count = len(run.failures)
    said = f"{count} failure{'s' * (count != 1)} in {', '.join(names)}"
    return f'<b class="bad">{escape(said)}</b>, of {tests:,} tests in {took}.'


def _patches(run: Run) -> str:
    own = [case for r in run.results if r.comparison is None for case in r.cases]
    theirs = [case for r in run.results if r.comparison for case in r.cases]
    choices = [c for suite in run.chosen for c in suite.choices if not c.why_not]
    rows = []
    for patch in run.patches:
        suites = [c.suite for c in choices if patch in concern.of_suite(c.suite, run.patches)]
        rows.append((
            f"<b>{patch.name[:4]}</b> {text(_title(patch))}",
            _share(_of(own, patch), run.failures) or "-",
            ", ".join(filter(None, [f"{len(suites)} suites" * bool(suites),
                                    _share(_of(theirs, patch), run.failures)])) or "-",
            text(run.hunks.get(patch.name, "-")),
            "<br>".join(map(text, run.figures.get(patch.name, ()))) or "-",
        ))  # fmt: skip
    return table(("patch", "its tests", "upstream's", "hunks proven", "figures"), rows)


def _title(patch: Patch) -> str:
    """Its subject without the tags."""
    return re.sub(r"^(\[[^\]]*\]\s*)+", "", patch.subject)


def _of(tests: Sequence[Case], patch: Patch) -> list[Case]:
    return [case for case in tests if patch.name[:4] in case.patch.split(", ")]


def _share(tests: Sequence[Case], failures: Sequence[Case]) -> str:
    """Failures are what the run calls so: of upstream's tests some are known to fail."""
    if not tests:
        return ""
    names = {case.test for case in failures}
    failed = sum(case.test in names for case in tests)
    if failed:
        return f'<a class="bad" href="#failures">{failed} of {len(tests):,} fail</a>'
    return f'<span class="ok">{len(tests):,} tests as they should</span>'


def _failures(layout: Layout, run: Run) -> Iterator[str]:
    failures = run.failures
    if not failures:
        return
    yield f'<h2 id="failures">Failures: {len(failures)}</h2>'
    for case in failures[:_SHOWN]:
        log = os.path.relpath(case.log, layout.reports)
        of = f"<p>Of patch {escape(case.patch)}.</p>" if case.patch[:1].isdigit() else ""
        trace = f"<pre>{escape(case.trace)}</pre>" if case.trace else ""
        yield (
            f'<section class="bad"><h3>{code(case.test)}</h3>{of}'
            f'<p class="said">{text(case.message[:_MESSAGE])}</p>{trace}'
            f"<p>{code(case.again)}</p>"
            f'<p><a href="{escape(log)}">{text(log)}</a></p></section>'
        )
    if failures[_SHOWN:]:
        rows = [(code(case.test), text(case.first_line)) for case in failures[_SHOWN:]]
        yield markup.folded(f"And {len(rows)} more", table(("test", "it said"), rows))


def _suites(run: Run) -> Iterator[str]:
    ended = {result.name: result for result in run.results}
    rows = []
    for suite in run.chosen:
        result = ended.get(suite.name)
        if result is None:
            rows.append((text(suite.name), "left out", text(suite.why_not), "", ""))
            continue
        kind, word = ("ok", "passed") if result.passed else ("bad", "failed")
        log = f"{suite.name}.xml"
        rows.append((
            text(suite.name), f'<b class="{kind}">{word}</b>', text(result.summary),
            clock(result.seconds), f'<a href="{log}">JUnit</a>',
        ))  # fmt: skip
    yield "<h2>Suites</h2>" + table(("suite", "result", "", "# took", "file"), rows)
    slow = cases.slowest([case for r in run.results for case in r.cases], _SLOWEST)
    shown = [(code(case.test), f"{case.seconds:.1f} s") for case in slow]
    if shown:
        yield markup.folded("Slowest tests", table(("test", "# took"), shown))
