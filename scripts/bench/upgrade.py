"""Patch or upgrade: base, ours and later releases from one run, and what each gets wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from scripts.bench import rounds
from scripts.bench.headline import HEADLINES, Headline, between, made_on
from scripts.bench.measures import ALL, FIGURES
from scripts.bench.page import amount
from scripts.bench.samples import Run
from scripts.core import markup
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

BEGIN, END = "<!-- upgrade: make bench AGAINST=… RECORD=1 -->\n", "<!-- end of upgrade -->\n"
_OURS = ("base", "patched")
_COUNTED = (
    ("options for one modality: rows with a wrong answer, Qwen2/2.5/3-VL", "settings", "qwen: "),
    ("the same, other models", "settings", "others: "),
    ("items on towers of which LoRA counts the wrong rows", "lora", "counts: "),
    ("models without LoRA on the tower that do not start with the option", "lora", "gate: "),
)
"""Text, measurement, and what its rows begin with."""
Table = list[list[str]]


def record(layout: Layout, run: Run, tags: Sequence[str]) -> list[Path]:
    """Take this run for the README: it has all measurements of the table, and no failure."""
    wanted = {row.measurement for row in HEADLINES} | {name for _, name, _ in _COUNTED}
    faults = [f"{name} is not measured" for name in sorted(wanted - run.measured.keys())]
    faults += rounds.failures(run)
    if faults:
        raise OverlayError(
            f"nothing is recorded: {'; '.join(faults)}",
            hint=f"make bench AGAINST={','.join(tags)} RECORD=1",
        )
    readme, place = layout.root / "README.md", layout.root / "tests" / "bench" / "upgrade.json"
    text = between(readme.read_text(encoding="utf-8"), BEGIN, END, table(run, tags))
    shutil.copyfile(rounds.path(layout), place)
    readme.write_text(text, encoding="utf-8")
    return [place, readme]


def table(run: Run, tags: Sequence[str]) -> str:
    """Markdown: a row a figure, a column a contender; then where and when."""
    head, *body = rows(run, tags)
    lines = [_markdown(head), f"|---|{'---:|' * (len(head) - 1)}", *map(_markdown, body)]
    return "\n".join([*lines, "", f"`make bench AGAINST={','.join(tags)}`, {made_on(run)}.", ""])


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def rows(run: Run, tags: Sequence[str]) -> Table:
    """Head and body: a figure of each contender, or "not measured"."""
    contenders = (*_OURS, *tags)
    body = [[row.text, *(_figure(run, row, one) for one in contenders)] for row in HEADLINES]
    body += [[text, *(_count(run, measurement, begin, one) for one in contenders)]
             for text, measurement, begin in _COUNTED]  # fmt: skip
    return [["", *contenders], *body]


def _figure(run: Run, row: Headline, contender: str) -> str:
    measured = run.measured.get(row.measurement)
    value = None
    if measured and row.case.startswith(ALL):
        value = _over_all(run, row, contender)
    elif measured and (spread := measured.spread(row.case, row.figure, contender)):
        value = spread.median
    return "not measured" if value is None else amount(value, FIGURES[row.figure].unit)


def _over_all(run: Run, row: Headline, contender: str) -> float | None:
    """Over the families that every contender answers for."""
    measured = run.measured[row.measurement]
    kind = row.case.removeprefix(ALL)
    values = [
        figures[row.figure]
        for case, figures in measured.values.items()
        if row.figure in figures and case.endswith(kind) and not case.startswith(ALL)
    ]
    most = max((len(by) for by in values), default=0)
    shared = [by for by in values if len(by) == most]
    found = [by[contender][0] for by in shared if contender in by]
    return sum(found) if found and len(found) == len(shared) else None


def _count(run: Run, measurement: str, begin: str, contender: str) -> str:
    """How many are wrong, of those that could be asked."""
    measured = run.measured.get(measurement)
    found = [
        figures["wrong"][contender][0]
        for case, figures in (measured.values if measured else {}).items()
        if case.startswith(begin) and contender in figures["wrong"]
    ]
    return f"{sum(found):.0f} of {len(found)}" if found else "not measured"


def wrong(run: Run, contender: str) -> Iterator[str]:
    """A line for each thing that it refuses, gets wrong, waits for, or was not asked."""
    for measured in run.measured.values():
        for what, words in sorted({**measured.said, **measured.absent}.items()):
            row, _, who = what.rpartition(", ")
            if who == contender:
                yield f"{row}: {words}"
        for case, figures in measured.values.items():
            waits = figures.get("syncs", {}).get(contender)
            if waits and waits[0] and not case.startswith(ALL):
                yield f"{case}: {waits[0]:.0f} waits for the device"


def lines(run: Run, tags: Sequence[str]) -> list[str]:
    """The table for a terminal."""
    body = rows(run, tags)
    wide = [max(map(len, column)) for column in zip(*body, strict=True)]
    return ["Patch or upgrade", *(
        "  ".join(cell.ljust(n) for cell, n in zip(row, wide, strict=True)).rstrip()
        for row in body
    )]  # fmt: skip


def write(layout: Layout, run: Run, tags: Sequence[str]) -> Path:
    """Write `build/reports/upgrade.html`: the table, and what each contender gets wrong."""
    head, *body = rows(run, tags)
    shown = [[escape(cell) for cell in row] for row in body]
    parts = [
        "<p>The pinned release, the series on it, and later releases, each in an environment made"
        " from its own CPU wheel and pins, in one interleaved run.</p>",
        markup.table([escape(head[0]), *(f"# {escape(name)}" for name in head[1:])], shown),
    ]
    for contender in (*_OURS, *tags):
        found = list(wrong(run, contender))
        listed = "".join(f"<li>{escape(line)}</li>" for line in found)
        parts += [
            f"<h2>{escape(contender)}</h2>",
            f"<details><summary>{len(found)} things that it refuses, answers otherwise, waits for"
            f" or could not be asked</summary><ul>{listed}</ul></details>",
        ]
    path = layout.reports / "upgrade.html"
    path.write_text(markup.document("Patch or upgrade", parts), encoding="utf-8")
    return path
