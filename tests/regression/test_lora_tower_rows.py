"""What LoRA is told of a tower are the rows that enter every LoRA layer of it."""

# ruff: noqa: ANN401 (models and their stand-ins)

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import bare, families, lora, models
from tests.support.lora import Counts
from tests.support.sources import pinned_source
from tests.support.stand_ins import hooked, modalities


def _images(*sizes: tuple[int, int]) -> dict[str, list[Any]]:
    return {"image": [models.image(*size, seed=i) for i, size in enumerate(sizes)]}


def _videos(*shapes: tuple[int, int, int]) -> dict[str, list[Any]]:
    return {"video": [models.video(*shape, seed=i) for i, shape in enumerate(shapes)]}


def _audios(*seconds: float) -> dict[str, list[Any]]:
    return {"audio": [models.audio(s, seed=i) for i, s in enumerate(seconds)]}


_QWEN = [
    _images((280, 280)),
    _images((280, 280), (560, 140), (64, 300)),
    _videos((4, 224, 224)),
    _videos((4, 224, 224), (6, 448, 224)),
]
TOWERS: dict[str, list[dict[str, list[Any]]]] = {
    "blip2": [_images((224, 224))],
    "gemma3": [_images((896, 896)), _images((896, 896), (300, 300))],
    "glm4_1v": [
        _images((280, 280)),
        _images((280, 280), (560, 140)),
        _videos((4, 224, 224)),
    ],
    "idefics3": [_images((364, 364)), _images((364, 364), (728, 364))],
    "mllama4": [_images((336, 336)), _images((336, 336), (672, 336))],
    "llava": [_images((336, 336)), _images((336, 336), (500, 200))],
    "llava_next_video": [_videos((4, 336, 336))],
    "paligemma": [_images((224, 224))],
    "qianfan_ocr": [_images((448, 448)), _images((448, 448), (900, 448))],
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
    "qwen3_asr": [_audios(3), _audios(3, 7.3, 0.5)],
}


def _without_experts(config: Any) -> Any:
    """Experts want a process group, which only the first model in a process gets made."""
    if hasattr(config, "text_config"):  # vLLM tries it on a bare configuration first
        config.text_config.interleave_moe_layer_step = config.text_config.num_hidden_layers + 1
    return config


