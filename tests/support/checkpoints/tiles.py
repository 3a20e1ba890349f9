"""Models that cut an image into tiles."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json, text, tower

_IDEFICS3_TOKENS = (
    "<fake_token_around_image>",
    "<image>",
    "<end_of_utterance>",
    "<global-img>",
    *(f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)),
)


def internvl(tile: int) -> Checkpoint:
    """InternVL in Hugging Face's form; `tile` is the side of one in pixels, a multiple of 28."""

    def config(ids: Ids) -> Json:
        return {
            "architectures": ["InternVLForConditionalGeneration"],
            "model_type": "internvl",
            "text_config": text("qwen2", "Qwen2ForCausalLM"),
            "vision_config": tower(
                "internvl_vision", image_size=[tile, tile], patch_size=[14, 14], num_channels=3
            ),
            "image_token_id": ids["<IMG_CONTEXT>"],
            "image_seq_length": (tile // 28) ** 2,
            "downsample_ratio": 0.5,
        }

    return Checkpoint(
        config,
        tokens=("<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
        tokenizer={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "InternVLProcessor",
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": tile, "width": tile},
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                **MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "processor_class": "InternVLProcessor",
                "video_processor_type": "InternVLVideoProcessor",
                "size": {"height": tile, "width": tile},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "InternVLProcessor",
                "image_seq_length": (tile // 28) ** 2,
            },
        },
        placeholders={"image": "<IMG_CONTEXT>", "video": "<video>"},
    )


def idefics3(tile: int, side: int = 4) -> Checkpoint:
    """Idefics3: an image is up to `side` by `side` tiles of `tile` pixels, a multiple of 28."""

    def config(ids: Ids) -> Json:
        return {
            "architectures": ["Idefics3ForConditionalGeneration"],
            "model_type": "idefics3",
            "text_config": text("llama", "LlamaForCausalLM", pad_token_id=0),
            "vision_config": tower("idefics3_vision", image_size=tile, patch_size=14),
            "image_token_id": ids["<image>"],
            "scale_factor": 2,
        }

    return Checkpoint(
        config,
        tokens=_IDEFICS3_TOKENS,
        files={
            "preprocessor_config.json": {
                "processor_class": "Idefics3Processor",
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": side * tile},
                "max_image_size": {"longest_edge": tile},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Idefics3Processor",
                "image_seq_len": (tile // 28) ** 2,
            },
        },
        placeholders={"image": "<image>"},
    )


def _cohere2_vision(ids: Ids) -> Json:
    return {
        "architectures": ["Cohere2VisionForConditionalGeneration"],
        "model_type": "cohere2_vision",
        "text_config": text("cohere2", "Cohere2ForCausalLM", sliding_window=4096),
        "vision_config": tower("siglip_vision_model", image_size=512, patch_size=16),
        "image_token_id": ids["<|IMG_PATCH|>"],
        "downsample_factor": 2,
    }


def _lfm2_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Lfm2VlForConditionalGeneration"],
        "model_type": "lfm2_vl",
        "text_config": text(
            "lfm2",
            "Lfm2ForCausalLM",
            layer_types=["full_attention", "full_attention"],
            block_dim=64,
            block_ff_dim=128,
            block_multiple_of=32,
            block_ffn_dim_multiplier=1.0,
            block_auto_adjust_ff_dim=False,
        ),
        "vision_config": tower(
            "siglip2_vision_model", num_patches=256, patch_size=16, vision_use_head=False
        ),
        "image_token_id": ids["<image>"],
        "downsample_factor": 2,
    }


_COHERE2_TOKENS: Mapping[str, str] = {
    "boi_token": "<|START_OF_IMG|>",
    "eoi_token": "<|END_OF_IMG|>",
    "image_token": "<|IMG_PATCH|>",
    "img_line_break_token": "<|IMG_LINE_BREAK|>",
}

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "cohere2_vision": Checkpoint(
        _cohere2_vision,
        tokens=tuple(_COHERE2_TOKENS.values()),
        tokenizer=_COHERE2_TOKENS,
        files={
            "preprocessor_config.json": {
                "processor_class": "Cohere2VisionProcessor",
                "image_processor_type": "Cohere2VisionImageProcessorFast",
                "size": {"height": 512, "width": 512},
                "patch_size": 16,
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                **MEAN_STD,
            },
            "processor_config.json": {"processor_class": "Cohere2VisionProcessor"},
        },
        placeholders={"image": "<|IMG_PATCH|>"},
    ),
    "idefics3": idefics3(364),
    "internvl": internvl(448),
    "lfm2_vl": Checkpoint(
        _lfm2_vl,
        tokens=(
            "<image>",
            "<|image_start|>",
            "<|image_end|>",
            "<|img_thumbnail|>",
            *(f"<|img_row_{i}_col_{j}|>" for i in range(1, 11) for j in range(1, 11)),
        ),
        tokenizer={
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail": "<|img_thumbnail|>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "Lfm2VlProcessor",
                "image_processor_type": "Lfm2VlImageProcessor",
                **MEAN_STD,
            },
            "processor_config.json": {"processor_class": "Lfm2VlProcessor"},
        },
        placeholders={"image": "<image>"},
        hub_names={"model.vision_tower.": "model.vision_tower.vision_model."},
    ),
}
