"""Engines and servers that start once, however many tests ask for them."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.core.layout import Layout
from scripts.environment import worktree
from scripts.release import pin, source
from tests.support import server
from tests.support.checkpoints import make_checkpoint

LAYOUT = Layout.of(Path(__file__).absolute().parents[2], os.environ.get("VLLM_DIR"))
DEVICE = os.environ.get("VLLM_TARGET_DEVICE", "cpu")

_PROBE = 1800
"""Seconds that a probe gets; on an idle machine it needs a tenth of them."""

Told = Mapping[str, Any]
"""What a probe printed."""
SideBySide = Callable[..., Mapping[str, Told]]
Answers = Mapping[str, Mapping[str, Any]]
"""Of one tree: what `support.engine_probe` says of each run, by name of the run."""
Serve = Callable[..., AbstractContextManager[server.Server]]


@dataclass(frozen=True)
class Probe:
    """A module of `tests.support` at work on `tree`, in a process of its own."""

    tree: Path
    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, tree: Path, folder: Path, module: str, *arguments: str, **env: str) -> Probe:
        """`env` is what its environment has beside that of every engine."""
        folder.mkdir(exist_ok=True)
        whole = server.engine_environment() | worktree.environment(LAYOUT, tree, DEVICE) | env
        command = [LAYOUT.venv / "bin" / "python", "-P", "-m", f"tests.support.{module}"]
        with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *arguments], env=whole, cwd=folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=log,
            )  # fmt: skip
        return cls(tree, folder, process)

    def told(self) -> Any:
        """What it prints when it is done."""
        try:
            code = self.process.wait(_PROBE)
        finally:
            self.process.kill()
            self.process.wait()
        assert code == 0, (self.folder / "log").read_text(errors="replace")[-4000:]
        return json.loads((self.folder / "out").read_text())


@pytest.fixture(scope="session")
def base_tree(worker_id: str) -> Iterator[Path]:
    """The unpatched release, each process of pytest its own."""
    commit = source.base(LAYOUT, pin.read(LAYOUT.pin_file))
    tree = worktree.add(LAYOUT, commit, LAYOUT.build / f"engine-{commit[:12]}-{worker_id}")
    yield tree
    worktree.remove(LAYOUT, tree)


@pytest.fixture(scope="session")
def side_by_side(base_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> SideBySide:
    """Run a probe, which is given a folder and `arguments`, on each of `trees`."""
    where = {"base": base_tree, "patched": LAYOUT.clone}

    def told(
        module: str, *arguments: str, trees: Iterable[str] = tuple(where)
    ) -> Mapping[str, Told]:
        folder = tmp_path_factory.mktemp(module)
        started = {
            tree: Probe.start(where[tree], folder / tree, module, str(folder / tree), *arguments)
            for tree in trees
        }
        try:
            found: Mapping[str, Told] = {tree: one.told() for tree, one in started.items()}
        finally:
            for one in started.values():
                one.process.kill()
        for tree, printed in found.items():
            assert Path(printed["vllm"]).is_relative_to(where[tree])
        return found

    return told


@pytest.fixture(scope="session")
def answers_by_tree(side_by_side: SideBySide) -> Mapping[str, Answers]:
    """Every run of `support.engine_probe`."""
    return {tree: told["runs"] for tree, told in side_by_side("engine_probe").items()}


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
