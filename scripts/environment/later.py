"""Another release in an environment of its own: its tree, its CPU wheel's kernels, its pins."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout, write_whole
from scripts.environment import build, plans
from scripts.release import index, lookup, source
from scripts.release import pin as pins
from scripts.release.pin import Pin

Say = Callable[[str], None]
# Of upstream's lock: what the index may not have under that name, and the test plugins, which are
# current with us (ci/cpu.in).
_NOT_UPSTREAMS = re.compile(
    r"(?:pytest.*|pluggy|iniconfig|hypothesis|buildkite.*|urllib3|certifi|requests|triton"
    r"|cuda-bindings|cuda-pathfinder)=="
)


def place(layout: Layout, tag: str) -> Layout:
    """Where the release `tag` is kept: a root of its own, with tree, environment and pin."""
    folder = layout.build / "releases" / tag
    return Layout(folder, folder / "build" / "vllm", adopted=False)


def root(layout: Layout, there: Layout) -> None:
    """Have the root of another release: same downloads, tools and reports as ours."""
    there.build.mkdir(parents=True, exist_ok=True)
    (there.root / "ci").mkdir(exist_ok=True)
    layout.downloads.mkdir(parents=True, exist_ok=True)
    layout.reports.mkdir(parents=True, exist_ok=True)
    links = {there.build / name: layout.build / name for name in ("downloads", "tools", "reports")}
    links[there.root / "ci" / "tools.txt"] = layout.root / "ci" / "tools.txt"
    for link, target in links.items():
        if not link.is_symlink():
            link.symlink_to(target)


def have(layout: Layout, pin: Pin, tag: str, *, say: Say) -> Layout:
    """The release `tag`, ready to be asked; from the index where it is not here yet.

    Raises `OverlayError` where no packages fit it. Without a CPU wheel it has no kernels, see
    `lacks`.
    """
    known = place(layout, tag).pin_file
    new = pins.read(known) if known.is_file() else lookup.propose(layout, pin, lookup.Wish(tag))
    return install(layout, new, say=say)


def install(layout: Layout, new: Pin, *, say: Say) -> Layout:
    """Have tree and environment of the release `new`, with the versions that it tests with."""
    there = place(layout, new.tag)
    root(layout, there)
    say(f"{new.project} {new.tag} and its environment, in {layout.shown(there.root)} …")
    source.fetch(there, new, "sdist", "")
    write_whole(there.pin_file, pins.text(new))
    plan = plans.plan(there, new, "cpu", plans.NONE if lacks(there) else "cpu")
    _lock(layout, there, new, plan.lock(there))
    build.build(there, new, plan, say=say)
    return there


def lacks(there: Layout) -> str:
    """Why nothing that needs kernels can be asked of this release; empty where all can."""
    try:
        pins.read(there.pin_file).wheel("cpu")
    except OverlayError:
        return f"{there.root.name} has no CPU wheel"
    return ""


def _lock(layout: Layout, there: Layout, new: Pin, lock: Path) -> None:
    requirements = there.clone / "requirements"
    tested = requirements / "test" / "cpu.txt"
    if not tested.is_file():
        raise OverlayError(f"{new.tag} does not say which versions it tests with on a CPU")
    ours = layout.root / "ci"
    names = re.findall(r"^([\w-]+)==", (ours / "cpu.in").read_text(), re.MULTILINE)
    tests = ours / "tests.in"
    lines = [f"# {index.digest(tests)}", f"-r {requirements / 'common.txt'}", f"-r {tests}", *names]
    wanted, text = there.root / "ci" / "cpu.in", "\n".join(lines) + "\n"
    if lock.is_file() and wanted.is_file() and wanted.read_text() == text:
        return
    lock.unlink(missing_ok=True)
    wanted.write_text(text)
    limits = there.root / "ci" / "upstream.txt"
    limits.write_text("".join(
        f"{re.sub(r'[+](cpu|cu[0-9]+)$', '', line)}\n"
        for line in tested.read_text().split("\n")
        if re.match(r"[\w.-]+==", line) and not _NOT_UPSTREAMS.match(line)
    ))  # fmt: skip
    uv = str(tools.ensure(layout).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate",
               "--python", sys.executable, "--constraints", str(limits),
               str(wanted), "-o", str(lock)]  # fmt: skip
    done = subprocess.run(
        command, env=tools.uv_environment(there), cwd=layout.root, capture_output=True, text=True
    )
    if done.returncode != 0:
        lock.unlink(missing_ok=True)
        said = " ".join(done.stderr.split())
        raise OverlayError(f"no set of packages fits {new.tag}: {said[:300]}")
