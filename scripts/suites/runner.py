"""Choose the suites for the device at hand, run them, and say what was left out and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from scripts.core import tools
from scripts.core.layout import Layout
from scripts.environment import build, hub
from scripts.release import index
from scripts.release.pin import Pin
from scripts.series import mails
from scripts.series.mails import Patch
from scripts.suites import (
    baseline,
    budget,
    cases,
    concern,
    floor,
    sessions,
    shards,
    upstream,
    watched,
)
from scripts.suites.baseline import Comparison
from scripts.suites.cases import Case
from scripts.suites.upstream import Choice, Wanted
from scripts.suites.watched import Note

Say = Callable[[str], None]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
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

    `failures` are what must be looked at, `cases` all that ran, in `seconds`; `comparison` is of
    upstream's tests, against base.
    """

    name: str
    passed: bool
    summary: str
    failures: tuple[Case, ...] = ()
    cases: tuple[Case, ...] = ()
    seconds: float = 0.0
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


def _pages(layout: Layout) -> Suite:
    why = "the pages of reports in a real browser, narrow and wide, light and dark"
    command = (str(tools.python(layout)), "-m", "pytest", "-q", "tests/pages")
    there = any(shutil.which(name) for name in BROWSERS)
    why_not = "" if there else f"no browser here: as root, apt-get install {BROWSERS[0]}"
    return Suite("pages", why, "tools", command, layout.root, why_not)


def own(layout: Layout, device: str, transformers: str = "") -> list[Suite]:
    """The suites that are ours; `transformers` is the release for `floor`, see there."""
    return [
        _tools(layout),
        _pages(layout),
        _regression(layout),
        _floor(layout, transformers),
        _engine(layout, device),
    ]


def choose(
    layout: Layout, pin: Pin, device: str, names: list[str],
    share: tuple[int, int] = (1, 1), transformers: str = "",
) -> list[Suite]:  # fmt: skip
    """Every suite for `device`; those that `names` leaves out stay in the list, with the reason.

    A name is that of one of ours, `upstream`, `upstream-all` (what the series does not touch too),
    or the key of one of upstream's steps. Raises `OverlayError` for any other.
    `share` (k of n) is this agent's part of upstream's suites; `transformers` the release for
    `floor`, see there.
    """
    ours = own(layout, device, transformers)
    theirs = [name for name in names if name not in [suite.name for suite in ours]]
    out = "not asked for (SUITES)"
    wished = names or [suite.name for suite in ours]
    chosen = [s if s.name in wished else replace(s, why_not=out) for s in ours]
    if names and not theirs:
        return [*chosen, Suite("upstream", "", "venv", (), layout.clone, why_not=out)]
    return [*chosen, _upstream(layout, pin, device, wanted(theirs), share)]


def wanted(names: list[str]) -> Wanted:
    """What of upstream is asked for by `upstream`, `upstream-all` and keys of its steps."""
    steps = set(names) - {"upstream", "upstream-all"}
    return Wanted("upstream-all" in names, tuple(sorted(steps)))


def _pytest(layout: Layout, *args: str) -> tuple[str, ...]:
    scope = "asyncio_default_fixture_loop_scope=function"  # or it warns; our tools lack the plugin
    return (str(layout.venv / "bin" / "python"), "-m", "pytest", "-q", "-o", scope, *args)


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


def run(layout: Layout, chosen: list[Suite], *, device: str, say: Say, note: Note) -> list[Result]:
    """Run each suite in turn; one that fails does not stop the next. JUnit files: `reports`."""
    tools.ensure(layout)
    layout.reports.mkdir(parents=True, exist_ok=True)
    index.require_space(layout.reports, _RUN_BYTES, "a test run")
    results, patches = [], mails.read(layout.patches)
    for suite in chosen:
        if suite.why_not:
            continue
        began = time.monotonic()
        env = environment(layout, device, of_tools=suite.needs == "tools")
        if suite.choices:
            ended = _compared(layout, device, suite, note)
        elif "pytest" in suite.command:
            ended = _tested(layout, suite, env, note)
        else:
            say(f"\n== {suite.name}")
            code = subprocess.run(suite.command, cwd=suite.cwd, env=env, stdin=subprocess.DEVNULL)
            ended = Result(suite.name, code.returncode == 0, f"exit code {code.returncode}")
        ended = _owned(replace(ended, seconds=time.monotonic() - began), suite, patches)
        word = "ok" if ended.passed else "FAILED"
        say(f"{word:<8}{suite.name}: {ended.summary}, {watched.clock(ended.seconds)}")
        results.append(ended)
    return results


def _owned(result: Result, suite: Suite, patches: Sequence[Patch]) -> Result:
    """With a patch for each failure, also of a module that could not be collected."""
    suites = [choice.suite for choice in suite.choices]
    failures = [
        replace(c, patch=c.patch or concern.shown(concern.of_test(c.test, suites, patches)))
        for c in result.failures
    ]
    return replace(result, failures=tuple(failures))


def environment(layout: Layout, device: str, *, of_tools: bool) -> dict[str, str]:
    """What a suite of ours runs in: our tools as they are, else the patched vLLM."""
    there = build.run_environment(layout, device) | hub.closed(layout)
    return dict(os.environ) | ({} if of_tools else there)


def _tested(layout: Layout, suite: Suite, env: Mapping[str, str], note: Note) -> Result:
    junit = layout.reports / f"{suite.name}.xml"
    junit.unlink(missing_ok=True)
    command = [*suite.command, *sessions.collector(env), f"--junitxml={junit}"]
    log = junit.with_suffix(".log")
    code = watched.run(suite.name, command, suite.cwd, env, log, note)
    found = cases.read(junit, suite.cwd) if junit.is_file() else []
    failed = [case for case in found if case.result == "failed"]
    if code and not failed:
        said = f"pytest ended with {code}"
        failed = [cases.told(suite.name, said, log, trace=watched.tail(log, 30), suite=suite.name)]
    return Result(suite.name, code == 0, cases.summary(found), tuple(failed), tuple(found))


def _compared(layout: Layout, device: str, suite: Suite, say: Say) -> Result:
    found, faults = upstream.run(layout, device, list(suite.choices), say)
    counts = ", ".join(f"{count} {result}" for result, count in found.counts.items())
    share = baseline.total(found.shares.values()).shown
    known = f"{len(found.known)} of the failures known" if found.known else "no known failure"
    gained = f", {len(found.gained)} pass that did not on base" if found.gained else ""
    asked = f"; asked of the unpatched tree: {len(found.asked)} suites" if found.asked else ""
    folder = layout.reports / "upstream"
    ran = cases.of_session(folder, layout.clone)
    failed = [cases.told(fault.partition(": pytest")[0], fault, folder, suite=suite.name)
              for fault in faults]  # fmt: skip
    failed += _differing(found, ran, folder)
    summary = f"{counts} ({share}); {known}{gained}{asked}"
    return Result(suite.name, not failed, summary, tuple(failed), tuple(ran), comparison=found)


def _differing(found: Comparison, ran: Iterable[Case], folder: Path) -> Iterator[Case]:
    """What must not be, as the test that did it, with how it differs from base in its message."""
    known = {case.test: case for case in ran}
    for test, what, why in found.differing:
        case = known.get(test) or cases.told(test, why, folder)
        yield replace(case, message=f"{what} {case.message or why}".rstrip("; "))
