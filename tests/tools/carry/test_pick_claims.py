"""Histories against trees: whatever a history says, pick carries what the tree lacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.carry.test_pick import ALL, BRANCH, fourth, pick, rows, show, subjects
from tests.tools.product import Product
from tests.tools.series.test_stack_apply import FIRST, SECOND, THIRD

FILES = ("vllm/a.py", "vllm/crlf.py", "vllm/b.py", "vllm/new.py", "tests/test_\u00fcml\u00e4ut.py")
Story = Callable[[Product, Path], str]
OWN = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture
def fork(product: Product, tmp_path: Path) -> Path:
    return forks.make(product.upstream, tmp_path)


def picked(product: Product, fork: Path) -> None:
    """The series is on the picked branch, and a commit of the fork's own on trunk beside it."""
    assert pick(product, fork).code == 0
    mini.commit(fork, "Beside", {"docs/index.md": b"# ours\n"}, who=forks.OWN)


def git(fork: Path, *args: str) -> str:
    return mini.git(fork, *args, env=OWN)


def merge(fork: Path, *options: str) -> str:
    git(fork, "merge", "--quiet", "--no-ff", "-m", "Merge the series", *options, BRANCH)
    return git(fork, "rev-parse", "HEAD")


def away(fork: Path, message: str) -> None:
    """The tree of the release again, with a commit of the fork's own; `message` says why."""
    files = {name: mini.FILES[name] for name in FILES if name in mini.FILES}
    gone = [name for name in ("vllm/new.py", "vllm/moved.py", "vllm/sub/__init__.py")
            if (fork / name).exists()]  # fmt: skip
    git(fork, "rm", "--quiet", "--", *gone)
    mini.commit(fork, message, files | {"vllm/old.py": mini.FILES["vllm/old.py"]}, who=forks.OWN)


def merged_and_reverted(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork)
    git(fork, "revert", "--no-edit", "-m", "1", "HEAD")
    return "(same change) says that it is there"


def reverted_by_a_web_page(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork)
    away(fork, 'Revert "Answer twice (#1)" (#999)\n\nReverts vllm-project/vllm#1')
    return "(same change) says that it is there"


def reverted_by_hand_without_a_word(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork)
    away(fork, "Clean up")
    return "(same change) says that it is there"


def merged_as_ours(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork, "--strategy=ours")
    return "(same change) says that it is there"


def titles_that_name_a_number(_product: Product, fork: Path) -> str:
    for number in (1, 2):
        mini.commit(fork, f"Look at it (#{number})", {"docs/index.md": b"%d\n" % number})
    return "(pull request 1) says that it is there"


LACKS: list[Story] = [merged_and_reverted, reverted_by_a_web_page, reverted_by_hand_without_a_word,
                      merged_as_ours, titles_that_name_a_number]  # fmt: skip


@pytest.mark.parametrize("story", LACKS, ids=lambda story: story.__name__)
def test_what_only_the_history_has_is_carried_and_the_commit_is_named(
    applied: Product, fork: Path, story: Story
) -> None:
    said = story(applied, fork)
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert done.code == 0, done
    found = rows(done)
    assert {name: words.split()[0] for name, words in found.items()} == {
        FIRST: "clean", SECOND: "clean", THIRD: "clean",
    }  # fmt: skip
    assert said in found[FIRST]
    for path in FILES:
        assert git(fork, "show", f"again:{path}") == applied.git("show", f"HEAD:{path}")


def merged_whole(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork)
    return "(same change)"


def squashed(product: Product, fork: Path) -> str:
    picked(product, fork)
    git(fork, "merge", "--quiet", "--squash", BRANCH)
    mini.commit(fork, "Better answers", {}, who=forks.OWN)
    return "its changes are all in the tree"


def one_commit_with_more_of_their_own(product: Product, fork: Path) -> str:
    picked(product, fork)
    git(fork, "merge", "--quiet", "--squash", BRANCH)
    text = mini.edited((fork / "vllm/a.py").read_bytes(), ("return 27\n", "return 270\n"))
    mini.commit(fork, "All of it", {"vllm/a.py": text}, who=forks.OWN)
    return "its changes are all in the tree"


def merged_as_theirs(product: Product, fork: Path) -> str:
    picked(product, fork)
    forks.commit(fork, "Three", "vllm/a.py", ("return 2\n", "return 3\n"))
    merge(fork, "-Xtheirs")
    return "(same change)"


def picked_by_cherry_pick_and_changed_near_it(product: Product, fork: Path) -> str:
    picked(product, fork)
    merge(fork)
    forks.commit(fork, "Near", "vllm/a.py", ("def line_3():", "def line_three():"))
    return "its changes are all in the tree"


HAS: list[Story] = [merged_whole, squashed, one_commit_with_more_of_their_own, merged_as_theirs,
                    picked_by_cherry_pick_and_changed_near_it]  # fmt: skip


@pytest.mark.parametrize("story", HAS, ids=lambda story: story.__name__)
def test_what_the_tree_has_is_left_out_however_it_came(
    applied: Product, fork: Path, story: Story
) -> None:
    said = story(applied, fork)
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert (done.code, f"nothing to pick: {forks.ONTO} has it all\n" in done.out) == (0, True), done
    found = rows(done)
    assert all(words.startswith("already there") for words in found.values()), found
    assert said in found[FIRST]


