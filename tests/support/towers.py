"""Encoders on the simulated accelerator, a part at a time."""

# ruff: noqa: ANN401 (classes of vLLM)

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor

Sent = Callable[..., torch.Tensor]


def of_model(module: str, name: str) -> Any:
    return getattr(import_module(f"vllm.model_executor.models.{module}"), name)


def beside_pruned_image(model_cls: Any, embeds: torch.Tensor) -> Any:
    """What such a model makes of an image of 2 by 3 `embeds` where it prunes videos: positions come
    behind them.
    """
    model = SimpleNamespace(
        visual=SimpleNamespace(spatial_merge_size=2), is_multimodal_pruning_enabled=True
    )
    image = {"image_grid_thw": torch.tensor([[1, 4, 6]])}
    (with_positions,) = model_cls._postprocess_image_embeds_evs(model, (embeds,), image)
    return with_positions


def faults(accelerator: Accelerator) -> list[str]:
    return [str(fault) for fault in accelerator.record.faults()]


def waits(accelerator: Accelerator) -> list[str]:
    """With those that the tree allows."""
    return [str(sync) for sync in accelerator.record.syncs]


def sender(accelerator: Accelerator) -> Sent:
    """Makes tensors of zeros on the device."""

    def make(*shape: int) -> torch.Tensor:
        with accelerator.unwatched():
            return torch.zeros(shape).to(DEVICE)

    return make


def select(cls: Any, mm_kwargs: dict[str, Any], indices: list[int]) -> int:
    """How many items `cls` selects for a graph; each field stays where it is."""
    selected = cls.select_encoder_cudagraph_items(cls.__new__(cls), mm_kwargs, indices)
    for key, value in selected.items():
        assert isinstance(value, DeviceTensor) == isinstance(mm_kwargs[key], DeviceTensor), key
    (number,) = {len(selected[key]) for key in mm_kwargs if "grid" in key or "num" in key} or {
        len(selected[key]) for key in mm_kwargs
    }
    return number


class Block:
    """Takes the place of a block: notes bounds and longest sequence, and gives back `x`."""

    def __init__(self) -> None:
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, x: Any, *bounds: Any, **options: Any) -> Any:
        cu_seqlens, longest = (*bounds[:2], options.get("cu_seqlens"), options.get("max_seqlen"))[
            (0 if bounds else -2) :
        ][:2]
        assert isinstance(cu_seqlens, DeviceTensor)
        assert isinstance(longest, torch.Tensor)
        assert not isinstance(longest, DeviceTensor)
        assert int(longest) == int(cu_seqlens.host.diff().max())
        self.seen.append((cu_seqlens, longest))
        return x


def bounds(sent: Sent) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one sequence of six, on the device; and six, on the host."""
    cu_seqlens = sent(2)
    assert isinstance(cu_seqlens, DeviceTensor)
    cu_seqlens.host[1] = 6
    return cu_seqlens, torch.tensor(6)


def run_layer(
    block: Block, module: str, layer: str, attention: str, *args: Any, **more: Any
) -> None:
    """Run one layer, and its attention down to the kernel, which is `block`; sizes are of 8."""
    size = 8

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
    of_model(module, layer).forward(whole, *args, **more)
