"""What waits after a conflict: what is not mended is not done, what a person made is not lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.carry.test_pick import ALL, BRANCH, pick, rows, show, subjects
from tests.tools.product import Done, Product
from tests.tools.series.test_stack_apply import FIRST


@pytest.fixture
def fork(product: Product, tmp_path: Path) -> Path:
    repo = forks.make(product.upstream, tmp_path)
    forks.commit(repo, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    return repo


MENDED = mini.edited(mini.FILES["vllm/a.py"], ("return 2\n", "return 322\n"))


def place(product: Product) -> Path:
    (found,) = (product.root / "build/kept").iterdir()
    return found


def type_on(product: Product, done: Done) -> None:
    """The commands of the hint, up to the one that takes the work over."""
    _, add, go_on, _ = done.hint.partition("\n")[0].split("; ")
    assert product.shell(add).code == 0
    assert product.shell(go_on.partition(" (")[0]).code == 0


def test_the_first_two_lines_say_what_happened_and_what_to_do(applied: Product, fork: Path) -> None:
    done = pick(applied, fork)
    first, second, *_ = done.out.split("\n")
    assert first == "stopped: 0001 of 3 patches conflict in 1 file; the fork is as it was"
    assert second == "do: mend it as the last lines say"
    assert max(map(len, done.out.split("\n"))) <= 100


def test_the_hint_typed_without_mending_delivers_no_markers(applied: Product, fork: Path) -> None:
    done = pick(applied, fork)
    type_on(applied, done)
    done = pick(applied, fork)
    assert done.code == 2, done
    assert "is not mended yet: vllm/a.py:5: <<<<<<< " in done.error
    assert "vllm/a.py:7: =======" in done.error
    assert BRANCH not in mini.git(fork, "for-each-ref")
    (place(applied) / "vllm/a.py").write_bytes(mini.edited(MENDED, ("return 28\n", "return 280\n")))
    _, *lines = done.hint.split("; ")
    for line in lines[:-1]:
        assert applied.shell(line).code == 0, line
    assert lines[-1].startswith("make pick ")
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done
    assert b"<<<" not in show(fork, "vllm/a.py")


def test_a_new_file_of_a_persons_is_not_lost(applied: Product, fork: Path) -> None:
    done = pick(applied, fork)
    kept = place(applied)
    mini.write(kept, {"vllm/a.py": MENDED, "vllm/mine.py": b"mine = 1\n"})
    type_on(applied, done)
    done = pick(applied, fork)
    assert (done.code, "has files that no commit has: vllm/mine.py" in done.error) == (2, True)
    add, commit, *_ = done.hint.split("; ")
    assert applied.shell(add).code == 0
    assert applied.shell(commit).code == 0
    assert pick(applied, fork).code == 0
    assert show(fork, "vllm/mine.py") == b"mine = 1"


@pytest.mark.parametrize("what", ["stash", "branch", "ignored file"])
def test_what_a_person_left_there_is_put_aside(applied: Product, fork: Path, what: str) -> None:
    done = pick(applied, fork)
    kept = place(applied)
    mini.write(kept, {"vllm/a.py": MENDED})
    type_on(applied, done)
    if what == "ignored file":
        (kept / "notes.log").write_text("mine\n")
    else:
        (kept / "docs/index.md").write_text("# mine\n")
        applied.git("stash", repo=kept)
    if what == "branch":
        applied.git("stash", "branch", "mine", repo=kept)
        applied.git("commit", "--quiet", "--all", "--message", "Mine", repo=kept)
        applied.git("switch", "--quiet", "picked", repo=kept)
    done = pick(applied, fork)
    assert done.code == 0, done
    aside = applied.root / "build/removed" / kept.name
    assert f"what you had there beside the result is in build/removed/{kept.name}" in done.out
    assert not kept.exists()
    if what == "stash":
        assert "# mine" in applied.git("stash", "show", "--patch", repo=aside)
    elif what == "branch":
        assert applied.git("show", "mine:docs/index.md", repo=aside) == "# mine"
    else:
        assert (aside / "notes.log").read_text() == "mine\n"


def test_skipping_all_is_not_having_it_all(applied: Product, fork: Path) -> None:
    pick(applied, fork, PATCHES="1")
    applied.git("cherry-pick", "--skip", repo=place(applied))
    done = pick(applied, fork, PATCHES="1")
    assert done.code == 0, done
    assert rows(done) == {FIRST: "left out by hand"}
    assert f"nothing to pick: {forks.ONTO} has it all but 0001: see above" in done.out


def test_aborting_says_what_is_not_there(applied: Product, fork: Path) -> None:
    pick(applied, fork)
    applied.git("cherry-pick", "--abort", repo=place(applied))
    done = pick(applied, fork)
    assert done.code == 0, done
    assert set(rows(done).values()) == {"left out by hand"}
    assert "has it all but 0001, 0002, 0003: see above" in done.out


def test_another_name_for_the_branch_takes_the_work_over(applied: Product, fork: Path) -> None:
    done = pick(applied, fork)
    mini.write(place(applied), {"vllm/a.py": MENDED})
    type_on(applied, done)
    mini.git(fork, "branch", BRANCH)  # somebody else made it in the meantime
    done = pick(applied, fork)
    assert (done.code, f"has a branch {BRANCH} already" in done.error) == (2, True), done
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="it's/other")
    assert done.code == 0, done
    assert b"return 322\n" in os.fsencode(mini.git(fork, "show", "it's/other:vllm/a.py"))
    assert not list((applied.root / "build/kept").iterdir())


@pytest.mark.parametrize("clash", ["picked", f"{BRANCH}/more"])
def test_a_branch_that_cannot_be_is_told_before_any_work(
    applied: Product, fork: Path, clash: str
) -> None:
    mini.git(fork, "branch", clash)
    done = pick(applied, fork)
    assert (done.code, f"it has a branch {clash}" in done.error) == (2, True), done
    assert not (applied.root / "build/kept").exists()


def test_each_fork_and_branch_waits_by_itself_and_status_tells(
    applied: Product, fork: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(fork, other)
    forks.commit(fork, "Later", "docs/index.md", ("# mini", "# later"))
    wanted = [(fork, f"{forks.ONTO}~1", "a/b'c"), (fork, forks.ONTO, "a-b'c"),
              (other, forks.ONTO, "a/b'c")]  # fmt: skip
    hints = []
    for repo, onto, branch in wanted:
        done = applied.run("pick", FORK=str(repo), ONTO=onto, BRANCH=branch)
        assert done.code == 3, done
        hints.append(done.hint.partition("\n")[0].rpartition("; ")[2])
    assert len(list((applied.root / "build/kept").iterdir())) == 3
    said = applied.succeed("status")
    assert all(f": {again}\n" in said for again in hints)
    assert "BRANCH='a/b'\"'\"'c'" in hints[0]
    again = applied.shell(hints[0].replace("make ", f"make PYTHON={applied.command()[0]} "))
    assert "is unfinished in build/kept/" in again.error


def test_a_kept_folder_on_another_disk(applied: Product, fork: Path) -> None:
    """As where a mount has it: a rename across it fails."""
    elsewhere = Path("/dev/shm") / f"kept-{os.getpid()}"  # a disk of its own on Linux
    elsewhere.mkdir()
    try:
        (applied.root / "build/kept").symlink_to(elsewhere)
        done = pick(applied, fork)
        assert done.code == 3, done
        mini.write(place(applied), {"vllm/a.py": MENDED})
        type_on(applied, done)
        assert pick(applied, fork).code == 0
    finally:
        shutil.rmtree(elsewhere)
    assert subjects(fork) == ALL


def test_a_deleted_file_stays_deleted_for_who_goes_on(applied: Product, fork: Path) -> None:
    mini.git(fork, "rm", "--quiet", "vllm/crlf.py", "vllm/b.py")
    mini.commit(fork, "Drop them", {}, who=forks.OWN)
    done = pick(applied, fork)
    mini.write(place(applied), {"vllm/a.py": MENDED})
    type_on(applied, done)
    assert pick(applied, fork).code == 0
    tree = mini.git(fork, "ls-tree", "-r", "--name-only", BRANCH)
    assert "vllm/crlf.py" not in tree
    assert "vllm/b.py" not in tree
    assert subjects(fork) == ALL


def test_line_ends_are_named(applied: Product, fork: Path) -> None:
    text = mini.FILES["vllm/a.py"].replace(b"\n", b"\r\n")
    mini.commit(fork, "As on that other system", {"vllm/a.py": text}, who=forks.OWN)
    done = pick(applied, fork, DRY_RUN="1")
    assert "the fork stores CRLF line ends where the release has LF" in rows(done)[FIRST]


def test_a_file_that_an_earlier_patch_makes_is_not_missing(applied: Product, fork: Path) -> None:
    """Of a patch that is not tried, since the one that makes its file is in conflict."""
    mini.git(fork, "reset", "--quiet", "--hard", mini.TAG)
    forks.commit(fork, "Other", "vllm/b.py", ("return 2\n", "return 3\n"))
    mini.write(applied.clone, {"vllm/new.py": b"new = 2\n"})
    applied.git("commit", "--quiet", "--all", "--message", f"More\n\nWhy.\n\n{mini.TRAILERS}")
    applied.succeed("export")
    done = pick(applied, fork)
    assert rows(done)["0004-More.patch"] == "not tried needs 0003, which is not carried"
    applied.git("checkout", "--theirs", ".", repo=place(applied))
    type_on(applied, done)
    done = pick(applied, fork)
    assert done.code == 0, done
    assert show(fork, "vllm/new.py") == b"new = 2"
