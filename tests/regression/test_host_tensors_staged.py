"""What encoders make on the host goes to the device from pinned memory, without a wait."""

# ruff: noqa: ANN401 (stand-ins for models)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor
from tests.support.audit import audit
from tests.support.families import FAMILIES
from tests.support.towers import Sent, beside_pruned_image, faults, of_model, select

GRIDS = torch.tensor([[4, 4], [2, 2]])


@pytest.mark.parametrize("family", ["glm4_1v", "lfm2_vl", "pixtral", "qwen2_5_vl"])
def test_nothing_is_sent_from_pageable_memory(
    checkpoint: Callable[[str], Path], family: str
) -> None:
    runs = audit(FAMILIES[family], checkpoint(family)).runs

    assert {run.step for run in runs} >= {"runner v1", "runner v2"}
    assert [(run.step, run.case) for run in runs if run.h2d_pageable_bytes] == []


def gemma4(sent: Sent) -> dict[str, Any]:
    return {"pixel_values": sent(2, 6, 3), "pixel_position_ids": sent(2, 6, 2)}


def step3(sent: Sent) -> dict[str, Any]:
    patches = {"patch_pixel_values": sent(3, 3, 4, 4), "num_patches": torch.tensor([1, 2])}
    return {"pixel_values": sent(2, 3, 8, 8), **patches}


def lfm2(sent: Sent) -> dict[str, Any]:
    return {"pixel_values": sent(2, 16, 3), "spatial_shapes": GRIDS,
            "num_patches": torch.tensor([1, 1])}  # fmt: skip


@pytest.mark.parametrize("indices", [[], [1], [1, 0]])
@pytest.mark.parametrize(
    ("module", "name", "make"),
    [
        ("gemma4_mm", "Gemma4ForConditionalGeneration", gemma4),
        ("step3_vl", "Step3VLForConditionalGeneration", step3),
        ("lfm2_vl", "Lfm2VLForConditionalGeneration", lfm2),
    ],
)
def test_items_for_a_graph_are_selected_where_their_fields_are(
    accelerator: Accelerator, sent: Sent, module: str, name: str, make: Any, indices: list[int]
) -> None:
    assert select(of_model(module, name), make(sent), indices) == len(indices)
    assert faults(accelerator) == []


def test_sequence_lengths_for_flashinfer_are_sent_without_a_wait(accelerator: Accelerator) -> None:
    import numpy as np
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    bounds = np.array([0, 3, 5], dtype=np.int32)
    lengths = MMEncoderAttention.maybe_compute_seq_lens(
        AttentionBackendEnum.FLASHINFER, bounds, DEVICE
    )

    assert isinstance(lengths, DeviceTensor)
    assert lengths.host[:2].flatten().tolist() == [3, 2]
    assert faults(accelerator) == []


def test_positions_beside_pruned_images_of_qwen2_5_are_sent_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    embeds = beside_pruned_image(
        of_model("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"), sent(6, 8)
    )

    assert embeds.host[:, 8:11].tolist() == [[0, h, w] for h in range(2) for w in range(3)]
    assert faults(accelerator) == []


def test_positions_beside_a_pruned_video_of_qwen2_5_are_sent_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    model = SimpleNamespace(
        visual=SimpleNamespace(spatial_merge_size=2),
        config=SimpleNamespace(vision_config=SimpleNamespace(tokens_per_second=2)),
        video_pruning_rate=0.5,
    )
    video = {"video_grid_thw": torch.tensor([[2, 4, 4]]), "second_per_grid_ts": torch.ones(1)}
    prune = of_model(
        "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"
    )._postprocess_video_embeds_evs

    (embeds,) = prune(model, (sent(8, 6),), video)

    assert embeds.shape == (4, 10)
    assert faults(accelerator) == []


def test_rotary_tables_of_qwen2_5_are_gathered_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    """Which a family's run does once, and keeps."""
    cls = of_model("qwen2_5_vl", "Qwen2_5_VisionTransformer")
    tower = SimpleNamespace(
        spatial_merge_size=2, spatial_merge_unit=4,
        rotary_pos_emb=SimpleNamespace(get_cos_sin=lambda size: (sent(size, 3), sent(size, 3))),
        get_window_index_thw=lambda *_: (torch.arange(4), torch.tensor([0, 16])),
    )  # fmt: skip
    tower.rotary_pos_emb_thw = MethodType(cls.rotary_pos_emb_thw, tower)

    cos, sin, index, *_ = cls.get_rope_by_thw.__wrapped__(tower, 1, 4, 4)

    assert cos.shape == sin.shape == (16, 6)
    assert [isinstance(x, DeviceTensor) for x in (cos, sin, index)] == [True, True, False]
    assert faults(accelerator) == []


def test_masks_of_phi4mm_for_other_chunks_are_sent_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    encoder = SimpleNamespace(
        compute_lens_change=lambda length: length, chunk_size=2, left_chunk=1,
        _streaming_mask=lambda length, *_: torch.ones(1, length, length, dtype=torch.bool),
        _forward_embeddings_core=lambda x, masks: (x, masks),
        _position_embedding=lambda _: (None, None),
    )  # fmt: skip
    embed = of_model("phi4mm_audio", "TransformerEncoderBase").forward_embeddings

    masks = [x for x in embed(encoder, sent(1, 4, 3), None, 4, 1)
             if isinstance(x, torch.Tensor) and x.dtype == torch.bool]  # fmt: skip

    assert [isinstance(mask, DeviceTensor) for mask in masks] == [True, True]
    assert faults(accelerator) == []


def test_the_streaming_mask_of_phi4mm_alone_is_sent_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    encoder = SimpleNamespace(
        chunk_size=2, left_chunk=1,
        _streaming_mask=lambda length, *_: torch.ones(1, length, length, dtype=torch.bool),
    )  # fmt: skip
    calculate = of_model("phi4mm_audio", "ConformerEncoder").calculate_hs_mask

    mask = calculate(encoder, sent(1, 4, 3), DEVICE, None)

    assert isinstance(mask, DeviceTensor)
    assert faults(accelerator) == []
