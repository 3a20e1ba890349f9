"""Export: the commits become the series, byte for byte what apply takes."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.tools import mini
from tests.tools.product import Product, snapshot, tree

FIRST = "0001-Core-Answer-twice-a.py.patch"
SECOND = "0002-Bugfix-MM-Keep-carriage-returns.patch"
THIRD = "0003-Frontend-Add-a-module.patch"


KILLER = """\
import os, signal, sys

left = int(os.environ["STEPS"])

def hook(event, args):
    global left
    changes = event in ("os.rename", "os.remove") or (event == "open" and "w" in str(args[1]))
    if changes and "/patches/" in str(args[0]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""


def rebase(product: Product, script: str) -> None:
    """`git rebase -i` with a sed script in the place of the person's editor."""
    line = f"git -C build/vllm rebase --quiet --interactive --autosquash {mini.TAG}"
    done = product.shell(line, GIT_SEQUENCE_EDITOR=f"sed -i '{script}'")
    assert done.code == 0, done


def test_export_after_apply_changes_nothing(applied: Product, patches: dict[str, bytes]) -> None:
    before = tree(applied.root)
    assert applied.succeed("export") == "3 of 3 patches unchanged\n"
    assert applied.succeed("export", "--check") == "3 of 3 patches unchanged\n"
    assert applied.series() == patches
    assert tree(applied.root) == before


def test_an_edited_commit_changes_exactly_its_file(
    applied: Product, patches: dict[str, bytes]
) -> None:
    path = applied.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), ("return 22\n", "return 222\n")))
    first = applied.git("rev-parse", "HEAD~2")
    applied.git("commit", "--quiet", "--all", f"--fixup={first}")
    rebase(applied, "")
    check = applied.run("export", "--check")
    # The later patch to the same file carries its new blob ids.
    assert check.out.split("\n")[:2] == [f"differs  {FIRST}", f"differs  {SECOND}"]
    said = applied.succeed("export")
    assert said == f"written  {FIRST}\nwritten  {SECOND}\n1 of 3 patches unchanged\n"
    now = applied.series()
    assert now[THIRD] == patches[THIRD]
    blobs = [line for line in now[SECOND].split(b"\n") if not line.startswith(b"index ")]
    assert blobs == [x for x in patches[SECOND].split(b"\n") if not x.startswith(b"index ")]
    applied.succeed("apply")
    assert applied.series() == now
    assert "3 of 3 patches unchanged" in applied.succeed("export", "--check")


def test_a_new_commit_gets_the_next_number(applied: Product, patches: dict[str, bytes]) -> None:
    (applied.clone / "docs/index.md").write_text("# mine\n")
    applied.git("commit", "--quiet", "--all", "--message", f"[Doc] Mine\n\nWhy.\n\n{mini.TRAILERS}")
    assert "written  0004-Doc-Mine.patch\n3 of 4" in applied.succeed("export")
    assert {n: r for n, r in applied.series().items() if n in patches} == patches
    assert (
        b"\nFrom: a maintainer <maintainer@example.invalid>\n"
        in (applied.series()["0004-Doc-Mine.patch"])
    )
    assert "4 patches applied" in applied.succeed("apply")
    assert "4 patches already applied" in applied.succeed("apply")
    assert "4 of 4 patches unchanged" in applied.succeed("export", "--check")


def test_a_dropped_commit_removes_its_file_and_renumbers(
    applied: Product, patches: dict[str, bytes]
) -> None:
    rebase(applied, "2d")
    said = applied.succeed("export")
    assert said == (
        "written  0002-Frontend-Add-a-module.patch\n"
        f"removed  {SECOND} (kept in build/removed/)\n"
        f"removed  {THIRD} (kept in build/removed/)\n1 of 2 patches unchanged\n"
    )
    assert applied.series() == {FIRST: patches[FIRST], f"0002{THIRD[4:]}": patches[THIRD]}


def test_export_keeps_a_patch_that_was_put_there_and_never_applied(applied: Product) -> None:
    (applied.patches / "0004-Mine.patch").write_bytes(b"not applied yet\n")
    applied.succeed("export")
    assert (applied.root / "build/removed/0004-Mine.patch").read_bytes() == b"not applied yet\n"


