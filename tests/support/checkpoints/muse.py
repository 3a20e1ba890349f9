"""Muse Glimmer, whose processor and configuration vLLM brings along."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import Checkpoint, Ids, Json, text


def _muse_glimmer(ids: Ids) -> Json:
    return {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "model_type": "muse_glimmer",
        "text_config": text("muse_glimmer_text", "MuseGlimmerForCausalLM"),
        "vision_config": {
            "model_type": "muse_glimmer_vision",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "output_dim": 256,
            "adapter_dim": 64,
        },
        "image_token_id": ids["<|patch|>"],
        "video_token_id": ids["<|video|>"],
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "muse_glimmer": Checkpoint(
        _muse_glimmer,
        tokens=(
            "<|image|>",
            "<|image_start|>",
            "<|image_end|>",
            "<|patch|>",
            "<|video|>",
            "<|vid_start|>",
            "<|vid_frame_separator|>",
            "<|vid_end|>",
        ),
        placeholders={"image": "<|patch|>", "video": "<|video|>"},
    ),
}
