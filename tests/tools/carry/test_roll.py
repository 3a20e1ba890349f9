"""Roll: the pin moves to a new release with all that belongs to it, or nothing moves."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.carry import bare, roll
from scripts.core import layout
from scripts.environment import later
from scripts.release import lookup, pin, source
from scripts.series import mails
from tests.tools import mini, server
from tests.tools.product import REPO, Done, Product, put_python, snapshot, tree
from tests.tools.series.test_stack_apply import FIRST, SECOND, THIRD

NEW = "v0.29.0"
SHIFT = ("Write more", {"vllm/a.py": b"# more\n" * 30 + mini.FILES["vllm/a.py"]})
A = mini.FILES["vllm/a.py"]
Index = server.Index


@pytest.fixture
def index() -> Iterator[server.Index]:
    with server.serving({}) as found:
        yield found


def release(
    product: Product, index: Index, folder: Path, *commits: tuple[str, dict[str, bytes]]
) -> mini.Upstream:
    """Publish v0.29.0 with these commits after the pinned release."""
    new = mini.release(product.upstream, folder, NEW, *commits)
    index.projects["vllm"] = {"vllm-0.29.0.tar.gz": new.sdist}
    return new


def run(product: Product, index: Index, new: mini.Upstream | None, **env: str) -> Done:
    """Roll to v0.29.0, with the hash and the commit of `new` as a person gives them."""
    given = {"SHA256": mini.digest(new.sdist), "COMMIT": new.commit} if new else {}
    return product.run("roll", **({"TAG": NEW, "PIP_INDEX_URL": index.url} | given | env))


def fates(done: Done) -> dict[str, str]:
    """Patch name -> its verdict."""
    lines = [line.partition(".patch: ") for line in done.out.split("\n")]
    return {f"{name}.patch": said for name, at, said in lines if at}


def told(done: Done, name: str) -> str:
    """What stands below the verdict of a patch."""
    after = done.out.split(f"\n{name}: ")[1].split("\n")[1:]
    return "\n".join(line for line in after if line.startswith("  "))


def everything(product: Product) -> tuple[object, ...]:
    return snapshot(product.clone), tree(product.patches), tree(product.root / "build" / "kept")


def test_latest_is_the_newest_release_on_the_index(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    older = {f"vllm-{version}.tar.gz": b"" for version in ("0.9.0", "0.28.1", "0.30.0rc1")}
    index.projects["vllm"] |= older

    done = run(applied, index, new, TAG="latest", DRY_RUN="1")

    assert done.code == 0, done
    assert NEW in done.out


def test_latest_has_nothing_to_do_where_the_pin_is_the_newest(
    applied: Product, index: Index
) -> None:
    index.projects["vllm"] = {mini.SDIST: applied.upstream.sdist}
    done = run(applied, index, None, TAG="latest")
    assert (done.code, done.out) == (0, "vllm v0.28.0, the pin, is the newest release\n")


def test_it_moves_pin_patches_and_clone_and_apply_has_nothing_to_do(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    done = run(applied, index, new)
    assert done.code == 0, done
    assert fates(done) == {
        FIRST: "upstreamed differently", SECOND: "shifted", THIRD: "unchanged",
    }  # fmt: skip
    assert "v0.29.0 has #1, first in v0.29.0" in told(done, FIRST)
    assert "ours is carried (clean)" in told(done, FIRST)
    assert "did not run on v0.29.0: v0.29.0 does not say which versions" in told(done, FIRST)
    moved = pin.read(applied.patches / "upstream.json")
    assert (moved.tag, moved.commit) == (NEW, new.commit)
    assert moved.sdist == pin.Artefact("vllm", "vllm-0.29.0.tar.gz", len(new.sdist),
                                       mini.digest(new.sdist))  # fmt: skip
    assert applied.git("branch", "--show-current") == "overlay/v0.29.0"
    assert (applied.clone / "vllm/a.py").read_text().startswith("# more\n")
    assert "3 patches already applied" in applied.succeed("apply")
    assert "3 of 3 patches unchanged" in applied.succeed("export", "--check")
    assert applied.run("lint").code == 0
    # A colleague without any clone gets the same tree.
    tip = applied.git("rev-parse", "HEAD")
    applied.clone.rename(applied.root / "build/old")
    assert "3 patches applied to vllm v0.29.0" in applied.succeed("apply")
    assert applied.git("rev-parse", "HEAD") == tip


def test_the_way_back_is_printed_and_works(applied: Product, index: Index, tmp_path: Path) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    mini.git(applied.root, "init", "--quiet")
    mini.git(applied.root, "add", "patches")
    mini.commit(applied.root, "Ours", {})
    before = tree(applied.patches), applied.git("rev-parse", "HEAD")
    done = run(applied, index, new)
    assert applied.shell(done.out.split("  back: ")[1]).code == 0
    assert (tree(applied.patches), applied.git("rev-parse", "HEAD")) == before
    assert "3 patches already applied to vllm v0.28.0" in applied.succeed("apply")
    assert run(applied, index, new).code == 0  # and forth again


def test_a_dry_run_reports_and_changes_nothing(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    release(applied, index, tmp_path, SHIFT)
    (applied.clone / "docs/index.md").write_text("# mine\n")
    before = everything(applied)
    done = run(applied, index, None, DRY_RUN="1")
    assert done.code == 0, done
    assert fates(done)[THIRD] == "unchanged"
    assert "commit unknown" in done.out
    assert everything(applied) == before
    report = (applied.root / "build/reports/roll-v0.29.0.range-diff").read_text()
    assert "[Frontend] Add a module" in report
    assert "the whole range-diff: build/reports/roll-v0.29.0.range-diff" in done.out


@pytest.mark.parametrize("kind", ["sdist", "git"])
def test_a_change_that_the_release_has_verbatim_leaves_the_series(
    applied: Product, index: Index, tmp_path: Path, kind: str
) -> None:
    text = mini.edited(A, ("return 2\n", "return 22\n"))
    new = release(applied, index, tmp_path, ("Answer (#1)", {"vllm/a.py": text}))
    done = run(applied, index, new, SOURCE=kind, GIT_URL=str(new.repo))
    assert done.code == 0, done
    assert fates(done)[FIRST] == "upstreamed, not carried"
    names = list(applied.series())
    assert names == [f"0001{SECOND[4:]}", f"0002{THIRD[4:]}"]
    kept = sorted(path.name for path in (applied.root / "build/removed").iterdir())
    assert FIRST in kept


def test_a_change_that_the_release_has_otherwise_is_for_a_person_to_decide(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    text = mini.edited(A, ("    return 2\n", "    two = 22\n    return two\n"))
    new = release(applied, index, tmp_path, ("Answer (#1)", {"vllm/a.py": text}))
    before = everything(applied)
    done = run(applied, index, new)
    assert done.code == 3, done
    assert fates(done)[FIRST] == "upstreamed differently, not carried"
    assert "v0.29.0 has #1, first in v0.29.0" in told(done, FIRST)
    assert "conflicts in vllm/a.py" in told(done, FIRST)
    assert everything(applied)[:2] == before[:2]

    again = run(applied, index, new)
    assert (again.code, again.hint) == (3, done.hint)
    kept = "build/kept/roll-v0.29.0"
    assert applied.shell(f"git -C {kept} cherry-pick --skip").code == 0
    assert f"make roll TAG=v0.29.0 SHA256={mini.digest(new.sdist)} COMMIT=" in done.hint
    done = run(applied, index, new)
    assert done.code == 0, done
    assert fates(done) == {
        FIRST: "upstreamed differently, not carried", SECOND: "shifted", THIRD: "unchanged",
    }  # fmt: skip
    assert "left out by hand" in told(done, FIRST)
    assert not (applied.root / kept).exists()
    assert len(applied.series()) == 2
    assert "2 patches already applied to vllm v0.29.0" in applied.succeed("apply")


def test_a_patch_on_one_that_conflicts_is_not_tried_and_says_so(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    file = applied.clone / "vllm/a.py"
    file.write_bytes(mini.edited(file.read_bytes(), ("return 22\n", "return 222\n")))
    message = f"[Core] More\n\nWhy.\n\n{mini.TRAILERS}"
    applied.git("commit", "--quiet", "--all", "--message", message)
    applied.succeed("export")
    text = mini.edited(A, ("    return 2\n", "    return 3\n"))
    release(applied, index, tmp_path, ("Three", {"vllm/a.py": text}))

    done = run(applied, index, None, DRY_RUN="1")

    assert done.code == 3, done
    fourth = "0004-Core-More.patch"
    assert fates(done)[fourth] == "upstreamed differently, not carried"
    assert "ours was not tried, it needs 0001" in told(done, fourth)


def test_giving_up_restores_everything(applied: Product, index: Index, tmp_path: Path) -> None:
    text = mini.edited(A, ("    return 2\n", "    return 3\n"))
    new = release(applied, index, tmp_path, ("Three", {"vllm/a.py": text}))
    before = everything(applied)
    done = run(applied, index, new)
    assert done.code == 3, done
    assert applied.shell(done.hint.split("or drop it all: ")[1]).code == 0
    assert everything(applied) == before


def test_a_conflict_that_a_person_mends(applied: Product, index: Index, tmp_path: Path) -> None:
    text = mini.edited(A, ("    return 28\n", "    return 3\n"))
    new = release(applied, index, tmp_path, ("Three", {"vllm/a.py": text}))
    done = run(applied, index, new)
    assert (done.code, fates(done)[SECOND]) == (3, "conflict, not carried"), done
    assert told(done, SECOND).strip().split("\n")[0] == "vllm/a.py"
    kept = applied.root / "build/kept/roll-v0.29.0"
    text = mini.edited(text, ("return 2\n", "return 22\n"), ("    return 3\n", "    return 380\n"))
    (kept / "vllm/a.py").write_bytes(text)
    _, add, go_on, *_ = done.hint.split("; ")
    assert applied.shell(add).code == 0
    assert applied.shell(go_on.partition(" (")[0]).code == 0
    done = run(applied, index, new)
    assert done.code == 0, done
    assert (applied.clone / "vllm/a.py").read_bytes() == text
    assert fates(done)[SECOND] == "shifted"
    assert applied.run("apply").code == 0
    assert "3 of 3 patches unchanged" in applied.succeed("export", "--check")


def test_by_git_the_history_says_which_pull_requests_a_release_has(
    product: Product, index: Index, tmp_path: Path
) -> None:
    text = mini.edited(A, ("    return 28\n", "    return 281\n"))
    new = release(product, index, tmp_path, ("Keep (#2)", {"vllm/a.py": text}))
    product.succeed("apply", SOURCE="git")
    done = run(product, index, new, SOURCE="git", GIT_URL=str(new.repo))
    assert done.code == 3, done
    assert fates(done)[SECOND] == "upstreamed differently, not carried"
    assert f"{new.commit[:12]} Keep (#2) (pull request 2)" in told(done, SECOND)


def test_a_release_that_has_it_all_leaves_the_pin(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    applied.write_series({FIRST: applied.series()[FIRST]})
    applied.succeed("apply")
    text = mini.edited(A, ("return 2\n", "return 22\n"))
    new = release(applied, index, tmp_path, ("Answer (#1)", {"vllm/a.py": text}))
    before = everything(applied)
    done = run(applied, index, new)
    assert done.code == 0, done
    assert "nothing is left to carry on v0.29.0; the pin stays v0.28.0" in done.out
    assert everything(applied) == before


def test_hashes_want_a_confirmation(applied: Product, index: Index, tmp_path: Path) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    before = everything(applied)
    done = run(applied, index, None, COMMIT=new.commit)
    sha256 = mini.digest(new.sdist)
    assert f"  {sha256}  vllm-0.29.0.tar.gz ({len(new.sdist)} bytes)" in done.out
    assert (done.code, done.error) == (
        2,
        "nobody confirmed the hashes of v0.29.0; nothing was changed",
    )
    assert done.hint == f"compare them, then make roll TAG=v0.29.0 SHA256={sha256}"
    other = run(applied, index, None, COMMIT=new.commit, SHA256="0" * 64)
    assert (other.code, "has vllm-0.29.0.tar.gz with sha256" in other.error) == (2, True)
    assert everything(applied) == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_a_person_at_a_terminal_is_asked(
    applied: Product, index: Index, tmp_path: Path, answer: str, code: int
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    leader, follower = pty.openpty()
    os.write(leader, f"{answer}\n".encode())
    env = applied.env(PIP_INDEX_URL=index.url, TAG=NEW, COMMIT=new.commit)
    done = subprocess.run(applied.command("roll"), cwd=applied.root, env=env, stdin=follower,
                          capture_output=True, text=True)  # fmt: skip
    os.close(leader)
    os.close(follower)
    assert done.returncode == code, done
    assert "take this pin? [y/N]" in done.stdout


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"TAG": ""}, "'' is no tag of a release"),
        ({"TAG": "main"}, "'main' is no tag of a release"),
        ({"TAG": mini.TAG}, "v0.28.0 is the pin already"),
        ({"TAG": "v0.99.0"}, "the configured package index has no vllm 0.99.0"),
        ({"COMMIT": "abc"}, "COMMIT=abc is no full commit id"),
        ({"COMMIT": "", "GIT_URL": "/none"}, "the commit of v0.29.0 is unknown"),
        ({"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}, "could not read the files of vllm"),
        ({"DRY_RUN": "false"}, "--dry-run: 'false' is none of 0, 1"),
    ],
)
def test_what_cannot_be_is_told(
    applied: Product, index: Index, tmp_path: Path, env: dict[str, str], said: str
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    before = everything(applied)
    done = run(applied, index, new, **env)
    assert (done.code, said in done.err) == (2, True), done
    assert everything(applied) == before


def test_work_in_the_clone_is_not_rolled_over(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    (applied.clone / "docs/index.md").write_text("# mine\n")
    before = everything(applied)
    assert "has local edits" in run(applied, index, new).error
    assert everything(applied) == before
    applied.git("commit", "--quiet", "--all", "--message", "Mine")
    assert "has commits that patches/ has not" in run(applied, index, new).error


def test_files_in_the_way_stop_it_before_anything_moves(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    new = release(applied, index, tmp_path, ("More", {"vllm/more.py": b"x = 1\n"}))
    (applied.clone / "vllm/more.py").write_text("mine\n")
    before = everything(applied)
    done = run(applied, index, new)
    assert (done.code, "are in the way: vllm/more.py" in done.error) == (2, True), done
    assert everything(applied) == before


def test_the_sdist_says_which_commit_it_was_made_from(
    applied: Product, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"__commit_id__ = commit_id = 'g0123456789'\n"
    monkeypatch.setitem(mini.GENERATED, "vllm/_version.py", text)
    new = release(applied, index, tmp_path, SHIFT)
    before = everything(applied)
    done = run(applied, index, new)
    assert (done.code, "was made from 0123456789, not from" in done.error) == (2, True), done
    assert everything(applied) == before


def test_a_checkout_of_a_persons_own_is_not_rolled(
    applied: Product, index: Index, tmp_path: Path, adopted: Path
) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    before = snapshot(adopted)
    done = run(applied, index, new, VLLM_DIR=str(adopted))
    assert (done.code, done.hint) == (2, "leave VLLM_DIR out")
    assert snapshot(adopted) == before


REGRESSION = """\
import vllm.a

