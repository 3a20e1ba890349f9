"""Tower and connector LoRA runs where a model says that it can, and is one log line elsewhere."""

# ruff: noqa: ANN401 (models and their stand-ins)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import lora

UNSUPPORTED = "LoRA with tower connector is enabled, but the model"
WITHOUT_TOWER = ("Gemma4UnifiedForConditionalGeneration",)
NO_FLAG = "does not set `supports_tower_connector_lora=True`"


def lines(log: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in log.records)


def test_classes_with_hooks_and_lora_carry_the_flag_and_no_others() -> None:
    from vllm.model_executor.models.interfaces import supports_lora, supports_tower_connector_lora

    supported = 0
    for cls in lora.multimodal_classes():
        supports = supports_tower_connector_lora(cls)
        hooked = lora.pinned_owner(cls) is not None and cls.__name__ not in WITHOUT_TOWER
        assert supports == (hooked and supports_lora(cls)), cls
        assert supports == getattr(cls, "supports_tower_connector_lora", False), cls
        supported += supports
    assert supported >= 40


@pytest.mark.parametrize("hook", lora.HOOKS)
def test_a_foreign_model_with_a_hook_works(hook: str) -> None:
    from vllm.model_executor.models.interfaces import (
        SupportsLoRA,
        SupportsMultiModal,
        supports_tower_connector_lora,
    )

    bases = (SupportsMultiModal, SupportsLoRA)
    foreign = type(f"Foreign_{hook}", bases, {hook: lambda _self, **_: (1, 1)})
    heir = type(f"Heir_{hook}", (foreign,), {})
    unwilling = type("Unwilling", (foreign,), {"supports_tower_connector_lora": False})

    assert supports_tower_connector_lora(foreign)
    assert supports_tower_connector_lora(heir())
    assert not supports_tower_connector_lora(unwilling)
    assert not supports_tower_connector_lora(type("Plain", bases, {}))
    assert not supports_tower_connector_lora(object())


@pytest.mark.parametrize(("tower", "told"), [(True, 1), (False, 0)])
def test_a_foreign_model_is_told_of_the_flag_where_the_option_is_on(
    tower: bool,
    told: int,
    make_manager: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    vllm_log: pytest.LogCaptureFixture,
) -> None:
    from vllm.model_executor.models.qwen3_vl import Qwen3VLForConditionalGeneration

    monkeypatch.delattr(Qwen3VLForConditionalGeneration, "supports_tower_connector_lora")
    manager = make_manager("qwen3_vl", tower=tower)
    assert manager.supports_tower_connector_lora == tower
    assert lines(vllm_log, NO_FLAG) == told


def test_the_flag_is_off_where_a_model_does_not_set_it() -> None:
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    assert SupportsMultiModal.supports_tower_connector_lora is False


# The manager


def wrapped(manager: Any, *prefixes: str) -> list[str]:
    return [name for name in manager.modules if name.startswith(prefixes)]


def check_language_lora(manager: Any) -> None:
    """An adapter of the language model changes what its layers answer."""
    import torch
    from vllm.lora.layers import LoRAMapping

    lora.add_adapter(manager, 1, scale=0.5)
    layer = next(
        m for name, m in manager.modules.items() if name.endswith("layers.0.mlp.down_proj")
    )
    x = torch.rand(5, 128)
    answers = []
    for adapter in (0, 1):
        manager.set_adapter_mapping(LoRAMapping((adapter,) * 5, (adapter,), is_prefill=True))
        answers.append(layer(x)[0].clone())
    assert not torch.allclose(*answers)


def test_a_supported_model_gets_lora_on_tower_and_connector(
    make_manager: Callable[..., Any], vllm_log: pytest.LogCaptureFixture
) -> None:
    manager = make_manager("qwen3_vl")
    assert manager.supports_tower_connector_lora
    assert wrapped(manager, "visual.blocks")
    assert wrapped(manager, "visual.merger")
    assert not lines(vllm_log, UNSUPPORTED)
    check_language_lora(manager)


@pytest.mark.parametrize("name", ["internvl", "lfm2_vl", "llama"])
def test_an_unsupported_model_logs_one_line_and_serves_language_lora(
    name: str, make_manager: Callable[..., Any], vllm_log: pytest.LogCaptureFixture
) -> None:
    manager = make_manager(name)
    assert not manager.supports_tower_connector_lora
    assert lines(vllm_log, UNSUPPORTED) == 1
    assert not wrapped(manager, "vision_", "multi_modal_projector")
    if name != "lfm2_vl":  # its layers have other names
        check_language_lora(manager)


@pytest.mark.parametrize(("name", "hints"), [("qwen3_vl", 1), ("internvl", 0)])
def test_without_the_option_only_a_supported_model_hints_at_it(
    name: str, hints: int, make_manager: Callable[..., Any], vllm_log: pytest.LogCaptureFixture
) -> None:
    manager = make_manager(name, tower=False)
    assert not manager.supports_tower_connector_lora
    assert lines(vllm_log, "supports adding LoRA to the tower modules") == hints
    assert not lines(vllm_log, UNSUPPORTED)
    check_language_lora(manager)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"language_model_only": True}, "initialize the language model only"),
        ({"limit_mm_per_prompt": {"image": 0, "video": 0}}, "zero for all modalities"),
    ],
)
def test_a_model_that_takes_no_item_serves_language_lora(
    options: dict[str, Any],
    reason: str,
    make_manager: Callable[..., Any],
    vllm_log: pytest.LogCaptureFixture,
) -> None:
    manager = make_manager("qwen3_vl", **options)
    assert not manager.supports_tower_connector_lora
    assert lines(vllm_log, reason) == 1
    check_language_lora(manager)


def test_a_modality_that_is_off_does_not_count(make_manager: Callable[..., Any]) -> None:
    manager = make_manager("qwen3_vl", limit_mm_per_prompt={"video": 0})
    assert manager.supports_tower_connector_lora


def test_a_tower_without_connector_gets_lora(
    make_manager: Callable[..., Any], vllm_log: pytest.LogCaptureFixture
) -> None:
    manager = make_manager("qwen3_asr")
    assert manager.supports_tower_connector_lora
    assert not manager.mm_mapping.connector
    assert wrapped(manager, "audio_tower.layers")
    assert not lines(vllm_log, "Connector LoRA support disabled")
