"""Families whose configuration or processor is vLLM's own."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MAX_POSITIONS, MEAN_STD, Checkpoint, Json, text
from tests.support.hub.family import QWEN_IDS, QWEN_VISION, family, image


def _deepseek(architecture: str, model_type: str = "deepseek_vl_v2") -> Checkpoint:
    processor: Json = {
        "processor_class": "DeepseekVLV2Processor",
        "candidate_resolutions": [[384, 384], [384, 768], [768, 384]],
        "patch_size": 14,
        "downsample_ratio": 2,
        "image_token": "<image>",
    }
    return family(
        architecture,
        model_type,
        processor,
        tokens=("<image>", "<\uff5c\u2581pad\u2581\uff5c>", "<|ref|>", "<|/ref|>", "<|det|>",
                "<|/det|>", "<|grounding|>", "<|User|>", "<|Assistant|>"),
        named={"bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>"},
        candidate_resolutions=[[384, 384], [384, 768], [768, 384]],
        tile_tag="2D",
        language_config={"max_position_embeddings": MAX_POSITIONS},
    )  # fmt: skip


_QWEN3_ASR = family(
    "Qwen3ASRForConditionalGeneration",
    "qwen3_asr",
    {"processor_class": "Qwen3ASRProcessor"},
    named={
        "audio_token": "<|audio_pad|>",
        "audio_bos_token": "<|audio_start|>",
        "audio_eos_token": "<|audio_end|>",
    },
    audio={"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128},
)
_MOONDREAM = family(
    "Moondream3ForCausalLM",
    "moondream3",
    {"processor_class": "Moondream3Processor"},
    tokens=("<image>", *(f"<|md_reserved_{number}|>" for number in range(3))),
)
_COSMOS3 = family(
    "Cosmos3ForConditionalGeneration",
    "cosmos3_omni",
    {"processor_class": "Qwen3VLProcessor"},
    tokens=QWEN_VISION,
    ids=QWEN_IDS,
    image=image("Qwen2VLImageProcessor", patch_size=16, merge_size=2, temporal_patch_size=2),
    video={"video_processor_type": "Qwen3VLVideoProcessor", "patch_size": 16, **MEAN_STD},
)


def _ovis(llm: Json, pad: str) -> Checkpoint:
    return family(
        "Ovis",
        "ovis",
        {"processor_class": "OvisProcessor"},
        tokens=("<image>", pad),
        image=image("SiglipImageProcessor", size={"height": 280, "width": 280}),
        llm_config=llm,
        visual_tokenizer_config={
            "model_type": "aimv2_visual_tokenizer",
            "backbone_config": {"model_type": "aimv2", "image_size": 280, "patch_size": 14},
            "hidden_stride": 2,
        },
    )


MODELS: Mapping[str, Checkpoint] = {
    "AIDC-AI/Ovis1.6-Gemma2-9B": _ovis(text("gemma2", "Gemma2ForCausalLM"), "<unused0>"),
    "AIDC-AI/Ovis1.6-Llama3.2-3B": _ovis(
        text("llama", "LlamaForCausalLM"), "<|reserved_special_token_0|>"
    ),
    "AIDC-AI/Ovis2-1B": _ovis(text("qwen2", "Qwen2ForCausalLM"), "<|image_pad|>"),
    "Isotr0py/deepseek-vl2-tiny": _deepseek("DeepseekVLV2ForCausalLM"),
    "Qwen/Qwen3-ASR-0.6B": _QWEN3_ASR,
    "Qwen/Qwen3-ForcedAligner-0.6B": _QWEN3_ASR,
    "baidu/Qianfan-OCR": family(
        "QianfanOCRForConditionalGeneration",
        "qianfan_ocr",
        {"processor_class": "QianfanOCRProcessor"},
        tokens=("<img>", "</img>", "<IMG_CONTEXT>", "<image>", "<video>"),
        text_config=text("qwen3", "Qwen3ForCausalLM"),
        vision_config={"image_size": 112},
        force_image_size=112,
    ),
    "baidu/Unlimited-OCR": _deepseek("UnlimitedOCRForCausalLM", "unlimited-ocr"),
    "deepseek-ai/DeepSeek-OCR": _deepseek("DeepseekOCRForCausalLM"),
    "deepseek-ai/DeepSeek-OCR-2": _deepseek("DeepseekOCR2ForCausalLM"),
    "deepseek-ai/deepseek-vl2-tiny": _deepseek("DeepseekVLV2ForCausalLM"),
    "moondream/moondream3-preview": _MOONDREAM,
    "moondream/starmie-v1": _MOONDREAM,
    "nvidia/Cosmos3-Nano": _COSMOS3,
    "nvidia/Cosmos3-Super": _COSMOS3,
    "rednote-hilab/dots.ocr": family(
        "DotsOCRForCausalLM",
        "dots_ocr",
        {"processor_class": "Qwen2VLProcessor"},
        tokens=("<|imgpad|>", "<|img|>", "<|endofimg|>", *QWEN_VISION),
        image=image("Qwen2VLImageProcessor", patch_size=14, merge_size=2, temporal_patch_size=1),
    ),
    "stepfun-ai/step3": family(
        "Step3VLForConditionalGeneration",
        "step3_vl",
        {"processor_class": "Step3VLProcessor"},
        tokens=("<im_start>", "<im_end>", "<patch_start>", "<patch_end>", "<patch_newline>"),
        ids={"image_token_id": "<im_patch>"},
    ),
}
