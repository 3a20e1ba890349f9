"""Models that see an image in one size, or in tiles of it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, text
from tests.support.hub.family import family, image

_BLIP2 = family(
    "Blip2ForConditionalGeneration",
    "blip-2",
    {"processor_class": "Blip2Processor", "num_query_tokens": 32},
    ids={"image_token_index": "<image>"},
    image=image("BlipImageProcessor", size={"height": 224, "width": 224}),
    placeholders={"image": "<image>"},
)

_PALIGEMMA = family(
    "PaliGemmaForConditionalGeneration",
    "paligemma",
    {"processor_class": "PaliGemmaProcessor"},
    named={"image_token": "<image>", "bos_token": "<bos>"},
    ids={"image_token_index": "<image>"},
    image=image("SiglipImageProcessor", size={"height": 224, "width": 224}, image_seq_length=256),
    vision_config={"model_type": "siglip_vision_model", "image_size": 224, "patch_size": 14},
    text_config=text("gemma", "GemmaForCausalLM"),
)

_LLAMA4 = family(
    "Llama4ForConditionalGeneration",
    "llama4",
    {"processor_class": "Llama4Processor"},
    tokens=(
        "<|image_start|>",
        "<|image_end|>",
        "<|image|>",
        "<|tile_x_separator|>",
        "<|tile_y_separator|>",
    ),
    ids={
        "image_token_index": "<|patch|>",
        "boi_token_index": "<|image_start|>",
        "eoi_token_index": "<|image_end|>",
    },
    image=image("Llama4ImageProcessorFast", size={"height": 112, "width": 112}, max_patches=16),
    vision_config={"model_type": "llama4_vision_model", "image_size": 112, "patch_size": 14},
)

_LLAVA_NEXT = {
    "processor_class": "LlavaNextProcessor",
    "image_token": "<image>",
    "patch_size": 14,
    "num_additional_image_tokens": 0,
    "vision_feature_select_strategy": "full",
}

_COHERE = family(
    "Cohere2VisionForConditionalGeneration",
    "cohere2_vision",
    {"processor_class": "Cohere2VisionProcessor"},
    named={
        "image_token": "<|IMG_PATCH|>",
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    },
    ids={"image_token_id": "<|IMG_PATCH|>"},
    image=image(
        "Cohere2VisionImageProcessor",
        size={"height": 128, "width": 128},
        crop_to_patches=True,
        max_patches=12,
        patch_size=16,
    ),
    vision_config={"model_type": "siglip_vision_model", "image_size": 128, "patch_size": 16},
)

MODELS: Mapping[str, Checkpoint] = {
    "Salesforce/blip2-opt-2.7b": _BLIP2,
    "Salesforce/blip2-opt-6.7b": _BLIP2,
    "google/paligemma-3b-mix-224": _PALIGEMMA,
    "google/paligemma2-3b-ft-docci-448": _PALIGEMMA,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": _LLAMA4,
    "meta-llama/Llama-Guard-4-12B": _LLAMA4,
    "CohereLabs/command-a-vision-07-2025": _COHERE,
    "CohereLabs/command-a-plus-05-2026-bf16": _COHERE,
    "ibm-granite/granite-vision-3.3-2b": family(
        "LlavaNextForConditionalGeneration",
        "llava_next",
        _LLAVA_NEXT,
        ids={"image_token_index": "<image>"},
        image=image(
            "LlavaNextImageProcessor",
            size={"height": 384, "width": 384},
            crop_size={"height": 384, "width": 384},
            image_grid_pinpoints=[[384, 768], [768, 384], [768, 768]],
        ),
        image_grid_pinpoints=[[384, 768], [768, 384], [768, 768]],
        vision_config={"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14},
        vision_feature_layer=[-24, -20, -12, -1],
        vision_feature_select_strategy="full",
        text_config=text("granite", "GraniteForCausalLM"),
    ),
    "llava-hf/LLaVA-NeXT-Video-7B-hf": family(
        "LlavaNextVideoForConditionalGeneration",
        "llava_next_video",
        {
            **_LLAVA_NEXT,
            "processor_class": "LlavaNextVideoProcessor",
            "video_token": "<video>",
            "num_additional_image_tokens": 1,
            "vision_feature_select_strategy": "default",
        },
        ids={"image_token_index": "<image>", "video_token_index": "<video>"},
        image=image(
            "LlavaNextImageProcessor",
            size={"shortest_edge": 336},
            crop_size={"height": 336, "width": 336},
        ),
        video={
            "video_processor_type": "LlavaNextVideoVideoProcessor",
            "size": {"shortest_edge": 336},
            "crop_size": {"height": 336, "width": 336},
            **MEAN_STD,
        },
        vision_config={"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14},
    ),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": family(
        "SmolVLMForConditionalGeneration",
        "smolvlm",
        {"processor_class": "SmolVLMProcessor", "image_seq_len": 81},
        tokens=(
            "<fake_token_around_image>",
            "<end_of_utterance>",
            "<global-img>",
            *(f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)),
        ),
        ids={"image_token_id": "<image>"},
        image=image(
            "SmolVLMImageProcessor",
            size={"longest_edge": 1536},
            max_image_size={"longest_edge": 384},
        ),
        video={"video_processor_type": "SmolVLMVideoProcessor", **MEAN_STD},
        scale_factor=3,
        vision_config={"model_type": "smolvlm_vision", "image_size": 384, "patch_size": 14},
    ),
    "rhymes-ai/Aria": family(
        "AriaForConditionalGeneration",
        "aria",
        {"processor_class": "AriaProcessor"},
        named={"image_token": "<|img|>"},
        ids={"image_token_index": "<|img|>"},
        image=image("AriaImageProcessor"),
    ),
    "BAAI/Emu3-Chat-hf": family(
        "Emu3ForConditionalGeneration",
        "emu3",
        {"processor_class": "Emu3Processor"},
        named={
            "image_token": "<image>",
            "boi_token": "<|image start|>",
            "eoi_token": "<|image end|>",
            "image_wrapper_token": "<|image token|>",
            "eof_token": "<|extra_201|>",
            "bos_token": "<|extra_203|>",
        },
        ids={"image_token_id": "<image>"},
        image=image("Emu3ImageProcessor"),
    ),
    "facebook/chameleon-7b": family(
        "ChameleonForConditionalGeneration",
        "chameleon",
        {
            "processor_class": "ChameleonProcessor",
            "image_seq_length": 1024,
            "image_token": "<image>",
        },
        tokens=("<image>", "<racm3:break>", "<eoss>"),
        named={"sep_token": "<reserved08706>"},
        image=image("ChameleonImageProcessor"),
        vocabulary_map={"<image>": 257},
    ),
}
