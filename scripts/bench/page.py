"""The page of a bench run: tables and plots of each measurement, the model of what scale costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from scripts.bench import measures, plots, scale
from scripts.bench.measures import FIGURES, Figure, Measurement
from scripts.bench.plots import Curves, Dots
from scripts.bench.samples import Measured, Run, Spread
from scripts.core import markup
from scripts.core.layout import Layout

_LONG = 30  # rows of a table that is folded away
_UNITS = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
}


def amount(value: float, unit: str) -> str:
    """A value for people: three digits, in the unit of its size."""
    if unit not in _UNITS:
        whole = value >= 1000 or value == int(value)
        return f"{value:,.0f}{unit}" if whole else f"{value:.3g}{unit}"
    scales = _UNITS[unit]
    size, name = next((one for one in scales if value >= one[0]), scales[-1])
    value /= size
    return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"


def compared(first: Spread, other: Spread) -> str:
    """How the other median stands to the first contender's: a part, a share or a multiple of it."""
    if first == other:
        return "the same"
    if first.overlaps(other):
        return "no difference beyond noise"
    if not first.median or not other.median:
        return "none left" if first.median else "none before"
    ratio = other.median / first.median
    if ratio <= 0.5:
        return f"1/{amount(1 / ratio, '')}"
    return f"{amount(ratio, '')} times" if ratio >= 2 else f"{(ratio - 1) * 100:+.0f} %"


def _judged(first: Spread, other: Spread, figure: Figure) -> str:
    """The same as HTML: green where it is better, red where it is worse."""
    words = escape(compared(first, other))
    if first.overlaps(other):
        return words
    better = (other.median < first.median) == figure.less_is_better
    return f'<span class="{"ok" if better else "bad"}">{words}</span>'


def write(layout: Layout, known: Mapping[str, Measurement], run: Run) -> Path:
    """Write `build/reports/bench.html`, which needs no other file, and return its path."""
    return markup.put(layout.reports, "bench.html", html(layout, known, run))


def lines(one: Measurement, found: Measured) -> list[str]:
    """The table for a terminal, but for a long one."""
    rows = list(_rows(one, found))
    if len(rows) > _LONG:
        return [f"{one.title}: {len(rows)} rows, see the page"]
    plain = [
        [re.sub("<.*?>", "", re.sub("<br><small>(.*?)</small>", r"(\1)", cell)) for cell in row]
        for row in rows
    ]
    wide = [max(map(len, column)) for column in zip(*plain, strict=True)]
    return [
        one.title,
        *(
            "  ".join(cell.ljust(n) for cell, n in zip(row, wide, strict=True)).rstrip()
            for row in plain
        ),
    ]


def html(layout: Layout, known: Mapping[str, Measurement], run: Run) -> str:
    """All that `run` has, self-contained."""
    facts = [(escape(name), escape(text)) for name, text in sorted(run.made_with.items())]
    parts = [
        "<p>Medians of interleaved runs in one process layout, each above the least and the most of"
        " its samples; made by <code>make bench</code>.</p>"
    ]
    for name, one in known.items():
        if name in run.measured:
            parts += _measurement(layout, name, one, run.measured[name])
    if "window" in run.measured:
        parts += _scale(layout, run)
    parts += ["<h2>Made with</h2>", markup.table(("what", ""), facts)]
    title = f"{run.made_with.get('patched', 'patched')} against {run.made_with.get('base', 'base')}"
    return markup.document(f"Bench: {title}", parts)


def _measurement(layout: Layout, name: str, one: Measurement, found: Measured) -> Iterator[str]:
    made = f"{found.date}, {found.rounds} rounds" if found.rounds > 1 else found.date
    yield f"<h2>{escape(one.title)}</h2>"
    yield f'<p class="note">{escape(one.note)} (<code>BENCH={name}</code>, {made})</p>'
    for what, line in found.failed.items():
        yield f'<p class="bad">Failed: {escape(what)}: <code>{escape(line)}</code></p>'
    for what, why in found.absent.items():
        yield f'<p class="note">Not measured: {escape(what)}: {escape(why)}</p>'
    if found.values:
        for panels in _plots(one, found):
            yield markup.wide(plots.dots(layout, panels, list(one.contenders)))
        rows = list(_rows(one, found))
        table = markup.table(_head(one), rows)
        folded = f"<details><summary>Table of {len(rows)} rows</summary>{table}</details>"
        yield folded if len(rows) > _LONG else table


def _head(one: Measurement) -> list[str]:
    first, *others = one.contenders
    pairs = [name for other in others for name in (f"# {other}", f"{other} to {first}")]
    return ["case", "figure", f"# {first}", *pairs]


