"""VLLM_DIR: a person's own checkout takes the series; nothing of theirs changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.tools import mini
from tests.tools.product import Done, Product, snapshot, tree
from tests.tools.series.test_stack_apply import HOSTILE, hostile_hooks


def refuses(product: Product, verb: str, where: Path | str) -> Done:
    before = tree(product.patches)
    done = product.run(verb, VLLM_DIR=str(where))
    assert done.code == 2, done
    assert done.hint, done
    assert tree(product.patches) == before
    assert not product.clone.exists()
    return done


def overlay(repo: Path) -> str:
    return mini.git(repo, "rev-parse", f"refs/heads/{mini.BRANCH}")


@pytest.fixture
def ids(product: Product, tmp_path: Path) -> str:
    """The tip that the series has on upstream's own commit."""
    plain = tmp_path / "plain"
    mini.git(tmp_path, "clone", "--quiet", str(product.upstream.repo), str(plain))
    mini.git(plain, "checkout", "--quiet", "--detach", mini.TAG)
    product.succeed("apply", VLLM_DIR=str(plain))
    return overlay(plain)


def test_a_full_clone_at_the_pin_gets_a_branch_and_keeps_everything_else(
    product: Product, adopted: Path
) -> None:
    (adopted / "docs/index.md").write_text("# stashed\n")
    product.git("stash", repo=adopted)
    product.git("config", "user.email", "own@example.invalid", repo=adopted)
    (adopted / "mine.txt").write_text("mine\n")
    before: dict[str, Any] = snapshot(adopted)
    product.succeed("apply", VLLM_DIR=str(adopted))
    after: dict[str, Any] = snapshot(adopted)
    for kept in ("stash", "config", "hooks"):
        assert after[kept] == before[kept]
    assert after["worktrees"].count("worktree ") == 1
    added = set(after["refs"].split("\n")) - set(before["refs"].split("\n"))
    assert [line.split("\t")[1] for line in added] == [f"refs/heads/{mini.BRANCH}"]
    assert set(before["refs"].split("\n")) < set(after["refs"].split("\n"))
    assert (adopted / "mine.txt").read_text() == "mine\n"
    assert after["head"][1] == f"refs/heads/{mini.BRANCH}"
    assert not product.clone.exists()
    assert "3 of 3 patches unchanged" in product.succeed("export", VLLM_DIR=str(adopted))
    assert "drift   untracked: mine.txt" in product.succeed("status", VLLM_DIR=str(adopted))
    assert "already applied" in product.succeed("apply", "--resolve", VLLM_DIR=str(adopted))


def test_a_hostile_configuration_of_its_own_changes_no_id_and_no_byte(
    product: Product, adopted: Path, ids: str, tmp_path: Path, patches: dict[str, bytes]
) -> None:
    hooks = hostile_hooks(tmp_path / "hooks")
    with (adopted / ".git/config").open("a") as file:
        file.write(HOSTILE.format(hooks=hooks))
    for hook in hooks.iterdir():
        shutil.copy(hook, adopted / ".git/hooks")
    product.succeed("apply", VLLM_DIR=str(adopted))
    assert overlay(adopted) == ids
    no_hooks = ("-c", "core.hooksPath=/dev/null")
    product.git(*no_hooks, "notes", "add", "--message", "mine", repo=adopted)
    assert "3 of 3 patches unchanged" in product.succeed("export", VLLM_DIR=str(adopted))
    assert product.series() == patches
    (adopted / "mine.md").write_text("mine\n")
    assert "drift   untracked: mine.md" in product.succeed("status", VLLM_DIR=str(adopted))
    assert (adopted / "vllm/crlf.py").read_bytes().count(b"\r\n") == 3
    assert b"\r" not in (adopted / "vllm/new.py").read_bytes()


@pytest.mark.parametrize("fault", ["already there", "other blanks"])
def test_a_lenient_configuration_of_its_own_lets_no_more_patches_apply(
    product: Product, adopted: Path, patches: dict[str, bytes], fault: str
) -> None:
    product.git("config", "am.threeWay", "true", repo=adopted)
    product.git("config", "apply.ignoreWhitespace", "change", repo=adopted)
    _, second, third = patches
    wrong = {
        "already there": {f"0004{third[4:]}": patches[third]},
        "other blanks": {second: patches[second].replace(b" def line_28", b" def  line_28")},
    }[fault]
    product.write_series(patches | wrong)
    before = snapshot(adopted)
    (name,) = wrong
    assert f"{name} does not apply" in refuses(product, "apply", adopted).error
    assert snapshot(adopted) == before


