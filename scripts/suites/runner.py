"""Choose the suites for the device at hand, run them, and say what was left out and why."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from scripts.core import tools
from scripts.core.layout import Layout
from scripts.environment import build, hub
from scripts.release import index
from scripts.release.pin import Pin
from scripts.suites import baseline, budget, floor, sessions, shards, upstream
from scripts.suites.baseline import Comparison
from scripts.suites.upstream import Choice, Wanted

Say = Callable[[str], None]
_RUN_BYTES = 1 << 30  # reports, and what tests put into temporary folders


@dataclass(frozen=True)
class Suite:
    """One command. `needs` is the environment that it runs in; `why_not` is set where it is out.

    `notes` say of its parts what runs and why, or what does not; upstream's parts are `choices`.
    """

    name: str
    why: str
    needs: Literal["tools", "venv"]
    command: tuple[str, ...]
    cwd: Path
    why_not: str = ""
    notes: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Result:
    """How a suite ended: `passed` by exit code, `summary` from its JUnit file if it wrote one.

    `findings` name what failed, a line each; `comparison` is of upstream's tests, against base.
    """

    name: str
    passed: bool
    summary: str
    findings: tuple[str, ...] = ()
    comparison: Comparison | None = None


def own_checks(layout: Layout) -> list[Suite]:
    """What `make check` runs: no vLLM environment needed, only the work clone."""
    ours = [sys.executable, "-m", "scripts"]
    module = [str(tools.python(layout)), "-m"]

    def suite(name: str, why: str, command: Iterable[str]) -> Suite:
        return Suite(name, why, "tools", tuple(command), layout.root)

    return [
        suite("ruff", "style of our own code", [*module, "ruff", "check"]),
        suite("format", "form of our own code", [*module, "ruff", "format", "--check"]),
        suite("mypy", "types of our own code", [*module, "mypy"]),
        suite("lint", "rules over the series", [*ours, "lint"]),
        suite("apply", "the series stands on the pin", [*ours, "apply"]),
        suite("export", "patches/ is what the commits are", [*ours, "export", "--check"]),
    ]


def _tools(layout: Layout) -> Suite:
    command = (str(tools.python(layout)), "-m", "pytest", "-q", "-n", "2", "tests/tools")
    return Suite("tools", "the scripts, on a small upstream", "tools", command, layout.root)


def choose(
    layout: Layout, pin: Pin, device: str, names: list[str],
    share: tuple[int, int] = (1, 1), transformers: str = "",
) -> list[Suite]:  # fmt: skip
    """Every suite for `device`; those that `names` leaves out stay in the list, with the reason.

    A name is `tools`, `regression`, `floor`, `engine`, `upstream`, `upstream-all` (what the series
    does not touch too), or the key of one of upstream's steps. Raises `OverlayError` for any other.
    `share` (k of n) is this agent's part of upstream's suites; `transformers` the release for
    `floor`, see there.
    """
    own = [
        _tools(layout),
        _regression(layout),
        _floor(layout, transformers),
        _engine(layout, device),
    ]
    theirs = [name for name in names if name not in [suite.name for suite in own]]
    out = "not asked for (SUITES)"
    wished = names or [suite.name for suite in own]
    chosen = [s if s.name in wished else replace(s, why_not=out) for s in own]
    if names and not theirs:
        return [*chosen, Suite("upstream", "", "venv", (), layout.clone, why_not=out)]
    return [*chosen, _upstream(layout, pin, device, wanted(theirs), share)]


def wanted(names: list[str]) -> Wanted:
    """What of upstream is asked for by `upstream`, `upstream-all` and keys of its steps."""
    steps = set(names) - {"upstream", "upstream-all"}
    return Wanted("upstream-all" in names, tuple(sorted(steps)))


def _pytest(layout: Layout, *args: str) -> tuple[str, ...]:
    return (str(layout.venv / "bin" / "python"), "-m", "pytest", "-q", *args)


def _regression(layout: Layout) -> Suite:
    # Two processes with a thread a core each would wait for one another.
    threads = f"OMP_NUM_THREADS={max(1, (os.cpu_count() or 1) // 2)}"
    pytest = _pytest(layout, "-n", "2", "--dist", "worksteal", "tests/regression")
    command = ("env", threads, *pytest)
    return Suite("regression", "each patch does what it claims", "venv", command, layout.root)


def _floor(layout: Layout, release: str) -> Suite:
    """The release is installed when the suite runs, so the plan needs none."""
    why = "options of one modality with the least transformers allowed, or TRANSFORMERS"
    modules = (f"tests/regression/{module}" for module in floor.MODULES)
    pytest = _pytest(layout, "-n", "2", "--dist", "worksteal", *modules)
    command = (sys.executable, "-m", "scripts.suites.floor", release, *pytest)
    return Suite("floor", why, "venv", command, layout.root)


def _engine(layout: Layout, device: str) -> Suite:
    """Two modules at once on the CPU, for an engine starts on one core; on a GPU one by one."""
    why = "real engines and servers answer as on base, and survive what breaks"
    on_gpu = "test_on_gpu: no step waits for the GPU, long videos, warmup, LoRA, two GPUs if there"
    notes = (on_gpu,) if device == "cuda" else ()
    at_once = ("-n", "2", "--dist", "loadfile") if device == "cpu" else ()
    command = _pytest(layout, *at_once, "tests/engine")
    return Suite("engine", why, "venv", command, layout.root, notes=notes)


def _upstream(
    layout: Layout, pin: Pin, device: str, asked: Wanted, share: tuple[int, int]
) -> Suite:
    """The pinned release's own tests, unmodified, compared with what they did on base."""
    base = baseline.read(layout, hub.tier(device))
    whole = budget.plan(layout, pin, device, asked, base)
    choices = shards.share(whole, *share)
    return Suite(
        "upstream",
        f"the pinned release's own tests, on {device}",
        "venv",
        (),
        layout.clone,
        why_not="" if any(not choice.why_not for choice in choices) else f"none runs on {device}",
        notes=(
            *upstream.shown(choices, sessions.jobs(device)),
            *([shards.shown(whole, share[1])] if device == "cuda" else []),
        ),
        choices=tuple(choices),
    )


