"""Models whose configuration or processor is code on the hub: built from tables, items by hand."""

# ruff: noqa: ANN401 (options of ModelConfig, items)

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import models
from tests.support.checkpoints.base import Json, text, tower

Tensors = Mapping[str, Any]
"""What a processor returns for one image, by field."""


@dataclass(frozen=True)
class Bare:
    """`embeds` is how many embeddings each of `images` makes."""

    config: Json
    images: Callable[[], list[Tensors]]
    embeds: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def make_config(name: str, folder: Path) -> Any:
    """The configuration of a model of `BARE`; its file is written into `folder`."""
    from transformers import AutoConfig
    from vllm.transformers_utils.configs.dotsocr import DotsOCRConfig

    AutoConfig.register("dots_ocr", DotsOCRConfig, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(BARE[name].config))
    return models.make_config(folder, skip_tokenizer_init=True, **BARE[name].options)


def make_items(name: str, vllm_config: Any) -> list[tuple[str, Any]]:
    """The images of a model of `BARE`, as both model runners batch them."""
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.inputs import MultiModalKwargsItems
    from vllm.multimodal.processing import InputProcessingContext

    model_class: Any = MULTIMODAL_REGISTRY._get_model_cls(vllm_config.model_config)
    factory = model_class._processor_factory
    processor = factory.processor.__new__(factory.processor)
    processor.info = factory.info(InputProcessingContext(vllm_config.model_config, tokenizer=None))
    return [
        ("image", item)
        for image in BARE[name].images()
        for item in MultiModalKwargsItems.from_hf_inputs(
            image, processor._get_mm_fields_config(image, {})
        )["image"]
    ]


def _patches(*grids: tuple[int, int]) -> list[Tensors]:
    import torch

    return [
        {
            "pixel_values": torch.rand(height * width, 3 * 14 * 14),
            "image_grid_thw": torch.tensor([[1, height, width]]),
        }
        for height, width in grids
    ]


def _tiles(*numbers: int) -> list[Tensors]:
    import torch

    return [
        {
            "pixel_values_flat": torch.rand(number, 3, 448, 448),
            "image_num_patches": torch.tensor([number]),
            "image_token_id": torch.tensor(511),
        }
        for number in numbers
    ]


def _crops(*tilings: tuple[int, int]) -> list[Tensors]:
    """The whole image and its crops; the tower pools to as many rows as it has layers."""
    import torch

    return [
        {
            "pixel_values": torch.rand(1, 1 + rows * columns, 3, 378, 378),
            "tilings": torch.tensor([[rows, columns]]),
        }
        for rows, columns in tilings
    ]


BARE: Mapping[str, Bare] = {
    "dots_ocr": Bare(
        {
            **text("dots_ocr", "DotsOCRForCausalLM"),
            "vision_config": tower("dots_vit", embed_dim=64),
        },
        lambda: _patches((8, 6), (4, 10)),
        (12, 10),
    ),
    "h2ovl": Bare(
        {
            "architectures": ["H2OVLChatModel"],
            "model_type": "qianfan_ocr",
            "text_config": text("qwen3", "Qwen3ForCausalLM"),
            "vision_config": tower("qianfan_ocr_vision", image_size=448, patch_size=14),
            "use_msac": False,
        },
        lambda: _tiles(3, 1),
        (768, 256),
    ),
    "moondream3": Bare(
        {
            "architectures": ["Moondream3ForCausalLM"],
            "model_type": "moondream3",
            "config": {
                "text": {"dim": 64, "ff_dim": 128, "n_layers": 2, "vocab_size": 512,
                         "n_heads": 2, "n_kv_heads": 2, "max_context": models.MAX_MODEL_LEN},
                "vision": {"enc_dim": 64, "enc_n_layers": 27, "enc_ff_dim": 128, "enc_n_heads": 4,
                           "proj_inner_dim": 128},
            },
        },
        lambda: _crops((2, 2), (1, 3)),
        (730, 730),
    ),
}  # fmt: skip
