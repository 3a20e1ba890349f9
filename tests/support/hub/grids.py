"""Models that cut an image into a grid of patches as large as the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Json, text
from tests.support.hub.family import QWEN_IDS, QWEN_VISION, family, image

_QWEN_PLACEHOLDERS = {
    "image": "<|vision_start|><|image_pad|><|vision_end|>",
    "video": "<|vision_start|><|video_pad|><|vision_end|>",
}


def _qwen3_vl(architecture: str, model_type: str) -> Checkpoint:
    grid = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    return family(
        architecture,
        model_type,
        {"processor_class": "Qwen3VLProcessor"},
        tokens=QWEN_VISION,
        ids=QWEN_IDS,
        image=image(
            "Qwen2VLImageProcessor",
            size={"shortest_edge": 65536, "longest_edge": 16777216},
            **grid,
        ),
        video={
            "video_processor_type": "Qwen3VLVideoProcessor",
            "size": {"shortest_edge": 4096, "longest_edge": 25165824},
            **grid,
            **MEAN_STD,
        },
        placeholders=_QWEN_PLACEHOLDERS,
    )


def _glm(architecture: str, model_type: str, generation: str) -> Checkpoint:
    return family(
        architecture,
        model_type,
        {"processor_class": f"{generation}Processor"},
        tokens=("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"),
        ids={
            "image_token_id": "<|image|>",
            "video_token_id": "<|video|>",
            "image_start_token_id": "<|begin_of_image|>",
            "image_end_token_id": "<|end_of_image|>",
            "video_start_token_id": "<|begin_of_video|>",
            "video_end_token_id": "<|end_of_video|>",
        },
        image=image(
            f"{generation}ImageProcessor", size={"shortest_edge": 12544, "longest_edge": 9633792}
        ),
        video={
            "video_processor_type": f"{generation}VideoProcessor",
            "size": {"shortest_edge": 12544, "longest_edge": 47040000},
            **MEAN_STD,
        },
    )


_PIXTRAL_TOKENS = ("[IMG]", "[IMG_BREAK]", "[IMG_END]")


def _pixtral(
    architecture: str,
    model_type: str,
    text_config: Json,
    *,
    longest_edge: int,
    patch_size: int = 14,
    processor: Mapping[str, object],
    **config: Any,  # noqa: ANN401 (of the model)
) -> Checkpoint:
    """A model with Pixtral's tower; sizes are in pixels, `processor` is beside what all have."""
    return family(
        architecture,
        model_type,
        {
            "patch_size": patch_size,
            "image_token": "[IMG]",
            "image_break_token": "[IMG_BREAK]",
            "image_end_token": "[IMG_END]",
            "processor_class": "PixtralProcessor",
            **processor,
        },
        tokens=_PIXTRAL_TOKENS,
        ids={"image_token_index": "[IMG]"},
        image=image(
            "PixtralImageProcessor",
            size={"longest_edge": longest_edge},
            patch_size={"height": patch_size, "width": patch_size},
        ),
        vision_config={"model_type": "pixtral", "image_size": 1024, "patch_size": patch_size},
        text_config=text_config,
        **config,
    )


MODELS: Mapping[str, Checkpoint] = {
    "Qwen/Qwen3-VL-30B-A3B-Instruct": _qwen3_vl(
        "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"
    ),
    "Qwen/Qwen3.5-0.8B": _qwen3_vl("Qwen3_5ForConditionalGeneration", "qwen3_5"),
    "Qwen/Qwen3.5-4B": _qwen3_vl("Qwen3_5ForConditionalGeneration", "qwen3_5"),
    "Qwen/Qwen3.5-35B-A3B": _qwen3_vl("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    "zai-org/GLM-4.6V-Flash": _glm("Glm4vForConditionalGeneration", "glm46v", "Glm46V"),
    "zai-org/GLM-4.5V": _glm("Glm4vMoeForConditionalGeneration", "glm4v_moe", "Glm4v"),
    "zai-org/GLM-OCR": _glm("GlmOcrForConditionalGeneration", "glm_ocr", "Glm46V"),
    "mistral-community/pixtral-12b": _pixtral(
        "LlavaForConditionalGeneration",
        "llava",
        text("mistral", "MistralForCausalLM"),
        longest_edge=1024,
        patch_size=16,
        processor={},
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    ),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": _pixtral(
        "Mistral3ForConditionalGeneration",
        "mistral3",
        text("mistral", "MistralForCausalLM"),
        longest_edge=1540,
        processor={"spatial_merge_size": 2},
    ),
    "lightonai/LightOnOCR-1B-1025": _pixtral(
        "LightOnOCRForConditionalGeneration",
        "mistral3",
        text("qwen3", "Qwen3ForCausalLM"),
        longest_edge=1540,
        processor={"spatial_merge_size": 2},
    ),
    "LGAI-EXAONE/EXAONE-4.5-33B": family(
        "Exaone4_5_ForConditionalGeneration",
        "exaone4_5",
        {"processor_class": "Exaone4_5_Processor"},
        tokens=QWEN_VISION,
        ids=QWEN_IDS,
        image=image("Qwen2VLImageProcessor"),
        video={"video_processor_type": "Qwen2VLVideoProcessor", **MEAN_STD},
    ),
    "tencent/HunyuanOCR": family(
        "HunYuanVLForConditionalGeneration",
        "hunyuan_vl",
        {"processor_class": "HunYuanVLProcessor"},
        named={
            "image_token": "<|hy_image|>",
            "image_start_token": "<|hy_image_start|>",
            "image_end_token": "<|hy_image_end|>",
        },
        ids={
            "image_token_id": "<|hy_image|>",
            "image_start_token_id": "<|hy_image_start|>",
            "image_end_token_id": "<|hy_image_end|>",
        },
        image=image("HunYuanVLImageProcessor"),
    ),
    "openbmb/MiniCPM-V-4_6": family(
        "MiniCPMV4_6ForConditionalGeneration",
        "minicpmv4_6",
        {"processor_class": "MiniCPMV4_6Processor"},
        named={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "image_start_token": "<image>",
            "image_end_token": "</image>",
            "slice_start_token": "<slice>",
            "slice_end_token": "</slice>",
            "image_id_start_token": "<image_id>",
            "image_id_end_token": "</image_id>",
        },
        ids={"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"},
        image=image("MiniCPMV4_6ImageProcessor"),
        video={"video_processor_type": "MiniCPMV4_6VideoProcessor", **MEAN_STD},
    ),
    "google/gemma-4-E2B-it": family(
        "Gemma4ForConditionalGeneration",
        "gemma4",
        {"processor_class": "Gemma4Processor"},
        named={
            "image_token": "<|image|>",
            "boi_token": "<|image>",
            "eoi_token": "<image|>",
            "audio_token": "<|audio|>",
            "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
        },
        tokens=("<|video|>",),
        ids={
            "image_token_id": "<|image|>",
            "audio_token_id": "<|audio|>",
            "video_token_id": "<|video|>",
        },
        image=image("Gemma4ImageProcessor"),
        audio={"feature_extractor_type": "Gemma4AudioFeatureExtractor"},
        vision_config={"model_type": "gemma4_vision", "default_output_length": 280},
        audio_config={"model_type": "gemma4_audio"},
        video={"video_processor_type": "Gemma4VideoProcessor", **MEAN_STD},
    ),
}
