"""git itself: its version is checked first, its reasons are passed on, an owner is no obstacle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.product import Product


def put_git(folder: Path, *lines: str) -> str:
    """A PATH whose git runs these lines first."""
    folder.mkdir(exist_ok=True)
    script = folder / "git"
    script.write_text("\n".join(("#!/bin/sh", *lines, f'exec {shutil.which("git")} "$@"', "")))
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("version", ["2.33.8", "2.9.0", "1.8.3.1"])
@pytest.mark.parametrize("verb", ["apply", "pick", "status"])
def test_a_git_that_is_too_old_is_told_before_anything(
    product: Product, tmp_path: Path, version: str, verb: str
) -> None:
    fork = forks.make(product.upstream, tmp_path)
    product.succeed("fetch")
    says = f'[ "$1" = --version ] && {{ echo git version {version}; exit; }}; exit 99'
    path = put_git(tmp_path / "bin", says)
    done = product.run(verb, PATH=path, FORK=str(fork), ONTO=forks.ONTO)
    said = f"git version {version} is too old: 2.34 or newer is needed"
    assert (done.code, done.error) == (2, said), done


def test_the_oldest_git_that_is_named_gets_hints_that_it_knows(
    product: Product, tmp_path: Path
) -> None:
    """`fetch --refetch` came with 2.36."""
    fork = forks.make(product.upstream, tmp_path)
    forks.commit(fork, "Near", "vllm/a.py", ("def line_3():", "def line_three():"))
    mini.git(fork, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    options = ("--quiet", "--filter=blob:none", "--no-checkout")
    mini.git(tmp_path, "clone", *options, fork.as_uri(), str(partial))
    old = '[ "$1" = --version ] && { echo git version 2.34.1; exit; }'
    refuses = 'for word; do [ "$word" = --refetch ] && exit 129; done'
    path = put_git(tmp_path / "bin", old, refuses)
    done = product.run("pick", FORK=str(partial), ONTO=forks.ONTO, PATH=path)
    assert (done.code, "lacks files of" in done.error) == (2, True), done
    assert product.shell(done.hint.split("by: ")[1], PATH=path).code == 0
    assert product.run("pick", FORK=str(partial), ONTO=forks.ONTO, PATH=path).code == 0


@pytest.mark.parametrize("way", ["absolute", "relative", "link", "subfolder", "worktree", "bare"])
def test_a_fork_of_another_owner_by_any_path(applied: Product, tmp_path: Path, way: str) -> None:
    """To git with this variable, every repository belongs to somebody else."""
    fork = forks.make(applied.upstream, tmp_path)
    (tmp_path / "link").symlink_to(fork)
    mini.git(fork, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    mini.git(tmp_path, "clone", "--quiet", "--bare", str(fork), str(tmp_path / "bare.git"))
    paths = {
        "absolute": str(fork),
        "relative": os.path.relpath(fork, applied.root),
        "link": str(tmp_path / "link"),
        "subfolder": str(fork / "vllm"),
        "worktree": str(tmp_path / "tree"),
        "bare": str(tmp_path / "bare.git"),
    }
    path = put_git(tmp_path / "bin", "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    done = applied.run("pick", FORK=paths[way], ONTO=forks.ONTO, PATH=path)
    assert done.code == 0, done
    where = tmp_path / "bare.git" if way == "bare" else fork
    assert mini.git(where, "rev-parse", "picked/v0.28.0")


@pytest.mark.parametrize("way", ["relative", "link"])
def test_a_checkout_of_another_owner_by_any_path(
    product: Product, adopted: Path, tmp_path: Path, way: str
) -> None:
    (tmp_path / "link").symlink_to(adopted)
    path = put_git(tmp_path / "bin", "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    where = os.path.relpath(adopted, product.root) if way == "relative" else str(tmp_path / "link")
    assert "3 patches applied" in product.succeed("apply", VLLM_DIR=where, PATH=path)


def test_what_git_says_of_a_folder_is_passed_on(applied: Product, tmp_path: Path) -> None:
    fork = forks.make(applied.upstream, tmp_path)
    (fork / ".git/config").write_text("[core]\n\trepositoryformatversion = 99\n")
    done = applied.run("pick", FORK=str(fork), ONTO=forks.ONTO)
    assert (done.code, "is no git repository: " in done.error) == (2, True), done
    assert "Expected git repo version" in done.error
