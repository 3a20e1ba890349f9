"""Which tests are for what changed since a commit, in a small checkout with two patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.proof import changed
from scripts.series import mails
from tests.tools import mini
from tests.tools.series.test_stack_status import FIRST, SECOND

BELOW = "vllm"
ALL = {s: (f"tests/{s}",) for s in ("tools", "pages", "regression", "engine")}
WINGS = "tests/tools/test_wings.py"
LINTS = ("tests/tools/series/test_lint.py", "tests/tools/series/test_lint_rules.py")


def empty_tests(*files: str) -> dict[str, bytes]:
    return dict.fromkeys(files, b"def test_it(): pass\n")


@pytest.fixture
def checkout(tmp_path: Path, patches: dict[str, bytes]) -> Path:
    mini.write(tmp_path, {
        f"patches/{FIRST}": patches[FIRST],
        f"patches/{SECOND}": patches[SECOND],
        "scripts/series/lint.py": b"",
        "scripts/series/rules.py": b"",
        "scripts/verbs/series.py": b"from scripts.series import lint, rules\n",
        "pyproject.toml": b"",
        "tests/support/probe.py": b"",
        "tests/engine/test_far.py": b"from tests.support import probe\n",
        **empty_tests(*LINTS, "tests/tools/verbs/test_series.py", WINGS, "tests/pages/test_page.py",
                     "tests/regression/test_mini.py", "tests/regression/test_other.py"),
    })  # fmt: skip
    mini.git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    mini.git(root, "add", "--all")
    who = ("-c", "user.name=A", "-c", "user.email=a@b.invalid")
    mini.git(root, *who, "commit", "--quiet", "--message", "What stands")


def found(root: Path, asked: str = "1") -> changed.Change:
    return changed.since(Layout.of(root, None), asked, BELOW)


def test_nothing_changed_is_nothing_to_test(checkout: Path) -> None:
    nothing = found(checkout)
    assert (nothing.files, nothing.tests) == ((), {})
    assert nothing.since.endswith(", What stands")


@pytest.mark.parametrize(("file", "tests"), [
    ("scripts/series/lint.py", {"tools": (*LINTS, WINGS)}),
    ("scripts/series/rules.py", {"tools": (WINGS, "tests/tools/verbs/test_series.py")}),
    ("tests/regression/test_other.py", {"regression": ("tests/regression/test_other.py",)}),
    ("tests/support/probe.py", {"engine": ("tests/engine/test_far.py",)}),
    ("pyproject.toml", ALL),
    ("tests/regression/conftest.py", {"regression": ("tests/regression",)}),
])  # fmt: skip
def test_a_file_has_the_tests_that_know_it(
    checkout: Path, file: str, tests: dict[str, tuple[str, ...]]
) -> None:
    with (checkout / file).open("ab") as changing:
        changing.write(b"# more\n")
    assert found(checkout).files == (file,)
    assert found(checkout).tests == tests


def test_a_hunk_has_who_noticed_it_else_the_tests_of_its_patch(
    checkout: Path, patches: dict[str, bytes]
) -> None:
    (key,) = {d.path for d in mails.parse(FIRST, patches[FIRST]).diffs if d.path.startswith(BELOW)}
    (checkout / "patches" / FIRST).write_bytes(b"\n+more ".join(patches[FIRST].rsplit(b"\n+", 1)))
    assert found(checkout).tests == {"regression": ("tests/regression/test_mini.py",)}
    record = checkout / "tests/regression/witnesses.txt"
    record.write_text(f"# who\n{key}#1 test_mini.py::test_it\n")
    commit(checkout)
    (checkout / "patches" / FIRST).write_bytes(patches[FIRST])
    assert found(checkout).tests == {"regression": ("tests/regression/test_mini.py::test_it",)}


def test_any_commit_can_be_compared_with_and_no_other_word(checkout: Path) -> None:
    (checkout / "tests/regression/test_other.py").write_text("# another\n")
    commit(checkout)
    assert found(checkout).files == ()
    assert found(checkout, "HEAD~1").files == ("tests/regression/test_other.py",)
    with pytest.raises(OverlayError, match="CHANGED=nowhere is no commit"):
        found(checkout, "nowhere")


def test_the_remote_of_a_branch_is_where_it_began(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    mini.git(checkout, "clone", "--quiet", str(checkout), str(copy))
    (copy / "tests/regression/test_other.py").write_text("# another\n")
    commit(copy)
    assert found(copy).files == ("tests/regression/test_other.py",)
