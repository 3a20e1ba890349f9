"""Engines and servers that start once, however many tests ask for them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from scripts import pin, source, worktree
from scripts.layout import Layout
from tests.support import server
from tests.support.checkpoints import make_checkpoint

ROOT = Path(__file__).absolute().parent.parent.parent

_PROBE = 1800
"""Seconds that a probe gets; on an idle machine it needs a tenth of them."""

Answers = Mapping[str, Mapping[str, Any]]
"""Of one tree: what `support.engine_probe` says of each run, by name of the run."""
Serve = Callable[..., AbstractContextManager[server.Server]]


@pytest.fixture(scope="session")
def answers_by_tree(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Answers]:
    """Every run of `support.engine_probe` on `base` and on `patched`, side by side."""
    layout = Layout.of(ROOT, os.environ.get("VLLM_DIR"))
    folder = tmp_path_factory.mktemp("probe")
    base = source.base(layout, pin.read(layout.pin_file))
    tree = worktree.add(layout, base, layout.build / f"engine-{base[:12]}")
    where = {"base": tree, "patched": layout.clone}
    started = {name: _probe(layout, where[name], folder / name) for name in where}
    try:
        return {name: _answers(started[name], where[name], folder / name) for name in where}
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        worktree.remove(layout, tree)


def _probe(layout: Layout, tree: Path, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    env = worktree.environment(layout, tree, os.environ.get("VLLM_TARGET_DEVICE", "cpu"))
    python = str(layout.venv / "bin" / "python")
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [python, "-P", "-m", "tests.support.engine_probe", str(folder)],
            env=server.engine_environment() | env, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=out, stderr=log,
        )  # fmt: skip


def _answers(process: subprocess.Popen[bytes], tree: Path, folder: Path) -> Answers:
    assert process.wait(_PROBE) == 0, (folder / "log").read_text(errors="replace")[-4000:]
    told = json.loads((folder / "out").read_text())
    assert Path(told["vllm"]).is_relative_to(tree)
    runs: Answers = told["runs"]
    return runs


@pytest.fixture(scope="session")
def base(answers_by_tree: Mapping[str, Answers]) -> Answers:
    return answers_by_tree["base"]


@pytest.fixture(scope="session")
def patched(answers_by_tree: Mapping[str, Answers]) -> Answers:
    return answers_by_tree["patched"]


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Serve a checkpoint by name, see `support.server`; options are those of `vllm serve`."""

    def start(name: str, *options: str) -> AbstractContextManager[server.Server]:
        folder = tmp_path_factory.mktemp(name)
        checkpoint = make_checkpoint(name, folder / name, weights=True)
        return server.serve(checkpoint, folder / "log", *options)

    return start


@pytest.fixture(scope="session")
def vision(serve: Serve) -> Iterator[server.Server]:
    """The server that most tests share: Qwen3-VL, whose processor cache is in shared memory."""
    cache = ("--mm-processor-cache-type", "shm", "--mm-processor-cache-gb", "0.125")
    limits = ("--limit-mm-per-prompt", '{"image": 4, "video": 1}', "--enable-mm-embeds")
    with serve("qwen3_vl", *cache, *limits) as running:
        yield running
