"""What JUnit files say of tests, as ids that pytest takes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.suites import cases
from scripts.suites.cases import Case
from tests.tools.product import REPO

MODULE = """\
import pytest

@pytest.mark.parametrize("word", ["a.b c's", "x::y"])
class TestWords:
    def test_it(self, word):
        assert word == "x::y", "\\x1b[31mno\\x1b[0m"

def test_skipped():
    pytest.skip("not here")

@pytest.fixture
def broken():
    raise OSError("gone")

def test_set_up(broken):
    pass
"""


@pytest.fixture
def ran(tmp_path: Path) -> list[Case]:
    """Of a small tree, with our own plugin, as its JUnit file has them."""
    folder = tmp_path / "tests" / "sub"
    folder.mkdir(parents=True)
    (folder / "test_m.py").write_text(MODULE)
    (folder / "test_n.py").write_text("import nothing_like_it\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    junit = tmp_path / "all.xml"
    env = os.environ | {"PYTHONPATH": str(REPO / "tests" / "upstream"), "PYTEST_PLUGINS": "whose",
                        "SERIES_PATCHES": "0002, 0003"}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "tests", f"--junitxml={junit}"]
    command += ["--continue-on-collection-errors"]
    subprocess.run(command, cwd=tmp_path, env=env, capture_output=True)
    return cases.read(junit, tmp_path)


def test_each_test_has_the_id_that_pytest_takes(ran: list[Case]) -> None:
    assert {case.test: case.result for case in ran} == {
        "tests/sub/test_n.py": "failed",
        "tests/sub/test_m.py::TestWords::test_it[a.b c's]": "failed",
        "tests/sub/test_m.py::TestWords::test_it[x::y]": "passed",
        "tests/sub/test_m.py::test_skipped": "skipped",
        "tests/sub/test_m.py::test_set_up": "failed",
    }
    for case in ran:
        assert shlex.split(case.again) == ["python3", "-m", "scripts", "test", "--only", case.test]


def test_a_failure_has_its_message_and_the_end_of_its_traceback(ran: list[Case]) -> None:
    by = {case.test.rpartition("::")[2]: case for case in ran}
    assert by["test_it[a.b c's]"].message.startswith("AssertionError: no")
    assert "1B" not in by["test_it[a.b c's]"].message
    assert by["test_set_up"].message == 'failed on setup with "OSError: gone"'
    assert by["test_set_up"].trace.endswith("test_m.py:13: OSError")
    assert by["test_skipped"].message == "not here"
    assert by["test_skipped"].trace == ""
    assert "nothing_like_it" in by["tests/sub/test_n.py"].trace


def test_each_test_says_whose_it_is(ran: list[Case]) -> None:
    assert {c.patch for c in ran if c.test != "tests/sub/test_n.py"} == {"0002, 0003"}
