"""Pick: the series becomes a branch of a fork, whatever state the fork is in; no work is lost."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forks, mini
from tests.tools.product import Done, Product, snapshot
from tests.tools.series.test_stack_apply import FIRST, HOSTILE, SECOND, THIRD, hostile_hooks
from tests.tools.test_host import without_rights

BRANCH = "picked/v0.28.0"
ALL = [
    "[Core] Answer twice: a.py",
    "[Bugfix][MM] Keep `carriage returns`",
    "[Frontend] Add a module",
]


@pytest.fixture
def fork(product: Product, tmp_path: Path) -> Path:
    return forks.make(product.upstream, tmp_path)


def pick(product: Product, fork: Path, *args: str, **env: str) -> Done:
    """Pick onto the fork's trunk. The fork keeps all that it had; at most the branch is new."""
    before: dict[str, Any] = snapshot(fork)
    done = product.run("pick", "--fork", str(fork), *args, **({"ONTO": forks.ONTO} | env))
    after: dict[str, Any] = snapshot(fork)
    old, new = (set(state.pop("refs").split("\n")) for state in (before, after))
    assert after == before
    assert old <= new
    assert {line.split("\t")[1] for line in new - old} <= {f"refs/heads/{BRANCH}"}
    return done


def rows(done: Done) -> dict[str, str]:
    """Patch name -> what the table says of it."""
    table = re.findall(r"^(\S+\.patch)  (.*(?:\n  .*)*)", done.out, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in table}


def subjects(fork: Path, onto: str = forks.ONTO) -> list[str]:
    log = mini.git(fork, "log", "--reverse", "--format=%s", f"{onto}..{BRANCH}")
    return log.split("\n") if log else []


def show(fork: Path, path: str) -> bytes:
    """A file of the picked branch, as git holds it."""
    return os.fsencode(mini.git(fork, "show", f"{BRANCH}:{path}"))


def mended(product: Product, done: Done, *edits: tuple[str, bytes]) -> Path:
    """What a person does after a conflict: the commands of the hint, with their own edits."""
    (kept,) = (product.root / "build/kept").glob("pick-picked-v0.28.0-*")
    mini.write(kept, dict(edits))
    first, _, drop = done.hint.partition("\n")
    assert f"rm -rf build/kept/{kept.name}" in drop
    _, add, go_on, again = first.split("; ")
    assert product.shell(add).code == 0
    assert product.shell(go_on.partition(" (")[0]).code == 0
    assert again.startswith("make pick ")
    return kept


def test_on_the_pin_the_branch_has_the_tree_of_the_series(applied: Product, fork: Path) -> None:
    done = pick(applied, fork)
    assert done.code == 0, done
    assert rows(done) == {FIRST: "clean", SECOND: "clean", THIRD: "clean"}
    assert f"picked as branch {BRANCH}" in done.out
    trees = (applied.git("rev-parse", f"{mini.BRANCH}^{{tree}}"),
             mini.git(fork, "rev-parse", f"{BRANCH}^{{tree}}"))  # fmt: skip
    assert trees[0] == trees[1]
    assert mini.git(fork, "fsck", "--strict", "--no-dangling") == ""


def test_each_commit_keeps_author_and_trailers_and_says_where_it_came_from(
    applied: Product, fork: Path
) -> None:
    pick(applied, fork)
    ours = applied.git("log", "--reverse", "--format=%H", f"{mini.TAG}..").split("\n")
    for commit, number in zip(ours, "210", strict=True):
        theirs = mini.git(fork, "log", "-1", "--format=%an %ae %ad%n%B", f"{BRANCH}~{number}")
        assert theirs.startswith(applied.git("log", "-1", "--format=%an %ae %ad%n%B", commit))
        assert theirs.rstrip().endswith(f"\n(cherry picked from commit {commit})")
    trailers = mini.git(fork, "log", "-1", "--format=%(trailers:key=Upstream-PR)", BRANCH)
    assert trailers.strip() == "Upstream-PR: https://github.com/vllm-project/vllm/pull/3"


