"""Models that hear."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import (
    MEL,
    Checkpoint,
    Ids,
    Json,
    audio_encoder,
    text,
    tower,
)


def _qwen2_audio(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "text_config": text("qwen2", "Qwen2ForCausalLM"),
        "audio_config": audio_encoder("qwen2_audio_encoder"),
        "audio_token_index": ids["<|AUDIO|>"],
    }


def _audioflamingo3(ids: Ids) -> Json:
    return {
        "architectures": ["AudioFlamingo3ForConditionalGeneration"],
        "model_type": "audioflamingo3",
        "text_config": text("qwen2", "Qwen2ForCausalLM"),
        "audio_config": tower("audioflamingo3_encoder", num_mel_bins=128),
        "audio_token_id": ids["<sound>"],
    }


def _glmasr(ids: Ids) -> Json:
    return {
        "architectures": ["GlmAsrForConditionalGeneration"],
        "model_type": "glmasr",
        "text_config": text("llama", "LlamaForCausalLM"),
        # The projector takes four frames at once, as many as fill its width.
        "audio_config": tower("glmasr_encoder", num_mel_bins=128, intermediate_size=256),
        "audio_token_id": ids["<|pad|>"],
    }


def _granite_speech(ids: Ids) -> Json:
    return {
        "architectures": ["GraniteSpeechForConditionalGeneration"],
        "model_type": "granite_speech",
        "text_config": text("granite", "GraniteForCausalLM"),
        "encoder_config": {
            "model_type": "granite_speech_encoder",
            "input_dim": 160,
            "num_layers": 2,
            "hidden_dim": 64,
            "num_heads": 4,
            "dim_head": 16,
            "context_size": 50,
            "max_pos_emb": 64,
        },
        "projector_config": tower(
            "blip_2_qformer", encoder_hidden_size=64, cross_attention_frequency=1, vocab_size=512
        ),
        "audio_token_index": ids["<|audio|>"],
        "has_lora_adapter": False,
        "downsample_rate": 5,
        "window_size": 15,
    }


_MEL: Json = {**MEL, "chunk_length": 30, "return_attention_mask": True}


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "audioflamingo3": Checkpoint(
        _audioflamingo3,
        tokens=("<sound>",),
        files={
            "preprocessor_config.json": {"processor_class": "AudioFlamingo3Processor", **_MEL},
            "processor_config.json": {"processor_class": "AudioFlamingo3Processor"},
        },
        placeholders={"audio": "<sound>"},
    ),
    "glmasr": Checkpoint(
        _glmasr,
        tokens=("<|pad|>", "<|begin_of_audio|>", "<|end_of_audio|>"),
        files={
            "preprocessor_config.json": {"processor_class": "GlmAsrProcessor", **_MEL},
            "processor_config.json": {"processor_class": "GlmAsrProcessor"},
        },
        placeholders={"audio": "<|begin_of_audio|><|pad|><|end_of_audio|>"},
    ),
    "granite_speech": Checkpoint(
        _granite_speech,
        tokens=("<|audio|>",),
        files={
            "preprocessor_config.json": {
                "processor_class": "GraniteSpeechProcessor",
                "feature_extractor_type": "GraniteSpeechFeatureExtractor",
                "melspec_kwargs": {
                    "sample_rate": 16000,
                    "n_fft": 512,
                    "win_length": 400,
                    "hop_length": 160,
                    "n_mels": 80,
                },
                "projector_window_size": 15,
                "projector_downsample_rate": 5,
            },
            "processor_config.json": {"processor_class": "GraniteSpeechProcessor"},
        },
        placeholders={"audio": "<|audio|>"},
    ),
    "qwen2_audio": Checkpoint(
        _qwen2_audio,
        tokens=("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"),
        files={
            "preprocessor_config.json": {"processor_class": "Qwen2AudioProcessor", **_MEL},
            "processor_config.json": {"processor_class": "Qwen2AudioProcessor"},
        },
        placeholders={"audio": "<|audio_bos|><|AUDIO|><|audio_eos|>"},
        hub_names={"language_model.model.model.": "language_model.model."},
    ),
}
