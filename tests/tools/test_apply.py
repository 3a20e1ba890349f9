"""Apply: the series becomes commits, or everything stays as it was and the reason is told."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from scripts.git import Git, GitError
from tests.tools import mini
from tests.tools.held import HeldGit
from tests.tools.product import Done, Product, snapshot, tree

FIRST = "0001-Core-Answer-twice-a.py.patch"
SECOND = "0002-Bugfix-MM-Keep-carriage-returns.patch"
THIRD = "0003-Frontend-Add-a-module.patch"


def refuses(product: Product, *args: str, clone: Path | None = None, **env: str) -> Done:
    """The command cannot run (exit 2), says what to do, and leaves everything as it was."""
    repo = clone or product.clone
    before = snapshot(repo), tree(product.patches)
    done = product.run(*args, **env)
    assert done.code == 2, done
    assert done.hint, done
    assert (snapshot(repo), tree(product.patches)) == before
    return done


def broken(patches: dict[str, bytes], name: str = SECOND) -> dict[str, bytes]:
    """The series with a patch whose first hunk in `vllm/a.py` finds other lines than it wants."""
    raw = patches[name].replace(b" def line_28():", b" def line_x():")
    assert raw != patches[name]
    return patches | {name: raw}


def test_apply_makes_one_commit_a_patch_on_the_pin(
    product: Product, patches: dict[str, bytes]
) -> None:
    said = product.succeed("apply")
    assert f"3 patches applied to vllm {mini.TAG}" in said
    assert product.git("rev-parse", "HEAD^{tree}")[:12] in said
    assert product.git("branch", "--show-current") == mini.BRANCH
    assert product.git("log", "--reverse", "--format=%s", f"{mini.TAG}..").split("\n") == [
        "[Core] Answer twice: a.py",
        "[Bugfix][MM] Keep `carriage returns`",
        "[Frontend] Add a module",
    ]
    assert (product.clone / "vllm/crlf.py").read_bytes() == b"one = 1\r\ntwo = 22\r\nthree = 3\r\n"
    assert product.git("status", "--porcelain") == ""
    assert sorted(patches) == [FIRST, SECOND, THIRD]


def test_a_new_series_leaves_every_file_alone_that_stays_the_same(applied: Product) -> None:
    """Also one that a patch touches: by the time of its files, a build knows what is left to do."""
    old = 1_000_000_000
    names = applied.git("ls-files", "-z").split("\0")
    files = [path for name in names if name and not (path := applied.clone / name).is_symlink()]
    for path in files:
        os.utime(path, (old, old))
    second = (applied.patches / SECOND).read_bytes()
    applied.write_series(applied.series() | {SECOND: second.replace(b"+two = 22", b"+two = 222")})

    assert "3 patches applied" in applied.succeed("apply")

    touched = {
        str(path.relative_to(applied.clone)) for path in files if path.stat().st_mtime != old
    }
    assert touched == {"vllm/crlf.py"}
    assert "already applied" in applied.succeed("apply")


def test_plain_git_am_gives_the_same_tree(applied: Product) -> None:
    plain = applied.root / "plain"
    applied.git("worktree", "add", "--quiet", "--detach", str(plain), mini.TAG)
    files = [str(applied.patches / name) for name in applied.series()]
    applied.git("am", "--quiet", "--keep", "--keep-cr", *files, repo=plain)
    ours, theirs = (applied.git("rev-parse", f"{c}^{{tree}}", repo=plain) for c in
                    (mini.BRANCH, "HEAD"))  # fmt: skip
    assert ours == theirs


def test_apply_twice_is_a_no_op_that_says_so(applied: Product) -> None:
    before = snapshot(applied.clone)
    assert "3 patches already applied to" in applied.succeed("apply")
    assert snapshot(applied.clone) == before


def test_same_series_gives_same_commit_ids_in_two_product_roots(
    product: Product, second: Product
) -> None:
    product.succeed("apply")
    assert product.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")


HOSTILE = """\
[core]
    autocrlf = true
    hooksPath = {hooks}
    eol = crlf
    quotePath = true
    excludesFile = {hooks}/ignore
    attributesFile = {hooks}/attributes
    abbrev = 5
