"""GLM-4.1V."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, MROPE, Checkpoint, Ids, Json, text

_GLM_TOKENS = (
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|image|>",
    "<|video|>",
)
# Half of a head turns.
_ROPE = {**MROPE, "mrope_section": [4, 2, 2], "partial_rotary_factor": 0.5}


def _glm4_1v(ids: Ids) -> Json:
    return {
        "architectures": ["Glm4vForConditionalGeneration"],
        "model_type": "glm4v",
        "text_config": text("glm4v_text", "Glm4ForCausalLM", rope_parameters=_ROPE),
        "vision_config": {
            "model_type": "glm4v_vision",
            "depth": 2,
            "hidden_size": 64,
            "out_hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "image_size": 336,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        "image_token_id": ids["<|image|>"],
        "video_token_id": ids["<|video|>"],
        "image_start_token_id": ids["<|begin_of_image|>"],
        "image_end_token_id": ids["<|end_of_image|>"],
        "video_start_token_id": ids["<|begin_of_video|>"],
        "video_end_token_id": ids["<|end_of_video|>"],
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "glm4_1v": Checkpoint(
        _glm4_1v,
        tokens=_GLM_TOKENS,
        files={
            "preprocessor_config.json": {
                "processor_class": "Glm4vProcessor",
                "image_processor_type": "Glm4vImageProcessor",
                "size": {"shortest_edge": 12544, "longest_edge": 9633792},
                **MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "processor_class": "Glm4vProcessor",
                "video_processor_type": "Glm4vVideoProcessor",
                "size": {"shortest_edge": 12544, "longest_edge": 47040000},
                **MEAN_STD,
            },
        },
        placeholders={
            "image": "<|begin_of_image|><|image|><|end_of_image|>",
            "video": "<|begin_of_video|><|video|><|end_of_video|>",
        },
    ),
}
