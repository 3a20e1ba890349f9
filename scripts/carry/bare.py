"""The regression tests on a bare release, in an environment of that release made for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.carry import threeway
from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import build, plans
from scripts.release.pin import Pin
from scripts.series.mails import Patch

Say = Callable[[str], None]
# Of upstream's lock: what the index may not have under that name, and the test plugins, which are
# current with us (ci/cpu.in).
_NOT_UPSTREAMS = re.compile(
    r"(?:pytest.*|pluggy|iniconfig|hypothesis|buildkite.*|urllib3|certifi|requests|triton"
    r"|cuda-bindings|cuda-pathfinder)=="
)
# What a test finds. Any other error may be the release's, or the test's, whose names are the pin's.
_FINDS = re.compile(r"AssertionError|assert |Failed: ")
# What says that a name is not there.
_LACKS = re.compile(
    r".*(?:cannot import name|no attribute|not have the attribute|unexpected keyword argument)"
    r" '(\w+)'"
)
# Where a patch adds one: a definition, or what stands first on its line, as most parameters do.
_ADDS = re.compile(r"^\+\s*(?:(?:def|class) (?=\w+[(:])|(?=\w+ ?[:=]))(\w+)", re.MULTILINE)
_LIMIT = 1800  # seconds a module
_ENOUGH = 5  # failures after which a module is left: what a patch makes fast is slow without it


@dataclass(frozen=True)
class Outcome:
    """How the regression tests of a patch ended on the bare release: a line, and one a failure."""

    said: str
    all_pass: bool = False


@dataclass(frozen=True)
class Ran:
    """How one test module ended: its tests that ran, each with the message of its failure, empty
    where it passes; `broke` where it did not load or did not come to its end.
    """

    cases: tuple[tuple[str, str], ...] = ()
    broke: str = ""

    @property
    def failures(self) -> int:
        return sum(bool(message) for _, message in self.cases)


def root(layout: Layout, folder: Path) -> Layout:
    """A root of its own for another release in `folder`: same downloads, tools and reports."""
    there = Layout(folder, folder / "build" / "vllm", adopted=False)
    there.build.mkdir()
    layout.downloads.mkdir(parents=True, exist_ok=True)
    layout.reports.mkdir(parents=True, exist_ok=True)
    for name in ("downloads", "tools", "reports"):
        (there.build / name).symlink_to(layout.build / name)
    (folder / "ci").mkdir()
    (folder / "ci" / "tools.txt").symlink_to(layout.root / "ci" / "tools.txt")
    return there


def lend_pinned(layout: Layout, pin: Pin, there: Layout) -> None:
    """Have the old release's tag in the new one's tree: regression tests compare with it."""
    git = Git(there.clone)
    threeway.prepare(git, Git(layout.clone))
    threeway.borrow_shallow(git, Git(layout.clone))
    tag = f"refs/tags/{pin.tag}"
    git.raw("update-ref", tag, Git(layout.clone).out("rev-parse", tag))


def test(
    layout: Layout, there: Layout, new: Pin, patches: tuple[Patch, ...], *, say: Say
) -> dict[str, Outcome]:
    """Patch name → how its regression tests end on the tree in `there`, which is not patched.

    Where no environment for the release can be had, every outcome says what is missing.
    """
    modules = sorted({path for patch in patches for path in patch.values("Regression-Test")
                      if (layout.root / path).is_file()})  # fmt: skip
    try:
        environment(layout, there, new, say)
        say(f"regression tests on the bare {new.tag}, in {layout.shown(layout.reports)}/bare.log …")
        ran = run(layout, there, modules)
    except OverlayError as error:
        said = f"its regression tests did not run on {new.tag}: {error}"
        return {patch.name: Outcome(said) for patch in patches}
    ours = {name for patch in patches for name in _ADDS.findall(patch.raw.decode(errors="replace"))}
    return {patch.name: outcome(patch, new, ran, ours) for patch in patches}


def environment(layout: Layout, there: Layout, new: Pin, say: Say) -> None:
    """Make `build/venv` of `there` for its tree, with the versions that the release tests with."""
    plan = plans.plan(there, new, "cpu", "cpu")
    uv = str(tools.ensure(layout).with_name("uv"))
    pinned = (layout.root / "ci" / "cpu.in").read_text()
    names = re.findall(r"^([\w-]+)==", pinned, re.MULTILINE)
    requirements = there.clone / "requirements"
    lines = [f"-r {requirements / 'common.txt'}", f"-r {layout.root / 'ci' / 'tests.in'}", *names]
    (there.root / "ci" / "cpu.in").write_text("\n".join(lines) + "\n")
    limits = there.root / "ci" / "upstream.txt"
    lock = (requirements / "test" / "cpu.txt").read_text()
    limits.write_text("".join(
        f"{re.sub(r'[+](cpu|cu[0-9]+)$', '', line)}\n" for line in lock.split("\n")
        if re.match(r"[\w.-]+==", line) and not _NOT_UPSTREAMS.match(line)
    ))  # fmt: skip
    say(f"versions that {new.tag} tests with …")
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate",
               "--python", sys.executable, "--constraints", str(limits),
               str(there.root / "ci" / "cpu.in"), "-o", str(plan.lock(there))]  # fmt: skip
    done = subprocess.run(
        command, env=tools.uv_environment(there), cwd=layout.root, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise OverlayError(f"no set of packages fits {new.tag}: {said[:300]}")
    build.build(there, new, plan, say=say)


def run(layout: Layout, there: Layout, modules: list[str]) -> dict[str, Ran]:
    """Run each test module by itself: Module → how it ended."""
    env = dict(os.environ) | build.run_environment(there, "cpu") | {"HF_HUB_OFFLINE": "1"}
    log = layout.reports / "bare.log"
    log.unlink(missing_ok=True)
    ran: dict[str, Ran] = {}
    for module in modules:
        junit = layout.reports / f"bare-{Path(module).stem}.xml"
        junit.unlink(missing_ok=True)
        command = [str(there.venv / "bin" / "python"), "-m", "pytest", "-q", f"--maxfail={_ENOUGH}",
                   "-p", "no:cacheprovider", "-o", "verbosity_assertions=2",
                   f"--junitxml={junit}", module]  # fmt: skip
        with log.open("ab") as file:
            try:
                done = subprocess.run(command, cwd=layout.root, env=env, stdin=subprocess.DEVNULL,
                                      stdout=file, stderr=subprocess.STDOUT,
                                      timeout=_LIMIT)  # fmt: skip
            except subprocess.TimeoutExpired:
                ran[module] = Ran(broke=f"not done after {_LIMIT} s")
                continue
        crashed = f"pytest ended with {done.returncode}, see {layout.shown(log)}"
        ran[module] = _read(junit, there.clone) if junit.is_file() else Ran(broke=crashed)
    return ran


def _read(junit: Path, tree: Path) -> Ran:
    found, broke = [], ""
    text = junit.read_text(encoding="utf-8").replace(f"{tree}{os.sep}", "")
    for case in ET.fromstring(text).iter("testcase"):
        if case.find("skipped") is not None:
            continue  # it says nothing of the release
        bad = [child for child in case if child.tag in ("failure", "error")]
        if bad and bad[0].get("message") == "collection failure":
            broke = f"does not load: {_root_cause(bad[0])}"
        else:
            found.append((case.get("name", ""), _message(bad[0]) if bad else ""))
    return Ran(tuple(found), broke)


def _message(bad: ET.Element) -> str:
    """What a test found; of another error, what it began with as well."""
    said = (bad.get("message") or bad.tag).split("\n")[0]
    cause = _root_cause(bad)
    return said if _FINDS.match(said) or cause in said else f"{said[:60]} … from {cause}"


def _root_cause(bad: ET.Element) -> str:
    """Of a chain of exceptions pytest shows the first one first, with an `E` before its message."""
    first = re.search(r"^E +(\S.*)", bad.text or "", re.MULTILINE)
    return first[1] if first else ""


def outcome(patch: Patch, new: Pin, ran: Mapping[str, Ran], ours: Collection[str]) -> Outcome:
    """What its test modules (see `run`) say of one patch; `ours` are names that the series adds."""
    modules = {module: ran[module] for module in patch.values("Regression-Test") if module in ran}
    mine = [case for one in modules.values() for case in one.cases]
    broke = [(module, one.broke) for module, one in modules.items() if one.broke]
    failed = [(test, message) for test, message in mine if message]
    passed = len(mine) - len(failed)
    said = f"{passed} of {len(mine)} of its regression tests pass on bare {new.tag}"
    if not mine:
        said = f"none of its regression tests ran on bare {new.tag}"
    elif not failed and not broke:
        return Outcome(said, all_pass=True)
    if max((one.failures for one in modules.values()), default=0) >= _ENOUGH:
        said += f", where a module is left after {_ENOUGH} failures"
    needed = [case for case in failed if _FINDS.match(case[1])]
    lacks = [case for case in failed if (m := _LACKS.match(case[1])) and m[1] in ours]
    errors = [case for case in failed if case not in needed and case not in lacks]
    parts = (
        ("ours is still needed for", needed),
        (f"asks for a name that ours has and {new.tag} has not", lacks),
        (f"an error of {new.tag}, or of a test that does not fit it", errors),
        ("a module that says nothing, or not all", broke),
    )
    return Outcome("\n".join([said, *(title + _listed(found) for title, found in parts if found)]))


def _listed(found: list[tuple[str, str]]) -> str:
    """A line a test function and message, however many parameters it has."""
    tests: dict[tuple[str, str], list[str]] = {}
    for name, message in found:
        tests.setdefault((name.partition("[")[0], message[:160]), []).append(name)
    return "".join(
        f"\n    {names[0] if len(names) == 1 else f'{test} ({len(names)} times)'}: {message}"
        for (test, message), names in tests.items()
    )
