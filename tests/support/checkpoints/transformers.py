"""What the Transformers back end serves."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json, text, tower


def _aya_vision(ids: Ids) -> Json:
    return {
        "architectures": ["AyaVisionForConditionalGeneration"],
        "model_type": "aya_vision",
        "text_config": text("cohere2", "Cohere2ForCausalLM", sliding_window=4096),
        "vision_config": tower(
            "siglip_vision_model", image_size=364, patch_size=14, vision_use_head=False
        ),
        "image_token_index": ids["<image>"],
        "downsample_factor": 2,
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "transformers_backend": Checkpoint(
        _aya_vision,
        tokens=(
            "<image>",
            "<|START_OF_IMG|>",
            "<|END_OF_IMG|>",
            "<|IMG_LINE_BREAK|>",
            "TILE",
            "TILE_GLOBAL",
            "<|IMG_PATCH|>",
        ),
        files={
            "preprocessor_config.json": {
                "processor_class": "AyaVisionProcessor",
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": 364, "width": 364},
                "crop_to_patches": True,
                "max_patches": 12,
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "AyaVisionProcessor",
                "patch_size": 28,
                "img_size": 364,
            },
        },
        placeholders={"image": "<image>"},
    ),
}
