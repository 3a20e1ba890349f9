"""The recipes of the README, line by line as they stand there."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.carry.test_roll import SHIFT, index, release
from tests.tools.product import REPO, Product
from tests.tools.series.test_stack_apply import FIRST, SECOND, THIRD
from tests.tools.server import Index

assert index  # a fixture
README = (REPO / "README.md").read_text()


def recipe(after: str) -> list[str]:
    """The lines of the code block that comes next after a text of the README."""
    assert README.count(after) == 1, after
    block = README.split(after)[1].split("```\n")[1]
    return [re.sub(r"\s+# .*", "", line) for line in block.strip().split("\n")]


def cook(product: Product, lines: list[str], **env: str) -> str:
    """Type each line in the product root; returns what the last says."""
    out = ""
    for line in lines:
        done = product.shell(line, **{"PYTHON": sys.executable, **env})
        assert done.code == 0, (line, done)
        out = done.out
    assert lines
    return out


def editor(folder: Path, *messages: str) -> str:
    """An editor that writes the next of these messages each time it is called."""
    for number, message in enumerate(messages):
        (folder / f"message.{number}").write_text(message)
    script = folder / "editor"
    script.write_text(
        f'#!/bin/sh\nfor m in "{folder}"/message.*; do mv "$m" "$1"; exit; done\nexit 0\n'
    )
    script.chmod(0o755)
    return str(script)


def test_add_a_patch(applied: Product, tmp_path: Path) -> None:
    mini.write(applied.clone, {"docs/new.md": b"# New\n"})
    write = editor(tmp_path, f"[Doc] Say it\n\nNobody did.\n\n{mini.TRAILERS}")
    assert "4 patches, " in cook(applied, recipe("Add a patch"), GIT_EDITOR=write)
    assert "0004-Doc-Say-it.patch" in applied.series()


def test_edit_a_patch(applied: Product) -> None:
    path = applied.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), ("return 22\n", "return 222\n")))
    status = applied.succeed("status")
    (shown,) = re.findall(rf"^  (\w+)  {re.escape(FIRST)}$", status, re.MULTILINE)
    lines = [re.sub(r"\bID\b", shown, line) for line in recipe("Edit a patch")]
    before = applied.series()
    cook(applied, lines)
    changed = [name for name, raw in applied.series().items() if raw != before[name]]
    assert changed == [FIRST, SECOND]  # the second has the ids of the file's blobs
    assert b"+    return 222\n" in applied.series()[FIRST]


def test_split_a_patch(applied: Product, tmp_path: Path) -> None:
    lines = recipe("Split a patch")
    at = next(n for n, line in enumerate(lines) if line.endswith(" add --patch"))
    lines[at] = f"printf 'n\\ny\\nn\\n' | {lines[at]}"  # the second file of three
    messages = [f"[Core] Part {n}\n\nOf two.\n\n{mini.TRAILERS}" for n in (1, 2)]
    env = {
        "GIT_SEQUENCE_EDITOR": "sed -i '2s/pick/edit/'",
        "GIT_EDITOR": editor(tmp_path, *messages),
    }
    tree = applied.git("rev-parse", "HEAD^{tree}")
    cook(applied, lines, **env)
    assert list(applied.series()) == [
        FIRST, "0002-Core-Part-1.patch", "0003-Core-Part-2.patch", f"0004{THIRD[4:]}",
    ]  # fmt: skip
    assert applied.git("rev-parse", "HEAD^{tree}") == tree


def test_drop_a_patch(applied: Product) -> None:
    cook(applied, recipe("Drop a patch"), GIT_SEQUENCE_EDITOR="sed -i 2d")
    assert list(applied.series()) == [FIRST, f"0002{THIRD[4:]}"]
    assert (applied.root / "build/removed" / SECOND).is_file()


def test_pick_into_a_fork(applied: Product, tmp_path: Path) -> None:
    fork = forks.make(applied.upstream, tmp_path)
    mini.git(fork, "branch", "--force", "main", forks.ONTO)
    shutil.move(fork, applied.root.parent / "fork")
    cook(applied, recipe("## Into your fork"))
    assert (applied.root.parent / "fork/vllm/new.py").is_file()


def test_roll_onto_the_next_release(applied: Product, index: Index, tmp_path: Path) -> None:
    new = release(applied, index, tmp_path, SHIFT)
    env = {"PIP_INDEX_URL": index.url, "COMMIT": new.commit}
    look, roll, *then = recipe("## Onto the next release")
    assert mini.digest(new.sdist) in cook(applied, [look], **env)
    cook(applied, [roll.replace("…", mini.digest(new.sdist)), *then], **env)
    assert applied.git("branch", "--show-current") == "overlay/v0.29.0"


@pytest.mark.parametrize("variable", re.findall(r"`([A-Z_]+)(?:=\d)?`", README))
def test_every_setting_that_the_readme_names_is_one(variable: str) -> None:
    makefile = (REPO / "Makefile").read_text()
    source = (REPO / "scripts/options.py").read_text()
    option = f'"{variable.lower().replace("_", "-")}"'
    others = ("VLLM_DIR", "PYTHON", "HUB")
    assert option in source or variable in others
    assert variable in makefile