OPTIONS: dict[str, dict[str, Any]] = {
    "mllama4": {"hf_overrides": _without_experts},
    "ultravox": {"hf_overrides": {"vocab_size": 512}},
}
WITHOUT_CLASS_TOKEN = ("patch_embedding.linear",)
"""Layers of Llama 4 that run before the class token is there, on rows of the same LoRA."""
WITHOUT_CONNECTOR_LAYERS = {
    "blip2": "its connector is made of plain torch layers",
    "gemma3": "its projector is a parameter",
    "h2ovl": "its projector is made of plain torch layers",
    "llava_next_video": "its projector is made of plain torch layers",
    "paligemma": "its projector is made of plain torch layers",
    "qianfan_ocr": "its projector is made of plain torch layers",
    "qwen3_asr": "its projections are part of the tower",
}


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare managers the largest items of a model, which `MultiModalBudget` makes."""
    import vllm.lora.model_manager as model_manager

    def make(vllm_config: Any, *_: Any) -> SimpleNamespace:
        from vllm.model_executor.model_loader import get_model_cls

        (modality, *_) = modalities(get_model_cls(vllm_config.model_config))
        return SimpleNamespace(
            mm_max_items_per_prompt={modality: 8},
            mm_max_toks_per_item={modality: 64},
            get_encoder_budget=lambda: 64,
        )

    monkeypatch.setattr(model_manager, "MultiModalBudget", make)


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("name", TOWERS)
def test_counts_are_the_rows_of_every_lora_layer(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    config = models.make_config(checkpoint(name), **OPTIONS.get(name, {}))
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    for data in TOWERS[name]:
        inputs = models.make_inputs(config, data)
        _check_rows(manager, config, lora.counts_of(manager.model, inputs), inputs.mm_kwargs)


def _check_rows(
    manager: Any, config: Any, counts: list[Counts], mm_kwargs: list[tuple[str, Any]]
) -> None:
    name = config.model_config.model
    rows = lora.run_rows(manager, config, mm_kwargs)
    tower = [sum(count[0] for count in counts)]
    assert rows.tower
    fewer = {n for n, found in rows.tower.items() if found != tower}
    assert all(any(part in n for part in WITHOUT_CLASS_TOKEN) for n in fewer), rows.tower
    assert all(rows.tower[n] < tower for n in fewer)
    connector = [sum(count[1] or 0 for count in counts)]
    assert bool(rows.connector) != (Path(name).name in WITHOUT_CONNECTOR_LAYERS)
    assert dict.fromkeys(rows.connector, connector) == rows.connector


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("seconds", [(3.0,), (29.99, 5.0), (61.0, 1.0)])
def test_ultravox_counts_are_the_rows_of_every_lora_layer(
    seconds: tuple[float, ...], checkpoint: Callable[[str], Path]
) -> None:
    """By tensors made here: the processor of Ultravox is code on the hub."""
    config = models.make_config(checkpoint("ultravox"), **OPTIONS["ultravox"])
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    items = [_ultravox_item(s) for s in seconds]
    embeds = [int(item["audio_token_len"].data.sum()) for item in items]
    counts = [
        manager.model.get_mm_lora_token_counts(modality="audio", mm_kwargs=i, num_mm_embeds=n)
        for i, n in zip(items, embeds, strict=True)
    ]
    assert [count[0] for count in counts] == [1500 * math.ceil(s / 30) for s in seconds]
    _check_rows(manager, config, counts, [("audio", item) for item in items])


def _ultravox_item(seconds: float) -> Any:
    import torch
    from vllm.model_executor.models.ultravox import UltravoxMultiModalProcessor
    from vllm.multimodal.inputs import MultiModalKwargsItems

    frames = [min(3000, int(seconds * 100) - at) for at in range(0, int(seconds * 100), 3000)]
    values = {
        "audio_features": torch.rand(len(frames), 128, max(frames)),
        "audio_lens": torch.tensor(frames),
        "audio_token_len": torch.tensor([math.ceil(math.ceil(f / 2) / 8) for f in frames]),
        "audio_num_chunks": torch.tensor([len(frames)]),
    }
    fields = UltravoxMultiModalProcessor._get_mm_fields_config(None, values, {})  # type: ignore[arg-type]
    return MultiModalKwargsItems.from_hf_inputs(values, fields)["audio"][0]


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl"])
def test_counts_are_the_rows_before_videos_are_pruned(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    config = models.make_config(checkpoint(name), video_pruning_rate=0.6)
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    for data in (_videos((6, 224, 224)), _images((280, 280))):
        inputs = models.make_inputs(config, data)
        counts = lora.counts_of(manager.model, inputs)
        _check_rows(manager, config, counts, inputs.mm_kwargs)


# Towers that run some of the rows in other calls: each has the adapter of them all

IN_PARTS = ("gemma4", "keye", "pixtral")


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("name", IN_PARTS)
def test_counts_are_the_rows_of_towers_that_run_items_in_parts(
    name: str, checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda *_: (1 << 34, 1 << 36))
    family = families.FAMILIES[name]
    config = models.make_config(checkpoint(name), **family.options)
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    embed, embeds = manager.model.embed_multimodal, list[int]()

    def embed_and_measure(**items: Any) -> Any:
        found = embed(**items)
        embeds.extend(map(len, found))
        return found

    manager.model.embed_multimodal = embed_and_measure
    for _, requests in families.cases(family, config):
        embeds.clear()
        items = [item for request in requests for item in request.mm_kwargs]
        rows = lora.run_rows(manager, config, items)
        counts = [
            manager.model.get_mm_lora_token_counts(modality=m, mm_kwargs=item, num_mm_embeds=n)
            for (m, item), n in zip(items, embeds, strict=True)
        ]
        tower, connector = (sum(count[place] or 0 for count in counts) for place in (0, 1))
        assert max(map(sum, rows.tower.values())) == tower
        assert max(map(sum, rows.connector.values())) == connector


# Towers whose configuration or processor is code on the hub


def _counts_by_hand(name: str, model: Any, items: list[tuple[str, Any]]) -> list[Counts]:
    return [
        model.get_mm_lora_token_counts(modality=modality, mm_kwargs=item, num_mm_embeds=embeds)
        for (modality, item), embeds in zip(items, bare.BARE[name].embeds, strict=True)
    ]


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("name", ["dots_ocr", "h2ovl"])
def test_counts_are_the_rows_of_towers_that_are_built_by_hand(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    config = bare.make_config(name, folder)
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    items = bare.make_items(name, config)
    _check_rows(manager, config, _counts_by_hand(name, manager.model, items), items)


def test_moondream3_counts_the_rows_of_its_linear_layers(tmp_path: Path) -> None:
    """It takes no LoRA, so of the layers that would."""
    from vllm.model_executor.layers.linear import LinearBase
    from vllm.model_executor.models.module_mapping import MultiModelKeys

    config = bare.make_config("moondream3", tmp_path)
    model = models.make_model(config)
    items = bare.make_items("moondream3", config)
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, LinearBase)}
    parts = MultiModelKeys.from_string_field("text", "vision_proj", "vision")
    rows = lora.count_rows(model, layers, parts, config, items)
    counts = _counts_by_hand("moondream3", model, items)
    tower, connector = ([count[place] for count in counts] for place in (0, 1))
    assert rows.tower == dict.fromkeys(rows.tower, tower)
    assert rows.connector == dict.fromkeys(rows.connector, connector)
    assert rows.tower
    assert rows.connector


UNMEASURED = {"OpenVLA": "its tower is a timm model, which the environment lacks"}
"""Classes with a hook whose rows none of these tests counts, and why."""
MEASURED = {
    *("Blip2", "DotsOCR", "Gemma3", "Gemma4", "Glm4v", "H2OVLChatModel", "Idefics3", "Llama4"),
    *("InternVLChatModel", "BaseKeyeModule", "Llava", "LlavaNextVideo", "Moondream3", "PaliGemma"),
    *("Pixtral", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "Qwen3ASR", "UltravoxModel"),
}
"""Those that do count, by where their hook was; that of InternVL as Qianfan-OCR."""


def test_each_class_with_a_hook_is_measured_or_named() -> None:
    assert {owner for _, owner in hooked()} == MEASURED | UNMEASURED.keys()


def test_the_audio_tower_of_qwen3_answers_as_the_pinned_release_does(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It packs valid rows before its first linear layer, for all users."""
    import torch
    from vllm.forward_context import set_forward_context
    from vllm.model_executor.models import qwen3_omni_moe_thinker as module
    from vllm.multimodal.utils import group_and_batch_mm_kwargs
    from vllm.utils.gpu_sync_debug import gpu_sync_allowed

    (forward,) = (
        node
        for cls in ast.parse(pinned_source(module.__name__)).body
        if isinstance(cls, ast.ClassDef) and cls.name == "Qwen3OmniMoeAudioEncoder"
        for node in cls.body
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    )
    namespace = vars(module) | {"gpu_sync_allowed": gpu_sync_allowed}
    exec(compile(ast.Module([forward], type_ignores=[]), "pinned", "exec"), namespace)

    config = models.make_config(checkpoint("qwen3_asr"))
    model = models.make_model(config)
    inputs = models.make_inputs(config, _audios(3, 7.3, 0.5))

    def embed() -> list[Any]:
        found: list[Any] = []
        with models.one_process(config), torch.inference_mode(), set_forward_context(None, config):
            for _, _, batch in group_and_batch_mm_kwargs(inputs.mm_kwargs, device=model.device):
                found.extend(model.embed_multimodal(**batch))
        return found

    model.device = torch.device("cpu")
    patched = embed()
    monkeypatch.setattr(module.Qwen3OmniMoeAudioEncoder, "forward", namespace["forward"])
    pinned = embed()
    for one, other in zip(patched, pinned, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