def amended(product: Product, *changes: tuple[str, str]) -> None:
    """Another version of the first patch."""
    text = product.git("show", "HEAD~2:vllm/a.py").encode() + b"\n"
    tip = product.git("rev-parse", "HEAD")
    product.git("checkout", "--quiet", "--detach", f"{tip}~2")
    (product.clone / "vllm/a.py").write_bytes(mini.edited(text, *changes))
    product.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    product.git("cherry-pick", f"{tip}~2..{tip}")
    product.git("checkout", "--quiet", "-B", mini.BRANCH)
    product.succeed("export")


@pytest.mark.parametrize(
    "changes",
    [
        (("return 22\n", "return 222\n"),),
        (("return 9\n", "return 99\n"),),
        (("return 22\n", "return 2\n"), ("return 9\n", "return 99\n")),
    ],
    ids=["changed", "more", "other"],
)
def test_a_new_version_of_a_patch_reaches_a_fork_with_the_old_one(
    applied: Product, fork: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    picked(applied, fork)
    merge(fork)
    amended(applied, *changes)
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert done.code == 0, done
    found = rows(done)
    assert found[FIRST].startswith("3-way another version is there, "), found
    assert all(found[name].startswith("already there") for name in (SECOND, THIRD)), found
    text = git(fork, "show", "again:vllm/a.py").encode()
    assert text == applied.git("show", "HEAD:vllm/a.py").encode()
    assert git(fork, "log", "-1", "--format=%s", "again") == ALL[0]
    # And once more, from there: it is this version now.
    mini.git(fork, "switch", "--quiet", "again")
    done = applied.run("pick", FORK=str(fork), ONTO="again", BRANCH="third")
    assert "nothing to pick: again has it all\n" in done.out, done


def test_an_older_version_does_not_replace_a_newer_one(applied: Product, fork: Path) -> None:
    """The fork took the patch, and then an update of it from elsewhere."""
    old = applied.series()
    picked(applied, fork)
    merge(fork)
    amended(applied, ("return 22\n", "return 222\n"))
    assert applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="newer").code == 0
    applied.write_series(old)
    applied.git("reset", "--quiet", "--hard", mini.TAG)
    applied.succeed("apply")
    done = applied.run("pick", FORK=str(fork), ONTO="newer", BRANCH="again")
    assert done.code == 0, done
    assert rows(done)[FIRST].startswith("other version a later one of the same patch: "), done
    assert "nothing to pick: newer has it all but 0001: see above" in done.out


def test_a_patch_that_was_split_since_and_one_that_was_joined(applied: Product, fork: Path) -> None:
    picked(applied, fork)
    merge(fork)
    joined = applied.series()
    applied.git("reset", "--quiet", "--soft", f"{mini.TAG}")
    applied.git("reset", "--quiet")
    one = ("vllm/a.py", "vllm/crlf.py")
    for number, paths in enumerate((one, (".",)), 1):
        applied.git("add", "--all", *paths)
        message = f"{ALL[0] if number == 1 else 'The rest'}\n\nWhy.\n\n{mini.TRAILERS}"
        applied.git("commit", "--quiet", "--message", message)
    applied.succeed("export")
    assert len(applied.series()) == 2 != len(joined)
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert f"nothing to pick: {forks.ONTO} has it all\n" in done.out, done
    # Half of it reverted: the other half of one pull request is no proof of this one.
    for path in one:
        mini.write(fork, {path: mini.FILES[path]})
    mini.git(fork, "add", "--all")
    mini.commit(fork, "Half back", {}, who=forks.OWN)
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert done.code == 0, done
    for path in one:
        assert git(fork, "show", f"again:{path}") == applied.git("show", f"HEAD:{path}")


def test_a_version_that_the_fork_has_changed_since_is_named(applied: Product, fork: Path) -> None:
    picked(applied, fork)
    merge(fork)
    forks.commit(fork, "Other answer", "vllm/a.py", ("return 22\n", "return 23\n"))
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, BRANCH="again")
    assert done.code == 0, done
    assert rows(done)[FIRST].startswith("other version in a form of its own: "), done
    assert "has it all but 0001: see above" in done.out
    assert "again" not in git(fork, "for-each-ref")


@pytest.mark.parametrize("how", ["deleted", "renamed and deleted"])
def test_hunks_on_files_that_the_fork_deleted_are_left_out_and_told(
    applied: Product, fork: Path, how: str
) -> None:
    if how == "deleted":
        git(fork, "rm", "--quiet", "vllm/a.py", "vllm/alias.py")
    else:  # the third patch renames it
        git(fork, "rm", "--quiet", "vllm/old.py")
    mini.commit(fork, "Drop it", {}, who=forks.OWN)
    name = fourth(applied, ("return 9\n", "return 99\n"))
    done = pick(applied, fork)
    assert done.code == 0, done
    found = rows(done)
    tree = git(fork, "ls-tree", "-r", "--name-only", BRANCH)
    if how == "deleted":
        assert found[FIRST].startswith("left out deleted in the fork, 1 hunk left out: vllm/a.py")
        assert found[SECOND].startswith("3-way deleted in the fork, 1 hunk left out: vllm/a.py")
        assert found[name].startswith("left out deleted in the fork, 1 hunk left out: vllm/a.py")
        assert subjects(fork) == ALL[1:]
        assert "vllm/a.py" not in tree
        assert show(fork, "vllm/crlf.py").count(b"22") == 1
    else:
        assert found[THIRD].startswith("3-way deleted in the fork, 1 hunk left out: vllm/old.py")
        assert "vllm/old.py" not in tree
        assert "vllm/moved.py" not in tree
        assert "vllm/new.py" in tree
