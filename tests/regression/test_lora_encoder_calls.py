"""One call of the encoder serves one adapter, and no more rows than the LoRA buffers hold."""

# ruff: noqa: ANN401 (models and their items)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
import torch

from tests.support import lora, models
from tests.support.stand_ins import hooked, instance, llavas, modalities, stand_ins


def split(
    lora_ids: Sequence[int], counts: Sequence[lora.Counts], held: tuple[int, int | None]
) -> list[list[int]]:
    from vllm.lora.model_manager import LoRAModelManager

    manager: Any = SimpleNamespace(max_mm_lora_tokens=held)
    calls: list[list[int]] = LoRAModelManager.split_mm_items(manager, lora_ids, counts)
    return calls


def held_for(
    model: Any, limits: Mapping[str, int], budget: int, pruning: float
) -> tuple[int, int | None]:
    """Rows of the buffers that the manager makes for towers and connectors of `model`."""
    from vllm.lora import model_manager
    from vllm.model_executor.models.module_mapping import MultiModelKeys

    model.get_mm_mapping = lambda: MultiModelKeys.from_string_field("text", "connector", "tower")
    multimodal = SimpleNamespace(language_model_only=False, video_pruning_rate=pruning)
    config: Any = MagicMock()
    config.model_config.multimodal_config = multimodal
    config.model_config.get_multimodal_config.return_value = multimodal
    encoder_budget = SimpleNamespace(
        mm_max_items_per_prompt=limits,
        mm_max_toks_per_item=dict.fromkeys(limits, 1),
        get_encoder_budget=lambda: budget,
    )
    manager = MagicMock(model=model, max_num_seqs=8, max_mm_lora_tokens=None)
    with (
        patch.object(model_manager, "MultiModalBudget", lambda *_: encoder_budget),
        patch.object(model_manager, "get_punica_wrapper") as make,
    ):
        model_manager.LoRAModelManager._maybe_init_mm(manager, config, 2048)
    _, *rows = (call.args[0] for call in make.call_args_list)
    held: tuple[int, int | None] = manager.max_mm_lora_tokens
    assert rows == [n for n in held if n is not None]
    return held


def drawn_item(
    draw: random.Random, model: Any, kind: str, most: int, pruning: float
) -> tuple[int, lora.Counts]:
    """Embeddings of an item, `most` at most, and its rows; of what its fields steer, from them."""
    from vllm.multimodal.video_prune import evs, vidcom2

    embeds = min(draw.choice((1, 7, 64, 256, 577, most)), most)
    fields: dict[str, Any] | None = None
    owner = next(name for cls, name in hooked() if isinstance(model, cls))
    if owner in ("Qwen2_5_VL", "Qwen3VL") and kind == "video":
        frames, merge = draw.randint(1, 40), model.config.vision_config.spatial_merge_size
        grid = [frames, draw.randint(1, 9) * merge, draw.randint(1, 9) * merge]
        per_frame = grid[1] * grid[2] // merge**2
        method: Any = draw.choice((evs, vidcom2))
        embeds = method.compute_retained_tokens_count(per_frame, frames, pruning)
        fields = {"video_grid_thw": SimpleNamespace(data=torch.tensor(grid))}
    elif owner == "Gemma4" and kind != "audio":
        shown = draw.randint(1, 40) if kind == "video" else 1
        soft = 70 if kind == "video" else draw.choice((70, 140, 280, 560, 1120))
        embeds = shown * draw.randint(soft // 2, soft)
        patches = soft * model.config.vision_config.pooling_kernel_size**2
        key = "pixel_values_videos" if kind == "video" else "pixel_values"
        shape = (shown, patches, 1) if kind == "video" else (patches, 1)
        fields = {key: SimpleNamespace(data=torch.empty(shape, device="meta"))}
    counts = model.get_mm_lora_token_counts(modality=kind, mm_kwargs=fields, num_mm_embeds=embeds)
    return embeds, counts


def flagged() -> Iterator[Any]:
    """A stand-in of every kind of every class with the flag."""
    from vllm.model_executor.models.interfaces import supports_tower_connector_lora

    for cls, owner in hooked():
        if supports_tower_connector_lora(cls):
            found = [model for model, *_ in llavas()] if owner == "Llava" else stand_ins(owner)
            yield from (instance(cls, stand_in) for stand_in in found)


def test_no_schedulable_set_of_items_needs_more_rows_in_a_call_than_are_held() -> None:
    """Over every class with the flag: modalities mixed; limits, budget and pruning at random."""
    draw = random.Random(0)
    tried = 0
    for model in flagged():
        for _ in range(6):
            kinds = modalities(type(model))
            limits = {
                k: draw.randint(1, 9) for k in draw.sample(kinds, draw.randint(1, len(kinds)))
            }
            budget, pruning = draw.choice((300, 1024, 8192)), draw.choice((0.0, 0.3, 0.75, 0.99))
            held = held_for(model, limits, budget, pruning)
            items, left = [], budget
            for _ in range(200):
                embeds, counts = drawn_item(draw, model, draw.choice(sorted(limits)), left, pruning)
                if embeds <= left:
                    left -= embeds
                    items.append(counts)
                if not left:
                    break
            lora_ids = [draw.randrange(4) for _ in items]
            calls = split(lora_ids, items, held)
            assert sorted(i for call in calls for i in call) == list(range(len(items)))
            for call in calls:
                assert len({lora_ids[i] for i in call}) == 1
                assert sum(items[i][0] for i in call) <= held[0], (type(model), limits)
                assert sum(items[i][1] or 0 for i in call) <= (held[1] or 0), type(model)
            tried += len(items)
    assert tried > 5000


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
    from vllm.engine.arg_utils import EngineArgs

    args = EngineArgs(
        model=str(checkpoint("qwen3_vl")),
        dtype="float32",
        max_model_len=models.MAX_MODEL_LEN,
        enforce_eager=True,
        compilation_config={"cudagraph_mm_encoder": True},  # type: ignore[arg-type]
        enable_lora=True,
        enable_tower_connector_lora=tower,
    )
    with models.inspected_in_this_process():
        made = args.create_engine_config()
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
