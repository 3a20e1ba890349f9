"""What a release still needs of each patch: probes on base, on ours and on it, compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from scripts.bench import behaviour, rounds, samples
from scripts.bench.measures import FIGURES
from scripts.bench.page import amount
from scripts.bench.rounds import Say
from scripts.bench.samples import Run
from scripts.carry.bare import Outcome
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout, write_whole
from scripts.environment import build, later, plans
from scripts.release.pin import Pin
from scripts.series.mails import Patch

State = Literal["needed", "needed in part", "not needed", "not measured"]
_SHOWN = 3  # rows of a patch; all are in the file
# Regression test of a patch → measurement, figure, and what its rows begin with.
PROBES: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "test_ernie_graph_fallback": (("graphs", "wrong", "ernie45_vl"),),
    "test_gemma3_graph_fallback": (("graphs", "wrong", "gemma3"),),
    "test_host_tensors_staged": (("copies", "h2d_pageable_bytes", ""),),
    "test_metadata_on_cpu": (("copies", "syncs", ""), ("graphs", "syncs", "")),
    "test_scoped_mm_kwargs": (("settings", "wrong", "qwen: "),),
    "test_scoped_mm_kwargs_models": (("settings", "wrong", "others: "),),
    "test_warmup_item_sizes": (("warmup", "warmup_peak_bytes", ""),),
    "test_lora_support_gate": (("lora", "wrong", "gate: "),),
    "test_lora_token_counts": (("lora", "wrong", "counts: "),),
    "test_prefix_covered_items": (("window", "broadcast_bytes", ""),),
}


@dataclass(frozen=True)
class Asked:
    """A row of a probe, that ours makes better: than base, than the release, or than both."""

    row: str
    still: bool | None
    """Whether ours is better than the release; None where that was not asked."""
    said: str


@dataclass(frozen=True)
class Need:
    """What a release needs of one patch, and every row that says so."""

    state: State
    rows: tuple[Asked, ...]

    def lines(self, tag: str, most: int | None = None) -> list[str]:
        """The verdict, and the rows that still need it, `most` of them."""
        asked = [one for one in self.rows if one.still is not None]
        still = [one for one in asked if one.still]
        head = f"{self.state} at {tag}: ours is better in {len(still)} of {len(asked)} rows"
        if len(asked) < len(self.rows):
            head += f"; {len(self.rows) - len(asked)} could not be asked"
        listed = [f"{one.row}: {one.said}" for one in still or self.rows if one.said]
        shown = listed[:most]
        if len(shown) < len(listed):
            shown.append(f"and {len(listed) - len(shown)} more")
        return [head, *(f"    {line}" for line in shown)]


def ask(
    layout: Layout, pin: Pin, new: Pin, patches: tuple[Patch, ...], *, say: Say
) -> dict[str, Outcome]:
    """Patch name → its verdict on the release `new`; `report` has every row.

    A patch that no probe asks about is not in it; nor is any where probes cannot run.
    """
    report(layout, new.tag).unlink(missing_ok=True)
    try:
        run = _measured(layout, pin, new, say)
    except OverlayError as error:
        say(f"probes did not run on {new.tag}: {error}")
        return {}
    found = {patch.name: need for patch in patches if (need := judged(run, patch, new.tag))}
    write_whole(report(layout, new.tag), "".join(
        f"{name}\n" + "".join(f"  {line}\n" for line in need.lines(new.tag))
        for name, need in found.items()
    ))  # fmt: skip
    return {
        name: Outcome("\n".join(need.lines(new.tag, _SHOWN)), need.state == "not needed")
        for name, need in found.items()
        if need.state != "not measured"
    }


def report(layout: Layout, tag: str) -> Path:
    return layout.reports / f"needed-{tag}.txt"


def judged(run: Run, patch: Patch, tag: str) -> Need | None:
    """None where no probe asks about the patch."""
    tests = {PurePath(test).stem for test in patch.values("Regression-Test")}
    probes = [probe for test in sorted(tests) for probe in PROBES.get(test, ())]
    rows = tuple(row for probe in probes for row in _rows(run, tag, *probe))
    asked = [row.still for row in rows if row.still is not None]
    if not rows:
        return None
    state: State = "not measured"
    if asked:
        state = "needed" if all(asked) else "needed in part" if any(asked) else "not needed"
        if state == "not needed" and len(asked) < len(rows):
            state = "needed in part"  # as far as anybody knows
    return Need(state, rows)


def _rows(run: Run, tag: str, measurement: str, figure: str, begin: str) -> Iterator[Asked]:
    measured = run.measured[measurement]
    unit = FIGURES[figure].unit
    for case, figures in measured.values.items():
        by = figures.get(figure, {})
        if not case.startswith(begin) or not {"base", "patched"} <= by.keys():
            continue
        base, ours = (min(by[one]) for one in ("base", "patched"))
        there = min(by[tag]) if tag in by else None
        if not _better(ours, base, unit) and (there is None or not _better(ours, there, unit)):
            continue
        words = measured.said.get(f"{case}, {tag}", "")
        values = ", ".join("?" if v is None else amount(v, unit) for v in (base, ours, there))
        said = words if figure == "wrong" else f"{values} (base, ours, {tag})"
        yield Asked(case, None if there is None else _better(ours, there, unit), said)


def _better(ours: float, other: float, unit: str) -> bool:
    """By more than noise, where a figure has any."""
    return other > ours * (1.5 if unit else 1)


def _measured(layout: Layout, pin: Pin, new: Pin, say: Say) -> Run:
    """What is known of base, ours and the release; each is asked once."""
    there = later.install(layout, new, say=say)
    plan = plans.plan(layout, pin, "cpu", "auto")
    build.build(layout, pin, plan, say=say)
    trees = rounds.trees(layout, pin)
    made = rounds.made_with(layout, pin, "cpu") | {"probes": _probes(layout)}
    whole = Run(made)
    for contender in ("base", "patched", new.tag):
        known = made if contender == "patched" else {**made, "patched": ""}
        path = layout.reports / "behaviour" / f"{contender}.json"
        last = samples.read(path)
        run = last if last and last.made_with == known else Run(known)
        wanted = {
            name: replace(one.against([new.tag]), contenders={contender: contender})
            for name, one in behaviour.SMALL.items()
            if name not in run.measured
        }
        for now in rounds.run(
            layout, "cpu", trees, wanted, run, rounds=1, say=say, releases={new.tag: there}
        ):
            samples.write(path, run := now)
        whole = joined(whole, run)
    return whole


def joined(whole: Run, run: Run) -> Run:
    """Both runs, of different contenders, in one."""
    for name, one in run.measured.items():
        before = whole.measured.get(name)
        if before is not None:
            cases = {case: dict(figures) for case, figures in before.values.items()}
            for case, figures in one.values.items():
                mine = cases.setdefault(case, {})
                for figure, by in figures.items():
                    mine[figure] = {**mine.get(figure, {}), **by}
            one = replace(
                one,
                values=cases,
                failed={**before.failed, **one.failed},
                absent={**before.absent, **one.absent},
                said={**before.said, **one.said},
            )
        whole = whole.with_one(name, one)
    return whole


def _probes(layout: Layout) -> str:
    """Digest of the questions."""
    total = hashlib.sha256()
    for folder in ("support", "regression"):
        for path in sorted((layout.root / "tests" / folder).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()[:12]
