"""Export for others: what plain git and coreutils take, the same bytes each time."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forks, mini
from tests.tools.product import Product, snapshot, tree
from tests.tools.series.test_stack_apply import FIRST, SECOND, THIRD
from tests.tools.test_host import on_small_disk

NAME = "vllm-0.28.0-patches"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "a dist"


def manifest(out: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((out / f"{NAME}.json").read_text())
    return value


def export(product: Product, out: Path, **env: str) -> str:
    return product.succeed("export", DIST=str(out), **env)


def plain(product: Product, folder: Path) -> Path:
    repo = folder / "plain"
    mini.git(folder, "clone", "--quiet", str(product.upstream.repo), str(repo))
    mini.git(repo, "checkout", "--quiet", "--detach", mini.TAG)
    return repo


def test_it_holds_the_patches_and_their_sums(applied: Product, out: Path) -> None:
    assert f"6 files in '{out}'/" in export(applied, out)
    names = sorted(path.name for path in out.iterdir())
    assert names == [FIRST, SECOND, THIRD, "SHA256SUMS",
                     f"{NAME}.json", f"{NAME}.mbox"]  # fmt: skip
    assert {n: (out / n).read_bytes() for n in names if n.endswith(".patch")} == applied.series()
    sums = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out,
                          capture_output=True, text=True)  # fmt: skip
    assert (sums.returncode, sums.stdout.count(": OK")) == (0, 5)


@pytest.mark.parametrize("files", ["*.patch", "*.mbox"])
def test_plain_git_am_takes_patches_and_mbox(
    applied: Product, out: Path, tmp_path: Path, files: str
) -> None:
    export(applied, out)
    repo = plain(applied, tmp_path)
    who = {f"GIT_COMMITTER_{what}": "x" for what in ("NAME", "EMAIL")}
    mails = [str(path) for path in sorted(out.glob(files))]
    mini.git(repo, "am", "--quiet", "--keep-cr", *mails, env=who)
    assert mini.git(repo, "rev-parse", "HEAD^{tree}") == applied.git("rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("shape", ["a clone of upstream", "an import of the sdist"])
def test_the_line_that_is_printed_puts_the_series_on_any_checkout_of_the_release(
    applied: Product, out: Path, tmp_path: Path, shape: str
) -> None:
    line = export(applied, out).split(": ")[-1]
    if shape == "a clone of upstream":
        repo = plain(applied, tmp_path)
    else:
        repo = forks.imported(applied.upstream, tmp_path)
    done = applied.shell(f"cd {shlex.quote(str(repo))} && {line}")
    assert done.code == 0, done
    for path in ("vllm/a.py", "vllm/crlf.py", "vllm/new.py"):
        theirs = mini.git(repo, "rev-parse", f"HEAD:{path}")
        assert theirs == applied.git("rev-parse", f"HEAD:{path}")
    assert mini.git(repo, "log", "-1", "--format=%s") == "[Frontend] Add a module"


def test_a_full_disk_under_dist_is_named(applied: Product, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    big = applied.series()[THIRD].replace(b"It was missing.", b"x" * (2 << 20))
    applied.write_series(applied.series() | {THIRD: big})
    applied.succeed("apply")
    done = applied.run_by(on_small_disk(disk), "export", DIST=str(disk / "out"))
    assert (done.code, done.error) == (2, f"no disk space left for {disk}/out"), done


def test_the_manifest_says_pin_trees_and_trailers(applied: Product, out: Path) -> None:
    export(applied, out)
    found = manifest(out)
    assert found["pin"] == json.loads((applied.patches / "upstream.json").read_text())
    ids = applied.git("log", "--reverse", "--format=%T", f"{mini.TAG}..").split("\n")
    assert [one["tree"] for one in found["patches"]] == ids
    first = found["patches"][0]
    assert (first["name"], first["subject"]) == (FIRST, "[Core] Answer twice: a.py")
    assert first["sha256"] == mini.digest((out / FIRST).read_bytes())
    assert {"name": "Upstream-Status", "value": "backport v0.29.0"} in first["trailers"]
    assert found["base"]["tree"] == applied.git("rev-parse", f"{mini.TAG}^{{tree}}")


def test_the_bytes_are_the_same_anywhere_and_after_a_repack(
    applied: Product, second: Product, out: Path, tmp_path: Path
) -> None:
    export(applied, out)
    before = tree(out)
    applied.git("gc", "--quiet", "--aggressive")
    applied.git("config", "pack.compression", "1")
    export(applied, out)
    assert tree(out) == before
    # A colleague has made the last commit by hand: their name is on it, not in what they export.
    second.git("commit", "--quiet", "--amend", "--no-edit")
    export(second, tmp_path / "theirs")
    assert tree(tmp_path / "theirs") == before


def test_an_earlier_one_is_replaced_and_anything_else_is_kept(applied: Product, out: Path) -> None:
    export(applied, out)
    applied.git("reset", "--quiet", "--hard", "HEAD~1")
    export(applied, out)
    assert THIRD not in [path.name for path in out.iterdir()]
    assert list(out.parent.glob(".scratch-*")) == []
    (out / "mine.txt").write_text("mine\n")
    before = tree(out)
    done = applied.run("export", DIST=str(out))
    assert (done.code, "holds what is no export: mine.txt" in done.error) == (2, True)
    assert tree(out) == before


def test_a_relative_folder_is_one_of_the_product_root(applied: Product) -> None:
    (applied.root / "dist").mkdir()
    assert "6 files in dist/" in applied.make("export", "DIST=dist").out
    assert len(list((applied.root / "dist").iterdir())) == 6


def test_check_and_dist_do_not_go_together(applied: Product, out: Path) -> None:
    before = snapshot(applied.clone)
    done = applied.run("export", "--check", DIST=str(out))
    assert (done.code, done.hint) == (2, "leave one of them out")
    assert not out.exists()
    assert snapshot(applied.clone) == before
