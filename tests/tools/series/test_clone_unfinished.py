"""What somebody began in build/vllm and did not end: each named, with its own way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tools import mini
from tests.tools.product import Product, snapshot, tree
from tests.tools.series.test_stack_apply import SECOND, broken, refuses

SIDE = ("return 2\n", "return 3\n")


def side(product: Product) -> None:
    """A branch `side` that changes what the first patch changes."""
    product.git("checkout", "--quiet", "-b", "side", mini.TAG)
    path = product.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), SIDE))
    product.git("commit", "--quiet", "--all", "--message", "Three")
    product.git("switch", "--quiet", mini.BRANCH)


BEGIN = {
    "cherry-pick": "cherry-pick side",
    "revert": "revert --no-edit HEAD~3",
    "merge": "merge side",
    "rebase": "rebase side",
    "bisect": "bisect start",
}


@pytest.mark.parametrize("command", list(BEGIN))
@pytest.mark.parametrize("verb", ["apply", "export"])
def test_it_is_named_and_the_way_out_works(applied: Product, command: str, verb: str) -> None:
    side(applied)
    if command == "revert":  # of what a later commit changed
        path = applied.clone / "vllm/a.py"
        path.write_bytes(mini.edited(path.read_bytes(), ("return 22\n", "return 222\n")))
        applied.git("commit", "--quiet", "--all", "--message", f"More\n\nWhy.\n\n{mini.TRAILERS}")
        applied.succeed("export")
        applied.succeed("apply")
    tip = applied.git("rev-parse", mini.BRANCH)
    applied.shell(f"git -C build/vllm {BEGIN[command]}")
    done = refuses(applied, verb)
    assert done.error == f"an unfinished git {command} is open in build/vllm"
    assert f"an unfinished git {command} is open: git {command} " in applied.succeed("status")
    way = done.hint.rpartition(": ")[2]
    assert applied.shell(way).code == 0
    assert applied.git("rev-parse", mini.BRANCH) == tip
    assert "already applied" in applied.succeed("apply")


def test_files_in_conflict_without_a_session_are_no_local_edits(applied: Product) -> None:
    path = applied.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), ("return 9\n", "return 99\n")))
    applied.git("stash")
    path.write_bytes(mini.edited(path.read_bytes(), ("return 9\n", "return 999\n")))
    applied.git("commit", "--quiet", "--all", "--message", f"Nine\n\nWhy.\n\n{mini.TRAILERS}")
    applied.shell("git -C build/vllm stash pop")
    done = refuses(applied, "export")
    assert done.error == "build/vllm has files in conflict: vllm/a.py"
    assert applied.shell(done.hint.rpartition("give that up: ")[2]).code == 0
    assert applied.git("stash", "list")
    applied.succeed("export")


def test_a_rejected_hunk_that_was_forgotten_stops_the_export(
    product: Product, patches: dict[str, bytes]
) -> None:
    product.write_series(broken(patches))
    done = product.run("apply", RESOLVE="1")
    for command in done.hint.split("; "):
        if not command.startswith(("mend", "make")):
            product.shell(command)
    reject = product.clone / "vllm/a.py.rej"
    assert reject.exists()
    before = tree(product.patches)
    for check in ("0", "1"):
        done = product.run("export", CHECK=check)
        assert done.error == "build/vllm has rejected hunks: vllm/a.py.rej"
    assert tree(product.patches) == before
    assert "untracked: vllm/a.py.rej" in product.succeed("status")
    assert product.shell(done.hint.rpartition("then ")[2]).code == 0
    assert not reject.exists()


def test_conflict_markers_in_a_commit_stop_the_export(applied: Product) -> None:
    path = applied.clone / "vllm/a.py"
    path.write_bytes(b"<<<<<<< ours\n" + path.read_bytes())
    applied.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    before = tree(applied.patches)
    done = applied.run("export")
    assert done.error == "commits hold what was not mended: 0003 vllm/a.py:1: <<<<<<< ours"
    assert (done.code, tree(applied.patches)) == (2, before)


def test_the_branch_is_not_moved_under_another_worktree(
    applied: Product, patches: dict[str, bytes], tmp_path: Path
) -> None:
    applied.git("switch", "--quiet", "--detach", mini.TAG)
    other = tmp_path / "it's other"
    applied.git("worktree", "add", "--quiet", str(other), mini.BRANCH)
    (other / "docs/index.md").write_text("# mine\n")
    applied.write_series({name: raw for name, raw in patches.items() if name != SECOND})
    renamed = dict(zip(sorted(applied.series()), sorted(applied.series()), strict=True))
    last = sorted(renamed)[-1]
    (applied.patches / last).rename(applied.patches / last.replace("0003", "0002"))
    before = snapshot(applied.clone), snapshot(other)
    done = applied.run("apply")
    assert (done.code, f"is checked out in another worktree, {other}" in done.error) == (2, True)
    assert (snapshot(applied.clone), snapshot(other)) == before
    assert applied.shell(done.hint.partition(", then")[0]).code == 0
    assert "2 patches applied" in applied.succeed("apply")
    assert (other / "docs/index.md").read_text() == "# mine\n"


@pytest.mark.parametrize("state", ["empty", "no commit", "broken"])
def test_a_work_clone_that_is_none_says_how_to_get_another(applied: Product, state: str) -> None:
    if state == "broken":
        (applied.clone / ".git/HEAD").write_text("")
    else:
        shutil.rmtree(applied.clone)
        applied.clone.mkdir()
    if state == "no commit":
        mini.write(applied.clone, {"vllm/__init__.py": b""})
        mini.git(applied.clone, "init", "--quiet")
    done = applied.run("apply")
    assert (done.code, done.hint.startswith("move it away: ")) == (2, True), done
    move, _, again = done.hint.removeprefix("move it away: ").partition("; ")
    assert applied.shell(move).code == 0
    assert again == "make apply"
    assert "3 patches applied" in applied.succeed("apply")


def test_a_body_line_that_begins_a_mail_is_named_where_it_is_applied(applied: Product) -> None:
    message = (
        f"[Core] More\n\nWhy.\n\nFrom alice@example.com Thu Nov  5 10:11:12 2026\n\n{mini.TRAILERS}"
    )
    (applied.clone / "docs/index.md").write_text("# more\n")
    applied.git("commit", "--quiet", "--all", "--message", message)
    applied.succeed("export")
    assert "starts another: 'From alice@example.com" in applied.run("lint").out
    done = refuses(applied, "apply")
    assert "0004-Core-More.patch holds 2 mails, not one: line 11 starts another" in done.error


def test_a_line_added_by_hand_is_named_with_its_hunk(
    applied: Product, patches: dict[str, bytes]
) -> None:
    raw = patches[SECOND].replace(b"+    return 280\n", b"+    return 280\n+    # by hand\n")
    applied.write_series(patches | {SECOND: raw})
    done = refuses(applied, "apply")
    assert "lines before and 7 after, and holds 7 and 8" in done.error
    assert "git checkout patches/" in done.hint
