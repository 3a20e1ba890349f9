"""LoRA adapters, in the files that PEFT writes, each for one layer of the model that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RANK = 8
_ALPHA = 32
_WIDTH = 64  # rows and columns of every linear layer that is changed


@dataclass(frozen=True)
class Adapter:
    """`modules` are the paths of the linear layers that it has weights for.

    `targets` is what its configuration says of them: names, or a pattern of whole paths.
    """

    modules: tuple[str, ...]
    targets: tuple[str, ...] | str


def _adapter(
    layer: str, *modules: str, more: tuple[str, ...] = (), targets: tuple[str, ...] | str = ()
) -> Adapter:
    """Of the `modules` in `layer`; told by their last names and `more`, unless by `targets`."""
    names = (module.rpartition(".")[2] for module in modules)
    paths = tuple(f"{layer}.{module}" for module in modules)
    return Adapter(paths, targets or tuple(sorted({*names, *more})))


_LAYER = "model.layers.0"
_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkvo")
_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
_BAICHUAN = ("self_attn.W_pack", "self_attn.o_proj", *_MLP)

ADAPTERS: Mapping[str, Adapter] = {
    "charent/self_cognition_Alice": _adapter(_LAYER, *_ATTENTION, *_MLP),
    "jeeejeee/llama32-3b-text2sql-spider": _adapter(
        _LAYER, *_ATTENTION, *_MLP, more=("embed_tokens", "lm_head")
    ),
    "jeeejeee/baichuan7b-text2sql-spider": _adapter(_LAYER, *_BAICHUAN),
    "jeeejeee/baichuan7b-zero-init": _adapter(
        _LAYER, *_BAICHUAN, targets=tuple(f"{_LAYER}.{module}" for module in _BAICHUAN)
    ),
    "jeeejeee/baichuan-7b-lora-zero-regex": _adapter(
        _LAYER, "self_attn.W_pack", "self_attn.o_proj", targets=r"model\..*(W_pack|o_proj)"
    ),
    "jeeejeee/chatglm3-text2sql-spider": _adapter(
        "transformer.encoder.layers.0",
        "self_attention.query_key_value",
        "self_attention.dense",
        "mlp.dense_h_to_4h",
        "mlp.dense_4h_to_h",
    ),
}
"""Name on the hub → what stands for it."""


def write(adapter: Adapter, folder: Path) -> None:
    """Write configuration and weights, whose values are the same on every machine."""
    import numpy as np
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    shapes = {"A": (RANK, _WIDTH), "B": (_WIDTH, RANK)}
    weights = {
        f"base_model.model.{module}.lora_{side}.weight": random.random(shape, dtype=np.float32)
        for module in adapter.modules
        for side, shape in shapes.items()
    }
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": _ALPHA,
        "bias": "none",
        "target_modules": adapter.targets,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
