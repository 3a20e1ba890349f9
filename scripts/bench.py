"""Measure base against patched: interleaved runs, one environment, one process layout."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts import source, worktree
from scripts.build import Plan
from scripts.errors import OverlayError
from scripts.git import Git
from scripts.layout import Layout
from scripts.pin import Pin

Say = Callable[[str], None]
_PROBE = "tests.support.warmup_probe"
# Context and prefill budget of the cases, in tokens; each row is one measurement.
_LENGTHS = ("--max-model-len", "262144", "--max-num-batched-tokens", "8192")
_CASES = {
    "warmup, stock": ("--recipe", "stock"),
    "warmup, long video": ("--recipe", "long-video"),
    "first small request": ("--recipe", "stock", "--first-request", "small"),
    "first full-size request": ("--recipe", "stock", "--first-request", "full"),
}
_FIGURES = {
    "warmup": ("warmup_seconds", "warmup_peak_bytes"),
    "first": ("first_request_seconds",),
}


def warmup(layout: Layout, pin: Pin, plan: Plan, *, rounds: int, say: Say) -> list[str]:
    """Renderer warmup and the request after it, per tree: seconds and peak extra bytes.

    Trees are the pin, the prefix of the series up to #55448, and the whole series. Writes every
    sample to `build/reports/bench-warmup.json`; returns a table of medians and ratios.
    """
    trees = _trees(layout, pin)
    samples: dict[str, dict[str, list[dict[str, Any]]]] = {}
    try:
        for turn in range(rounds):
            for case, arguments in _CASES.items():
                for name, tree in trees.items():
                    say(f"round {turn + 1} of {rounds}: {case}, {name}")
                    row = _probe(layout, plan, tree, arguments)
                    samples.setdefault(case, {}).setdefault(name, []).append(row)
    finally:
        for tree in trees.values():
            if tree != layout.clone:
                worktree.remove(layout, tree)
    report = {"machine": _machine(), "pin": pin.tag, "rounds": rounds, "samples": samples}
    path = layout.reports / "bench-warmup.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    return [*_table(samples), f"every sample: {layout.shown(path)}"]


def _trees(layout: Layout, pin: Pin) -> dict[str, Path]:
    """Name → tree. What is not checked out gets a worktree with the clone's kernels."""
    base = source.base(layout, pin)
    log = Git(layout.clone).lines(
        "log", "--reverse", "--grep=/pull/55448$", "--format=%H", f"{base}..HEAD"
    )
    if not log:
        raise OverlayError("no applied patch names pull request 55448", hint="make apply")
    trees = {
        name: worktree.add(layout, commit, layout.build / f"bench-{commit[:12]}")
        for name, commit in (("base", base), ("#55448 only", log[0]))
    }
    return trees | {"patched": layout.clone}


def _probe(layout: Layout, plan: Plan, tree: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    env = worktree.environment(layout, tree, plan.device)
    command = [str(layout.venv / "bin" / "python"), "-P", "-m", _PROBE, *_LENGTHS, *arguments]
    done = subprocess.run(command, env=env, cwd=layout.root, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OverlayError(f"the probe failed on {layout.shown(tree)}: {said[0]}")
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if Path(row["vllm"]).parent.parent != tree:
        raise OverlayError(f"the probe measured {row['vllm']}, not {layout.shown(tree)}")
    return row


def _table(samples: dict[str, dict[str, list[dict[str, Any]]]]) -> list[str]:
    """One line a case, figure and tree: median, spread, and the ratio to base."""
    lines = [f"{'case':<26}{'figure':<24}{'tree':<13}{'median':>12}  {'min … max':<24}of base"]
    for case, by_tree in samples.items():
        for figure in _FIGURES[case.split(",")[0].split()[0]]:
            base = statistics.median(row[figure] for row in by_tree["base"])
            for name, rows in by_tree.items():
                values = [row[figure] for row in rows]
                median = statistics.median(values)
                spread = f"{min(values):.4g} … {max(values):.4g}"
                ratio = f"1/{base / median:.1f}" if median else "-"
                head = f"{case:<26}{figure:<24}{name:<13}"
                lines.append(f"{head}{median:>12.4g}  {spread:<24}{ratio}")
    return lines


def _machine() -> dict[str, str]:
    cores = str(os.cpu_count())
    return {"processor": platform.machine(), "cores": cores, "python": platform.python_version()}
