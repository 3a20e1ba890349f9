"""Which model of the hub is which tiny checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.support.checkpoints import CHECKPOINTS, tiles
from tests.support.checkpoints.base import CHAT_TEMPLATE, Checkpoint
from tests.support.hub import audio, grids, own, standins, text, vision

_SAME = {
    "Qwen/Qwen2-VL-2B-Instruct": "qwen2_vl",
    "Qwen/Qwen2-VL-7B-Instruct": "qwen2_vl",
    "Qwen/Qwen2.5-VL-3B-Instruct": "qwen2_5_vl",
    "Qwen/Qwen2.5-VL-7B-Instruct": "qwen2_5_vl",
    "Qwen/Qwen3-VL-4B-Instruct": "qwen3_vl",
    "Qwen/Qwen2-Audio-7B-Instruct": "qwen2_audio",
    "LiquidAI/LFM2-VL-450M": "lfm2_vl",
    "fixie-ai/ultravox-v0_5-llama-3_2-1b": "ultravox",
    "google/gemma-3-4b-it": "gemma3",
    "llava-hf/llava-1.5-7b-hf": "llava",
    "llava-hf/llava-v1.6-mistral-7b-hf": "llava_next",
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": "llava_onevision",
    "meta-models/Muse-Glimmer-30B": "muse_glimmer",
    "jinaai/jina-reranker-m0": "qwen2_vl",
    "zai-org/GLM-4.1V-9B-Thinking": "glm4_1v",
}
"""Name → a checkpoint that is in a table of `tests.support.checkpoints` anyway."""

_SMALLER: Mapping[str, Checkpoint] = {
    "HuggingFaceM4/Idefics3-8B-Llama3": tiles.idefics3(364, side=2),
    "HuggingFaceTB/SmolVLM-256M-Instruct": tiles.idefics3(56),
    "OpenGVLab/InternVL3-1B-hf": tiles.internvl(112),
}
"""Name → such a checkpoint with fewer pixels than the real one, where no test counts them."""

_QUANTISED = {
    "Qwen/Qwen2.5-Omni-7B-AWQ": "Qwen/Qwen2.5-Omni-3B",
    "nm-testing/Mistral-Small-3.1-24B-Instruct-2503-FP8-dynamic": (
        "mistralai/Mistral-Small-3.1-24B-Instruct-2503"
    ),
    "nm-testing/pixtral-12b-FP8-dynamic": "mistral-community/pixtral-12b",
}
"""Name → the model of the hub with the same processor."""

_TEMPLATES: Mapping[str, str | None] = {
    "Salesforce/blip2-opt-2.7b": None,
    "deepseek-ai/deepseek-vl2-tiny": None,
    "facebook/chameleon-7b": None,
    "google/paligemma-3b-mix-224": None,
    "Qwen/Qwen2-VL-2B-Instruct": "{% if add_vision_id %}Picture 1: {% endif %}" + CHAT_TEMPLATE,
    "fixie-ai/ultravox-v0_5-llama-3_2-1b": (
        "{% for message in messages %}{{ message.content }}{% endfor %}"
    ),
    "Qwen/Qwen3-8B": CHAT_TEMPLATE + "{% if enable_thinking is false %}<think></think>{% endif %}",
}
"""Name → what its chat template is on the real hub: none, or one with an option of its own."""

_MODELS: dict[str, Checkpoint] = {
    **{name: CHECKPOINTS[checkpoint] for name, checkpoint in _SAME.items()},
    **_SMALLER,
    **audio.MODELS,
    **grids.MODELS,
    **own.MODELS,
    **standins.MODELS,
    **text.MODELS,
    **vision.MODELS,
}
MODELS = {
    name: replace(model, chat_template=_TEMPLATES.get(name, model.chat_template))
    for name, model in (_MODELS | {name: _MODELS[of] for name, of in _QUANTISED.items()}).items()
}
REVISIONS: Mapping[str, tuple[str, ...]] = {}
"""Name → references beside `main` by which upstream's tests ask for it."""
