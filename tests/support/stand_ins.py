"""Stand-ins for multimodal models: what their LoRA hooks look at, and nothing else."""

# ruff: noqa: ANN401 (models and their stand-ins)

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

from tests.support import lora
from tests.support.lora import Counts


def stand_ins(owner: str) -> list[SimpleNamespace]:
    """Models of the class `owner`, as far as their hooks look: realistic and odd ones."""
    if owner in ("Gemma3", "Moondream3", "OpenVLA", "PaliGemma", "Qwen3ASR"):
        return [SimpleNamespace()]
    return [SimpleNamespace(**attributes) for attributes in _ATTRIBUTES[owner]]


def vision(**values: object) -> dict[str, object]:
    return {"config": SimpleNamespace(vision_config=SimpleNamespace(**values))}


_MERGES: list[dict[str, object]] = [vision(spatial_merge_size=n) for n in (1, 2, 3)]
_TILES = [
    {"num_image_token": tokens, "patch_tokens": patches}
    for tokens, patches in ((256, 1024), (64, 256), (1, 1), (0, 1024))
]


def audio(positions: int, stack: int) -> dict[str, object]:
    audio = SimpleNamespace(max_source_positions=positions)
    return {"config": SimpleNamespace(audio_config=audio, stack_factor=stack)}


_ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "Blip2": [
        {"config": SimpleNamespace(num_query_tokens=q), "_vision_tokens_per_image": v}
        for q, v in ((32, 257), (1, 2), (33, 730))
    ],
    "DotsOCR": [{"vision_tower": SimpleNamespace(spatial_merge_size=n)} for n in (1, 2, 3)],
    "Gemma4": [
        {
            "config": SimpleNamespace(
                vision_config=SimpleNamespace(pooling_kernel_size=pool),
                audio_config=SimpleNamespace(
                    attention_chunk_size=12, attention_context_left=13, attention_context_right=0
                ),
            )
        }
        for pool in (3, 1)
    ],
    "Glm4v": _MERGES,
    "H2OVLChatModel": _TILES,
    "Idefics3": [{"config": SimpleNamespace(scale_factor=n)} for n in (1, 2, 4)],
    "InternVLChatModel": _TILES,
    "BaseKeyeModule": _MERGES,
    "Llama4": [
        vision(image_size=336, patch_size=14, pixel_shuffle_ratio=0.5),
        vision(image_size=28, patch_size=14, pixel_shuffle_ratio=1.0),
    ],
    "Llava": [],
    "LlavaNextVideo": [
        {"patch_grid_length": grid, "pooled_grid_length": pooled, "num_class_tokens": 0}
        for grid, pooled in ((24, 12), (27, 14), (1, 1), (24, 0))
    ],
    "Pixtral": [
        {"patch_merger": merger, "vision_args": SimpleNamespace(spatial_merge_size=n)}
        for merger, n in ((None, 1), (object(), 2))
    ],
    "Qwen2_5_VL": _MERGES,
    "Qwen2VL": _MERGES,
    "Qwen3VL": _MERGES,
    "UltravoxModel": [audio(1500, 8), audio(1500, 1), audio(100, 7)],
}


def llavas() -> Iterable[tuple[SimpleNamespace, int, int]]:
    """Stand-ins for LLaVA with the embeddings and the tower rows of one image."""
    from transformers import CLIPVisionConfig, PixtralVisionConfig, SiglipVisionConfig

    clip = CLIPVisionConfig(image_size=336, patch_size=14)
    siglip = SiglipVisionConfig(image_size=384, patch_size=14)
    for vision, strategy, embeds, rows in (
        (clip, "default", 576, 577),
        (clip, "full", 577, 577),
        (clip, "class", 1, 577),
        (siglip, "full", 729, 729),
        (siglip, "default", 728, 729),
        (PixtralVisionConfig(image_size=1024, patch_size=16), "full", 1, 1),
    ):
        config = SimpleNamespace(vision_config=vision, vision_feature_select_strategy=strategy)
        yield SimpleNamespace(config=config), embeds, rows


def short_name(cls: type) -> str:
    """A class name without what all of them end in."""
    for suffix in ("ForConditionalGeneration", "ForCausalLM", "ForActionPrediction"):
        if cls.__name__.endswith(suffix):
            return cls.__name__.removesuffix(suffix)
    return cls.__name__


@cache
def hooked() -> tuple[tuple[type, str], ...]:
    """Every class that had hooks at the pinned release, by its own or its MRO, with their owner."""
    owners = [(cls, lora.pinned_owner(cls)) for cls in lora.multimodal_classes()]
    return tuple((cls, short_name(owner)) for cls, owner in owners if owner is not None)


def modalities(cls: type) -> tuple[str, ...]:
    """The modalities of `cls`, as its prompt placeholders tell."""
    supported = []
    for modality in ("image", "video", "audio"):
        try:
            cls.get_mm_lora_token_counts(  # type: ignore[attr-defined]
                SimpleNamespace(), modality=modality, mm_kwargs=None, num_mm_embeds=0
            )
        except ValueError:
            continue
        except (AttributeError, ZeroDivisionError):
            pass
        supported.append(modality)
    return tuple(supported)


def ask(cls: Any, model: Any, num_mm_embeds: int, modality: str | None = None) -> Counts:
    counts: Counts = instance(cls, model).get_mm_lora_token_counts(
        modality=modality, mm_kwargs=None, num_mm_embeds=num_mm_embeds
    )
    return counts


def instance(cls: type, model: SimpleNamespace) -> Any:
    """An object of `cls` that was never initialised, with the attributes of `model`."""
    concrete: Any = type(cls.__name__, (cls,), {})
    concrete.__abstractmethods__ = frozenset()
    found = concrete.__new__(concrete)
    vars(found).update(vars(model))
    return found


def is_fixed(owner: str, model: SimpleNamespace, num_mm_embeds: int) -> bool:
    """Whether the pinned chain is wrong, so that its answer is no measure."""
    if owner == "Blip2":  # it asserts whole images
        return bool(num_mm_embeds % model.config.num_query_tokens)
    # No class token, see the test of its own; one image, whatever the budget
    return owner in ("Llava", "Gemma4")
