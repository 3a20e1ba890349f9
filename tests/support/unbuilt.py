"""Modules with multimodal fields that the audit reads, since it runs none of their models."""

from __future__ import annotations

from collections.abc import Mapping

_REMOTE = "configuration or processor is remote code"
_RAW = "takes raw inputs only: no embed_multimodal behind the encoder cache"
_OPEN = "no tiny checkpoint yet"

UNBUILT: Mapping[str, str] = {
    "bagel": _OPEN,
    "chameleon": _OPEN,
    "cheers": _OPEN,
    "clip": _OPEN,
    "cohere_asr": _OPEN,
    "colmodernvbert": _OPEN,
    "deepseek_ocr": _OPEN,
    "deepseek_ocr2": _OPEN,
    "deepseek_vl2": _OPEN,
    "fireredasr2": _REMOTE,
    "fireredlid": _REMOTE,
    "funasr": _REMOTE,
    "funaudiochat": _REMOTE,
    "gemma3n_mm": "its towers are timm models, which the environment lacks",
    "glm4v": _REMOTE,
    "granite4_vision": _OPEN,
    "hyperclovax_vision": _REMOTE,
    "hyperclovax_vision_v2": _REMOTE,
    "isaac": _OPEN,
    "kanana_v": _REMOTE,
    "keye_vl1_5": _REMOTE,
    "kimi_audio": _REMOTE,
    "kimi_k25": _OPEN,
    "lightonocr": _OPEN,
    "llava_onevision2": _REMOTE,
    "midashenglm": _REMOTE,
    "mimo_v2_omni": _REMOTE,
    "minicpmo": _REMOTE,
    "minicpmv4_6": _OPEN,
    "molmo": _REMOTE,
    "moondream3": _REMOTE,
    "moss_audio": _REMOTE,
    "moss_transcribe_diarize": _REMOTE,
    "nano_nemotron_vl": _REMOTE,
    "nemotron_parse": _REMOTE,
    "openvla": _REMOTE,
    "ovis2_5": _OPEN,
    "phi3v": _REMOTE,
    "phi4siglip": _REMOTE,
    "siglip": _OPEN,
    "terratorch": _RAW,
    "voxtral": "its tokenizer is mistral-common's, with weights' files beside it",
}
"""Module below `vllm.model_executor.models`, and why."""

PARTS = (
    "model_executor.models.conformer_encoder",
    "model_executor.models.cosmos3_edge",
    "model_executor.models.dots_ocr",
    "model_executor.models.glm_ocr",
    "model_executor.models.kimi_k25_vit",
    "model_executor.models.openpangu_vl",
    "model_executor.models.radio",
    "model_executor.models.siglip2navit",
    "model_executor.models.transformers.multimodal",
    "models.dots3_note.nvidia.vision",
)
"""Modules below `vllm` without fields of their own, whose towers no audited family runs."""

READ = (*(f"model_executor.models.{module}" for module in UNBUILT), *PARTS)
"""All that is read and not run, by dotted name below `vllm`."""
