"""Qwen models that see and hear."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import (
    MEAN_STD,
    MEL,
    MROPE,
    Checkpoint,
    Ids,
    Json,
    audio_encoder,
    text,
)

_TOKENS = {
    "image_token": "<|IMAGE|>",
    "video_token": "<|VIDEO|>",
    "audio_token": "<|AUDIO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
_PLACEHOLDERS = {
    "image": "<|vision_bos|><|IMAGE|><|vision_eos|>",
    "video": "<|vision_bos|><|VIDEO|><|vision_eos|>",
    "audio": "<|audio_bos|><|AUDIO|><|audio_eos|>",
}


def _vision(model_type: str, patch: int) -> Json:
    return {
        "model_type": model_type,
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "out_hidden_size": 64,
        "num_heads": 4,
        "patch_size": patch,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        # Of Qwen3-Omni, as its checkpoints have them.
        "image_size": 64,
        "apply_vit_abs_pos_embed": True,
        "deepstack_visual_indexes": [0],
    }


def _thinker(ids: Ids, kind: str, architecture: str, patch: int, text_config: Json) -> Json:
    return {
        "model_type": f"{kind}_thinker",
        "architectures": [architecture],
        "text_config": text_config,
        "vision_config": _vision(f"{kind}_vision_encoder", patch),
        "audio_config": audio_encoder(f"{kind}_audio_encoder", output_dim=64),
        **token_ids(ids, _TOKENS),
    }


def token_ids(ids: Ids, tokens: Mapping[str, str]) -> Json:
    """What the configuration of a thinker calls the ids of `tokens`, which a tokenizer names."""
    return {
        **{
            f"{name}_{suffix}": ids[tokens[f"{name}_token"]]
            for name in ("image", "video", "audio")
            for suffix in ("token_id", "token_index")  # of Qwen3-Omni and of Qwen2.5-Omni
        },
        **{
            f"{name}_{end}_token_id": ids[tokens[f"{name}_{token}_token"]]
            for name in ("vision", "audio")
            for end, token in (("start", "bos"), ("end", "eos"))
        },
    }


def _qwen2_5_omni(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2_5OmniForConditionalGeneration"],
        "model_type": "qwen2_5_omni",
        "enable_audio_output": False,
        "thinker_config": _thinker(
            ids,
            "qwen2_5_omni",
            "Qwen2_5OmniThinkerForConditionalGeneration",
            14,
            text("qwen2_5_omni_text", "Qwen2ForCausalLM", rope_parameters=MROPE),
        ),
    }


def _qwen3_omni(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": False,
        "thinker_config": _thinker(
            ids,
            "qwen3_omni_moe",
            "Qwen3OmniMoeThinkerForConditionalGeneration",
            16,
            text(
                "qwen3_omni_moe_text",
                "Qwen3MoeForCausalLM",
                rope_parameters={**MROPE, "mrope_interleaved": True},
                num_experts=4,
                num_experts_per_tok=2,
                moe_intermediate_size=64,
            ),
        ),
    }


def _files(processor: str, patch: int) -> dict[str, Json]:
    """One file for three processors, as the model cards have it."""
    return {
        "preprocessor_config.json": {
            "processor_class": processor,
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": 3136, "longest_edge": 12845056},
            "patch_size": patch,
            "merge_size": 2,
            "temporal_patch_size": 2,
            **MEL,
            "chunk_length": 30,
            "return_attention_mask": True,
            **MEAN_STD,
        },
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "qwen2_5_omni": Checkpoint(
        _qwen2_5_omni,
        tokens=tuple(_TOKENS.values()),
        tokenizer=_TOKENS,
        files=_files("Qwen2_5OmniProcessor", 14),
        placeholders=_PLACEHOLDERS,
    ),
    "qwen3_omni": Checkpoint(
        _qwen3_omni,
        tokens=tuple(_TOKENS.values()),
        tokenizer=_TOKENS,
        files=_files("Qwen3OmniMoeProcessor", 16),
        placeholders=_PLACEHOLDERS,
    ),
}
