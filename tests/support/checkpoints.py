"""Tiny multimodal checkpoints without weights, made offline and the same every time.

`python -m tests.support.checkpoints NAME FOLDER` makes one of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Ids = Mapping[str, int]
"""Token text to token id."""

_EOS = "<|endoftext|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}{{ PLACEHOLDERS[part.type] }}"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
_MEAN_STD: Json = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
MAX_POSITIONS = 524288
"""`max_position_embeddings` of every checkpoint, in tokens."""


@dataclass(frozen=True)
class Checkpoint:
    """What makes one checkpoint.

    `config` gets the ids of `tokens`; `placeholders` maps a content type of a chat
    message to the prompt text that stands for it.
    """

    config: Callable[[Ids], Json]
    tokens: tuple[str, ...] = ()
    files: Mapping[str, Json] = field(default_factory=dict)
    tokenizer: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)


def _text(model_type: str, **more: object) -> Json:
    return {
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 512,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": False,
        **more,
    }


def _tower(model_type: str, **more: object) -> Json:
    return {
        "model_type": model_type,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        **more,
    }


_MROPE: Json = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
_QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_QWEN_PLACEHOLDERS = {
    "image": "<|vision_start|><|image_pad|><|vision_end|>",
    "video": "<|vision_start|><|video_pad|><|vision_end|>",
}


def _qwen_ids(ids: Ids) -> Json:
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def _qwen_files(
    processor: str,
    video_processor: str,
    patch: int,
    image_size: tuple[int, int],
    video_size: tuple[int, int],
) -> dict[str, Json]:
    """Sizes are (shortest, longest) in pixels, as the model cards give them."""
    grid = {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2}
    return {
        "preprocessor_config.json": {
            "processor_class": processor,
            "image_processor_type": "Qwen2VLImageProcessor",
            "size": {"shortest_edge": image_size[0], "longest_edge": image_size[1]},
            **grid,
            **_MEAN_STD,
        },
        "video_preprocessor_config.json": {
            "processor_class": processor,
            "video_processor_type": video_processor,
            "size": {"shortest_edge": video_size[0], "longest_edge": video_size[1]},
            **grid,
            **_MEAN_STD,
        },
    }


def _qwen2_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "text_config": _text("qwen2_vl_text", rope_parameters={**_MROPE, "type": "mrope"}),
        "vision_config": {
            "model_type": "qwen2_vl_vision",
            "depth": 2,
            "embed_dim": 64,
            "hidden_size": 64,
            "num_heads": 4,
            "mlp_ratio": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        **_qwen_ids(ids),
    }


def _qwen2_5_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "text_config": _text("qwen2_5_vl_text", rope_parameters=_MROPE),
        "vision_config": {
            "model_type": "qwen2_5_vl_vision",
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 64,
            "num_heads": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(ids),
    }


def _qwen3_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": _text(
            "qwen3_vl_text", rope_parameters={**_MROPE, "mrope_interleaved": True}
        ),
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 64,
            "num_heads": 4,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [0],
        },
        **_qwen_ids(ids),
    }


_GLM_TOKENS = (
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|image|>",
    "<|video|>",
)


def _glm4_1v(ids: Ids) -> Json:
    return {
        "architectures": ["Glm4vForConditionalGeneration"],
        "model_type": "glm4v",
        "text_config": _text("glm4v_text", rope_parameters=_MROPE),
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


def _llava(ids: Ids) -> Json:
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": _text("llama"),
        "vision_config": _tower("clip_vision_model", image_size=336, patch_size=14),
        "image_token_index": ids["<image>"],
        "image_seq_length": 576,
    }


_CLIP_FILES: Json = {
    "crop_size": {"height": 336, "width": 336},
    "size": {"shortest_edge": 336},
    **_MEAN_STD,
}
_LLAVA_PROCESSOR: Json = {
    "image_token": "<image>",
    "patch_size": 14,
    "num_additional_image_tokens": 1,
    "vision_feature_select_strategy": "default",
}
_PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]


def _llava_next(ids: Ids) -> Json:
    return {
        **_llava(ids),
        "architectures": ["LlavaNextForConditionalGeneration"],
        "model_type": "llava_next",
        "image_grid_pinpoints": _PINPOINTS,
    }


def _llava_onevision(ids: Ids) -> Json:
    return {
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
        "model_type": "llava_onevision",
        "text_config": _text("qwen2"),
        "vision_config": _tower(
            "siglip_vision_model", image_size=384, patch_size=14, vision_use_head=False
        ),
        "image_token_index": ids["<image>"],
        "video_token_index": ids["<video>"],
        "image_grid_pinpoints": [[384 * i, 384 * j] for i in (1, 2, 3) for j in (1, 2, 3)],
        "vision_aspect_ratio": "anyres_max_9",
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
    }


def _internvl(ids: Ids) -> Json:
    return {
        "architectures": ["InternVLForConditionalGeneration"],
        "model_type": "internvl",
        "text_config": _text("qwen2"),
        "vision_config": _tower(
            "internvl_vision", image_size=[448, 448], patch_size=[14, 14], num_channels=3
        ),
        "image_token_id": ids["<IMG_CONTEXT>"],
        "image_seq_length": 256,
        "downsample_ratio": 0.5,
    }


def _idefics3(ids: Ids) -> Json:
    return {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "text_config": _text("llama", pad_token_id=0),
        "vision_config": _tower("idefics3_vision", image_size=364, patch_size=14),
        "image_token_id": ids["<image>"],
        "scale_factor": 2,
    }


def _gemma3(ids: Ids) -> Json:
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": _text("gemma3_text", sliding_window=512, query_pre_attn_scalar=16),
        "vision_config": _tower("siglip_vision_model", image_size=896, patch_size=14),
        "mm_tokens_per_image": 256,
        "image_token_index": ids["<image_soft_token>"],
        "boi_token_index": ids["<start_of_image>"],
        "eoi_token_index": ids["<end_of_image>"],
    }


def _qwen2_audio(ids: Ids) -> Json:
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "text_config": _text("qwen2"),
        "audio_config": {
            "model_type": "qwen2_audio_encoder",
            "d_model": 64,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "num_mel_bins": 128,
        },
        "audio_token_index": ids["<|AUDIO|>"],
    }


def _aya_vision(ids: Ids) -> Json:
    return {
        "architectures": ["AyaVisionForConditionalGeneration"],
        "model_type": "aya_vision",
        "text_config": _text("cohere2", sliding_window=4096),
        "vision_config": _tower("siglip_vision_model", image_size=364, patch_size=14),
        "image_token_index": ids["<image>"],
        "downsample_factor": 2,
    }


def _lfm2_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Lfm2VlForConditionalGeneration"],
        "model_type": "lfm2_vl",
        "text_config": _text("lfm2", layer_types=["full_attention", "full_attention"]),
        "vision_config": _tower("siglip2_vision_model", num_patches=256, patch_size=16),
        "image_token_id": ids["<image>"],
        "downsample_factor": 2,
    }


def _llama(_ids: Ids) -> Json:
    return {"architectures": ["LlamaForCausalLM"], **_text("llama")}


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "gemma3": Checkpoint(
        _gemma3,
        tokens=(
            "<start_of_image>",
            "<end_of_image>",
            "<image_soft_token>",
            *("\n" * i for i in range(1, 5)),
        ),
        tokenizer={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "Gemma3Processor",
                "image_processor_type": "Gemma3ImageProcessor",
                "size": {"height": 896, "width": 896},
                "image_seq_length": 256,
                **_MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Gemma3Processor",
                "image_seq_length": 256,
            },
        },
        placeholders={"image": "<start_of_image>"},
    ),
    "glm4_1v": Checkpoint(
        _glm4_1v,
        tokens=_GLM_TOKENS,
        files={
            "preprocessor_config.json": {
                "processor_class": "Glm4vProcessor",
                "image_processor_type": "Glm4vImageProcessor",
                "size": {"shortest_edge": 12544, "longest_edge": 9633792},
                **_MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "processor_class": "Glm4vProcessor",
                "video_processor_type": "Glm4vVideoProcessor",
                "size": {"shortest_edge": 12544, "longest_edge": 47040000},
                **_MEAN_STD,
            },
        },
        placeholders={
            "image": "<|begin_of_image|><|image|><|end_of_image|>",
            "video": "<|begin_of_video|><|video|><|end_of_video|>",
        },
    ),
    "idefics3": Checkpoint(
        _idefics3,
        tokens=(
            "<fake_token_around_image>",
            "<image>",
            "<end_of_utterance>",
            "<global-img>",
            *(f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)),
        ),
        files={
            "preprocessor_config.json": {
                "processor_class": "Idefics3Processor",
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": 1456},
                "max_image_size": {"longest_edge": 364},
                **_MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Idefics3Processor",
                "image_seq_len": 169,
            },
        },
        placeholders={"image": "<image>"},
    ),
    "internvl": Checkpoint(
        _internvl,
        tokens=("<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
        tokenizer={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "InternVLProcessor",
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": 448, "width": 448},
                "crop_to_patches": True,
                "min_patches": 1,
                "max_patches": 12,
                **_MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "processor_class": "InternVLProcessor",
                "video_processor_type": "InternVLVideoProcessor",
                "size": {"height": 448, "width": 448},
                **_MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "InternVLProcessor",
                "image_seq_length": 256,
            },
        },
        placeholders={"image": "<IMG_CONTEXT>", "video": "<video>"},
    ),
    "lfm2_vl": Checkpoint(
        _lfm2_vl,
        tokens=(
            "<image>",
            "<|image_start|>",
            "<|image_end|>",
            "<|img_thumbnail|>",
            *(f"<|img_row_{i}_col_{j}|>" for i in range(1, 11) for j in range(1, 11)),
        ),
        tokenizer={
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail": "<|img_thumbnail|>",
        },
        files={
            "preprocessor_config.json": {
                "processor_class": "Lfm2VlProcessor",
                "image_processor_type": "Lfm2VlImageProcessor",
                **_MEAN_STD,
            },
            "processor_config.json": {"processor_class": "Lfm2VlProcessor"},
        },
        placeholders={"image": "<image>"},
    ),
    "llama": Checkpoint(_llama),
    "llava": Checkpoint(
        _llava,
        tokens=("<image>",),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "CLIPImageProcessor",
                **_CLIP_FILES,
            },
            "processor_config.json": {
                "processor_class": "LlavaProcessor",
                **_LLAVA_PROCESSOR,
            },
        },
        placeholders={"image": "<image>"},
    ),
    "llava_next": Checkpoint(
        _llava_next,
        tokens=("<image>",),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaNextImageProcessor",
                "image_grid_pinpoints": _PINPOINTS,
                **_CLIP_FILES,
            },
            "processor_config.json": {
                "processor_class": "LlavaNextProcessor",
                **_LLAVA_PROCESSOR,
            },
        },
        placeholders={"image": "<image>"},
    ),
    "llava_onevision": Checkpoint(
        _llava_onevision,
        tokens=("<image>", "<video>"),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaOnevisionImageProcessor",
                "size": {"height": 384, "width": 384},
                "image_grid_pinpoints": [[384 * i, 384 * j] for i in (1, 2, 3) for j in (1, 2, 3)],
                **_MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "video_processor_type": "LlavaOnevisionVideoProcessor",
                "size": {"height": 384, "width": 384},
                **_MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "LlavaOnevisionProcessor",
                "image_token": "<image>",
                "video_token": "<video>",
                "num_image_tokens": 729,
                "vision_feature_select_strategy": "full",
                "vision_aspect_ratio": "anyres_max_9",
            },
        },
        placeholders={"image": "<image>", "video": "<video>"},
    ),
    "qwen2_audio": Checkpoint(
        _qwen2_audio,
        tokens=("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"),
        files={
            "preprocessor_config.json": {
                "processor_class": "Qwen2AudioProcessor",
                "feature_extractor_type": "WhisperFeatureExtractor",
                "feature_size": 128,
                "sampling_rate": 16000,
                "hop_length": 160,
                "chunk_length": 30,
                "n_fft": 400,
                "return_attention_mask": True,
            },
            "processor_config.json": {"processor_class": "Qwen2AudioProcessor"},
        },
        placeholders={"audio": "<|audio_bos|><|AUDIO|><|audio_eos|>"},
    ),
    "qwen2_vl": Checkpoint(
        _qwen2_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen2VLProcessor",
            "Qwen2VLVideoProcessor",
            14,
            (3136, 12845056),
            (100352, 602112),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
    "qwen2_5_vl": Checkpoint(
        _qwen2_5_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen2_5_VLProcessor",
            "Qwen2VLVideoProcessor",
            14,
            (3136, 12845056),
            (3136, 12845056),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
    "qwen3_vl": Checkpoint(
        _qwen3_vl,
        tokens=_QWEN_TOKENS,
        files=_qwen_files(
            "Qwen3VLProcessor",
            "Qwen3VLVideoProcessor",
            16,
            (65536, 16777216),
            (4096, 25165824),
        ),
        placeholders=_QWEN_PLACEHOLDERS,
    ),
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
                **_MEAN_STD,
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


def make_checkpoint(name: str, folder: Path) -> Path:
    """Write checkpoint `name` into `folder`, which is made, and return the folder.

    Raises `KeyError` for a name that is not in `CHECKPOINTS`.
    """
    checkpoint = CHECKPOINTS[name]
    folder.mkdir(parents=True, exist_ok=True)
    ids = _write_tokenizer(checkpoint, folder)

    config = {"torch_dtype": "float32", "eos_token_id": ids[_EOS], **checkpoint.config(ids)}
    for file, content in {**checkpoint.files, "config.json": config}.items():
        _write_json(folder / file, content)
    return folder


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> Ids:
    """A byte-level tokenizer without merges: ids 0 to 255 are bytes."""
    # Imported here, so that the table above can be read without any dependency.
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: index for index, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = (_EOS, *checkpoint.tokens)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in tokens])
    tokenizer.save(str(folder / "tokenizer.json"))

    placeholders = "{% set PLACEHOLDERS = " + json.dumps(dict(checkpoint.placeholders)) + " %}"
    tokenizer_config: Json = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _EOS,
        "pad_token": _EOS,
        "model_max_length": MAX_POSITIONS,
        "chat_template": placeholders + _CHAT_TEMPLATE,
        "extra_special_tokens": dict(checkpoint.tokenizer),
    }
    _write_json(folder / "tokenizer_config.json", tokenizer_config)
    return {token: tokenizer.token_to_id(token) for token in tokens}


def _write_json(path: Path, content: Json) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Make the checkpoint that the command line names."""
    if len(arguments) != 2 or arguments[0] not in CHECKPOINTS:
        names = ", ".join(sorted(CHECKPOINTS))
        sys.stderr.write(f"usage: checkpoints NAME FOLDER, with NAME one of: {names}\n")
        return 2
    make_checkpoint(arguments[0], Path(arguments[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