def test_it_answers():
    assert vllm.a.line_2() == 22

def test_it_does_more():
    assert vllm.a.line_3() == {three}
"""


@pytest.mark.parametrize("three", [3, 33])
def test_only_its_own_tests_drop_a_patch(
    applied: Product, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, three: int
) -> None:
    """On the bare release, in an environment that here is pytest with the release in its path."""
    test = applied.root / "tests/regression/test_mini.py"
    test.write_text(REGRESSION.format(three=three))
    text = mini.edited(A, ("    return 2\n", "    two = 22\n    return two\n"))
    new = release(applied, index, tmp_path, ("Answer (#1)", {"vllm/a.py": text}))

    def install(where: layout.Layout, new: pin.Pin, **_: object) -> layout.Layout:
        there = later.place(where, new.tag)
        later.root(where, there)
        source.fetch(there, new, "sdist", "")
        put_python(there.venv / "bin" / "python", PYTHONPATH=str(there.clone))
        return there

    monkeypatch.setattr(later, "install", install)
    monkeypatch.setattr(later, "lacks", lambda _there: "")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    where = layout.Layout.of(applied.root, None)
    old = pin.read(where.pin_file)
    wish = lookup.Wish(NEW, new.commit)
    said: list[str] = []
    new_pin = lookup.propose(where, old, wish)
    patches = mails.load(where.patches)
    done = roll.roll(where, old, new_pin, patches, wish, dict, dry_run=True, say=said.append)
    first = done.fates[0]
    assert first.verdict == "upstreamed differently"
    if three == 3:
        assert "2 of 2 of its regression tests pass on bare v0.29.0" in first.details
        assert not first.stops
    else:
        (line,) = [one for one in first.details if "1 of 2 of its regression tests pass" in one]
        assert line.endswith("needed for\n    test_it_does_more: AssertionError: assert 3 == 33")
        assert first.stops
    assert not first.carried


BARE = {
    "finds": "def test_a(): pass\ndef test_b(): assert 1 == 2\n",
    "errs": """\
