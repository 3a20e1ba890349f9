"""The replay: every patch alone on what it needs, and the checks after each one."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core import layout
from scripts.release import pin
from scripts.series import mails
from scripts.suites import each
from scripts.suites.runner import Result
from tests.tools import mini
from tests.tools.product import REPO, Product, put_python, snapshot

TEST = """\
import vllm.a

def test_it_answers():
    assert vllm.a.line_2() == 22
"""


def replay(product: Product, numbers: str = "") -> dict[str, Result]:
    """Name -> result of these patches, by the tools of this repository in place of upstream's."""
    where = layout.Layout.of(product.root, None)
    put_python(where.venv / "bin" / "python")
    before = snapshot(product.clone)
    patches = mails.load(where.patches)
    results = each.replay(where, pin.read(where.pin_file), patches, mails.chosen(patches, numbers),
                          style=REPO / "build/tools/bin", device="cpu", say=print,
                          note=print)  # fmt: skip
    assert snapshot(product.clone) == before
    return {result.name: result for result in results}


def failed(results: dict[str, Result]) -> list[str]:
    """The checks that found something, but for the form: that of the small upstream is its own."""
    return [n for n, result in results.items() if not result.passed and not n.endswith("-format")]


def commit(product: Product, path: str, *changes: tuple[str, str]) -> None:
    """One patch more, which edits a file."""
    file = product.clone / path
    file.write_bytes(mini.edited(file.read_bytes(), *changes))
    message = f"[Core] More\n\nWhy.\n\n{mini.TRAILERS}"
    product.git("commit", "--quiet", "--all", "--message", message)
    product.succeed("export")


@pytest.fixture
def tested(applied: Product) -> Product:
    """A series whose regression test wants the first patch."""
    (applied.root / "tests/regression/test_mini.py").write_text(TEST)
    return applied


def test_a_good_series_passes_every_check(tested: Product) -> None:
    results = replay(tested)
    assert failed(results) == []
    assert results["0001-alone"].summary == "applies on the pin"
    assert {name.partition("-")[2] for name in results} == {
        "alone", "compile", "ruff", "format", "regression",
    }  # fmt: skip
    assert not results["0001-format"].passed  # the small upstream is not in ruff's form
    assert results["0002-regression"].summary == "1 tests, 0 failed, 0 skipped"


def test_the_tests_see_the_tree_after_their_patch_and_not_the_last(tested: Product) -> None:
    commit(tested, "vllm/a.py", ("return 22\n", "return 222\n"))
    results = replay(tested)
    assert failed(results) == ["0004-regression"]
    assert results["0004-alone"].summary == "applies on 0001, the pin"


def test_a_part_of_the_series_is_replayed_on_all_that_comes_before_it(tested: Product) -> None:
    results = replay(tested, "2")
    assert {name[:4] for name in results} == {"0002"}
    assert failed(results) == []


@pytest.mark.parametrize(
    ("each_one", "said"), [("0", "PATCHES is a part of EACH=1"), ("1", "'9' is no part of")]
)
def test_a_part_that_cannot_be_replayed_is_told_before_anything_runs(
    applied: Product, each_one: str, said: str
) -> None:
    done = applied.run("check", EACH=each_one, PATCHES="9")
    assert (done.code, done.out, said in done.error) == (2, "", True), done


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (("def line_9():", "def line_9(:"), "compile"),
        (("return 9\n", "return nine\n"), "ruff"),
    ],
)
def test_a_bad_patch_is_named_with_the_check(
    tested: Product, change: tuple[str, str], check: str
) -> None:
    commit(tested, "vllm/a.py", change)
    bad = failed(replay(tested))
    assert f"0004-{check}" in bad
    assert {name[:4] for name in bad} == {"0004"}


def test_the_lock_of_upstreams_tools_is_of_the_versions_that_the_pinned_tree_names() -> None:
    where = layout.Layout.of(REPO, None)
    config = where.clone / ".pre-commit-config.yaml"
    if not config.is_file():
        pytest.skip("the pinned source is not there")
    each.refuse_other_versions(where)


def test_another_version_of_upstreams_tools_is_told(tmp_path: Path) -> None:
    config = b'- repo: x/ruff-pre-commit\n  rev: v0.2\n- ["mypy==1.2"]\n'
    lock = b"ruff==0.1 \\\nmypy==1.2 \\\n"
    files = {"ci/style.txt": lock, "build/vllm/.pre-commit-config.yaml": config}
    mini.write(tmp_path, files)
    with pytest.raises(Exception, match=r"upstream checks with ruff 0\.2"):
        each.refuse_other_versions(layout.Layout.of(tmp_path, None))
