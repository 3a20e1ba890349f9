"""What the tables of checkpoints share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Ids = Mapping[str, int]
"""Token text to token id."""

EOS = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}{{ PLACEHOLDERS[part.type] }}"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
MEAN_STD: Json = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
MROPE: Json = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 4, 4]}
NESTED_TOWER = {"vision_tower.": "vision_tower.vision_model."}
"""`hub_names` of the towers that transformers has flattened since."""
MEL: Json = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "sampling_rate": 16000,
    "hop_length": 160,
    "n_fft": 400,
}
MAX_POSITIONS = 524288
"""`max_position_embeddings` of every checkpoint, in tokens."""


@dataclass(frozen=True)
class Checkpoint:
    """What makes one checkpoint.

    `config` gets the ids of `tokens`; `files` are JSON, or text as it is; `placeholders` maps a
    content type of a chat message to the prompt text that stands for it. `hub_names` maps a prefix
    of a weight's name as transformers saves it to the one that published checkpoints have.
    A published checkpoint may have no `chat_template`: then vLLM falls back on one of its own.
    """

    config: Callable[[Ids], Json]
    tokens: tuple[str, ...] = ()
    files: Mapping[str, Json | str] = field(default_factory=dict)
    tokenizer: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    chat_template: str | None = CHAT_TEMPLATE
    hub_names: Mapping[str, str] = field(default_factory=dict)


def text(model_type: str, architecture: str, **more: object) -> Json:
    """A text configuration; heads of 32, the least that the CPU's attention takes.

    So also where a model type has no `head_dim` and divides the hidden size.
    """
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "vocab_size": 512,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": False,
        **more,
    }


def tower(model_type: str, **more: object) -> Json:
    return {
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        **more,
    }


def audio_encoder(model_type: str, **more: object) -> Json:
    return {
        "model_type": model_type,
        "d_model": 64,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "num_mel_bins": 128,
        **more,
    }
