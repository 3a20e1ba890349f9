"""The README's table of figures, from a JSON of one run that is committed beside it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench import measures, rounds, samples
from scripts.bench.measures import ALL, FIGURES
from scripts.bench.page import amount, compared
from scripts.bench.samples import Run
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.series.mails import Patch


@dataclass(frozen=True)
class Headline:
    """A row of the README: what it says, and the figure that it shows."""

    text: str
    measurement: str
    case: str
    figure: str


HEADLINES = (
    Headline("renderer warmup, time", "warmup", "stock", "warmup_seconds"),
    Headline("renderer warmup, peak memory", "warmup", "stock", "warmup_peak_bytes"),
    Headline("engine start to first token", "start", "stock", "first_token_seconds"),
    Headline(
        "engine start to first token, long videos", "start", "long video", "first_token_seconds"
    ),
    Headline(
        "encoder budget reserved, of what long videos need",
        "start", "long video", "reserved_over_wanted",
    ),
    Headline(
        "waits for the device, a request with 16 images, sum over all families",
        "copies", f"{ALL}, many images", "syncs",
    ),
    Headline(
        "bytes that these requests copy from pageable memory",
        "copies", f"{ALL}, many images", "h2d_pageable_bytes",
    ),
    Headline(
        "broadcast a turn, window of 25 images", "window", "25 images", "broadcast_bytes"
    ),
    Headline(
        "CPU of the engine process that turn", "window", "25 images", "engine_cpu_seconds"
    ),
    Headline("requests with an image a second", "processing", "image", "throughput"),
)  # fmt: skip

BEGIN, END = "<!-- figures: make bench RECORD=1 -->\n", "<!-- end of figures -->\n"


def recorded(layout: Layout) -> Path:
    return layout.root / "tests" / "bench" / "figures.json"


def record(layout: Layout) -> list[Path]:
    """Take the last run for the README; it must have every measurement, and no failure."""
    run = samples.read(rounds.path(layout))
    device = run.made_with["device"].split(":")[0] if run else ""
    lacking = [name for name in measures.on(device) if run is None or name not in run.measured]
    if run is None or lacking or rounds.failures(run):
        faults = [f"{name} is not measured" for name in lacking]
        faults += rounds.failures(run) if run else []
        raise OverlayError(
            f"nothing is recorded: {'; '.join(faults)}",
            hint=f"make bench BENCH={','.join(lacking)} RECORD=1" if lacking else "see the report",
        )
    readme, place = layout.root / "README.md", recorded(layout)
    text = replaced(readme.read_text(encoding="utf-8"), run)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(rounds.path(layout), place)
    readme.write_text(text, encoding="utf-8")
    return [place, readme]


def replaced(readme: str, run: Run) -> str:
    """The README with the figures of `run` between its two marks."""
    return between(readme, BEGIN, END, table(run))


def between(readme: str, begin: str, end: str, text: str) -> str:
    """The README with `text` between two marks."""
    before, found, rest = readme.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise OverlayError(
            "README.md has no place for figures",
            hint=f"put these two lines there: {begin.strip()} {end.strip()}",
        )
    return f"{before}{begin}{text}{end}{after}"


_ABOUT = {
    "warmup": ("test_warmup_budget.py", "test_warmup_item_sizes.py"),
    "start": ("test_warmup_budget.py", "test_warmup_item_sizes.py"),
    "copies": ("test_metadata_on_cpu.py",),
    "window": ("test_prefix_covered_items.py",),
}
"""Measurement → the test modules of the patches that it shows."""


def by_patch(layout: Layout, patches: Sequence[Patch]) -> dict[str, list[str]]:
    """Name of a patch → the recorded headlines that show it: `what: base → patched`."""
    run = samples.read(recorded(layout))
    found: dict[str, list[str]] = {}
    for row in HEADLINES if run else ():
        about = {f"tests/regression/{module}" for module in _ABOUT.get(row.measurement, ())}
        measured = run.measured.get(row.measurement) if run else None
        spreads = [measured.spread(row.case, row.figure, of) if measured else None
                   for of in ("base", "patched")]  # fmt: skip
        shown = [amount(one.median, FIGURES[row.figure].unit) for one in spreads if one]
        for patch in patches if len(shown) == len(spreads) else ():
            if about & {*patch.values("Regression-Test")}:
                found.setdefault(patch.name, []).append(f"{row.text}: {' → '.join(shown)}")
    return found


def table(run: Run, headlines: Sequence[Headline] = HEADLINES) -> str:
    """Markdown: what is measured, on base, patched, and how they compare; then where and when."""
    lines = ["| | base | patched | |", "|---|---:|---:|---|"]
    for row in headlines:
        figure, measured = FIGURES[row.figure], run.measured[row.measurement]
        base = measured.spread(row.case, row.figure, "base")
        patched = measured.spread(row.case, row.figure, "patched")
        if base is None or patched is None:
            raise OverlayError(f"the run has no figure for: {row.text}", hint="make bench")
        cells = (
            row.text,
            amount(base.median, figure.unit),
            amount(patched.median, figure.unit),
            compared(base, patched),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"`make bench`, {made_on(run)}.", ""])


def made_on(run: Run) -> str:
    """When and where a run was made, and of what."""
    dates = sorted(one.date for one in run.measured.values())
    made = run.made_with
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    things = ("processor", "cores", "memory", "device", "base", "patched")
    where = ", ".join(f"{made[name]} cores" if name == "cores" else made[name] for name in things)
    return f"{days}: {where}"
