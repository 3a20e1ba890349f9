"""The Gemma generations."""

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


def _gemma3(ids: Ids) -> Json:
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": text(
            "gemma3_text", "Gemma3ForCausalLM", sliding_window=512, query_pre_attn_scalar=32
        ),
        "vision_config": tower("siglip_vision_model", image_size=896, patch_size=14),
        "mm_tokens_per_image": 256,
        "image_token_index": ids["<image_soft_token>"],
        "boi_token_index": ids["<start_of_image>"],
        "eoi_token_index": ids["<end_of_image>"],
    }


_GEMMA4_TOKENS: Mapping[str, str] = {
    "image_token": "<|image|>",
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "audio_token": "<|audio|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
}


def _gemma4(ids: Ids) -> Json:
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "text_config": text(
            "gemma4_text",
            "Gemma4ForCausalLM",
            sliding_window=512,
            hidden_size_per_layer_input=0,
            layer_types=["sliding_attention", "full_attention"],
        ),
        "vision_config": tower(
            "gemma4_vision",
            num_key_value_heads=4,
            head_dim=16,
            patch_size=16,
            pooling_kernel_size=3,
            default_output_length=280,
        ),
        "audio_config": tower("gemma4_audio", output_proj_dims=64),
        "image_token_id": ids["<|image|>"],
        "boi_token_id": ids["<|image>"],
        "eoi_token_id": ids["<image|>"],
        "audio_token_id": ids["<|audio|>"],
        "boa_token_id": ids["<|audio>"],
        "eoa_token_id": ids["<audio|>"],
        "eoa_token_index": ids["<audio|>"],
        "video_token_id": ids["<|video|>"],
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "gemma3": Checkpoint(
        _gemma3,
        tokens=(
            "<start_of_image>",
            "<end_of_image>",
            "<image_soft_token>",
            *("\n" * i for i in range(1, 5)),
        ),
        tokenizer={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "Gemma3Processor",
                "image_processor_type": "Gemma3ImageProcessor",
                "size": {"height": 896, "width": 896},
                "image_seq_length": 256,
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Gemma3Processor",
                "image_seq_length": 256,
            },
        },
        placeholders={"image": "<start_of_image>"},
        hub_names=NESTED_TOWER,
    ),
    "gemma4": Checkpoint(
        _gemma4,
        tokens=(*_GEMMA4_TOKENS.values(), "<|video|>"),
        tokenizer=_GEMMA4_TOKENS,
        files={
            "processor_config.json": {
                "processor_class": "Gemma4Processor",
                "image_processor": {"image_processor_type": "Gemma4ImageProcessor"},
                "video_processor": {"video_processor_type": "Gemma4VideoProcessor"},
                "feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor"},
            },
        },
        placeholders={"image": "<|image|>", "video": "<|video|>", "audio": "<|audio|>"},
    ),
}
