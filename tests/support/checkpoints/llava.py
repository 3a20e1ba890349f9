"""LLaVA and what followed it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import (
    MEAN_STD,
    NESTED_TOWER,
    Checkpoint,
    Ids,
    Json,
    text,
    tower,
)


def _llava(ids: Ids) -> Json:
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": text("llama", "LlamaForCausalLM"),
        "vision_config": tower("clip_vision_model", image_size=336, patch_size=14),
        "image_token_index": ids["<image>"],
        "image_seq_length": 576,
    }


_CLIP_FILES: Json = {
    "crop_size": {"height": 336, "width": 336},
    "size": {"shortest_edge": 336},
    **MEAN_STD,
}


_LLAVA_PROCESSOR: Json = {
    "image_token": "<image>",
    "patch_size": 14,
    "num_additional_image_tokens": 1,
    "vision_feature_select_strategy": "default",
}


_PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]


def _llava_next(ids: Ids) -> Json:
    return {
        **_llava(ids),
        "architectures": ["LlavaNextForConditionalGeneration"],
        "model_type": "llava_next",
        "image_grid_pinpoints": _PINPOINTS,
    }


def _llava_onevision(ids: Ids) -> Json:
    return {
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
        "model_type": "llava_onevision",
        "text_config": text("qwen2", "Qwen2ForCausalLM"),
        "vision_config": tower(
            "siglip_vision_model", image_size=384, patch_size=14, vision_use_head=False
        ),
        "image_token_index": ids["<image>"],
        "video_token_index": ids["<video>"],
        "image_grid_pinpoints": [[384 * i, 384 * j] for i in (1, 2, 3) for j in (1, 2, 3)],
        "vision_aspect_ratio": "anyres_max_9",
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "llava": Checkpoint(
        _llava,
        tokens=("<image>",),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "CLIPImageProcessor",
                **_CLIP_FILES,
            },
            "processor_config.json": {
                "processor_class": "LlavaProcessor",
                **_LLAVA_PROCESSOR,
            },
        },
        placeholders={"image": "<image>"},
        hub_names=NESTED_TOWER,
    ),
    "llava_next": Checkpoint(
        _llava_next,
        tokens=("<image>",),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaNextImageProcessor",
                "image_grid_pinpoints": _PINPOINTS,
                **_CLIP_FILES,
            },
            "processor_config.json": {
                "processor_class": "LlavaNextProcessor",
                **_LLAVA_PROCESSOR,
            },
        },
        placeholders={"image": "<image>"},
        hub_names=NESTED_TOWER,
    ),
    "llava_onevision": Checkpoint(
        _llava_onevision,
        tokens=("<image>", "<video>"),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaOnevisionImageProcessor",
                "size": {"height": 384, "width": 384},
                "image_grid_pinpoints": [[384 * i, 384 * j] for i in (1, 2, 3) for j in (1, 2, 3)],
                **MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "video_processor_type": "LlavaOnevisionVideoProcessor",
                "size": {"height": 384, "width": 384},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "LlavaOnevisionProcessor",
                "image_token": "<image>",
                "video_token": "<video>",
                "num_image_tokens": 729,
                "vision_feature_select_strategy": "full",
                "vision_aspect_ratio": "anyres_max_9",
            },
        },
        placeholders={"image": "<image>", "video": "<video>"},
        hub_names=NESTED_TOWER,
    ),
}