def test_c():
    try:
        raise KeyError("size")
    except KeyError as error:
        raise ValueError("cannot process it") from error
""",
    "lacks": """\
import os, pytest
@pytest.mark.parametrize("n", [1, 2])
def test_d(n): os.new
""",
    "gone": "from os import no_such_name\n",
    "crash": "import os\ndef test_e(): os._exit(7)\n",
}


def test_what_a_test_finds_is_told_apart_from_errors_and_from_what_does_not_run(
    applied: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that crashes in one module does not hide what the others find."""
    where = layout.Layout.of(applied.root, None)
    where.reports.mkdir(exist_ok=True)
    put_python(where.venv / "bin" / "python")
    monkeypatch.setattr(later, "install", lambda *_, **__: where)
    monkeypatch.setattr(later, "lacks", lambda _there: "")
    monkeypatch.setattr(bare, "lend_pinned", lambda *_: None)
    modules = {f"tests/regression/test_{name}.py": text for name, text in BARE.items()}
    mini.write(where.root, {path: text.encode() for path, text in modules.items()})
    trailers = "\n".join(f"Regression-Test: {path}" for path in modules).encode()
    raw = applied.series()[THIRD]  # it adds `new`
    raw = raw.replace(b"Regression-Test: tests/regression/test_mini.py", trailers)
    patch = mails.parse(THIRD, raw)

    old = pin.read(where.pin_file)
    said = bare.test(where, old, old, (patch,), say=print)[THIRD].said

    (gone,) = (line for line in said.split("\n") if "test_gone" in line)
    assert "does not load: ImportError: cannot import name 'no_such_name' from 'os'" in gone
    assert said.replace(gone, "    …").split("\n") == [
        "1 of 5 of its regression tests pass on bare v0.28.0",
        "ours is still needed for",
        "    test_b: assert 1 == 2",
        "3 end in an error of v0.28.0, or do not fit it, 2 for a name that ours adds: see bare.log",
        "a module that says nothing, or not all",
        "    …",
        "    tests/regression/test_crash.py: pytest ended with 7, see build/reports/bare.log",
    ]