[am]
    threeWay = true
    keepcr = false
    messageId = true
[apply]
    whitespace = fix
    ignoreWhitespace = change
[commit]
    gpgSign = true
[tag]
    gpgSign = true
[diff]
    noprefix = true
    mnemonicPrefix = true
    algorithm = patience
    indentHeuristic = false
    context = 1
    interHunkContext = 99
    renames = copies
    suppressBlankEmpty = true
    orderFile = {hooks}/order
    relative = true
[format]
    attach = BOUNDARY
    signature = me
    signOff = true
    numbered = true
    subjectPrefix = OTHER
    suffix = .txt
    coverLetter = true
    thread = deep
    from = other <other@example.invalid>
    to = other@example.invalid
    cc = other@example.invalid
    headers = "X-Other: 1\\n"
    useAutoBase = true
    notes = true
    noprefix = true
    filenameMaxLength = 20
    encodeEmailHeaders = false
[i18n]
    commitEncoding = latin1
    logOutputEncoding = latin1
[log]
    showSignature = true
[status]
    showUntrackedFiles = no
[init]
    defaultBranch = other
"""


def hostile_hooks(folder: Path) -> Path:
    """A folder of hooks that all fail, and of files that a hostile configuration names."""
    folder.mkdir()
    for name in ("applypatch-msg", "commit-msg", "pre-applypatch", "pre-commit", "post-checkout",
                 "prepare-commit-msg", "reference-transaction", "post-index-change"):  # fmt: skip
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    (folder / "ignore").write_text("*.py\n")
    (folder / "attributes").write_text("*.py text eol=crlf\n*.md export-ignore\n")
    (folder / "order").write_text("vllm/crlf.py\n")
    return folder


@pytest.mark.parametrize("source", ["sdist", "git"])
def test_a_hostile_git_setup_changes_no_id_and_no_byte(
    product: Product, second: Product, tmp_path: Path, source: str, patches: dict[str, bytes]
) -> None:
    hooks = hostile_hooks(tmp_path / "hooks")
    (product.home / ".gitconfig").write_text(HOSTILE.format(hooks=hooks))  # and no user.name
    other = tmp_path / "other"
    mini.git(tmp_path, "init", "--quiet", str(other))
    mini.commit(other, "Theirs", {"f": b"1"})
    before = snapshot(other)
    env = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
        "GIT_CONFIG_PARAMETERS": "'diff.noprefix=true'",
        "GIT_DIFF_OPTS": "--unified=1",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "POSIX",
        "TZ": "Asia/Kathmandu",
        "EMAIL": "other@example.invalid",
    }
    product.succeed("apply", SOURCE=source, GIT_URL=str(product.upstream.repo), **env)
    assert "3 of 3 patches unchanged" in product.succeed("export", **env)
    assert product.series() == patches
    assert snapshot(other) == before
    (product.home / ".gitconfig").unlink()
    if source == "git":
        (second.clone).rename(second.root / "gone")
        second.succeed("apply", SOURCE=source, GIT_URL=str(product.upstream.repo))
    assert product.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")


@pytest.mark.parametrize("state", ["product", "applied"])
def test_a_patch_that_does_not_apply_is_named_and_nothing_changes(
    state: str, request: pytest.FixtureRequest, patches: dict[str, bytes]
) -> None:
    product: Product = request.getfixturevalue(state)
    product.succeed("fetch")
    product.write_series(broken(patches))
    done = refuses(product, "apply")
    assert f"{SECOND} does not apply: vllm/a.py, hunk @@ -" in done.error
    header = next(line for line in patches[SECOND].decode().split("\n") if "@@ def line" in line)
    assert done.error.endswith(f"hunk {header}")
    assert "make apply RESOLVE=1" in done.hint


def test_every_failing_hunk_is_named(product: Product, patches: dict[str, bytes]) -> None:
    raw = broken(patches)[SECOND].replace(b"-two = 2\r", b"-two = 3\r")
    product.write_series(patches | {SECOND: raw})
    done = product.run("apply")
    assert "vllm/a.py, hunk @@" in done.error
    assert "vllm/crlf.py, hunk @@" in done.error


def test_a_patch_that_the_base_already_has_is_no_silent_success(
    product: Product, patches: dict[str, bytes]
) -> None:
    product.succeed("fetch")
    again = {THIRD.replace("0003", "0004"): patches[THIRD]}
    product.write_series(patches | again)
    done = refuses(product, "apply")
    assert "0004-Frontend-Add-a-module.patch does not apply: vllm/b.py, hunk @@" in done.error
    assert "; vllm/new.py: already exists in index" in done.error


def test_a_patch_for_a_missing_file_says_which(product: Product, patches: dict[str, bytes]) -> None:
    product.succeed("fetch")
    raw = patches[FIRST].replace(b"vllm/a.py", b"vllm/z.py")
    product.write_series(patches | {FIRST: raw})
    done = refuses(product, "apply")
    assert f"{FIRST} does not apply: vllm/z.py: does not exist" in done.error


def test_resolve_leaves_the_conflict_to_a_person_and_the_hint_mends_it(
    product: Product, patches: dict[str, bytes]
) -> None:
    text = broken(patches)[SECOND].decode()
    # The patch that needs mending creates a file, too: it must not get lost on the way.
    _, head, rest = patches[THIRD].decode().partition("diff --git a/vllm/new.py")
    created = f"{head}{rest}".partition("diff --git a/vllm/old.py")[0].replace("new", "born")
    created = created.replace("born file mode", "new file mode")
    product.write_series(patches | {SECOND: (text.rstrip("\n") + "\n" + created).encode()})
    done = product.run("apply", RESOLVE="1")
    assert done.code == 3, done
    assert f"{SECOND} does not apply: vllm/a.py, hunk @@" in done.error
    assert product.git("log", "-1", "--format=%s") == "[Core] Answer twice: a.py"
    assert product.run("status").out.count("an unfinished git am is open") == 1
    refuses(product, "apply")

    for command in done.hint.split("; "):
        if command.startswith("mend"):
            reject = product.clone / "vllm/a.py.rej"
            assert "return 280" in reject.read_text()
            reject.unlink()
            path = product.clone / "vllm/a.py"
            path.write_bytes(mini.edited(path.read_bytes(), ("return 28\n", "return 280\n")))
            continue
        step = product.shell(command.replace("make ", f"make PYTHON={product.command()[0]} "))
        assert step.code == (1 if " apply --reject " in command else 0), step

    assert b"vllm/born.py" in product.series()[SECOND]
    assert sorted(product.series()) == sorted(patches)
    assert "applied to" in product.succeed("apply")  # gives the person's commit its stable id
    assert "already applied to" in product.succeed("apply")
    assert "3 of 3 patches unchanged" in product.succeed("export", "--check")


def test_resolve_of_a_series_that_applies_is_a_plain_apply(
    product: Product, second: Product
) -> None:
    assert "3 patches applied" in product.succeed("apply", "--resolve")
    assert product.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")


def test_gaps_duplicates_and_strays_are_reported_at_once(
    applied: Product, patches: dict[str, bytes]
) -> None:
    applied.write_series(
        {
            FIRST: patches[FIRST],
            "0001-Again.patch": patches[FIRST],
            "0003-Two-mails.patch": patches[SECOND] + patches[THIRD],
            "notes.txt": b"",
        }
    )
    done = refuses(applied, "apply")
    for fault in ("number 0001 is used twice: 0001-Again.patch, " + FIRST,
                  "number 0002 is missing", "notes.txt is no numbered patch",
                  "0003-Two-mails.patch holds 2 mails"):  # fmt: skip
        assert fault in done.error


@pytest.mark.parametrize("joined", [SECOND + THIRD, FIRST + SECOND])
def test_two_mails_in_one_file_are_refused(
    applied: Product, patches: dict[str, bytes], joined: str
) -> None:
    one, two = (name for name in patches if name in joined)
    left = {n: raw for n, raw in patches.items() if n not in joined}
    names = sorted([one, *left])
    applied.write_series(
        {f"{i:04d}{n[4:]}": patches[n] + (patches[two] if n == one else b"")
         for i, n in enumerate(names, 1)}
    )  # fmt: skip
    assert "holds 2 mails, not one" in refuses(applied, "apply").error


def test_an_empty_series_gives_the_pin(applied: Product) -> None:
    applied.write_series({})
    assert "0 patches applied to" in applied.succeed("apply")
    assert applied.git("rev-parse", "HEAD") == applied.git("rev-parse", f"{mini.TAG}^{{commit}}")
    assert "0 patches already applied to" in applied.succeed("apply")
    assert "0 of 0 patches unchanged" in applied.succeed("export")


def test_a_changed_patch_file_replaces_its_commit(
    applied: Product, patches: dict[str, bytes]
) -> None:
    raw = patches[FIRST].replace(b"+    return 22", b"+    return 222")
    applied.write_series(patches | {FIRST: raw})
    assert "3 patches applied to" in applied.succeed("apply")
    assert "return 222\n" in (applied.clone / "vllm/a.py").read_text()
    assert applied.git("rev-list", "--count", f"{mini.TAG}..") == "3"


def test_a_removed_patch_file_drops_its_commit(applied: Product, patches: dict[str, bytes]) -> None:
    applied.write_series({n: raw for n, raw in patches.items() if n != THIRD})
    assert "2 patches applied to" in applied.succeed("apply")
    assert not (applied.clone / "vllm/new.py").exists()


def test_local_edits_are_refused(applied: Product, patches: dict[str, bytes]) -> None:
    applied.write_series({FIRST: patches[FIRST]})
    (applied.clone / "vllm/a.py").write_text("mine\n")
    (applied.clone / "vllm/crlf.py").unlink()
    applied.git("rm", "--quiet", "--cached", "docs/index.md")
    done = refuses(applied, "apply")
    assert "build/vllm has local edits: docs/index.md, vllm/a.py, vllm/crlf.py" in done.error
    assert "git -C build/vllm stash" in done.hint
    assert "local edits" in refuses(applied, "export").error
    applied.shell("git -C build/vllm stash")
    assert "1 patches applied" in applied.succeed("apply")
    assert applied.git("stash", "list").count("\n") == 0


@pytest.mark.parametrize("name", ["vllm/new.py", "vllm/trace.log"])
def test_an_untracked_file_in_the_way_is_kept(
    product: Product, patches: dict[str, bytes], name: str
) -> None:
    """Ignored ones (`*.log`) too: git alone would overwrite them."""
    product.write_series(patches | {THIRD: patches[THIRD].replace(b"vllm/new.py", name.encode())})
    product.succeed("fetch")
    (product.clone / name).write_text("mine\n")
    done = refuses(product, "apply")
    assert name in done.error
    assert "in the way" in done.error
    (product.clone / name).unlink()
    product.succeed("apply")


def test_untracked_files_that_are_not_in_the_way_stay(product: Product) -> None:
    product.succeed("fetch")
    (product.clone / "mine.txt").write_text("mine\n")
    product.succeed("apply")
    assert (product.clone / "mine.txt").read_text() == "mine\n"


def test_an_open_am_session_is_refused(applied: Product, patches: dict[str, bytes]) -> None:
    bad = applied.root / "bad.patch"
    bad.write_bytes(broken(patches)[SECOND])
    applied.shell(f"git -C build/vllm am '{bad}'")
    for verb in ("apply", "export"):
        done = refuses(applied, verb)
        assert "an unfinished git am is open in build/vllm" in done.error
        assert "git -C build/vllm am --abort" in done.hint
    applied.git("am", "--abort")
    assert "already applied" in applied.succeed("apply")


def test_an_open_rebase_is_refused(applied: Product) -> None:
    for first in ("break", "edit"):
        editor = f"sed -i '1s/^/break\\n/; 1s/^pick/{first}/'"
        applied.shell(f"git -C build/vllm rebase -i {mini.TAG}", GIT_SEQUENCE_EDITOR=editor)
        for verb in ("apply", "export"):
            done = refuses(applied, verb)
            assert "an unfinished git rebase is open" in done.error
            assert "rebase --abort" in done.hint
        applied.git("rebase", "--abort")
    assert "already applied" in applied.succeed("apply")


def test_commits_that_no_patch_file_holds_are_refused(
    applied: Product, patches: dict[str, bytes]
) -> None:
    (applied.clone / "vllm/a.py").write_text("mine\n")
    applied.git("commit", "--all", "--quiet", "--message", "Mine")
    applied.write_series({FIRST: patches[FIRST]})
    done = refuses(applied, "apply")
    assert f"{mini.BRANCH} has commits that patches/ has not: Mine" in done.error
    assert "make export to keep them" in done.hint
    assert applied.shell(done.hint.partition("aside: ")[2]).code == 0
    assert "1 patches applied" in applied.succeed("apply")
    assert applied.git("log", "-1", "--format=%s", "my-work") == "Mine"


def test_an_amended_commit_is_not_thrown_away(applied: Product) -> None:
    applied.git("commit", "--amend", "--quiet", "--message", "[Frontend] Add my module")
    done = refuses(applied, "apply")
    assert "[Frontend] Add my module" in done.error


def test_a_head_elsewhere_is_refused(applied: Product) -> None:
    applied.git("switch", "--quiet", "--create", "elsewhere")
    applied.git("commit", "--quiet", "--allow-empty", "--message", "Elsewhere")
    done = refuses(applied, "apply")
    assert "neither at the pin nor on overlay/v0.28.0" in done.error
    assert applied.shell(done.hint).code == 0
    assert "already applied" in applied.succeed("apply")


def test_a_detached_head_at_the_pin_is_brought_back(applied: Product) -> None:
    tip = applied.git("rev-parse", "HEAD")
    applied.git("checkout", "--quiet", "--detach", mini.TAG)
    assert "branch overlay/v0.28.0 is not checked out" in refuses(applied, "export").error
    assert "3 patches applied" in applied.succeed("apply")
    assert applied.git("rev-parse", mini.BRANCH) == applied.git("rev-parse", "HEAD") == tip


def test_a_detached_head_at_the_tip_is_refused(applied: Product) -> None:
    applied.git("checkout", "--quiet", "--detach")
    done = refuses(applied, "apply")
    assert applied.shell(done.hint).code == 0
    assert "already applied" in applied.succeed("apply")


def test_a_merge_on_the_branch_is_refused_and_the_hint_straightens_it(applied: Product) -> None:
    applied.git("switch", "--quiet", "--create", "side", "HEAD~1")
    applied.git("commit", "--quiet", "--allow-empty", "--message", "side")
    (applied.clone / "docs/index.md").write_text("# mine\n")
    applied.git("commit", "--quiet", "--all", "--message", "[Doc] Mine")
    applied.git("switch", "--quiet", mini.BRANCH)
    applied.git("merge", "--quiet", "--no-ff", "--message", "Merge", "side")
    for verb in ("apply", "export", "status"):
        done = refuses(applied, verb)
        assert "is a merge" in done.error
    assert applied.shell(done.hint).code == 0
    # What a rebase keeps of the side branch: one commit that is empty, one that is not.
    done = refuses(applied, "export")
    assert "changes nothing" in done.error
    assert applied.shell(done.hint).code == 0
    assert "Doc-Mine.patch" in applied.succeed("export")


def test_an_empty_commit_is_refused(applied: Product) -> None:
    applied.git("commit", "--quiet", "--allow-empty", "--message", "Nothing")
    for verb in ("apply", "export", "status"):
        done = refuses(applied, verb)
        assert "changes nothing; no patch file can hold it" in done.error
    assert applied.shell(done.hint).code == 0
    assert "already applied" in applied.succeed("apply")


def test_a_branch_that_does_not_stand_on_the_pin_is_refused(applied: Product) -> None:
    orphan = applied.git("commit-tree", "-m", "Alien", "HEAD^{tree}")
    applied.git("branch", "--force", "alien", orphan)
    applied.git("checkout", "--quiet", "--detach", mini.TAG)
    applied.git("branch", "--force", mini.BRANCH, "alien")
    done = refuses(applied, "apply")
    assert "does not stand on the pin" in done.error
    assert applied.shell(done.hint.partition("away: ")[2]).code == 0
    assert "3 patches applied" in applied.succeed("apply")


def test_two_applies_at_once_the_second_names_the_first(
    product: Product, held_git: HeldGit
) -> None:
    first = product.start("apply", PATH=held_git.path)
    held_git.wait()
    done = product.run("apply")
    assert done.code == 2
    assert f"`apply` (pid {first.pid}) is at work on build" in done.error
    assert done.hint.startswith("wait for it to end")
    held_git.release()
    out, err = first.communicate(timeout=30)
    assert (first.returncode, err) == (0, "")
    assert "3 patches applied" in out
    assert "already applied" in product.succeed("apply")


@pytest.mark.parametrize("state", ["product", "applied"])
def test_apply_works_again_after_kill_9_in_the_middle(
    state: str,
    request: pytest.FixtureRequest,
    held_git: HeldGit,
    patches: dict[str, bytes],
    second: Product,
) -> None:
    product: Product = request.getfixturevalue(state)
    product.succeed("fetch")
    if state == "applied":
        product.write_series({FIRST: patches[FIRST]})
    before = {k: v for k, v in snapshot(product.clone).items() if k != "worktrees"}
    running = product.start("apply", PATH=held_git.path)
    child = held_git.wait()
    for pid in (running.pid, child):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=30)
    assert list(product.root.glob("build/.scratch-*"))
    after = snapshot(product.clone)
    assert {k: v for k, v in after.items() if k != "worktrees"} == before
    assert "drift   " in product.succeed("status")

    product.succeed("apply")
    product.write_series(patches)
    product.succeed("apply")
    assert product.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")
    assert product.git("worktree", "list").count("\n") == 0
    assert not list(product.root.glob("build/.scratch-*"))
    assert "drift   none" in product.succeed("status")


@pytest.mark.parametrize("verb", ["apply", "export"])
def test_a_lock_that_a_killed_git_left_is_told_with_its_path(applied: Product, verb: str) -> None:
    """As after a kill in the middle of the checkout, with a file of it already written."""
    lock = applied.clone / ".git/index.lock"
    lock.touch()
    (applied.clone / "vllm/a.py").write_text("half\n")
    done = refuses(applied, verb)
    assert done.error == "git's index in build/vllm is locked"
    assert "drift   git's index is locked: " in applied.succeed("status")
    assert applied.shell(done.hint.split(": ")[1]).code == 0
    assert "has local edits: vllm/a.py" in refuses(applied, verb).error


def test_any_lock_of_gits_is_told_with_its_path(applied: Product) -> None:
    lock = applied.clone / ".git/refs/heads/mine.lock"
    lock.touch()
    with pytest.raises(GitError) as caught:
        Git(applied.clone).raw("update-ref", "refs/heads/mine", "HEAD")
    assert caught.value.hint == f"if no git is at work there, one was killed: rm '{lock}'"


def test_an_absent_worktree_of_the_persons_stays_on_gits_list(
    product: Product, tmp_path: Path
) -> None:
    product.succeed("fetch")
    product.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "mine"))
    (tmp_path / "mine").rename(tmp_path / "unplugged")
    product.succeed("apply")
    assert str(tmp_path / "mine") in product.git("worktree", "list")


def test_no_git_on_the_path_is_told(product: Product, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = product.run("apply", PATH=str(tmp_path / "empty"))
    assert (done.code, done.error) == (2, "git is not installed")
    assert done.hint == "install it: apt-get install g++ git"
    assert not product.clone.exists()


def test_a_clone_of_another_pin_is_not_taken(applied: Product) -> None:
    path = applied.patches / "upstream.json"
    other = json.loads(path.read_text()) | {"commit": "1" * 40}
    path.write_text(json.dumps(other))
    done = refuses(applied, "apply")
    assert f"build/vllm is not at the pin: it has no commit {'1' * 40}" in done.error
    assert "mv build/vllm build/vllm.old" in done.hint
