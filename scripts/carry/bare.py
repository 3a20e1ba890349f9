"""The regression tests on a bare release, in an environment of that release made for it."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.carry import threeway
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import build, later
from scripts.release.pin import Pin
from scripts.series.mails import Patch

Say = Callable[[str], None]
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


def lend_pinned(layout: Layout, pin: Pin, there: Layout) -> None:
    """Have the old release's tag in the new one's tree: regression tests compare with it."""
    git = Git(there.clone)
    tag = f"refs/tags/{pin.tag}"
    if git.ok("show-ref", "--verify", "--quiet", tag):
        return  # the tree of a release stays, see `later`
    threeway.prepare(git, Git(layout.clone))
    threeway.borrow_shallow(git, Git(layout.clone))
    git.raw("update-ref", tag, Git(layout.clone).out("rev-parse", tag))


def test(
    layout: Layout, pin: Pin, new: Pin, patches: Collection[Patch], *, say: Say
) -> dict[str, Outcome]:
    """Patch name → how its regression tests end on the release `new`, which is not patched.

    Where no environment for the release can be had, every outcome says what is missing.
    """
    modules = sorted({path for patch in patches for path in patch.values("Regression-Test")
                      if (layout.root / path).is_file()})  # fmt: skip
    try:
        there = later.install(layout, new, say=say)
        if lack := later.lacks(there):
            raise OverlayError(lack)
        lend_pinned(layout, pin, there)
        say(f"regression tests on the bare {new.tag}, in {layout.shown(layout.reports)}/bare.log …")
        ran = run(layout, there, modules)
    except OverlayError as error:
        said = f"its regression tests did not run on {new.tag}: {error}"
        return {patch.name: Outcome(said) for patch in patches}
    ours = {name for patch in patches for name in _ADDS.findall(patch.raw.decode(errors="replace"))}
    return {patch.name: outcome(patch, new, ran, ours) for patch in patches}


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
    unfit = len(failed) - len(needed)
    lines = [said]
    if needed:
        lines.append(f"ours is still needed for{_listed(needed)}")
    if unfit:
        names = f", {len(lacks)} for a name that ours adds" if lacks else ""
        lines.append(f"{unfit} end in an error of {new.tag}, or do not fit it{names}: see bare.log")
    if broke:
        lines.append(f"a module that says nothing, or not all{_listed(broke)}")
    return Outcome("\n".join(lines))


def _listed(found: list[tuple[str, str]]) -> str:
    """A line a test function and message, however many parameters it has."""
    tests: dict[tuple[str, str], list[str]] = {}
    for name, message in found:
        tests.setdefault((name.partition("[")[0], message[:160]), []).append(name)
    return "".join(
        f"\n    {names[0] if len(names) == 1 else f'{test} ({len(names)} times)'}: {message}"
        for (test, message), names in tests.items()
    )
