"""Replay the series patch by patch: each applies alone on what it needs, and after each one the
tree compiles, keeps upstream's style and types, and passes that patch's regression tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import hub, worktree
from scripts.release.pin import Pin
from scripts.series import mails, stack
from scripts.series.mails import Patch
from scripts.suites import runner
from scripts.suites.runner import Result, Suite
from scripts.suites.watched import Note

Say = Callable[[str], None]
# As upstream runs its type check on a commit, tools/pre_commit/mypy.py.
_MYPY_PYTHON = "3.10"
# Where its .pre-commit-config.yaml says which version.
_UPSTREAMS = {"ruff": r"ruff-pre-commit\n\s+rev: v(\S+)", "mypy": r'"mypy==([\d.]+)'}


def replay(
    layout: Layout,
    pin: Pin,
    patches: tuple[Patch, ...],
    asked: Collection[str],
    *,
    style: Path,
    device: str,
    say: Say,
    note: Note,
) -> list[Result]:
    """One result a check of each patch whose name is in `asked`.

    Work clone and environment must be there, and stay unchanged. `style` is the folder of
    upstream's ruff and Python, see `style`.
    """
    base, commits = stack.commits(layout, pin, patches)
    pairs = zip(patches, commits, strict=True)
    wanted = [(patch, commit) for patch, commit in pairs if patch.name in asked]
    git = Git(layout.clone)
    results = []
    with stack.worktree(layout, git, base) as tree:
        needs = mails.needs(patches)
        for patch, _ in wanted:
            say(f"\n== {patch.name[:4]}-alone")
            stands_on = tuple(p for p in patches if p.name in needs[patch.name])
            results.append(_alone(layout, tree, base, (*stands_on, patch)))
        worktree.link(layout, tree.root)
        for patch, commit in wanted:
            tree.raw("checkout", "--quiet", "--detach", commit)
            checks = _checks(layout, tree, style, patch)
            results += runner.run(layout, checks, device=device, say=say, note=note)
    return results


def _alone(layout: Layout, tree: Git, base: str, patches: tuple[Patch, ...]) -> Result:
    *stands_on, patch = patches
    tree.raw("checkout", "--quiet", "--detach", base)
    name = f"{patch.name[:4]}-alone"
    try:
        stack.am(layout, tree, base, patches)
    except OverlayError as error:
        return Result(name, False, str(error))
    said = ", ".join([*(one.name[:4] for one in stands_on), "the pin"])
    return Result(name, True, f"applies on {said}")


def _checks(layout: Layout, tree: Git, style: Path, patch: Patch) -> list[Suite]:
    touched = [diff.path for diff in patch.diffs if (tree.root / diff.path).is_file()]
    python = [path for path in sorted(set(touched)) if path.endswith(".py")]
    number = patch.name[:4]
    checks = []

    def add(name: str, command: Iterable[str | Path], cwd: Path) -> None:
        words = tuple(str(word) for word in command)
        checks.append(Suite(f"{number}-{name}", patch.name, "venv", words, cwd))

    venv = layout.venv / "bin" / "python"
    if python:
        bin_first = f"PATH={style}{os.pathsep}{os.environ['PATH']}"
        mypy = "tools/pre_commit/mypy.py"
        add("compile", (venv, "-m", "py_compile", *python), tree.root)
        add("ruff", (style / "ruff", "check", *python), tree.root)
        add("format", (style / "ruff", "format", "--check", *python), tree.root)
        if (tree.root / mypy).is_file():
            types = ["env", bin_first, str(style / "python"), mypy, _MYPY_PYTHON, *python]
            add("mypy", types, tree.root)
    tests = [path for path in patch.values("Regression-Test") if (layout.root / path).is_file()]
    closed = hub.closed(layout, worktree.python_path(layout, tree.root))
    paths = (f"{name}={value}" for name, value in closed.items())
    add("regression", ("env", *paths, venv, "-m", "pytest", "-q", *tests), layout.root)
    return checks


def refuse_other_versions(layout: Layout) -> None:
    """Raise where `ci/style.txt` locks other tools than the pinned tree names."""
    config = (layout.clone / ".pre-commit-config.yaml").read_text()
    lock = layout.root / "ci" / "style.txt"
    for tool, pattern in _UPSTREAMS.items():
        wanted = re.search(pattern, config)
        if wanted and f"{tool}=={wanted[1]} " not in lock.read_text():
            raise OverlayError(
                f"upstream checks with {tool} {wanted[1]}, ci/style.txt has another",
                hint="write that version into ci/style.in and make the lock anew, as its head says",
            )


def style(layout: Layout) -> Path:
    """Install upstream's own ruff and mypy, in the versions that the pinned tree names."""
    refuse_other_versions(layout)
    lock = layout.root / "ci" / "style.txt"
    folder = layout.style
    uv = str(tools.ensure(layout).with_name("uv"))
    env = tools.uv_environment(layout) | {"VIRTUAL_ENV": str(folder)}
    for command in (
        [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)],
        [uv, "pip", "sync", "--quiet", "--require-hashes", str(lock)],
    ):
        done = subprocess.run(command, env=env, cwd=layout.root, capture_output=True, text=True)
        if done.returncode != 0:
            raise OverlayError(
                f"could not install ci/style.txt: {done.stderr.strip()[-300:]}",
                hint="check the index that pip is configured for: python3 -m pip config list",
            )
    return folder / "bin"
