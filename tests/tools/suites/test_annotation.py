"""What a build shows of a failed run: which tests, their messages, whose they are, how to rerun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scripts.suites import annotation, cases
from scripts.suites.cases import Case
from scripts.suites.runner import Result

OWN = replace(
    cases.told("tests/regression/test_y.py::test_it[a b]", "assert 1 == 2\n +  where 1", Path("x")),
    patch="0002, 0004",
)
THEIRS = replace(cases.told("tests/a/test_it.py::test_z", "passed on base; now no", Path("x")),
                 patch="0001")  # fmt: skip


def _failed(name: str, *failures: Case) -> Result:
    return Result(name, False, "2 tests, 1 failed", failures)


def test_a_failure_has_its_message_its_patches_and_the_line_that_runs_it_alone() -> None:
    fine = Result("tools", True, "3 passed")
    ran = [_failed("regression", OWN), _failed("upstream", THEIRS), fine]

    said = annotation.write(ran, "GPU", "DEVICE=cuda SHARD=2/4")

    assert said.startswith("### GPU\n")
    assert "- `tests/regression/test_y.py::test_it[a b]` — patch 0002, 0004\n" in said
    assert "      assert 1 == 2\n       +  where 1\n" in said
    assert "`python3 -m scripts test --only 'tests/regression/test_y.py::test_it[a b]'`" in said
    assert "- `tests/a/test_it.py::test_z` — patch 0001\n" in said
    assert "`make apply test SUITES=regression DEVICE=cuda SHARD=2/4`" in said
    assert "tools" not in said


def test_a_run_without_a_failure_says_nothing() -> None:
    assert annotation.write([Result("tools", True, "3 passed")], "x", "") == ""


def test_what_does_not_fit_is_counted_and_each_suite_has_room() -> None:
    many = [replace(OWN, message="é" * 5000) for _ in range(400)]

    said = annotation.write([_failed("engine", *many), _failed("upstream", THEIRS)], "CPU", "")

    assert len(said.encode()) <= annotation.BYTES
    shown = said.count("- `tests/regression/test_y.py")
    assert 5 < shown < 400
    assert f"… and {400 - shown} more" in said
    assert "test_z" in said
