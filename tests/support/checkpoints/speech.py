"""Models that hear, with the Whisper features; Qwen2.5-Omni sees as well."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import (
    MEL,
    MROPE,
    Checkpoint,
    Ids,
    Json,
    audio_encoder,
    text,
)


def _whisper(_ids: Ids) -> Json:
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        **audio_encoder("whisper"),
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 128,
        "vocab_size": 512,
        "max_target_positions": 448,
        "num_hidden_layers": 2,
        "decoder_start_token_id": 256,
        "pad_token_id": 256,
        "bos_token_id": 256,
    }


def _ultravox(ids: Ids) -> Json:
    return {
        "architectures": ["UltravoxModel"],
        "model_type": "ultravox",
        "audio_config": audio_encoder("whisper"),
        "text_config": text("llama", "LlamaForCausalLM"),
        "audio_token_index": ids["<|audio|>"],
        "hidden_size": 64,
        "vocab_size": 512,
        "projector_ln_mid": True,
    }


def _qwen3_asr(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "thinker_config": {
            "audio_config": audio_encoder(
                "qwen3_asr_audio_encoder",
                n_window=50,
                n_window_infer=800,
                output_dim=64,
                downsample_hidden_size=32,
            ),
            "text_config": text(
                "qwen3_asr_text", "Qwen3ForCausalLM", rope_scaling={**MROPE, "type": "mrope"}
            ),
            "audio_token_id": ids["<|audio_pad|>"],
            "audio_start_token_id": ids["<|audio_bos|>"],
            "audio_end_token_id": ids["<|audio_eos|>"],
        },
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "qwen3_asr": Checkpoint(
        _qwen3_asr,
        tokens=("<|audio_pad|>", "<|audio_bos|>", "<|audio_eos|>"),
        tokenizer={
            "audio_token": "<|audio_pad|>",
            "audio_bos_token": "<|audio_bos|>",
            "audio_eos_token": "<|audio_eos|>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "Qwen3ASRProcessor",
                "return_attention_mask": True,
                **MEL,
            },
        },
        placeholders={"audio": "<|audio_bos|><|audio_pad|><|audio_eos|>"},
    ),
    "ultravox": Checkpoint(
        _ultravox,
        tokens=("<|audio|>",),
        placeholders={"audio": "<|audio|>"},
    ),
    "whisper": Checkpoint(
        _whisper,
        tokens=("<|startoftranscript|>",),
        files={
            "preprocessor_config.json": {
                "processor_class": "WhisperProcessor",
                "chunk_length": 30,
                **MEL,
            },
        },
    ),
}