def shown(chosen: list[Suite]) -> list[str]:
    """The plan, a line a suite and a line a part: what runs and why, what does not and why."""
    lines = []
    for suite in chosen:
        head, why = ("skip", suite.why_not) if suite.why_not else ("run ", suite.why)
        lines.append(f"{head}  {suite.name}: {why}")
        if not suite.why_not:
            lines += [f"      {note}" for note in suite.notes]
    return lines


def run(layout: Layout, chosen: list[Suite], *, device: str, say: Say) -> list[Result]:
    """Run each suite in turn; one that fails does not stop the next. JUnit files: `reports`."""
    tools.ensure(layout)
    layout.reports.mkdir(parents=True, exist_ok=True)
    index.require_space(layout.reports, _RUN_BYTES, "a test run")
    env = dict(os.environ)
    there = env | build.run_environment(layout, device) | hub.closed(layout)
    results = []
    for suite in chosen:
        if suite.why_not:
            continue
        say(f"\n== {suite.name}")
        if suite.choices:
            results.append(_compared(layout, device, suite, say))
        else:
            results.append(_run(layout, suite, there if suite.needs == "venv" else env))
    return results


def _run(layout: Layout, suite: Suite, env: dict[str, str]) -> Result:
    junit = layout.reports / f"{suite.name}.xml"
    junit.unlink(missing_ok=True)
    command = list(suite.command)
    if "pytest" in command:
        command.append(f"--junitxml={junit}")
    done = subprocess.run(command, cwd=suite.cwd, env=env, stdin=subprocess.DEVNULL)
    if not junit.is_file():
        return Result(suite.name, done.returncode == 0, f"exit code {done.returncode}")
    summary, failed = _summary(junit)
    return Result(suite.name, done.returncode == 0, summary, tuple(failed))


def _compared(layout: Layout, device: str, suite: Suite, say: Say) -> Result:
    found, faults = upstream.run(layout, device, list(suite.choices), say)
    counts = ", ".join(f"{count} {result}" for result, count in found.counts.items())
    share = baseline.total(found.shares.values()).shown
    known = f"{len(found.known)} of the failures known" if found.known else "no known failure"
    gained = f", {len(found.gained)} pass that did not on base" if found.gained else ""
    asked = f"; asked of the unpatched tree: {len(found.asked)} suites" if found.asked else ""
    findings = (*faults, *found.findings)
    return Result(
        suite.name, not findings, f"{counts} ({share}); {known}{gained}{asked}", findings, found
    )


def _summary(junit: Path) -> tuple[str, list[str]]:
    """`tests, failed, skipped` of a JUnit file, and the failed tests by name."""
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    root = ET.parse(junit).getroot()
    for suite in root.iter("testsuite"):
        for key in counts:
            counts[key] += int(suite.get(key, "0"))
    failed = [
        f"{case.get('classname', '')}.{case.get('name', '')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    worse = counts["failures"] + counts["errors"]
    return f"{counts['tests']} tests, {worse} failed, {counts['skipped']} skipped", failed