def test_it_needs_no_apply_before_and_leaves_the_work_clone_alone(
    product: Product, second: Product, fork: Path
) -> None:
    assert pick(product, fork).code == 0
    tip = mini.git(fork, "rev-parse", BRANCH)
    mini.git(fork, "branch", "-D", BRANCH)
    (second.clone / "vllm/a.py").write_text("mine\n")
    before = snapshot(second.clone)
    assert pick(second, fork).code == 0
    assert snapshot(second.clone) == before
    assert mini.git(fork, "rev-parse", BRANCH) == tip  # the same ids from anywhere


def test_picking_twice_says_so(applied: Product, fork: Path) -> None:
    pick(applied, fork)
    done = pick(applied, fork)
    assert done.code == 0
    assert f"already picked as branch {BRANCH}" in done.out


def test_onto_the_picked_branch_there_is_nothing_left(applied: Product, fork: Path) -> None:
    pick(applied, fork)
    done = pick(applied, fork, "--branch", "other", ONTO=BRANCH)
    assert done.code == 0
    assert f"nothing to pick: {BRANCH} has it all" in done.out
    assert all("already there" in said and "(same change)" in said for said in rows(done).values())
    assert "other" not in mini.git(fork, "for-each-ref")


@pytest.mark.parametrize("source", ["sdist", "git"])
def test_fifty_unrelated_commits_later(product: Product, fork: Path, source: str) -> None:
    forks.unrelated(fork, 50)
    done = pick(product, fork, SOURCE=source)
    assert (done.code, subjects(fork)) == (0, ALL), done
    assert mini.git(fork, "show", "--stat", f"{BRANCH}:ours/file_49.py")


def test_files_that_the_fork_has_renamed(applied: Product, fork: Path) -> None:
    mini.git(fork, "mv", "vllm/a.py", "vllm/answers.py")
    mini.commit(fork, "Say what it is", {}, who=forks.OWN)
    done = pick(applied, fork)
    assert done.code == 0, done
    assert rows(done) == {FIRST: "3-way", SECOND: "3-way", THIRD: "clean"}
    assert b"return 22\n" in show(fork, "vllm/answers.py")
    assert b"return 280\n" in show(fork, "vllm/answers.py")


def test_lines_that_moved_and_changed_nearby(applied: Product, fork: Path) -> None:
    forks.commit(fork, "Near", "vllm/a.py", ("def line_1():", "# one\n" * 9 + "def line_1():"),
                 ("def line_3():", "def line_three():"))  # fmt: skip
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done
    assert rows(done)[FIRST] == "3-way"
    assert b"def line_three():" in show(fork, "vllm/a.py")


def test_a_patch_that_was_cherry_picked_is_left_out_and_said(applied: Product, fork: Path) -> None:
    mini.git(fork, "fetch", "--quiet", str(applied.clone), mini.BRANCH)
    env = {"GIT_COMMITTER_NAME": "a colleague", "GIT_COMMITTER_EMAIL": "colleague@example.invalid"}
    mini.git(fork, "cherry-pick", "FETCH_HEAD~1", env=env)
    commit = mini.git(fork, "rev-parse", "HEAD")
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, [ALL[0], ALL[2]]), done
    assert rows(done)[SECOND] == f"already there {commit[:12]} {ALL[1]} (same change)"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Answer twice in our way (#1)", "(pull request 1)"),
        ("Ours\n\nUpstream-PR: https://github.com/vllm-project/vllm/pull/1", "(pull request 1)"),
    ],
)
def test_the_same_change_written_differently_is_for_a_person_and_named(
    applied: Product, fork: Path, message: str, said: str
) -> None:
    forks.commit(fork, message, "vllm/a.py", ("    return 2\n", "    two = 22\n    return two\n"))
    done = pick(applied, fork)
    assert done.code == 3, done
    assert f"{said} says that it is there" in rows(done)[FIRST]
    kept = next((applied.root / "build/kept").iterdir())
    mini.git(kept, "cherry-pick", "--skip")
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL[1:]), done
    assert rows(done)[FIRST] == "left out by hand"
    assert "but 0001: see above" in done.out