def test_reordered_commits_rename_the_files(applied: Product, patches: dict[str, bytes]) -> None:
    rebase(applied, "1{h;d}; 2G")
    applied.succeed("export")
    assert sorted(applied.series()) == [
        f"0001{SECOND[4:]}", f"0002{FIRST[4:]}", THIRD,
    ]  # fmt: skip
    assert applied.series()[THIRD] == patches[THIRD]
    applied.succeed("apply")
    assert "3 of 3 patches unchanged" in applied.succeed("export", "--check")


def test_check_finds_a_difference_and_writes_nothing(applied: Product) -> None:
    (applied.clone / "docs/index.md").write_text("# mine\n")
    applied.git("commit", "--quiet", "--all", "--message", "[Doc] Mine")
    (applied.patches / "0009-Stray.patch").write_text("")
    before = tree(applied.root)
    done = applied.run("export", CHECK="1")
    assert done.code == 1
    assert "differs  0004-Doc-Mine.patch\nno commit  0009-Stray.patch\n" in done.out
    assert done.error == f"patches/ is not what {mini.BRANCH} holds"
    assert "make export" in done.hint
    assert "make apply" in done.hint
    assert tree(applied.root) == before
    assert "removed  0009-Stray.patch" in applied.succeed("export", CHECK="0")


def test_export_before_apply_is_refused(product: Product) -> None:
    before = product.series()
    done = product.run("export")
    assert done.code == 2
    assert "build/vllm is not there yet" in done.error
    assert done.hint == "make apply"
    product.succeed("fetch")
    done = product.run("export")
    assert done.code == 2
    assert "export would remove all 3 patches" in done.error
    assert done.hint.startswith("make apply")
    assert product.series() == before


def test_an_export_that_was_killed_is_taken_up(applied: Product, patches: dict[str, bytes]) -> None:
    """A kill can leave part files; they do no harm, and the next export clears them."""
    (applied.patches / f".{FIRST}.part").write_text("half")
    assert "make export" in applied.run("apply").hint
    applied.succeed("export")
    assert applied.series() == patches


def test_no_moment_of_an_export_has_fewer_patches(
    applied: Product, patches: dict[str, bytes], tmp_path: Path
) -> None:
    """Kill the export before its first change of `patches/`, before its second, and so on."""
    rebase(applied, "1{h;d}; 2G; 3d")
    wanted = {f"0001{SECOND[4:]}", f"0002{FIRST[4:]}"}
    (tmp_path / "sitecustomize.py").write_text(KILLER)
    subjects = {raw.split(b"\nSubject: ")[1].split(b"\n")[0] for raw in patches.values()}
    seen = set()
    for steps in range(20):
        applied.write_series(patches)
        done = applied.run("export", STEPS=str(steps), PYTHONPATH=str(tmp_path))
        now = {n: raw for n, raw in applied.series().items() if not n.endswith(".part")}
        held = {raw.split(b"\nSubject: ")[1].split(b"\n")[0] for raw in now.values()}
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL
        assert len(now) >= 2
        assert held >= subjects - {b"[Frontend] Add a module"}
        seen.add(frozenset(now))
    assert set(now) == wanted
    assert len(seen) > 2
    assert not list(applied.patches.glob(".*.part"))


def test_the_clone_is_not_changed_by_export(applied: Product) -> None:
    (applied.clone / "mine.txt").write_text("mine\n")
    before = snapshot(applied.clone)
    applied.write_series({})
    assert applied.succeed("export").count("written") == 3
    assert snapshot(applied.clone) == before


SUBJECTS = [
    "A subject with  two blanks", "[Tag] \u00dcberall: caf\u00e9 & th\u00e9", "\u65e5\u672c\u8a9e",
    "..dots... and --dashes--", "x" * 90, "[A][B]: `code` (#123)", "ends with a dot.",
    "[PATCH] kept", "Re: kept too", "a\u2028line separator",
]  # fmt: skip


def test_any_subject_survives_the_round_trip(applied: Product) -> None:
    for number, subject in enumerate(SUBJECTS):
        (applied.clone / "docs/index.md").write_text(f"# {number}\n")
        message = f"{subject}\n\nWhy.\n\n{mini.TRAILERS}"
        applied.git("commit", "--quiet", "--all", "--message", message)
    applied.succeed("export")
    written = applied.series()
    assert len(written) == 3 + len(SUBJECTS)
    assert f"{len(written)} patches applied" in applied.succeed("apply")
    log = applied.git("log", "--reverse", "--format=%s", f"{mini.TAG}..").split("\n")
    assert log[3:] == SUBJECTS
    applied.succeed("export")
    assert applied.series() == written
    assert "file-name" not in applied.run("lint").out
