"""The command line: arguments, settings of the environment, the pin file, `make`, exit codes."""

from __future__ import annotations

import json
import platform
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.tools import mini
from tests.tools.held import PATIENCE, HeldGit
from tests.tools.product import REPO, Product, snapshot, tree


@pytest.mark.parametrize(
    ("verb", "env", "said"),
    [
        ("apply", {"SOURCE": "svn"}, "--source: 'svn' is none of sdist, git"),
        ("fetch", {"SOURCE": "svn"}, "--source: 'svn' is none of sdist, git"),
        ("build", {"KERNELS": "x"}, "--kernels: 'x' is none of auto, cpu, precompiled, source"),
        ("bench", {"ROUNDS": "many"}, "--rounds: invalid int value: 'many'"),
        ("aply", {}, "invalid choice: 'aply'"),
    ],
)  # fmt: skip
def test_a_wrong_word_is_named_with_the_right_ones(
    product: Product, verb: str, env: dict[str, str], said: str
) -> None:
    before = tree(product.root)
    done = product.run(verb, **env)
    assert (done.code, said in done.err) == (2, True), done
    assert tree(product.root) == before


def test_a_wrong_word_for_another_verb_does_no_harm(applied: Product) -> None:
    applied.succeed("status", SOURCE="svn", KERNELS="none", ROUNDS="many", SUITES="none")


def test_no_verb_lists_them(product: Product) -> None:
    done = product.run()
    assert done.code == 2
    verbs = product.succeed("--help")
    for verb in (
        "fetch",
        "verify",
        "apply",
        "export",
        "lint",
        "status",
        "build",
        "test",
        "clean",
        "pick",
        "roll",
        "check",
    ):
        assert f"\n    {verb} " in verbs


@pytest.mark.parametrize("zero", ["", "0"])
def test_a_switch_that_is_zero_is_off(
    product: Product, patches: dict[str, bytes], zero: str
) -> None:
    bad = {n: raw.replace(b" def line_", b" def x_") for n, raw in patches.items()}
    product.write_series(bad)
    assert product.run("apply", RESOLVE=zero).code == 2


@pytest.mark.parametrize(
    ("verb", "variable"),
    [("apply", "RESOLVE"), ("export", "CHECK"), ("build", "DRY_RUN"), ("check", "EACH")],
)
@pytest.mark.parametrize("value", ["no", "yes", "true", "01", " 1"])
def test_a_switch_is_1_or_0_and_nothing_else(
    product: Product, verb: str, variable: str, value: str
) -> None:
    before = tree(product.root)
    done = product.run(verb, **{variable: value})
    option = variable.lower().replace("_", "-")
    assert (done.code, f"--{option}: {value!r} is none of 0, 1" in done.err) == (2, True), done
    assert tree(product.root) == before


def _pin(product: Product) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((product.patches / "upstream.json").read_text())
    return value


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != key}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("not json", "Expecting"),
        ("a list", "is not a valid pin"),
        ("no commit", "'commit'"),
        ("no sdist", "'sdist'"),
        ("extra", "'extra'"),
        ("short commit", "commit is not a full 40-digit id"),
        ("short hash", f"{mini.SDIST}: sha256 is not 64 hex digits"),
        ("artefact extra", "'extra'"),
        ("not utf-8", "is not a valid pin"),
    ],
)
@pytest.mark.parametrize("verb", ["apply", "export", "status"])
def test_a_bad_pin_file_is_told_and_nothing_is_touched(
    applied: Product, verb: str, fault: str, said: str
) -> None:
    good = _pin(applied)
    bad: dict[str, Any] = {
        "a list": [],
        "no commit": _without(good, "commit"),
        "no sdist": _without(good, "sdist"),
        "extra": good | {"extra": 1},
        "short commit": good | {"commit": good["commit"][:12]},
        "short hash": good | {"sdist": good["sdist"] | {"sha256": "abc"}},
        "artefact extra": good | {"sdist": good["sdist"] | {"extra": 1}},
    }
    text = {"not json": b"{", "not utf-8": b'{"project": "\xff"}'}.get(fault)
    (applied.patches / "upstream.json").write_bytes(text or json.dumps(bad[fault]).encode())
    before = snapshot(applied.clone), tree(applied.root)
    done = applied.run(verb)
    assert done.code == 2
    assert "patches/upstream.json is not a valid pin" in done.error
    assert said in done.error
    assert done.hint == "see patches/README.md for its form"
    assert (snapshot(applied.clone), tree(applied.root)) == before


def test_a_missing_pin_file_is_told(product: Product) -> None:
    (product.patches / "upstream.json").unlink()
    done = product.run("apply")
    assert (done.code, done.hint) == (2, "git checkout patches/")
    assert "patches/upstream.json is missing" in done.error


def test_the_targets_of_make_do_what_the_verbs_do(product: Product) -> None:
    """With a blank and a letter beyond ASCII in every path."""
    assert "3 patches applied to" in product.make("apply").out
    assert "drift   none" in product.make("status").out
    assert "3 of 3 patches unchanged" in product.make("export", "CHECK=1").out
    assert "0 faults" in product.make("lint").out
    assert "as pinned" in product.make("verify").out
    assert "already in" in product.make("fetch").out
    assert "from the sdist" in product.make("fetch", "SOURCE=git").error
    (product.patches / "stray").touch()
    assert product.make("apply").code == 2


def test_make_takes_a_checkout_in_a_folder_with_blanks(product: Product, adopted: Path) -> None:
    done = product.make("apply", f"VLLM_DIR={adopted}")
    assert done.code == 0, done
    assert str(adopted) in done.out
    assert "already applied" in product.make("apply", VLLM_DIR=str(adopted)).out


def test_make_help_lists_every_target(product: Product) -> None:
    targets = [
        line.partition(":")[0]
        for line in (REPO / "Makefile").read_text().split("\n")
        if ": ##" in line
    ]
    said = product.make("help").out
    assert len(targets) > 10
    assert [line.split()[0] for line in said.strip().split("\n")] == targets


def test_clean_keeps_the_work_clone_and_the_downloads(applied: Product) -> None:
    for name in ("venv/bin/python", "reports/build.log", "cache/x", "kept/x", "removed/x"):
        mini.write(applied.root / "build", {name: b""})
    before = snapshot(applied.clone)
    assert "the work clone and the downloads stay" in applied.succeed("clean")
    assert sorted(p.name for p in (applied.root / "build").iterdir()) == [
        ".lock", "downloads", "kept", "removed", "vllm",
    ]  # fmt: skip
    assert snapshot(applied.clone) == before
    applied.succeed("clean")


def test_an_interrupt_ends_quietly_and_changes_nothing(product: Product, held_git: HeldGit) -> None:
    product.succeed("fetch")
    before = snapshot(product.clone)
    running = product.start("apply", PATH=held_git.path)
    held_git.wait()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, err) == (130, "interrupted\n")
    assert snapshot(product.clone) == before
    assert not list(product.root.glob("build/.scratch-*"))


def test_suites_that_name_nothing_are_refused_before_anything_starts(applied: Product) -> None:
    wheel = {"project": "p", "file": "p.whl", "size": 1, "sha256": "0" * 64}
    applied.edit_pin(wheels={"cpu": {platform.machine(): wheel}})
    for asked in (",", "tools,nonsense"):
        done = applied.run("test", SUITES=asked, DEVICE="cpu")
        assert done.code == 2, done
        assert done.error.startswith("no such suite")
        assert done.hint.startswith("suites are tools, regression, engine, upstream")
