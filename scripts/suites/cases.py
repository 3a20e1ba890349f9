"""What a run left on disk of each test: JUnit files, and the logs beside them."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.suites.outcomes import Result

_TRACE = 30  # lines of the end of a traceback
_LINE = 200  # letters of a message in a list
_COLORS = re.compile(r"(?:\x1b|#x1B)\[[0-9;]*m")  # pytest writes what XML cannot hold as #x1B


@dataclass(frozen=True)
class Case:
    """A test by its id. `seconds` are of set-up, call and tear-down; `message` says why it failed
    or was skipped, `trace` is the end of the traceback; `patch` is whose it is; `log` is the file
    that has all that its session said.
    """

    test: str
    result: Result
    seconds: float
    message: str
    trace: str
    patch: str
    log: Path
    again: str

    @property
    def first_line(self) -> str:
        """Of the message, for a list."""
        return self.message.strip().partition("\n")[0][:_LINE]


def told(test: str, message: str, log: Path, *, trace: str = "", suite: str = "") -> Case:
    """A failure that no JUnit file has: of a test that did not run, or of a whole `suite`."""
    again = f"make test SUITES={suite}" if suite else _alone(test)
    return Case(test, "failed", 0.0, message, trace, "", log, again)


def _alone(test: str) -> str:
    """What runs it alone, typed in the repository root."""
    return f"python3 -m scripts test --only {shlex.quote(test)}"


def read(junit: Path, root: Path) -> list[Case]:
    """Every test of a JUnit file in its order, whose modules are below `root`."""
    return [_case(one, junit, root) for one in ET.parse(junit).getroot().iter("testcase")]


def of_session(folder: Path, root: Path) -> list[Case]:
    """Every test of the JUnit files in `folder`; of one that ran twice its last run."""
    files = sorted(folder.glob("*.xml"), key=lambda path: path.stat().st_mtime_ns)
    found = (case for file in files for case in read(file, root))
    return list({case.test: case for case in found}.values())


def _case(one: ET.Element, junit: Path, root: Path) -> Case:
    said = next((s for s in one if s.tag in ("failure", "error", "skipped")), None)
    result: Result = "passed" if said is None else "skipped" if said.tag == "skipped" else "failed"
    patch = next((p.get("value", "") for p in one.iter("property") if p.get("name") == "patch"), "")
    message = "" if said is None else said.get("message", "")
    trace = (said.text or "") if said is not None and result == "failed" else ""
    lines = _COLORS.sub("", trace).rstrip().splitlines()
    test = _id(one.get("classname", ""), one.get("name", ""), root)
    return Case(
        test, result, float(one.get("time", "0")), _COLORS.sub("", message),
        "\n".join(lines[-_TRACE:]), patch, junit.with_suffix(".log"), _alone(test),
    )  # fmt: skip


def _id(classname: str, name: str, root: Path) -> str:
    """JUnit's `tests.a.test_x.TestY`, `test_z[…]` as `tests/a/test_x.py::TestY::test_z[…]`.

    A module that could not be collected stands as a test of that name, without a class.
    """
    words = (classname or name).split(".")
    for count in range(len(words), 0, -1):
        path = "/".join(words[:count]) + ".py"
        if (root / path).is_file():
            inside = [*words[count:], name] if classname else words[count:]
            return "::".join([path, *inside])
    return f"{classname}::{name}" if classname else name


def slowest(cases: Iterable[Case], count: int) -> list[Case]:
    return sorted(cases, key=lambda case: -case.seconds)[:count]


def summary(cases: Sequence[Case]) -> str:
    """How many there are, failed and were skipped."""
    results = [case.result for case in cases]
    failed, skipped = results.count("failed"), results.count("skipped")
    return f"{len(cases)} tests, {failed} failed, {skipped} skipped"