@pytest.mark.parametrize(
    "message", ["After (#1) was seen", "Answer (#12)", "Part of #1", 'Revert "Answer (#1)" (#7)']
)
def test_a_number_that_is_not_the_pull_request_of_the_commit_does_not_count(
    applied: Product, fork: Path, message: str
) -> None:
    mini.commit(fork, message, {"docs/index.md": b"# ours\n"}, who=forks.OWN)
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done


def test_a_change_that_the_fork_has_reverted_is_not_there(applied: Product, fork: Path) -> None:
    commit = forks.commit(fork, "Answer (#1)", "vllm/a.py", ("return 2\n", "return 22\n"))
    back = {"vllm/a.py": mini.FILES["vllm/a.py"]}
    mini.commit(fork, f"Revert\n\nThis reverts commit {commit}.", back, who=forks.OWN)
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done


def test_another_version_of_a_patch_becomes_this_one_and_is_named(
    applied: Product, fork: Path
) -> None:
    body = f"By hand.\n\n{mini.TRAILERS}".replace("backport v0.29.0", "internal ours")
    mini.commit(fork, f"{ALL[2]}\n\n{body}", {"vllm/new.py": b"new = 1\n"}, who=forks.OWN)
    said = rows(pick(applied, fork, DRY_RUN="1"))[THIRD]
    assert "(same title, our trailers)" in said


def test_a_change_that_is_there_without_a_trace_is_found_in_the_tree(
    applied: Product, fork: Path
) -> None:
    forks.commit(
        fork, "Much", "vllm/a.py", ("return 2\n", "return 22\n"), ("return 9\n", "return 99\n")
    )
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL[1:]), done
    assert rows(done)[FIRST] == "already there its changes are all in the tree"


