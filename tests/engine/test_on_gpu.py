"""What only a GPU shows, by the probes of the CPU tests; without one each test says what it lacks.

On the CPU the same code runs in `test_answers`, `test_lora`.
"""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.engine import test_lora
from tests.engine.conftest import DEVICE, LAYOUT, Probe
from tests.support.engine_probe import FAMILIES, GRAPHS

GUARD = {"VLLM_GPU_SYNC_CHECK": "error"}
"""The tree's own guard: a step fails that waits for the GPU where no `gpu_sync_allowed()` is."""


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if DEVICE != "cuda":
        pytest.skip(f"needs a CUDA GPU, this run is on {DEVICE}: make test DEVICE=cuda")


Runs = Mapping[str, Any]
_FIRST_ALONE = ("waiting", "long video, profiled")


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    """Every run of `engine_probe` under a model runner, guarded: one process for all of it."""

    @cache
    def told(runner: int) -> Runs:
        folder = tmp_path_factory.mktemp(f"runner-{runner}")
        runs = (*FAMILIES, *GRAPHS, *(_FIRST_ALONE if runner == 1 else ()))
        env = {**GUARD, "VLLM_USE_V2_MODEL_RUNNER": str(runner - 1)}
        arguments = ("--each", str(folder), *runs)
        started = Probe.start(LAYOUT.clone, folder, "engine_probe", *arguments, **env)
        found: Runs = started.told()["runs"]
        return found

    return told


@pytest.mark.parametrize("runner", [1, 2])
@pytest.mark.parametrize("run", [*FAMILIES, *GRAPHS])
def test_no_step_waits_for_the_gpu(guarded: Callable[[int], Runs], run: str, runner: int) -> None:
    told = guarded(runner)[run]

    assert "error" not in told, told["error"]
    assert told["guard"] == "error"
    assert all(len(answer["tokens"]) == 8 for answer in told["answers"].values())


def test_a_tower_that_waits_is_caught(guarded: Callable[[int], Runs]) -> None:
    """Otherwise the tests above could not fail."""
    answers = guarded(1)["waiting"]["answers"]

    assert answers["as it is"]["tokens"]
    assert "sync detected" in answers["waiting"]["error"]


def test_an_engine_for_long_videos_profiles_its_budget_and_answers(
    guarded: Callable[[int], Runs],
) -> None:
    told = guarded(1)["long video, profiled"]

    assert told["guard"] == "error"
    assert told["encoder_cache"] == 229376
    assert {kind: answer["items"] for kind, answer in told["answers"].items()} == {
        "video": 2400,
        "image": 475,
    }


@pytest.mark.parametrize("recipe", ["stock", "long-video"])
def test_warmup_takes_a_twentieth_of_the_memory_of_base_and_none_of_the_gpu(
    base_tree: Path, tmp_path: Path, recipe: str
) -> None:
    def measured(tree: Path, name: str) -> Any:
        return Probe.start(tree, tmp_path / name, "warmup_probe", "--recipe", recipe).told()

    before, after = measured(base_tree, "base"), measured(LAYOUT.clone, "patched")
    assert after["warmup_failures"] == 0
    assert after["device_peak_bytes"] == 0
    assert 20 * after["warmup_peak_bytes"] <= before["warmup_peak_bytes"]


def test_adapters_of_tower_and_connector_act_and_wait_for_nothing(tmp_path: Path) -> None:
    told = Probe.start(LAYOUT.clone, tmp_path, "lora_probe", str(tmp_path), **GUARD).told()

    assert told["guard"] == "error"
    assert all(map(test_lora.same, told["zero"], told["None"]))
    for adapter in ("tower", "connector", "all"):
        assert not any(map(test_lora.same, told[adapter], told["None"])), adapter
