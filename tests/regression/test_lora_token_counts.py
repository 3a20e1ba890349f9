"""LoRA on a tower is told right numbers, by one hook that every model has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import lora
from tests.support.stand_ins import (
    ask,
    audio,
    hooked,
    is_fixed,
    llavas,
    modalities,
    short_name,
    stand_ins,
    vision,
)

CASES = json.loads((Path(__file__).parent / "lora_counts.json").read_text())["cases"]
COUNTS_ASKED = (0, 1, 2, 7, 31, 32, 63, 64, 187, 188, 189, 255, 256, 257, 576, 2048, 8192, 458752)


def test_every_class_and_heir_counts_as_the_pinned_chain_did() -> None:
    assert len(hooked()) >= 40
    compared = 0
    for cls, owner in hooked():
        for model in stand_ins(owner):
            for modality in modalities(cls):
                for n in COUNTS_ASKED:
                    if is_fixed(owner, model, n):
                        continue
                    old = lora.pinned_counts(cls, model, modality=modality, num_mm_embeds=n)
                    new = ask(cls, model, n, modality)
                    if owner == "Blip2":  # it answered with floats, and so with no connector
                        old = int(old[0]), n
                    assert new == old, (cls, vars(model), modality, n)
                    compared += 1
    assert compared > 3000


def test_counts_are_integers() -> None:
    for cls, owner in hooked():
        for model in stand_ins(owner):
            for n in (-1, *COUNTS_ASKED):
                tower, connector = ask(cls, model, n)
                assert type(tower) is int, cls
                assert connector is None or type(connector) is int, cls


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['model']}-{c['num_mm_embeds']}")
def test_counts_of_the_shared_cases(case: dict[str, Any]) -> None:
    model = {
        "Blip2": lambda: SimpleNamespace(
            config=SimpleNamespace(num_query_tokens=case["num_query_tokens"]),
            _vision_tokens_per_image=case["vision_tokens"],
        ),
        "Ultravox": lambda: SimpleNamespace(
            **audio(case["max_source_positions"], case["stack_factor"])
        ),
        "InternVL": lambda: SimpleNamespace(
            patch_tokens=(case["image_size"] // case["patch_size"]) ** 2,
            num_image_token=int(
                (case["image_size"] // case["patch_size"]) ** 2 * case["downsample_ratio"] ** 2
            ),
        ),
        "Qwen2VL": lambda: SimpleNamespace(**vision(spatial_merge_size=case["spatial_merge_size"])),
        "Gemma3": SimpleNamespace,
        "LlavaNextVideo": lambda: SimpleNamespace(patch_grid_length=24, pooled_grid_length=12),
    }[case["model"]]()
    (cls,) = (
        c
        for c, _ in hooked()
        if short_name(c).removesuffix("Model").removesuffix("Chat") == case["model"]
    )
    assert ask(cls, model, case["num_mm_embeds"]) == tuple(case["counts"])


def test_blip2_takes_a_budget_of_broken_images() -> None:
    from vllm.model_executor.models.blip2 import Blip2ForConditionalGeneration

    (model, *_) = stand_ins("Blip2")
    assert ask(Blip2ForConditionalGeneration, model, 70) == (514, 64)
    assert ask(Blip2ForConditionalGeneration, model, 31) == (0, 0)
    assert ask(Blip2ForConditionalGeneration, model, -64) == (0, 0)


@pytest.mark.parametrize(("embeds", "grid"), [(0, 24), (-5, 24), (144, 0)])
def test_llava_next_video_counts_nothing_without_frames(embeds: int, grid: int) -> None:
    from vllm.model_executor.models.llava_next_video import LlavaNextVideoForConditionalGeneration

    model = SimpleNamespace(patch_grid_length=grid, pooled_grid_length=12)
    assert ask(LlavaNextVideoForConditionalGeneration, model, embeds) == (0, 0)


def test_llava_counts_the_rows_that_feature_selection_drops() -> None:
    from vllm.model_executor.models.llava import LlavaForConditionalGeneration

    for model, embeds, rows in llavas():
        for images in (0, 1, 3):
            counts = ask(LlavaForConditionalGeneration, model, images * embeds)
            assert counts == (images * rows, images * embeds), vars(model)
        budget = 3 * embeds + 1
        assert ask(LlavaForConditionalGeneration, model, budget)[0] >= 3 * rows


def test_unknown_modalities_are_named() -> None:
    for cls, owner in hooked():
        for model in stand_ins(owner) or [SimpleNamespace()]:
            with pytest.raises(ValueError, match="'smell'"):
                ask(cls, model, 64, "smell")


def test_modalities_that_a_model_takes_have_counts() -> None:
    """The processing information of each class names no modality that its hook rejects."""
    for cls, _ in hooked():
        factory = getattr(cls, "_processor_factory", None)
        info: Any = getattr(factory, "info", None)
        if not isinstance(info, type):
            continue
        for modality in ("image", "video", "audio"):
            try:
                taken = cls.get_placeholder_str(modality, 1)  # type: ignore[attr-defined]
            except ValueError:
                continue
            if taken is not None:
                assert modality in modalities(cls), (cls, modality)


def test_a_connector_without_counts_gets_no_lora(
    make_manager: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    vllm_log: pytest.LogCaptureFixture,
) -> None:
    from vllm.model_executor.models.llava import LlavaForConditionalGeneration

    monkeypatch.setattr(LlavaForConditionalGeneration, lora.COUNTS, lambda _self, **_: (577, None))
    modules = list(make_manager("llava").modules)
    assert any(name.startswith("vision_tower") for name in modules)
    assert not any(name.startswith("multi_modal_projector") for name in modules)
    assert vllm_log.text.count(f"connector tokens from {lora.COUNTS}()") == 1


def test_a_budget_of_broken_images_is_taken(
    make_manager: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.multimodal.encoder_budget import MultiModalBudget

    monkeypatch.setattr(MultiModalBudget, "get_encoder_budget", lambda _self: 70)
    manager = make_manager("blip2")
    assert len(manager.punica_wrapper_mapping["vision_model"]._token_lora_indices) == 2 * 257
    assert len(manager.punica_wrapper_mapping["qformer"]._token_lora_indices) == 2 * 32
