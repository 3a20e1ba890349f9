"""Checkpoints whose configuration is code of their own: a class of ours stands in for it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json, text, tower

_CODE = '''\
"""A configuration that keeps what config.json says, and knows no default."""

from transformers import CONFIG_MAPPING, PretrainedConfig


def _part(values):
    if isinstance(values, PretrainedConfig):
        return values
    kind = values.get("model_type", "")
    return (CONFIG_MAPPING[kind] if kind in CONFIG_MAPPING else PretrainedConfig)(**values)


class StandInConfig(PretrainedConfig):
    model_type = "MODEL_TYPE"

    def __init__(self, vision_config=None, llm_config=None, **kwargs):
        self.vision_config = _part(vision_config or {})
        self.llm_config = _part(llm_config or {})
        super().__init__(**kwargs)
'''


_TILE = 64
"""Pixels of a tile's side: upstream's 448 or 512 take its tests ten times as long."""


def _tiled(
    model_type: str,
    architecture: str,
    llm: Json | None = None,
    *,
    image_processor: Json | None = None,
    **more: object,
) -> Checkpoint:
    """A model that cuts an image into tiles of `_TILE` pixels, 256 tokens each as upstream's."""

    def config(_ids: Ids) -> Json:
        return {
            "architectures": [architecture],
            "model_type": model_type,
            "auto_map": {"AutoConfig": "configuration_standin.StandInConfig"},
            "llm_config": llm or text("qwen2", "Qwen2ForCausalLM"),
            "vision_config": tower(
                "intern_vit_6b",
                image_size=_TILE,
                patch_size=_TILE // 32,
                qkv_bias=True,
                norm_type="layer_norm",
                use_flash_attn=False,
                initializer_factor=1.0,
                layer_norm_eps=1e-6,
                qk_normalization=False,
            ),
            "force_image_size": _TILE,
            "downsample_ratio": 0.5,
            "dynamic_image_size": True,
            "min_dynamic_patch": 1,
            "max_dynamic_patch": 12,
            "use_thumbnail": True,
            "select_layer": -1,
            "ps_version": "v2",
            "template": "internvl2_5",
            **more,
        }

    files: dict[str, Json | str] = {
        "configuration_standin.py": _CODE.replace("MODEL_TYPE", model_type)
    }
    if image_processor:
        files["preprocessor_config.json"] = image_processor
    return Checkpoint(
        config,
        tokens=("<img>", "</img>", "<IMG_CONTEXT>", "<image>", "<video>", "<|vision_pad|>"),
        files=files,
        placeholders={"image": "<image>", "video": "<video>"},
    )


_INTERNVL = ("internvl_chat", "InternVLChatModel")
_H2OVL = _tiled(
    "h2ovl_chat", "H2OVLChatModel", text("mistral", "MistralForCausalLM"), use_msac=True
)

MODELS: Mapping[str, Checkpoint] = {
    "OpenGVLab/InternVL2-1B": _tiled(*_INTERNVL),
    "OpenGVLab/InternVL2-2B": _tiled(*_INTERNVL),
    "OpenGVLab/InternVL3-1B": _tiled(*_INTERNVL),
    "OpenGVLab/InternVL3_5-1B": _tiled(*_INTERNVL, text("qwen3", "Qwen3ForCausalLM")),
    "OpenGVLab/InternVL3_5-30B-A3B": _tiled(*_INTERNVL, text("qwen3_moe", "Qwen3MoeForCausalLM")),
    "OpenGVLab/InternVL3_5-GPT-OSS-20B-A4B-Preview": _tiled(
        *_INTERNVL, text("gpt_oss", "GptOssForCausalLM")
    ),
    "h2oai/h2ovl-mississippi-800m": _H2OVL,
    "h2oai/h2ovl-mississippi-2b": _H2OVL,
    "nvidia/Llama-3.1-Nemotron-Nano-VL-8B-V1": _tiled(
        "Llama_Nemotron_Nano_VL",
        "Llama_Nemotron_Nano_VL",
        text("llama", "LlamaForCausalLM"),
        image_processor={
            "image_processor_type": "CLIPImageProcessor",
            "image_size": _TILE,
            "max_num_tiles": 12,
            "use_thumbnail": True,
            **MEAN_STD,
        },
    ),
    "nvidia/NVLM-D-72B": _tiled("NVLM_D", "NVLM_D"),
    "Skywork/Skywork-R1V-38B": _tiled("skywork_chat", "SkyworkR1VChatModel"),
}