@pytest.mark.parametrize("kind", ["shallow", "worktree", "relative", "link", "bare-tag"])
def test_any_checkout_of_the_pin_will_do(
    product: Product, adopted: Path, ids: str, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "other checkout"
    named = str(folder)
    if kind == "shallow":
        url = product.upstream.repo.as_uri()
        mini.git(tmp_path, "clone", "--quiet", "--depth=1", "--branch", mini.TAG, url, named)
    elif kind == "worktree":
        mini.git(adopted, "worktree", "add", "--quiet", "--detach", named, mini.TAG)
    elif kind == "relative":
        folder, named = adopted, f"../{adopted.name}"
    elif kind == "link":
        folder.symlink_to(adopted)
    else:
        mini.git(adopted, "tag", "--delete", mini.TAG)
        folder, named = adopted, str(adopted)
    product.succeed("apply", VLLM_DIR=named)
    assert overlay(folder) == ids
    assert "already applied" in product.succeed("apply", VLLM_DIR=named)
    assert (folder / "vllm/new.py").read_text() == "new = True\n"
    assert "3 of 3" in product.succeed("export", "--check", VLLM_DIR=named)


def test_the_main_checkout_is_left_alone_when_a_worktree_is_adopted(
    product: Product, adopted: Path, tmp_path: Path
) -> None:
    mini.git(adopted, "worktree", "add", "--quiet", "--detach", str(tmp_path / "wt"), mini.TAG)
    before = tree(adopted), mini.git(adopted, "rev-parse", "--symbolic-full-name", "HEAD")
    product.succeed("apply", VLLM_DIR=str(tmp_path / "wt"))
    after = tree(adopted), mini.git(adopted, "rev-parse", "--symbolic-full-name", "HEAD")
    assert after == before


@pytest.mark.parametrize("verb", ["fetch", "apply", "export", "status"])
def test_a_folder_that_is_not_vllm_is_refused(product: Product, tmp_path: Path, verb: str) -> None:
    done = refuses(product, verb, tmp_path / "not here")
    assert "not here'" in done.error
    (tmp_path / "empty").mkdir()
    assert "is not a vLLM tree" in refuses(product, verb, tmp_path / "empty").error
    assert not list((tmp_path / "empty").iterdir())


def test_a_tree_without_git_is_refused(product: Product, tmp_path: Path) -> None:
    mini.write(tmp_path / "unpacked", mini.FILES)
    done = refuses(product, "apply", tmp_path / "unpacked")
    assert "is not a git checkout of its own" in done.error
    assert "git clone" in done.hint


def test_a_folder_inside_another_checkout_is_refused(product: Product, adopted: Path) -> None:
    mini.write(adopted / "third_party", mini.FILES)
    before = snapshot(adopted)
    done = refuses(product, "apply", adopted / "third_party")
    assert "is not a git checkout of its own" in done.error
    assert snapshot(adopted) == before


def test_the_package_folder_of_a_checkout_is_refused(product: Product, adopted: Path) -> None:
    assert "name the top folder" in refuses(product, "apply", adopted / "vllm").hint


def test_a_checkout_without_the_pin_says_how_to_get_it(product: Product, tmp_path: Path) -> None:
    folder = tmp_path / "old one"
    url = product.upstream.repo.as_uri()
    mini.git(tmp_path, "clone", "--quiet", "--depth=1", url, str(folder))
    before = snapshot(folder)
    done = refuses(product, "apply", folder)
    assert f"is not at the pin: it has no commit {product.upstream.commit}" in done.error
    assert snapshot(folder) == before
    assert product.shell(done.hint).code == 0
    done = refuses(product, "apply", folder)
    assert "neither at the pin nor on" in done.error
    assert product.shell(done.hint).code == 0
    product.succeed("apply", VLLM_DIR=str(folder))


def test_a_checkout_that_stands_elsewhere_is_left_alone(product: Product, adopted: Path) -> None:
    mini.git(adopted, "switch", "--quiet", "main")
    before = snapshot(adopted)
    done = refuses(product, "apply", adopted)
    assert "neither at the pin nor on overlay/v0.28.0" in done.error
    assert snapshot(adopted) == before


def test_edits_in_it_are_refused(product: Product, adopted: Path) -> None:
    (adopted / "vllm/a.py").write_text("mine\n")
    before = snapshot(adopted)
    done = refuses(product, "apply", adopted)
    assert "has local edits: vllm/a.py" in done.error
    assert snapshot(adopted) == before
    stash = done.hint.split("(")[-1].rstrip(")")
    assert product.shell(stash).code == 0
    product.succeed("apply", VLLM_DIR=str(adopted))
    assert mini.git(adopted, "stash", "list").startswith("stash@{0}")


def test_a_patch_that_does_not_apply_leaves_it_as_it_was(
    product: Product, adopted: Path, patches: dict[str, bytes]
) -> None:
    product.write_series({n: raw.replace(b" def line_", b" def x_") for n, raw in patches.items()})
    before = snapshot(adopted)
    done = product.run("apply", VLLM_DIR=str(adopted))
    assert (done.code, "does not apply" in done.error) == (2, True)
    assert snapshot(adopted) == before
