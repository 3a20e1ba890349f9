"""The part of the page that compares upstream's tests with what they did on base, folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from scripts.core.layout import Layout
from scripts.core.markup import code, folded, table, text
from scripts.suites import record
from scripts.suites.baseline import Baseline, Comparison, first_line
from scripts.suites.upstream import Choice

_ON_BOTH = "asked now: fails on the unpatched tree, too"
_DIFFERENCES = (
    ("gained", "Pass now, did not on base"),
    ("unsteady", "Passed only when they were run again"),
)


def parts(
    layout: Layout, found: Comparison, base: Baseline | None, choices: Iterable[Choice]
) -> Iterator[str]:
    """HTML: what is no failure and yet worth a look, known failures, the suites, the versions."""
    yield "<h2>Upstream's tests, against base</h2>"
    if base is None:
        yield '<p class="note">No baseline is recorded for this machine: make baseline.</p>'
    for kind, title in _DIFFERENCES:
        if tests := getattr(found, kind):
            yield _tests(title, tests)
    if found.known:
        yield _known(found.known, base.known if base else {})
    if found.asked:
        rows = [(code(name), text(what)) for name, what in sorted(found.asked.items())]
        title = f"Asked of the unpatched tree, for want of a record: {len(rows)} suites"
        said = '<p class="note"><code>make baseline</code> takes what it said.</p>'
        yield folded(title, said + table(("suite", "asked"), rows))
    yield from _plan(found, list(choices))
    yield _environment(layout, base)


def _tests(title: str, tests: Mapping[str, str]) -> str:
    rows = [(code(test), text(first_line(why))) for test, why in tests.items()]
    return folded(f"{title}: {len(tests)}", table(("test", "it said"), rows))


def _known(failures: Mapping[str, str], known: Mapping[str, str]) -> str:
    """By what each lacks."""
    lacking: dict[str, dict[str, str]] = {}
    for test, why in failures.items():
        lacking.setdefault(known.get(test, _ON_BOTH), {})[test] = why
    inside = "".join(_tests(f"Lack {what}", tests) for what, tests in sorted(lacking.items()))
    return folded(f"Known failures: {len(failures)}", inside)


def _plan(found: Comparison, choices: list[Choice]) -> Iterator[str]:
    runs = [
        (
            code(c.suite.name),
            text(c.suite.step),
            text(found.shares[c.suite.name].shown if c.suite.name in found.shares else "no test"),
            "" if c.minutes is None else f"{c.minutes:.1f}",
            text(c.why),
        )
        for c in choices
        if not c.why_not
    ]
    heads = ("suite", "step", "how much passes", "# minutes on base", "why it runs")
    yield folded(f"Suites that ran: {len(runs)}", table(heads, runs))
    why_not = Counter((c.why_not, c.suite.step) for c in choices if c.why_not)
    skips = [(text(why), text(step), str(n)) for (why, step), n in sorted(why_not.items())]
    left = folded(
        f"Suites left out: {sum(why_not.values())}", table(("why", "step", "# suites"), skips)
    )
    yield left if skips else ""


def _environment(layout: Layout, base: Baseline | None) -> str:
    here = record.environment(layout)
    then = base.environment if base else {}
    rows = [
        (text(name), text(version), text(then.get(name, "-")))
        for name, version in sorted(here.items())
    ]
    return folded(f"Versions: {len(rows)}", table(("what", "here", "baseline"), rows))
