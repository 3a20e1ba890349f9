"""Attention gets the length of the longest sequence from the host."""

# ruff: noqa: ANN401 (stand-ins for towers)

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import Accelerator, DeviceTensor
from tests.support.pinned_audit import GetReport
from tests.support.towers import Block, Sent, bounds, faults, of_model, run_layer, waits

GRIDS = torch.tensor([[1, 4, 4], [1, 2, 4]])
WINDOWS = (torch.arange(6), [0, 16, 20, 24])


def siglip2navit(sent: Sent, block: Block) -> None:
    tower = SimpleNamespace(
        rot_pos_emb=lambda _: sent(24, 2), get_window_index=lambda _: WINDOWS,
        spatial_merge_unit=4, layers=[block, block], fullatt_block_indexes=[1],
    )  # fmt: skip
    of_model("siglip2navit", "Siglip2Encoder").forward(tower, sent(24, 8), GRIDS)


def openpangu_vl(sent: Sent, block: Block) -> None:
    tower = SimpleNamespace(
        rot_pos_emb=lambda _: sent(24, 2), get_window_index=lambda _: WINDOWS,
        spatial_merge_unit=4, blocks=[block, block], fullatt_block_indexes=[1],
        patch_embed=lambda x: x, cal_cos_sin=lambda x: (x, x), final_layernorm=lambda x: x,
        take_indices=[1], select_layer=[0], merger=[lambda x: x[::4]],
        vision_projection=lambda x: x,
    )  # fmt: skip
    of_model("openpangu_vl", "OpenPanguVisionTransformer").forward(tower, sent(24, 8), GRIDS)


def kanana_v(sent: Sent, block: Block) -> None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    cls = of_model("kanana_v", "CustomQwen2VLVE")
    tower = SimpleNamespace(
        device=sent(1).device, dtype=torch.float32, patch_embed=lambda x: x,
        rot_pos_emb=lambda _: (None, None), blocks=[block],
        attn_backend=AttentionBackendEnum.FLASH_ATTN,
    )  # fmt: skip
    tower.compute_attn_mask_seqlen = lambda x: cls.compute_attn_mask_seqlen(tower, x)
    cls.forward(tower, sent(24, 8), GRIDS, return_dict=True)


@pytest.mark.parametrize("run", [siglip2navit, openpangu_vl, kanana_v])
def test_the_longest_sequence_is_known_on_the_host(
    accelerator: Accelerator, sent: Sent, run: Any
) -> None:
    block = Block()

    run(sent, block)

    assert block.seen
    assert waits(accelerator) == []


@pytest.mark.parametrize(
    ("module", "layer", "attention", "more"),
    [
        (
            "siglip2navit", "Siglip2EncoderLayer", "Siglip2Attention",
            {"position_embeddings": None},
        ),
        ("openpangu_vl", "OpenPanguVisionBlock", "OpenPanguVisionAttention", {"cos": 0, "sin": 0}),
    ],
)  # fmt: skip
def test_layers_hand_it_to_attention(
    accelerator: Accelerator,
    sent: Sent,
    module: str,
    layer: str,
    attention: str,
    more: dict[str, Any],
) -> None:
    block = Block()
    cu_seqlens, longest = bounds(sent)

    run_layer(
        block, module, layer, attention, sent(6, 8),
        cu_seqlens=cu_seqlens, max_seqlen=longest, **more,
    )  # fmt: skip

    assert [x for _, x in block.seen] == [longest]
    assert waits(accelerator) == []


@pytest.mark.parametrize("family", ["keye", "paddleocr_vl"])
def test_attention_waits_for_no_length(report: GetReport, family: str) -> None:
    """What else these two wait for is up to their fields."""
    places = {wait for run in report(family).runs for wait in run.waits}
    assert [place for place in places if "attention" in place] == []


def test_moonvit_bounds_its_sequences_without_a_wait(accelerator: Accelerator, sent: Sent) -> None:
    seen: dict[str, Any] = {}

    def block(x: Any, bounds: Any, **options: Any) -> Any:
        seen.update(options, bounds=bounds)
        return x

    encoder = SimpleNamespace(
        rope_2d=SimpleNamespace(get_freqs_cis_by_seqlens=lambda **_: None),
        blocks=[block], final_layernorm=lambda x: x,
    )  # fmt: skip

    of_model("moonvit", "MoonVitEncoder").forward(
        encoder, sent(20, 3), torch.tensor([[4, 4], [2, 2]])
    )

    assert seen["bounds"].host.tolist() == [0, 16, 20]
    assert int(seen["max_seqlen"]) == 16
    assert not isinstance(seen["max_seqlen"], DeviceTensor)
    assert faults(accelerator) == []