def test_the_pin_that_is_written_has_the_form_of_the_one_that_was_read() -> None:
    path = REPO / "patches" / "upstream.json"
    assert pin.text(pin.read(path)) == path.read_text()
    assert json.loads(path.read_text())["sdist"]


def test_a_release_without_a_file_and_a_person_who_is_not_done(
    applied: Product, index: Index, tmp_path: Path
) -> None:
    """As for a fork: hunks on what is gone are left out, markers and new files stop it."""
    new = mini.release(applied.upstream, tmp_path, NEW, ("Gone", {"vllm/crlf.py": b"x\n"}))
    repo = new.repo
    mini.git(repo, "rm", "--quiet", "vllm/crlf.py")
    text = mini.edited(A, ("    return 2\n", "    return 3\n"))
    mini.commit(repo, "Three", {"vllm/a.py": text}, who=mini.UPSTREAM)
    mini.git(repo, "tag", "--force", NEW)
    commit = mini.git(repo, "rev-parse", "HEAD")
    new = mini.Upstream(repo, commit, mini.sdist(repo, top="vllm-0.29.0"))
    index.projects["vllm"] = {"vllm-0.29.0.tar.gz": new.sdist}
    done = run(applied, index, new)
    assert done.code == 3, done
    assert "1 hunk left out: vllm/crlf.py" in told(done, SECOND)
    kept = applied.root / "build/kept/roll-v0.29.0"
    _, add, go_on, *_ = done.hint.split("; ")
    assert applied.shell(add).code == 0
    assert applied.shell(go_on.partition(" (")[0]).code == 0
    done = run(applied, index, new)
    assert (done.code, "is not mended yet: vllm/a.py:5: <<<<<<< " in done.error) == (2, True), done
    mended = mini.edited(text, ("return 3\n", "return 322\n"), ("return 28\n", "return 280\n"))
    (kept / "vllm/a.py").write_bytes(mended)
    _, *lines = done.hint.split("; ")
    for line in lines[:-1]:
        assert applied.shell(line).code == 0, line
    (kept / "mine.txt").write_text("mine\n")
    done = run(applied, index, new)
    assert (done.code, "has files that no commit has: mine.txt" in done.error) == (2, True), done
    applied.git("stash", "--include-untracked", repo=kept)
    done = run(applied, index, new)
    assert done.code == 0, done
    aside = applied.root / "build/removed/roll-v0.29.0"
    assert "what you had there beside the result is in build/removed/roll-v0.29.0" in done.out
    assert applied.git("show", "stash^3:mine.txt", repo=aside) == "mine"
    assert not (applied.clone / "vllm/crlf.py").exists()


def test_a_pull_request_that_the_release_took_back_is_carried_and_named(
    product: Product, index: Index, tmp_path: Path
) -> None:
    text = mini.edited(A, ("    return 28\n", "    return 280\n"))
    back = 'Revert "Keep (#2)" (#9)\n\nReverts vllm-project/vllm#2'
    new = release(product, index, tmp_path, ("Keep (#2)", {"vllm/a.py": text}),
                  (back, {"vllm/a.py": A}))  # fmt: skip
    product.succeed("apply", SOURCE="git")
    done = run(product, index, new, SOURCE="git", GIT_URL=str(new.repo), DRY_RUN="1")
    assert done.code == 0, done
    assert fates(done)[SECOND] == "unchanged"
    assert "Keep (#2) (pull request 2) says that it is there; the tree has not" in told(
        done, SECOND
    )
