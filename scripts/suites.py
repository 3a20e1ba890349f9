"""Choose the suites for the device at hand, run them, and say what was left out and why."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from scripts import build, source, tools
from scripts.errors import OverlayError
from scripts.git import Git
from scripts.layout import Layout
from scripts.pin import Pin

Say = Callable[[str], None]


@dataclass(frozen=True)
class Suite:
    """One command. `needs` is the environment that it runs in; `why_not` is set where it is out.

    `notes` say of its parts what runs and why, or what does not.
    """

    name: str
    why: str
    needs: Literal["tools", "venv"]
    command: tuple[str, ...]
    cwd: Path
    why_not: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """How a suite ended: `passed` by exit code, `summary` from its JUnit file if it wrote one."""

    name: str
    passed: bool
    summary: str


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
        _tools(layout),
    ]


def _tools(layout: Layout) -> Suite:
    command = (str(tools.python(layout)), "-m", "pytest", "-q", "-n", "2", "tests/tools")
    return Suite("tools", "the scripts, on a small upstream", "tools", command, layout.root)


def choose(layout: Layout, pin: Pin, device: str, names: list[str]) -> list[Suite]:
    """Every suite for `device`; those that `names` leaves out stay in the list, with the reason.

    Raises `OverlayError` for a name that is no suite.
    """
    found = [_tools(layout), _regression(layout), _upstream(layout, pin, device)]
    known = [suite.name for suite in found]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise OverlayError(
            f"no such suite: {', '.join(unknown)}", hint=f"suites are {', '.join(known)}"
        )
    out = "not asked for (SUITES)"
    return [s if not names or s.name in names else replace(s, why_not=out) for s in found]


def _pytest(layout: Layout, *args: str) -> tuple[str, ...]:
    return (str(layout.venv / "bin" / "python"), "-m", "pytest", "-q", *args)


def _regression(layout: Layout) -> Suite:
    command = _pytest(layout, "-n", "2", "--dist", "worksteal", "tests/regression")
    return Suite("regression", "each patch does what it claims", "venv", command, layout.root)


def hub_in_reach() -> bool:
    """Whether tests may load models from the hub: as `HF_HUB_OFFLINE` says, else by one connect."""
    asked = os.environ.get("HF_HUB_OFFLINE")
    if asked is not None:
        return asked.upper() not in ("1", "ON", "YES", "TRUE")
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname or ""
    try:
        socket.create_connection((host, 443), timeout=3).close()
    except OSError:
        return False
    return True


def _upstream(layout: Layout, pin: Pin, device: str) -> Suite:
    """The pinned release's own tests, unmodified, of the files that the series touches.

    They share one process a core: each import of vLLM takes 10 s.
    """
    touched = Git(layout.clone).lines("diff", "--name-only", source.base(layout, pin))
    declared = json.loads((layout.root / "tests" / "upstream" / "suites.json").read_text())
    hub = hub_in_reach()
    paths, notes = [], []
    for one in declared:
        path, needs_hub = one["path"], [] if hub else one["hub"]
        hits = [file for file in touched if file.startswith(tuple(one["sources"]))]
        if not hits:
            notes.append(f"skip  {path}: the series touches none of {', '.join(one['sources'])}")
        elif one["device"] != device:
            notes.append(f"skip  {path}: for {one['device']}, this machine is {device}")
        elif needs_hub == "all":
            notes.append(f"skip  {path}: needs the model hub, which is not in reach")
        else:
            paths += [f"--deselect={path}::{test}" for test in needs_hub] + [path]
            left = f"; {len(needs_hub)} of its tests need the model hub and stay out" * bool(
                needs_hub
            )
            notes.append(f"run   {path}: the series touches {hits[0]}{left}")
    runs = any(note.startswith("run") for note in notes)
    return Suite(
        "upstream",
        f"the pinned release's own tests, on {device}",
        "venv",
        _pytest(layout, "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", *paths),
        layout.clone,
        why_not="" if runs else f"no suite of {device} covers a file that the series touches",
        notes=tuple(sorted(notes)),
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
    env = dict(os.environ) | build.run_environment(device)
    if not hub_in_reach():
        env["HF_HUB_OFFLINE"] = "1"
    results = []
    for suite in chosen:
        if suite.why_not:
            continue
        say(f"\n== {suite.name}")
        junit = layout.reports / f"{suite.name}.xml"
        junit.unlink(missing_ok=True)
        command = list(suite.command)
        if "pytest" in command:
            command.append(f"--junitxml={junit}")
        done = subprocess.run(command, cwd=suite.cwd, env=env, stdin=subprocess.DEVNULL)
        summary = _summary(junit) if junit.is_file() else f"exit code {done.returncode}"
        results.append(Result(suite.name, done.returncode == 0, summary))
    return results


def _summary(junit: Path) -> str:
    """`tests, failed, skipped` of a JUnit file."""
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in ET.parse(junit).getroot().iter("testsuite"):
        for key in counts:
            counts[key] += int(suite.get(key, "0"))
    failed = counts["failures"] + counts["errors"]
    return f"{counts['tests']} tests, {failed} failed, {counts['skipped']} skipped"
