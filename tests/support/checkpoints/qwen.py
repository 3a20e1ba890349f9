"""The Qwen-VL generations."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, MROPE, Checkpoint, Ids, Json, text

_QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


_QWEN_PLACEHOLDERS = {
    "image": "<|vision_start|><|image_pad|><|vision_end|>",
    "video": "<|vision_start|><|video_pad|><|vision_end|>",
}


def _qwen_ids(ids: Ids) -> Json:
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def _qwen_files(
    processor: str,
    video_processor: str,
    patch: int,
    image_size: tuple[int, int],
    video_size: tuple[int, int],
) -> dict[str, Json]:
    """Sizes are (shortest, longest) in pixels, as the model cards give them."""
    grid = {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2}
    return {
        "preprocessor_config.json": {
            "processor_class": processor,
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": image_size[0], "longest_edge": image_size[1]},
            **grid,
            **MEAN_STD,
        },
        "video_preprocessor_config.json": {
            "processor_class": processor,
            "video_processor_type": video_processor,
            "size": {"shortest_edge": video_size[0], "longest_edge": video_size[1]},
            **grid,
            **MEAN_STD,
        },
    }


def _qwen2_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "text_config": text(
            "qwen2_vl_text",
            "Qwen2ForCausalLM",
            num_attention_heads=2,
            rope_parameters={**MROPE, "type": "mrope"},
        ),
        "vision_config": {
            "model_type": "qwen2_vl_vision",
            "depth": 2,
            "embed_dim": 64,
            "hidden_size": 64,
            "num_heads": 4,
            "mlp_ratio": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        **_qwen_ids(ids),
    }


def _qwen2_5_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "text_config": text(
            "qwen2_5_vl_text", "Qwen2ForCausalLM", num_attention_heads=2, rope_parameters=MROPE
        ),
        "vision_config": {
            "model_type": "qwen2_5_vl_vision",
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 64,
            "num_heads": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(ids),
    }


def _qwen3_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": text(
            "qwen3_vl_text",
            "Qwen3ForCausalLM",
            rope_parameters={**MROPE, "mrope_interleaved": True},
        ),
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 64,
            "num_heads": 4,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [0],
        },
        **_qwen_ids(ids),
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "qwen2_vl": Checkpoint(
        _qwen2_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen2VLProcessor",
            "Qwen2VLVideoProcessor",
            14,
            (3136, 12845056),
            (100352, 602112),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
    "qwen2_5_vl": Checkpoint(
        _qwen2_5_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen2_5_VLProcessor",
            "Qwen2VLVideoProcessor",
            14,
            (3136, 12845056),
            (3136, 12845056),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
    "qwen3_vl": Checkpoint(
        _qwen3_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen3VLProcessor",
            "Qwen3VLVideoProcessor",
            16,
            (65536, 16777216),
            (4096, 25165824),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
}