def _rows(one: Measurement, found: Measured) -> Iterator[list[str]]:
    first, *others = one.contenders
    for case, figures in found.values.items():
        shown = escape(case)
        for name in (name for name in FIGURES if name in figures):
            figure, base = FIGURES[name], found.spread(case, name, first)
            row = [shown, escape(figure.title), _cell(base, figure)]
            shown = ""
            for other in others:
                there = found.spread(case, name, other)
                row += [_cell(there, figure),
                        _judged(base, there, figure) if base and there else "-"]  # fmt: skip
            yield row


def _cell(spread: Spread | None, figure: Figure) -> str:
    if spread is None:
        return "-"
    median = amount(spread.median, figure.unit)
    if spread.low == spread.high:
        return median
    low, high = amount(spread.low, figure.unit), amount(spread.high, figure.unit)
    return f"{median} <br><small>{low} … {high}</small>"


def _plots(one: Measurement, found: Measured) -> list[list[Dots]]:
    if one.panels == "kind":
        return [_by_kind(one, found, figure) for figure in ("h2d_copies", "syncs")]
    names = [name for name in FIGURES if any(name in figures for figures in found.values.values())]
    return [[Dots(_titled(name), _medians(one, found, name)) for name in names]]


def _titled(name: str) -> str:
    figure = FIGURES[name]
    return f"{figure.title} ({figure.unit})" if figure.unit else figure.title


def _medians(one: Measurement, found: Measured, figure: str) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for case in found.values:
        for contender in one.contenders:
            if spread := found.spread(case, figure, contender):
                rows.setdefault(case, {})[contender] = spread.median
    return rows


def _by_kind(one: Measurement, found: Measured, figure: str) -> list[Dots]:
    """A row for each family, a panel for each kind of request."""
    kinds: dict[str, dict[str, dict[str, float]]] = {}
    for case, medians in _medians(one, found, figure).items():
        family, _, kind = case.partition(", ")
        if family != measures.ALL:
            kinds.setdefault(kind, {})[family] = medians
    title = FIGURES[figure].title
    return [Dots(f"{title}, {kind}", dict(sorted(rows.items()))) for kind, rows in kinds.items()]


def _scale(layout: Layout, run: Run) -> Iterator[str]:
    models = scale.models(run.measured["window"], run.measured.get("copies"))
    yield "<h2>At scale</h2>"
    yield f"<pre>{escape((scale.__doc__ or '').strip())}</pre>"
    if not models:
        yield '<p class="bad">The rolling window has no figures to make a model of.</p>'
        return
    yield markup.table(
        ("", "b0 + b1 n", "t0 + t1 n", "c0 + c1 n", "turns a second at 25 images", "at 1,000",
         "measured points"),
        [_constants(name, model) for name, model in models.items()],
    )  # fmt: skip
    yield markup.wide(plots.curves(layout, list(_curves(models))))
    yield (
        '<p class="note">Points in the first two plots are measured, at 1, 5 and 25 images; beyond'
        " these the lines are extrapolated. Points in the last are simulated, turn by turn. Workers"
        " read at the same time; what they need to unpack is not in the engine's time.</p>"
    )


def _line(line: scale.Line | None, unit: str) -> str:
    if line is None:
        return "-"
    return f"{amount(line.start, unit)} + {amount(line.slope, unit)} n"


def _constants(name: str, model: scale.Model) -> list[str]:
    strays = [*model.sent.strays(), *model.busy.strays()]
    said = f'<b class="bad">off the line at {strays}</b>' if strays else "on the line"
    lines = [_line(model.sent, "B"), _line(model.busy, "s"), _line(model.copied, "")]
    most = [f"{model.most(images):,.0f}" for images in (25, scale.IMAGES)]
    return [escape(name), *lines, *most, said]


def _curves(models: Mapping[str, scale.Model]) -> Iterator[Curves]:
    images = [round(10 ** (k / 10)) for k in range(31)]
    for title, y, lines in (
        ("Broadcast a turn", "bytes", {name: model.sent for name, model in models.items()}),
        ("Engine CPU a turn", "seconds", {name: model.busy for name, model in models.items()}),
    ):
        yield Curves(
            title, "images in the window", y,
            {name: [(n, line.at(n)) for n in images] for name, line in lines.items()},
            {name: [(n, s.median) for n, s in line.points.items()] for name, line in lines.items()},
        )  # fmt: skip
    workers = [2**k for k in range(7)]
    yield Curves(
        "Read by all workers at one turn a second", "workers", "bytes a second",
        {f"{name}, {n:,} images": [(w, model.read_by_all(1, w, n)) for w in workers]
         for n in (25, scale.IMAGES) for name, model in models.items()},
    )  # fmt: skip
    most = min(model.most(25) for model in models.values())
    rates = [most * share / 20 for share in range(1, 19)]
    yield Curves(
        "Wait of a turn with 25 images for those before it", "turns a second", "seconds",
        {name: [(r, model.wait(r, 25)) for r in rates] for name, model in models.items()},
        {name: [(r, scale.simulated_wait(model, r, 25)) for r in rates[3::5]]
         for name, model in models.items()},
    )  # fmt: skip
