"""Models that read documents."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, MROPE, Checkpoint, Ids, Json, text, tower


def _hunyuan_vl(ids: Ids) -> Json:
    text_config = text(
        "hunyuan_vl_text",
        "HunYuanVLForConditionalGeneration",  # the configuration answers with those of its text
        rope_scaling={
            "type": "xdrope",
            "alpha": 1000.0,
            "factor": 1.0,  # transformers wants it, where vLLM leaves the configuration to it
            "xdrope_section": [4, 4, 4, 4],
        },
    )
    return {
        "architectures": ["HunYuanVLForConditionalGeneration"],
        "model_type": "hunyuan_vl",
        "text_config": text_config,
        "vision_config": tower(
            "hunyuan_vl", patch_size=16, spatial_merge_size=2, max_image_size=2048
        ),
        "image_token_id": ids["<hy_image>"],
        "image_start_token_id": ids["<hy_image_start>"],
        "image_end_token_id": ids["<hy_image_end>"],
    }


def _paddleocr_vl(ids: Ids) -> Json:
    return {
        "architectures": ["PaddleOCRVLForConditionalGeneration"],
        "model_type": "paddleocr_vl",
        "text_config": text("paddleocr_vl_text", "Ernie4_5ForCausalLM", rope_parameters=MROPE),
        "vision_config": tower(
            "paddleocr_vl_vision", image_size=384, patch_size=14, spatial_merge_size=2
        ),
        "image_token_id": ids["<image>"],
        "video_token_id": ids["<video>"],
        "vision_start_token_id": ids["<vision_start>"],
        "vision_end_token_id": ids["<vision_end>"],
    }


def _qianfan_ocr(ids: Ids) -> Json:
    return {
        "architectures": ["QianfanOCRForConditionalGeneration"],
        "model_type": "qianfan_ocr",
        "text_config": text("qwen3", "Qwen3ForCausalLM"),
        "vision_config": tower("qianfan_ocr_vision", image_size=448, patch_size=14),
        "image_token_id": ids["<IMG_CONTEXT>"],
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "hunyuan_vl": Checkpoint(
        _hunyuan_vl,
        tokens=("<hy_image>", "<hy_image_start>", "<hy_image_end>"),
        tokenizer={
            "image_token": "<hy_image>",
            "image_start_token": "<hy_image_start>",
            "image_end_token": "<hy_image_end>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "HunYuanVLProcessor",
                "image_processor_type": "HunYuanVLImageProcessor",
                "size": {"shortest_edge": 262144, "longest_edge": 4194304},
                "patch_size": 16,
                "merge_size": 2,
                "temporal_patch_size": 1,
                **MEAN_STD,
            },
        },
        placeholders={"image": "<hy_image_start><hy_image><hy_image_end>"},
    ),
    "paddleocr_vl": Checkpoint(
        _paddleocr_vl,
        tokens=("<image>", "<video>", "<vision_start>", "<vision_end>"),
        tokenizer={"image_token": "<image>"},
        files={
            "preprocessor_config.json": {
                "processor_class": "PaddleOCRVLProcessor",
                "image_processor_type": "PaddleOCRVLImageProcessor",
                "size": {"shortest_edge": 147384, "longest_edge": 2822400},
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 1,
                **MEAN_STD,
            },
        },
        placeholders={"image": "<image>"},
    ),
    "qianfan_ocr": Checkpoint(
        _qianfan_ocr,
        tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
        placeholders={"image": "<image>"},
    ),
}
