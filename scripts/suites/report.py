"""One HTML page of a test run: what ran, what differs from base, what stayed out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from scripts.core import markup
from scripts.core.layout import Layout
from scripts.environment import hub
from scripts.release.pin import Pin
from scripts.suites import baseline, record
from scripts.suites.baseline import Baseline, Comparison, first_line
from scripts.suites.runner import Result, Suite
from scripts.suites.upstream import Choice

_ON_BOTH = "asked now: fails on the unpatched tree, too"
_DIFFERENCES = (
    ("broken", "Passed on base, does not pass now"),
    ("failing", "Fails, and is no known failure"),
    ("stale", "Known failures that pass now: take them out of the list"),
    ("gained", "Passes now, did not on base"),
    ("unsteady", "Passed only when it was run again"),
)


def write(
    layout: Layout, pin: Pin, device: str, chosen: list[Suite], results: list[Result]
) -> Path:
    """Write `build/reports/index.html`, which needs no other file, and return its path."""
    parts = [_overview(chosen, results)]
    parts += [_findings(result) for result in results if result.findings]
    for suite in chosen:
        found = next((r.comparison for r in results if r.name == suite.name and r.comparison), None)
        if found:
            base = baseline.read(layout, hub.tier(device))
            parts += [*_comparison(found, base), _shares(found), *_plan(suite.choices)]
            parts.append(_environment(layout, base))
    title = f"{pin.project} {pin.tag} with the series, on {hub.tier(device)}"
    path = layout.reports / "index.html"
    path.write_text(markup.document(title, parts), encoding="utf-8")
    return path


def _overview(chosen: list[Suite], results: list[Result]) -> str:
    ended = {result.name: result for result in results}
    rows = []
    for suite in chosen:
        result = ended.get(suite.name)
        if result is None:
            state, said = "skipped", suite.why_not
        else:
            kind, word = ("ok", "passed") if result.passed else ("bad", "failed")
            state, said = f'<b class="{kind}">{word}</b>', result.summary
        rows.append((escape(suite.name), state, escape(said)))
    return markup.table(("suite", "result", ""), rows)


def _findings(result: Result) -> str:
    items = "".join(f"<li><code>{escape(line)}</code></li>" for line in result.findings)
    return f"<h2>Findings of {escape(result.name)}</h2><ul>{items}</ul>"


def _tests(title: str, tests: Mapping[str, str]) -> str:
    rows = [(f"<code>{escape(t)}</code>", escape(first_line(why))) for t, why in tests.items()]
    opened = f"<details><summary>{escape(title)}: {len(tests)}</summary>"
    return f"{opened}{markup.table(('test', 'what pytest said'), rows)}</details>"


def _comparison(found: Comparison, base: Baseline | None) -> list[str]:
    parts = ["<h2>Against base</h2>"]
    if base is None:
        parts.append('<p class="note">No baseline is recorded for this machine: make baseline.</p>')
    if found.asked:
        parts.append(_asked(found.asked))
    differences = [
        _tests(title, getattr(found, kind)) for kind, title in _DIFFERENCES if getattr(found, kind)
    ]
    parts += differences or ["<p>No difference.</p>"]
    known = base.known if base else {}
    lacking: dict[str, dict[str, str]] = {}
    for test, why in found.known.items():
        lacking.setdefault(known.get(test, _ON_BOTH), {})[test] = why
    if lacking:
        parts.append("<h2>Known failures, by what they lack</h2>")
        parts += [_tests(what, tests) for what, tests in sorted(lacking.items())]
    return parts


def _asked(asked: Mapping[str, str]) -> str:
    rows = [(f"<code>{escape(name)}</code>", escape(what)) for name, what in sorted(asked.items())]
    opened = (
        f"<details><summary>Asked of the unpatched tree, for want of a record: {len(rows)} suites;"
        " make baseline takes what it said</summary>"
    )
    return f"{opened}{markup.table(('suite', 'asked'), rows)}</details>"


def _shares(found: Comparison) -> str:
    """What passes, in tests: a line a suite, and all of them."""
    named = sorted((f"<code>{escape(name)}</code>", share) for name, share in found.shares.items())
    rows = [
        (name, escape(share.shown))
        for name, share in [*named, ("all", baseline.total(found.shares.values()))]
    ]
    return f"<h2>How much passes</h2>{markup.table(('suite', ''), rows)}"


def _plan(choices: Iterable[Choice]) -> list[str]:
    runs = [
        (
            f"<code>{escape(c.suite.name)}</code>",
            escape(c.suite.step),
            escape(c.suite.device),
            "" if c.minutes is None else f"{c.minutes:.1f}",
            escape(c.why),
        )
        for c in choices
        if not c.why_not
    ]
    why_not = Counter((c.why_not, c.suite.step) for c in choices if c.why_not)
    skips = [(escape(w), escape(step), str(n)) for (w, step), n in sorted(why_not.items())]
    return [
        "<h2>Upstream's suites that ran</h2>",
        markup.table(("suite", "step", "device", "#", "why"), runs),
        '<p class="note">Numbers are minutes of test time as recorded on base.</p>',
        "<details><summary>Upstream's suites that did not run</summary>",
        markup.table(("why not", "step", "#"), skips),
        "</details>",
    ]


def _environment(layout: Layout, base: Baseline | None) -> str:
    here = record.environment(layout)
    then = base.environment if base else {}
    rows = [
        (escape(name), escape(version), escape(then.get(name, "-")))
        for name, version in sorted(here.items())
    ]
    return f"<h2>Environment</h2>{markup.table(('what', 'here', 'baseline'), rows)}"