def test_a_conflict_leaves_the_fork_alone_and_a_person_goes_on(
    applied: Product, fork: Path
) -> None:
    theirs = forks.commit(fork, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    done = pick(applied, fork)
    assert done.code == 3, done
    assert BRANCH not in mini.git(fork, "for-each-ref")
    said = rows(done)[FIRST]
    assert said.startswith("conflict vllm/a.py: the fork has ")
    assert f"{theirs[:7]} Two is three" in said
    assert done.error == "conflict in 0001; the fork is as it was"

    again = pick(applied, fork)  # not over their work
    assert (again.code, "is unfinished in build/kept/" in again.error) == (3, True)
    assert again.hint == done.hint

    text = mini.edited(mini.FILES["vllm/a.py"], ("return 2\n", "return 322\n"))
    kept = mended(applied, done, ("vllm/a.py", text))
    assert pick(applied, fork).code == 0
    assert subjects(fork) == ALL
    assert b"return 322\n" in show(fork, "vllm/a.py")
    assert b"return 280\n" in show(fork, "vllm/a.py")
    message = mini.git(fork, "log", "-1", "--format=%B", f"{BRANCH}~2")
    assert "Upstream-PR: " in message
    assert "(cherry picked from commit " in message
    assert "Conflicts" not in message
    assert not kept.exists()
    assert mini.git(fork, "fsck", "--strict", "--no-dangling") == ""


def test_a_line_of_a_message_that_starts_with_a_number_sign_stays(
    applied: Product, fork: Path
) -> None:
    fourth(applied, ("return 9\n", "return 99\n"), body="#55448 bounds it.")
    forks.commit(fork, "Nine", "vllm/a.py", ("return 9\n", "return 999\n"))
    done = pick(applied, fork)
    assert rows(done)["0004-Core-More.patch"].startswith("conflict"), done
    mended(applied, done, ("vllm/a.py", b"mended\n"))
    assert pick(applied, fork).code == 0
    assert "\n#55448 bounds it.\n" in mini.git(fork, "log", "-1", "--format=%B", BRANCH)


def test_a_conflict_can_be_dropped(applied: Product, fork: Path) -> None:
    forks.commit(fork, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    done = pick(applied, fork)
    drop = done.hint.split("or drop it all: ")[1]
    assert applied.shell(drop).code == 0
    assert pick(applied, fork, PATCHES="2-3").code == 0
    assert subjects(fork) == ALL[1:]


def test_work_that_is_not_committed_yet_is_not_taken_for_done(applied: Product, fork: Path) -> None:
    forks.commit(fork, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    done = pick(applied, fork)
    kept = mended(applied, done, ("vllm/a.py", mini.FILES["vllm/a.py"] + b"# mended\n"))
    (kept / "docs/index.md").write_text("# more\n")
    done = pick(applied, fork)
    assert (done.code, "has edits that are not committed" in done.error) == (2, True)
    assert (kept / "docs/index.md").read_text() == "# more\n"
    moved = forks.commit(fork, "Later", "docs/index.md", ("# mini", "# later"))
    mini.git(kept, "checkout", "--quiet", "docs/index.md")
    done = pick(applied, fork)
    assert (done.code, "was begun on another commit" in done.error) == (2, True)
    assert pick(applied, fork, ONTO=f"{moved}~").code == 0


def test_a_dry_run_shows_the_table_and_changes_nothing(applied: Product, fork: Path) -> None:
    forks.commit(fork, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    forks.commit(fork, "Near", "vllm/a.py", ("return 27\n", "return 270\n"))
    mini.write(fork, {"vllm/new.py": b"new = True\n"})
    done = pick(applied, fork, DRY_RUN="1")
    assert done.code == 3
    found = {name: said.split(" vllm/")[0] for name, said in rows(done).items()}
    assert found == {FIRST: "conflict", SECOND: "3-way", THIRD: "clean"}
    assert BRANCH not in mini.git(fork, "for-each-ref")
    assert not (applied.root / "build/kept").exists()
    assert pick(applied, fork, DRY_RUN="1", ONTO=mini.TAG).code == 0
    assert BRANCH not in mini.git(fork, "for-each-ref")


MORE = ("return 22\n", "return 222\n")


def fourth(product: Product, change: tuple[str, str] = MORE, body: str = "Why.") -> str:
    """A fourth patch, which changes what the first has changed unless told so; its name."""
    path = product.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), change))
    trailers = mini.TRAILERS.replace("pull/1", "pull/4")
    product.git("commit", "--quiet", "--all", "--message", f"[Core] More\n\n{body}\n\n{trailers}")
    product.succeed("export")
    return "0004-Core-More.patch"


def test_a_part_of_the_series_brings_along_what_it_needs_and_says_so(
    applied: Product, fork: Path
) -> None:
    name = fourth(applied)
    done = pick(applied, fork, PATCHES="3-4")
    assert (done.code, subjects(fork)) == (0, [ALL[0], ALL[2], "[Core] More"]), done
    assert rows(done) == {
        FIRST: "clean not asked for, 0004 needs it",
        THIRD: "clean",
        name: "clean needs 0001",
    }


def test_what_needs_a_patch_in_conflict_is_not_tried(applied: Product, fork: Path) -> None:
    name = fourth(applied)
    forks.commit(fork, "Two is three", "vllm/a.py", ("return 2\n", "return 3\n"))
    done = pick(applied, fork, DRY_RUN="1")
    assert rows(done)[name] == "not tried needs 0001, which is not carried"


@pytest.mark.parametrize("numbers", ["4", "0", "1-9", "x", "1,,x", "3-1", "-1"])
def test_a_part_that_is_none_is_told(applied: Product, fork: Path, numbers: str) -> None:
    done = pick(applied, fork, PATCHES=numbers)
    assert done.code == 2
    assert "is no part of the series, 1 to 3" in done.error
    assert done.hint == "PATCHES=1,3-4 takes the first, the third and the fourth"


def test_a_fork_that_began_with_the_archive_of_the_release(
    applied: Product, tmp_path: Path
) -> None:
    fork = forks.imported(applied.upstream, tmp_path)
    forks.commit(fork, "Near", "vllm/a.py", ("def line_3():", "def line_three():"))
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done
    mini.git(fork, "checkout", "--quiet", BRANCH)
    done = pick(applied, fork, "--branch", "other", ONTO=BRANCH)
    assert "has it all" in done.out, done


@pytest.mark.parametrize("source", ["sdist", "git"])
def test_a_shallow_fork(product: Product, tmp_path: Path, source: str) -> None:
    fork = forks.make(product.upstream, tmp_path, "--depth=1", f"--branch={mini.TAG}")
    forks.commit(fork, "Near", "vllm/a.py", ("def line_3():", "def line_three():"))
    shallow = (fork / ".git/shallow").read_bytes()
    done = pick(product, fork, SOURCE=source)
    assert (done.code, subjects(fork)) == (0, ALL), done
    assert (fork / ".git/shallow").read_bytes() == shallow
    assert mini.git(fork, "fsck", "--no-dangling") == ""


def test_a_partial_fork_without_files_says_how_to_get_them(
    applied: Product, fork: Path, tmp_path: Path
) -> None:
    forks.commit(fork, "Near", "vllm/a.py", ("def line_3():", "def line_three():"))
    mini.git(fork, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    options = ("--quiet", "--filter=blob:none", "--no-checkout")
    mini.git(tmp_path, "clone", *options, fork.as_uri(), str(partial))
    done = applied.run("pick", FORK=str(partial), ONTO=forks.ONTO)
    assert (done.code, "lacks files of" in done.error) == (2, True), done
    assert applied.shell(done.hint.split(": ")[1]).code == 0
    assert applied.run("pick", FORK=str(partial), ONTO=forks.ONTO).code == 0
    assert subjects(partial) == ALL


def test_linked_worktrees(applied: Product, fork: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    mini.git(fork, "worktree", "add", "--quiet", "-b", "elsewhere", str(linked))
    (linked / "vllm/a.py").write_text("mine\n")
    both = snapshot(linked)["files"], snapshot(linked)["index"]
    assert pick(applied, linked).code == 0
    assert subjects(fork) == ALL
    assert (snapshot(linked)["files"], snapshot(linked)["index"]) == both


def test_a_bare_mirror(applied: Product, fork: Path, tmp_path: Path) -> None:
    bare = tmp_path / "mirror.git"
    mini.git(tmp_path, "clone", "--quiet", "--mirror", str(fork), str(bare))
    applied.succeed("pick", FORK=str(bare), ONTO=forks.ONTO)
    assert subjects(bare) == ALL


def test_a_dirty_checkout_with_stash_and_a_merge_under_way(applied: Product, fork: Path) -> None:
    (fork / "docs/index.md").write_text("# stashed\n")
    applied.git("stash", repo=fork)
    mini.git(fork, "branch", "side")
    forks.commit(fork, "Three", "vllm/a.py", ("return 3\n", "return 33\n"))
    mini.git(fork, "switch", "--quiet", "side")
    forks.commit(fork, "Drei", "vllm/a.py", ("return 3\n", "return 333\n"))
    assert applied.shell(f"git -C '{fork}' merge {forks.ONTO}").code == 1
    mini.write(fork, {"vllm/b.py": b"mine\n", "vllm/new.py": b"mine too\n"})
    mini.git(fork, "add", "vllm/b.py")
    assert pick(applied, fork).code == 0
    assert (fork / ".git/MERGE_HEAD").exists()
    assert subjects(fork) == ALL


def test_a_sparse_checkout(applied: Product, fork: Path) -> None:
    mini.git(fork, "sparse-checkout", "set", "docs")
    assert not (fork / "vllm/a.py").exists()
    assert pick(applied, fork).code == 0
    assert subjects(fork) == ALL
    assert not (fork / "vllm/a.py").exists()


def test_attributes_for_line_ends_and_filters_bend_no_byte(applied: Product, fork: Path) -> None:
    rules = b"*.py text eol=crlf filter=bad\n*.md ident working-tree-encoding=UTF-16\n"
    mini.commit(fork, "Line ends", {".gitattributes": rules}, who=forks.OWN)
    for key in ("clean", "smudge"):
        mini.git(fork, "config", f"filter.bad.{key}", "false")
    mini.git(fork, "config", "filter.bad.required", "true")
    assert pick(applied, fork).code == 0
    for path in ("vllm/a.py", "vllm/crlf.py", "vllm/new.py"):
        assert show(fork, path) == os.fsencode(applied.git("show", f"{mini.BRANCH}:{path}"))


def test_no_identity_and_hostile_hooks_and_settings(
    applied: Product, fork: Path, tmp_path: Path
) -> None:
    (applied.home / ".gitconfig").write_text("[user]\n    useConfigOnly = true\n")
    hooks = hostile_hooks(tmp_path / "hooks")
    with (fork / ".git/config").open("a") as file:
        file.write(HOSTILE.format(hooks=hooks))
        file.write("[log]\n    showSignature = true\n[color]\n    ui = always\n")
    for hook in hooks.iterdir():
        shutil.copy(hook, fork / ".git/hooks")
    done = pick(applied, fork)
    assert (done.code, subjects(fork)) == (0, ALL), done


def test_a_read_only_fork_is_told_and_a_dry_run_works(applied: Product, fork: Path) -> None:
    folders = [path for path in (fork / ".git").rglob("*") if path.is_dir()]
    before = snapshot(fork)
    for folder in folders:
        folder.chmod(0o555)
    args = ("pick", "--fork", str(fork), "--onto", forks.ONTO)
    done = applied.run_by(without_rights(), *args)
    dry = applied.run_by(without_rights(), *args, DRY_RUN="1")
    (fork / ".git/objects").chmod(0o755)  # the refs are still closed
    late = applied.run_by(without_rights(), *args)
    for folder in folders:
        folder.chmod(0o755)
    assert (done.code, "the fork is read-only here" in done.error) == (2, True), done
    assert dry.code == 0, dry
    assert (late.code, f"cannot make branch {BRANCH}" in late.error) == (2, True), late
    assert snapshot(fork) == before


def test_a_branch_that_is_there_is_not_overwritten(applied: Product, fork: Path) -> None:
    mini.git(fork, "branch", BRANCH)
    done = pick(applied, fork)
    assert done.code == 2
    assert f"the fork has a branch {BRANCH} already" in done.error
    assert applied.shell(done.hint.split("aside: ")[1]).code == 0
    assert pick(applied, fork).code == 0


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"FORK": ""}, "pick needs a fork and a commit of it"),
        ({"ONTO": ""}, "pick needs a fork and a commit of it"),
        ({"ONTO": "none"}, "has no commit 'none'"),
        ({"ONTO": "--help"}, "has no commit '--help'"),
        ({"ONTO": "HEAD:docs"}, "has no commit 'HEAD:docs'"),
        ({"ONTO": "empty"}, "is not a vLLM tree"),
        ({"BRANCH": "a..b"}, "'a..b' is no name for a branch"),
        ({"BRANCH": f"{forks.ONTO}/x"}, "cannot make branch trunk/x"),
        ({"FORK": "none"}, "is no git repository"),
        ({"DRY_RUN": "no"}, "--dry-run: 'no' is none of 0, 1"),
    ],
)
def test_what_cannot_be_is_told(
    applied: Product, fork: Path, env: dict[str, str], said: str
) -> None:
    tree = mini.git(fork, "hash-object", "-t", "tree", "-w", "/dev/null")
    who = {
        f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    empty = mini.git(fork, "commit-tree", "-m", "empty", tree, env=who)
    mini.git(fork, "update-ref", "refs/heads/empty", empty)
    before = snapshot(fork)
    done = applied.run("pick", **({"FORK": str(fork), "ONTO": forks.ONTO} | env))
    assert (done.code, said in done.err) == (2, True), done
    assert snapshot(fork) == before


def test_a_full_size_fork_takes_no_more_git_than_a_small_one(
    applied: Product, fork: Path, tmp_path: Path
) -> None:
    """Counted, not timed."""
    place, asked = tmp_path / "counted" / "git", tmp_path / "asked"
    place.parent.mkdir()
    place.write_text(f"#!/bin/sh\necho >> '{asked}'\nexec '{shutil.which('git')}' \"$@\"\n")
    place.chmod(0o755)

    def commands(branch: str) -> int:
        asked.write_text("")
        env = {"PATH": f"{place.parent}{os.pathsep}{os.environ['PATH']}", "BRANCH": branch}
        assert applied.run("pick", FORK=str(fork), ONTO=forks.ONTO, **env).code == 0
        return len(asked.read_text().splitlines())

    few = commands("few")
    many = {f"vllm/many/{n // 100}/f{n}.py": b"x = %d\n" % n for n in range(6600)}
    mini.write(fork, many)
    mini.git(fork, "add", "--all")
    mini.commit(fork, "Much", {}, who=forks.OWN)
    assert commands("many") == few > 0
