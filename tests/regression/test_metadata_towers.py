"""Towers that no audited family has get what attention reads on the host from the host."""

# ruff: noqa: ANN401 (stand-ins for towers)

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support import placement
from tests.support.accelerator import Accelerator, DeviceTensor
from tests.support.towers import Sent, of_model, waits

GRIDS = torch.tensor([[1, 4, 4], [1, 2, 4]])
WINDOWS = (torch.arange(6), [0, 16, 20, 24])


def is_on_host(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, DeviceTensor)


class Block:
    """Notes what it gets, and gives back what it got."""

    def __init__(self) -> None:
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, x: Any, *bounds: Any, **options: Any) -> Any:
        cu_seqlens, longest = (*bounds[:2], options.get("cu_seqlens"), options.get("max_seqlen"))[
            (0 if bounds else -2) :
        ][:2]
        assert isinstance(cu_seqlens, DeviceTensor)
        assert is_on_host(longest)
        assert int(longest) == int(cu_seqlens.host.diff().max())
        self.seen.append((cu_seqlens, longest))
        return x


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


def funaudiochat(sent: Sent, block: Block) -> None:
    cls = of_model("funaudiochat", "FunAudioChatAudioEncoder")
    tower = SimpleNamespace(
        n_window=2, dtype=torch.float32, conv1=lambda x: x, conv2=lambda x: x[..., ::2],
        positional_embedding=SimpleNamespace(positional_embedding=sent(8, 3)),
        layers=[lambda x, **options: (block(x, **options),)],
        proj=lambda x: x, ln_post=lambda x: x,
    )  # fmt: skip
    tower.padded_and_mask_function = lambda *args, **options: cls.padded_and_mask_function(
        tower, *args, **options
    )
    lengths = torch.tensor([6, 3])
    cls.forward(tower, sent(3, 9), lengths, (lengths - 1) // 2 + 1, speech_maxlen=4)


@pytest.mark.parametrize("run", [siglip2navit, openpangu_vl, kanana_v, funaudiochat])
def test_the_longest_sequence_is_known_on_the_host(
    accelerator: Accelerator, sent: Sent, run: Any
) -> None:
    block = Block()

    run(sent, block)

    assert block.seen
    assert waits(accelerator) == []


@pytest.mark.parametrize(
    ("module", "layer", "attention", "size"),
    [
        ("siglip2navit", "Siglip2EncoderLayer", "Siglip2Attention", 8),
        ("openpangu_vl", "OpenPanguVisionBlock", "OpenPanguVisionAttention", 8),
        ("funaudiochat", "FunAudioChatAudioEncoderLayer", "FunAudioChatAudioAttention", 8),
    ],
)
def test_layers_hand_it_to_attention(
    accelerator: Accelerator, sent: Sent, module: str, layer: str, attention: str, size: int
) -> None:
    block = Block()
    cu_seqlens, longest = sent(2), torch.tensor(6)
    cu_seqlens.host[1] = 6

    def same(x: Any, *_: Any) -> Any:
        return x

    def kernel(*qkv: Any, **options: Any) -> Any:
        x = qkv[0] if qkv else options["query"]
        return block(x, **{k: v for k, v in options.items() if "seqlen" in k})

    attend = SimpleNamespace(
        qkv_proj=lambda x: (torch.cat([x, x, x], -1), None), out_proj=lambda x: (x, None),
        qkv=lambda x: (torch.cat([x, x, x], -1), None), proj=lambda x: (x, None),
        num_heads_per_partition=2, head_dim=size // 2, use_rope=False, q_size=size, kv_size=size,
        hidden_size_per_attention_head=size // 2, attn=kernel, apply_rotary_emb=lambda x, *_: x,
    )  # fmt: skip

    def self_attn(*args: Any, **options: Any) -> Any:
        return of_model(module, attention).forward(attend, *args, **options)

    whole = SimpleNamespace(
        layer_norm1=same, layer_norm2=same, mlp=same, norm1=same, norm2=same, fc1=same, fc2=same,
        self_attn_layer_norm=same, final_layer_norm=same, activation_fn=same, training=False,
        activation_dropout=0.0, dropout=0.0, self_attn=self_attn, attn=self_attn,
    )  # fmt: skip
    more: dict[str, dict[str, Any]] = {
        "siglip2navit": {"position_embeddings": None},
        "openpangu_vl": {"cos": 0, "sin": 0},
    }

    of_model(module, layer).forward(
        whole, sent(6, size), cu_seqlens=cu_seqlens, max_seqlen=longest, **more.get(module, {})
    )

    assert [x for _, x in block.seen] == [longest]
    assert waits(accelerator) == []


def test_few_and_many_padded_rows_are_packed_in_one_copy(
    accelerator: Accelerator, sent: Sent
) -> None:
    from vllm.model_executor.models.utils import pack_valid_rows

    padded = sent(1800, 5, 2)
    padded.host.copy_(torch.arange(18000.0).view(1800, 5, 2))
    lengths = [n % 7 for n in range(1800)]
    for number, copies in ((3, 0), (16, 0), (17, 1), (1800, 1)):
        before = len(accelerator.record.copies)
        packed = pack_valid_rows(padded[:number], lengths[:number])
        wanted = [padded.host[n, :length] for n, length in enumerate(lengths[:number])]
        assert torch.equal(packed.host, torch.cat(wanted))
        assert len(accelerator.record.copies) == before + copies
    assert accelerator.record.faults() == []


def test_several_tensors_go_in_one_copy(accelerator: Accelerator, sent: Sent) -> None:
    from vllm.model_executor.models.utils import tensors_h2d

    host = [torch.arange(6).view(2, 3), torch.tensor([True, False]), torch.empty(0).int()]

    there = tensors_h2d(host, sent(1).device)

    for wanted, found in zip(host, there, strict=True):
        assert isinstance(found, DeviceTensor)
        assert found.dtype == wanted.dtype
        assert torch.equal(found.host, wanted)
    assert len(accelerator.record.copies) == 1
    assert accelerator.record.faults() == []


@pytest.mark.parametrize("ragged", [False, True])
def test_gemma4_unified_strips_padding_by_what_the_host_knows(
    accelerator: Accelerator, sent: Sent, ragged: bool
) -> None:
    cls = of_model("gemma4_unified", "Gemma4UnifiedForConditionalGeneration")
    same = _Projection()
    model = SimpleNamespace(
        vision_embedder=lambda pixels, ids: pixels + ids.sum(-1, keepdim=True),
        embed_vision=same, embed_audio=same, _count_valid_patches=cls._count_valid_patches,
    )  # fmt: skip
    model._process_image_input = lambda image: cls._process_image_input(model, image)
    ids = torch.tensor([[[0, 0], [1, 0], [-1, -1]], [[0, 0], [-1, -1], [-1, -1]]])
    pixels = sent(2, 3, 4)
    images = {"pixel_values": pixels, "pixel_position_ids": ids}
    if ragged:
        images = {key: list(value) for key, value in images.items()}

    embeds = model._process_image_input(images)
    videos = cls._process_video_input(
        model,
        {
            "pixel_values_videos": pixels,
            "pixel_position_ids_videos": ids,
            "video_frame_counts": torch.tensor([2]),
        },
    )
    audios = cls._process_audio_input(
        model,
        {
            "input_features_padded": list(pixels[:, :2]),
            "input_features_mask": [torch.tensor([True, True]), torch.tensor([True])],
        },
    )

    assert [len(x) for x in embeds] == [2, 1]
    assert [len(x) for x in videos] == [3]
    assert [len(x) for x in audios] == [2, 1]
    assert waits(accelerator) == []


class _Projection:
    embedding_projection = SimpleNamespace(weight=torch.empty(0))

    def __call__(self, x: Any) -> Any:
        return x


ALLOWED = {
    "gemma4_mm.py _encode_patches": "attention of a kind other than SDPA: HF makes its mask",
    "jina.py forward": "no multimodal model; token ids are on the device alone",
    "moss_audio.py _process_audio_input": "open: its encoder reads lengths that it sent there",
    "qwen2_5_omni_thinker.py _process_audio_input": "HF's tower before transformers 5.9",
    "qwen2_5_omni_thinker.py embed_input_ids": "token ids of a step are on the device alone",
    "qwen2_5_vl.py _postprocess_video_embeds_evs": "which tokens are kept depends on the pixels",
    "qwen2_5_vl.py recompute_mrope_positions": "which tokens were kept depends on the pixels",
    "qwen3_vl.py _get_expanded_positions": "which tokens were kept depends on the pixels",
    "qwen3_vl.py _postprocess_video_embeds_evs": "which tokens are kept depends on the pixels",
    "qwen3_vl.py _recompute_mrope_positions": "which tokens were kept depends on the pixels",
    "siglip.py _flip_sequences_by_position_ids": "positions of a step are on the device alone",
    "terratorch.py forward": "raw inputs, of which its own code reads what it wants",
    "transformers/multimodal.py _process_audio_input": "code of HF, any of its models",
    "transformers/multimodal.py _process_image_input": "code of HF, any of its models",
}
"""Where a model may wait, and why the host cannot have the answer."""


def test_models_allow_waits_for_what_the_device_alone_knows() -> None:
    folder = placement.tree() / "model_executor" / "models"
    assert set(_allowed(folder)) == set(ALLOWED)


def _allowed(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(
                isinstance(node, ast.Call) and ast.unparse(node.func) == "gpu_sync_allowed"
                for node in ast.walk(function)
            ):
                yield f"{path.relative_to(folder).as_posix()} {function.name}"
