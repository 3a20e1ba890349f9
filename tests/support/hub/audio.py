"""Models that hear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json
from tests.support.checkpoints.qwen_omni import token_ids
from tests.support.hub.family import QWEN_VISION, family, image


def _omni(
    architecture: str, model_type: str, processor: str, tokens: Mapping[str, str]
) -> Checkpoint:
    made = family(
        architecture,
        model_type,
        {"processor_class": processor},
        tokens=QWEN_VISION,
        named=tokens,
        image=image("Qwen2VLImageProcessor", patch_size=14, merge_size=2, temporal_patch_size=2),
        video={"video_processor_type": "Qwen2VLVideoProcessor", **MEAN_STD},
        audio={"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128},
    )

    def config(ids: Ids) -> Json:
        return {**made.config(ids), "thinker_config": token_ids(ids, tokens)}

    return replace(made, config=config)


_WHISPER = family(
    "WhisperForConditionalGeneration",
    "whisper",
    {"processor_class": "WhisperProcessor"},
    tokens=("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"),
    audio={"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128},
    num_mel_bins=128,
    max_source_positions=1500,
    max_target_positions=448,
)

_GRANITE_SPEECH: Json = {
    "audio": {"feature_extractor_type": "GraniteSpeechFeatureExtractor"},
    "ids": {"audio_token_index": "<|audio|>"},
}

MODELS: Mapping[str, Checkpoint] = {
    "openai/whisper-large-v3": _WHISPER,
    "openai/whisper-large-v3-turbo": _WHISPER,
    "Qwen/Qwen2.5-Omni-3B": _omni(
        "Qwen2_5OmniModel",
        "qwen2_5_omni",
        "Qwen2_5OmniProcessor",
        {
            "image_token": "<|IMAGE|>",
            "audio_token": "<|AUDIO|>",
            "video_token": "<|VIDEO|>",
            "vision_bos_token": "<|vision_bos|>",
            "vision_eos_token": "<|vision_eos|>",
            "audio_bos_token": "<|audio_bos|>",
            "audio_eos_token": "<|audio_eos|>",
        },
    ),
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": _omni(
        "Qwen3OmniMoeForConditionalGeneration",
        "qwen3_omni_moe",
        "Qwen3OmniMoeProcessor",
        {
            "image_token": "<|image_pad|>",
            "audio_token": "<|audio_pad|>",
            "video_token": "<|video_pad|>",
            "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
        },
    ),
    "nvidia/audio-flamingo-3-hf": family(
        "AudioFlamingo3ForConditionalGeneration",
        "audioflamingo3",
        {"processor_class": "AudioFlamingo3Processor"},
        ids={"audio_token_id": "<sound>"},
        audio={"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128},
    ),
    "zai-org/GLM-ASR-Nano-2512": family(
        "GlmAsrForConditionalGeneration",
        "glmasr",
        {"processor_class": "GlmAsrProcessor"},
        tokens=("<|begin_of_audio|>", "<|end_of_audio|>"),
        ids={"audio_token_id": "<|pad|>"},
        audio={"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128},
    ),
    "ibm-granite/granite-speech-3.3-2b": family(
        "GraniteSpeechForConditionalGeneration",
        "granite_speech",
        {"processor_class": "GraniteSpeechProcessor"},
        **_GRANITE_SPEECH,
    ),
    "ibm-granite/granite-4.0-1b-speech": family(
        "GraniteSpeechForConditionalGeneration",
        "granite_speech",
        {"processor_class": "GraniteSpeechProcessor"},
        **_GRANITE_SPEECH,
    ),
    "ibm-granite/granite-speech-4.1-2b-plus": family(
        "GraniteSpeechPlusForConditionalGeneration",
        "granite_speech_plus",
        {"processor_class": "GraniteSpeechProcessor"},
        **_GRANITE_SPEECH,
    ),
}
