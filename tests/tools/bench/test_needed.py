"""What a release still needs of a patch, from figures of base, of ours and of the release."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.bench import needed
from scripts.bench.samples import Measured, Run
from scripts.series import mails
from scripts.series.mails import Patch
from tests.tools.product import Product
from tests.tools.series.test_stack_apply import THIRD

TAG = "v0.32.0"


@pytest.fixture
def patch(applied: Product) -> Patch:
    raw = applied.series()[THIRD]
    test = b"tests/regression/test_scoped_mm_kwargs.py"
    return mails.parse(THIRD, raw.replace(b"tests/regression/test_mini.py", test))


def found(*there: float | None, base: float = 1, ours: float = 0) -> Run:
    """A row a value that the release gives; None where it was not asked."""
    values = {
        f"qwen: rule {number}": {
            "wrong": {"base": [base], "patched": [ours], **({} if v is None else {TAG: [v]})}
        }
        for number, v in enumerate(there)
    }
    said = {f"qwen: rule {n}, {TAG}": f"no such rule {n}" for n, v in enumerate(there) if v}
    return Run({}, {"settings": Measured("2026-12-01", 1, values, said=said)})


@pytest.mark.parametrize(
    ("there", "state"),
    [
        ((1, 1), "needed"),
        ((1, 0), "needed in part"),
        ((0, 0), "not needed"),
        ((0, None), "needed in part"),
        ((None, None), "not measured"),
    ],
)
def test_the_rows_that_ours_makes_better_say_what_is_needed(
    patch: Patch, there: tuple[float | None, ...], state: str
) -> None:
    need = needed.judged(found(*there), patch, TAG)
    assert need is not None
    assert need.state == state
    assert need.lines(TAG)[0].startswith(f"{state} at {TAG}: ours is better in ")


def test_a_row_that_the_release_breaks_counts_though_base_has_it_right(patch: Patch) -> None:
    need = needed.judged(found(1, base=0), patch, TAG)
    assert need is not None
    assert need.state == "needed"


def test_rows_that_ours_leaves_as_they_are_say_nothing(patch: Patch) -> None:
    assert needed.judged(found(0, 0, base=0), patch, TAG) is None
    assert needed.judged(found(1, 1, base=1, ours=1), patch, TAG) is None


def test_a_patch_without_probes_is_for_its_tests(applied: Product) -> None:
    other = mails.parse(THIRD, applied.series()[THIRD])
    assert needed.judged(found(1), other, TAG) is None


def test_a_report_shows_some_rows_and_counts_the_others(patch: Patch) -> None:
    need = needed.judged(found(*[1] * 5, 0, None), patch, TAG)
    assert need is not None
    assert need.lines(TAG, 2) == [
        "needed in part at v0.32.0: ours is better in 5 of 6 rows; 1 could not be asked",
        "    qwen: rule 0: no such rule 0",
        "    qwen: rule 1: no such rule 1",
        "    and 3 more",
    ]
    assert len(need.lines(TAG)) == 6


def test_every_probe_is_of_a_patch_of_the_series() -> None:
    root = Path(__file__).parents[3]
    tests = {
        Path(path).stem
        for patch in mails.load(root / "patches")
        for path in patch.values("Regression-Test")
    }
    assert needed.PROBES.keys() <= tests


def test_runs_of_different_contenders_join() -> None:
    def run(name: str, value: float) -> Run:
        values = {"case": {"wrong": {name: [value]}}}
        return Run({}, {"settings": Measured("2026-12-01", 1, values, said={f"case, {name}": "x"})})

    joined = needed.joined(needed.joined(Run({}), run("base", 1)), run(TAG, 0)).measured["settings"]
    assert joined.values == {"case": {"wrong": {"base": [1], TAG: [0]}}}
    assert set(joined.said) == {"case, base", f"case, {TAG}"}
