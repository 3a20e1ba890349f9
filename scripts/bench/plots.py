"""Plots as SVG inside a page, by matplotlib from `build/tools`."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scripts.core import tools
from scripts.core.layout import Layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXT = "#010203"  # stands for the page's own colour of text, whichever that is
_COLOURS = ("#8a8a8a", "#c98500", "#1f77b4")
_WIDTH = 9.6  # inches, of the whole
_SAID = ("Creator", "Date", "Format", "Type")  # of itself, by matplotlib
Point = tuple[float, float]


@dataclass(frozen=True)
class Dots:
    """One row a name, one dot a contender; a dot at nothing stands at the left edge."""

    title: str
    rows: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Curves:
    """Lines by name, and the measured or simulated points that belong on them.

    Names that start with the same word share a colour.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]
    points: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    log: bool = True


def _figure(layout: Layout, width: float, height: float, columns: int, rows: int = 1) -> Figure:
    tools.make_importable(layout)
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none", "svg.hashsalt": "bench", "font.family": "sans-serif",
            "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
            "axes.titlesize": 10, "axes.titlelocation": "left", "legend.frameon": False,
            **dict.fromkeys(
                ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor",
                 "xtick.color", "ytick.color"), _TEXT,
            ),
        }
    )  # fmt: skip
    figure = Figure((width, height), layout="constrained")
    figure.subplots(rows, columns, squeeze=False)
    return figure


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(_SAID))
    text = file.getvalue()
    return re.sub(r"(?s)^.*?(?=<svg )", "", text).replace(_TEXT, "currentColor")


def dots(layout: Layout, panels: Sequence[Dots], contenders: Sequence[str]) -> str:
    """Panels side by side, on a scale of their own each."""
    rows = list(dict.fromkeys(row for panel in panels for row in panel.rows))
    figure = _figure(layout, _WIDTH, 0.9 + 0.2 * max(len(rows), 3), len(panels))
    for axes, panel in zip(figure.axes, panels, strict=True):
        _one_of_dots(axes, panel, rows, contenders)
    figure.axes[0].set_yticks(range(len(rows)), rows)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return _svg(figure)


def _one_of_dots(axes: Axes, panel: Dots, rows: Sequence[str], contenders: Sequence[str]) -> None:
    positive = [v for values in panel.rows.values() for v in values.values() if v > 0]
    wide = bool(positive) and max(positive) > 20 * min(positive)
    if wide:
        axes.set_xscale("log")
    edge = min(positive) / 2 if wide else 0.0
    colours = _COLOURS if len(contenders) > 2 else (_COLOURS[0], _COLOURS[-1])
    for name, colour in zip(contenders, colours, strict=False):
        found = [(panel.rows[row][name], y) for y, row in enumerate(rows)
                 if name in panel.rows.get(row, {})]  # fmt: skip
        axes.scatter([max(v, edge) for v, _ in found], [y for _, y in found],
                     s=22, color=colour, label=name, zorder=3)  # fmt: skip
    for y, row in enumerate(rows):
        values = [max(v, edge) for v in panel.rows.get(row, {}).values()]
        if values:
            axes.plot([min(values), max(values)], [y, y], color=_COLOURS[0], linewidth=0.8)
    axes.set_title(textwrap.fill(panel.title, 26))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.margins(x=0.08)
    if not wide:
        axes.set_xlim(left=0)


def curves(layout: Layout, panels: Sequence[Curves]) -> str:
    """Panels two in a row."""
    deep = -(-len(panels) // 2)
    figure = _figure(layout, _WIDTH, 3.3 * deep, 2, deep)
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(figure.axes, panels, strict=False):
        colours: dict[str, str] = {}
        styles: dict[str, int] = {}
        for name, line in panel.lines.items():
            word = name.split(",")[0]
            colours.setdefault(word, (_COLOURS[0], _COLOURS[-1], _COLOURS[1])[len(colours) % 3])
            styles[word] = styles.get(word, -1) + 1
            axes.annotate(
                name, line[-1], xytext=(5, 0), textcoords="offset points", va="center", fontsize=8
            )
            axes.plot(*zip(*line, strict=True), color=colours[word], label=name,
                      linestyle=("-", "--", ":")[styles[word] % 3])  # fmt: skip
        for name, points in panel.points.items():
            word = name.split(",")[0]
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, color=colours[word], s=26, zorder=3)
        if panel.log:
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_title(panel.title)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
    return _svg(figure)
