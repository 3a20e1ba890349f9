"""One call of the encoder serves one adapter, and no more rows than the LoRA buffers hold."""

# ruff: noqa: ANN401 (models and their items)

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import lora, models
from tests.support.stand_ins import ask, hooked, instance, modalities, stand_ins


def split(
    lora_ids: Sequence[int], counts: Sequence[lora.Counts], held: tuple[int, int | None]
) -> list[list[int]]:
    from vllm.lora.model_manager import LoRAModelManager

    manager: Any = SimpleNamespace(max_mm_lora_tokens=held)
    calls: list[list[int]] = LoRAModelManager.split_mm_items(manager, lora_ids, counts)
    return calls


def test_no_schedulable_set_of_items_needs_more_rows_in_a_call_than_are_held() -> None:
    """Over every class with the flag: its modalities mixed, items and budget at random."""
    from vllm.model_executor.models.interfaces import supports_tower_connector_lora

    draw = random.Random(0)
    tried = 0
    for cls, owner in hooked():
        if not supports_tower_connector_lora(cls):
            continue
        for stand_in in stand_ins(owner):
            model = instance(cls, stand_in)
            kinds = modalities(cls)
            for _ in range(5):
                budget = draw.choice((300, 1024, 8192))
                counts_at = [ask(cls, model, budget, kind) for kind in kinds]
                held = max(t for t, _ in counts_at), max((c or 0 for _, c in counts_at)) or None
                items, left = [], budget
                while left > 0 and len(items) < 200:
                    embeds = min(draw.choice((1, 7, 64, 256, 577, budget)), left)
                    left -= embeds
                    items.append(ask(cls, model, embeds, draw.choice(kinds)))
                lora_ids = [draw.randrange(4) for _ in items]
                calls = split(lora_ids, items, held)
                assert sorted(i for call in calls for i in call) == list(range(len(items)))
                for call in calls:
                    assert len({lora_ids[i] for i in call}) == 1
                    assert sum(items[i][0] for i in call) <= held[0], (cls, vars(stand_in))
                    assert sum(items[i][1] or 0 for i in call) <= (held[1] or 0)
                tried += len(items)
    assert tried > 1000


def test_pruned_videos_are_held_whole(
    make_manager: Callable[..., Any],
) -> None:
    plain, pruned = (
        make_manager("qwen3_vl", video_pruning_rate=rate).max_mm_lora_tokens for rate in (0.0, 0.75)
    )
    assert pruned[0] >= 4 * plain[0]
    assert pruned[1] >= 4 * plain[1]


def test_buffers_are_as_long_as_the_manager_says(make_manager: Callable[..., Any]) -> None:
    manager = make_manager("gemma4")
    prefixes = ("vision_tower", "embed_vision")
    for prefix, rows in zip(prefixes, manager.max_mm_lora_tokens, strict=True):
        assert len(manager.punica_wrapper_mapping[prefix]._token_lora_indices) == rows
    two_images = 2 * 2520
    assert manager.max_mm_lora_tokens[0] >= two_images


# What a call does not run


def test_a_part_of_the_mapped_rows_gets_their_adapter_on_the_cpu() -> None:
    import torch
    from vllm.lora.layers import LoRAMapping
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    wrapper = PunicaWrapperCPU(8, 2, "cpu")
    wrapper.update_metadata(LoRAMapping((7,) * 6, (7,), is_prefill=True), [None, 7], 3, 100)
    a, b = torch.rand(2, 1, 4, 16), torch.rand(2, 1, 5, 4)
    x = torch.rand(3, 16)
    y = torch.zeros(3, 5)
    wrapper.add_lora_linear(y, x, (a,), (b,), 1.0, (5,))
    assert torch.allclose(y, x @ a[1, 0].T @ b[1, 0].T, atol=1e-4)
    shrunk = torch.zeros(1, 3, 4)
    wrapper.add_shrink(shrunk, x, (a,), 1.0)
    expanded = torch.zeros(3, 5)
    wrapper.add_expand(expanded, shrunk, (b,), (5,), add_inputs=True)
    assert torch.allclose(expanded, y, atol=1e-4)


@pytest.mark.parametrize("fewer", [True, False])
def test_kernels_are_told_of_no_more_rows_than_they_get(fewer: bool) -> None:
    import torch
    from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta

    meta = LoRAKernelMeta.make(2, 8, "cpu", allow_fewer_tokens=fewer)
    meta.prepare_tensors(torch.full((6,), 1))
    told = meta.meta_args(4, specialize_active_lora=False)
    assert [len(rows) for rows in told[:2]] == [4, 4]
    assert told[2].tolist() == [4 if fewer else 6, 0, 0]
    assert told[2].dtype == torch.int32


