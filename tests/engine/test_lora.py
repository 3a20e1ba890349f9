"""A real engine with LoRA on tower and connector: adapters act, and only on their own items."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import LAYOUT, Probe

Told = Mapping[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What `support.lora_probe` says of the patched tree."""
    folder = tmp_path_factory.mktemp("lora")
    told: Told = Probe.start(LAYOUT.clone, folder, "lora_probe", str(folder)).told()
    return told


def same(left: Any, right: Any) -> bool:
    """Token for token, and as probable: what sums in another order differs by rounding."""
    return bool(left[0] == right[0] and left[1] == pytest.approx(right[1], abs=1e-3))


def test_a_zero_adapter_changes_nothing(told: Told) -> None:
    assert all(map(same, told["zero"], told["None"]))


@pytest.mark.parametrize("adapter", ["tower", "connector", "all"])
def test_an_adapter_of_tower_or_connector_changes_the_answer(told: Told, adapter: str) -> None:
    assert not any(map(same, told[adapter], told["None"]))


def test_two_adapters_in_one_batch_do_not_mix(told: Told) -> None:
    assert all(map(same, told["tower, all"], [told["tower"][0], told["all"][1]]))
    assert all(map(same, told["nothing, all"], [told["None"][0], told["all"][1]]))


def test_adapters_of_items_of_different_modalities_do_not_mix(told: Told) -> None:
    plain, adapted = told["clip"]
    assert not same(plain, adapted)
    assert all(map(same, told["image with tower, clip with all"], [told["tower"][0], adapted]))
    assert all(map(same, told["clip with nothing, image with all"], [plain, told["all"][1]]))


# Items of several adapters in one step, against each alone

RUNS = [
    *((run, 1) for run in ("images", "videos", "audios", "small", "two workers", "graphs")),
    *((run, 2) for run in ("images", "videos")),
]
"""Of `support.lora_items_probe`, and the model runner."""


@pytest.mark.parametrize(("run", "runner"), RUNS)
def test_each_item_gets_its_own_adapter(run: str, runner: int, tmp_path: Path) -> None:
    started = Probe.start(
        LAYOUT.clone, tmp_path, "lora_items_probe", str(tmp_path), run,
        VLLM_USE_V2_MODEL_RUNNER=str(runner - 1),
    )  # fmt: skip
    told = started.told()
    plain, first, second = told["alone"]
    for place, (turn, answer) in enumerate(zip(told["turns"], told["together"], strict=True)):
        assert same(answer, told["alone"][turn][place]), place
        assert not same(plain[place], first[place])
        assert not same(first[place], second[place])
    assert all(map(same, told["one adapter"], first))
    # More soft tokens than the encoder cache holds are refused, and only those
    assert [line.count("exceeds") for line in told["refused"]] == [1] * (run == "small")
    log = (tmp_path / "log").read_text(errors="replace")
    assert ("Using V2 Model Runner" in log) == (runner == 2)