# Options


@pytest.mark.parametrize("tower", [True, False])
def test_encoder_graphs_are_off_with_one_line_where_towers_have_lora(
    tower: bool, checkpoint: Callable[[str], Path], vllm_log: pytest.LogCaptureFixture
) -> None:
    from vllm.config import CompilationConfig, VllmConfig

    config = models.make_config(checkpoint("qwen3_vl"))
    made = VllmConfig(
        model_config=config.model_config,
        cache_config=config.cache_config,
        device_config=config.device_config,
        compilation_config=CompilationConfig(cudagraph_mm_encoder=True),
        lora_config=lora.tower_lora(tower=tower),
    )
    assert made.compilation_config.cudagraph_mm_encoder != tower
    assert vllm_log.text.count("Disabling `cudagraph_mm_encoder`") == tower


# Gemma 4


ITEMS: Mapping[str, Sequence[Any]] = {
    "image": [models.image(300, 200), models.image(40, 900, seed=1)],
    "video": [models.video(5, 64, 48), models.video(2, 90, 30, seed=1)],
    "audio": [models.audio(1.3), models.audio(0.2, seed=1)],
}


@pytest.fixture(scope="module")
def gemma4(checkpoint: Callable[[str], Path]) -> tuple[Any, Any]:
    config = models.make_config(checkpoint("gemma4"))
    config.lora_config = lora.tower_lora()
    manager = lora.make_manager(models.make_model(config), config)
    for adapter in (1, 2):
        lora.add_adapter(manager, adapter, scale=0.3, seed=adapter)
    return manager, config


@pytest.mark.parametrize("parts", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("kind", ITEMS)
def test_gemma4_gives_each_item_what_it_gets_alone(
    kind: str, parts: bool, gemma4: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    manager, config = gemma4
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda *_: (1 << 34, 1 << 36))
    if parts:
        monkeypatch.setattr(type(manager.model), "_encoder_chunk", staticmethod(lambda *_: 1))
    inputs = models.make_inputs(config, {kind: ITEMS[kind]})
    counts = lora.counts_of(manager.model, inputs)
    told = {}
    for adapter in (0, 1, 2):
        together = encode(manager, config, inputs.mm_kwargs, counts, adapter)
        for index, item in enumerate(inputs.mm_kwargs):
            (alone,) = encode(manager, config, [item], [counts[index]], adapter)
            assert torch.allclose(together[index], alone, atol=1e-4)
        told[adapter] = together[0]
    assert not torch.allclose(told[0], told[1], atol=1e-3)
    assert not torch.allclose(told[1], told[2], atol=1e-3)


def encode(
    manager: Any,
    config: Any,
    mm_kwargs: list[tuple[str, Any]],
    counts: Sequence[lora.Counts],
    adapter: int,
) -> list[Any]:
    """What the encoder makes of items with `adapter`, by a mapping of their `counts`."""
    import torch
    from vllm.forward_context import set_forward_context
    from vllm.lora.layers import LoRAMapping, LoRAMappingType
    from vllm.multimodal.utils import group_and_batch_mm_kwargs

    for place, kind in enumerate((LoRAMappingType.TOWER, LoRAMappingType.CONNECTOR)):
        rows = sum(count[place] or 0 for count in counts)
        manager.set_adapter_mapping(
            LoRAMapping((adapter,) * rows, (adapter,) * len(counts), is_prefill=True, type=kind)
        )
    found: list[Any] = []
    with (
        models.one_process(config), torch.inference_mode(), set_forward_context(None, config)
    ):  # fmt: skip
        for _, _, batch in group_and_batch_mm_kwargs(mm_kwargs, device=torch.device("cpu")):
            found.extend(manager.model.embed_multimodal(**batch))
    return found


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("soft_tokens", [70, 1120])
def test_gemma4_counts_at_least_the_rows_of_its_tower(
    kind: str, soft_tokens: int, gemma4: tuple[Any, Any], checkpoint: Callable[[str], Path]
) -> None:
    manager, _ = gemma4
    options = {"mm_processor_kwargs": {"max_soft_tokens": soft_tokens}}
    config = models.make_config(checkpoint("gemma4"), **options)
    inputs = models.make_inputs(config, {kind: ITEMS[kind]})
    for (tower, connector), feature in zip(
        lora.counts_of(manager.model, inputs), inputs.features, strict=True
    ):
        embeds = feature.mm_position.get_num_embeds()
        assert connector == embeds
        budget = manager.model.get_mm_lora_token_counts(
            modality=kind, mm_kwargs=None, num_mm_embeds=embeds
        )
        assert budget[0] >= tower
