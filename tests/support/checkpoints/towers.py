"""A vision tower, a projector and a language model, in various ways."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json, text, tower


def _mllama4(ids: Ids) -> Json:
    return {
        "architectures": ["Llama4ForConditionalGeneration"],
        "model_type": "llama4",
        "text_config": text(
            "llama4_text",
            "Llama4ForCausalLM",
            intermediate_size_mlp=128,
            num_local_experts=2,
            interleave_moe_layer_step=2,
            pad_token_id=0,
        ),
        "vision_config": tower(
            "llama4_vision_model",
            image_size=112,
            patch_size=14,
            vision_output_dim=64,
            projector_input_dim=64,
            projector_output_dim=64,
            # The MLP after the pixel shuffle takes four patches at once.
            intermediate_size=256,
        ),
        "image_token_index": ids["<|patch|>"],
        "boi_token_index": ids["<|image_start|>"],
        "eoi_token_index": ids["<|image_end|>"],
    }


def _mistral3(ids: Ids) -> Json:
    return {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "text_config": text("mistral", "MistralForCausalLM"),
        "vision_config": tower(
            "pixtral", image_size=336, patch_size=14, head_dim=16, hidden_act="gelu"
        ),
        "image_token_index": ids["[IMG]"],
        "spatial_merge_size": 2,
        "vision_feature_layer": -1,
    }


def _paligemma(ids: Ids) -> Json:
    return {
        "architectures": ["PaliGemmaForConditionalGeneration"],
        "model_type": "paligemma",
        "text_config": text("gemma", "GemmaForCausalLM", num_image_tokens=256),
        "vision_config": tower(
            "siglip_vision_model", image_size=224, patch_size=14, projection_dim=64
        ),
        "image_token_index": ids["<image>"],
        "projection_dim": 64,
        "hidden_size": 64,
    }


def _blip2(ids: Ids) -> Json:
    return {
        "architectures": ["Blip2ForConditionalGeneration"],
        "model_type": "blip-2",
        "text_config": {
            "model_type": "opt",
            "architectures": ["OPTForCausalLM"],
            "hidden_size": 64,
            "word_embed_proj_dim": 64,
            "ffn_dim": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "vocab_size": 512,
            "max_position_embeddings": 32768,
        },
        "vision_config": tower("blip_2_vision_model", image_size=224, patch_size=14),
        "qformer_config": tower(
            "blip_2_qformer", encoder_hidden_size=64, cross_attention_frequency=2, vocab_size=512
        ),
        "num_query_tokens": 32,
        "image_token_index": ids["<image>"],
    }


def _llava_next_video(ids: Ids) -> Json:
    return {
        "architectures": ["LlavaNextVideoForConditionalGeneration"],
        "model_type": "llava_next_video",
        "text_config": text("llama", "LlamaForCausalLM"),
        "vision_config": tower("clip_vision_model", image_size=336, patch_size=14),
        "image_token_index": ids["<image>"],
        "video_token_index": ids["<video>"],
        "spatial_pool_mode": "average",
        "spatial_pool_stride": 2,
    }


def _aria(ids: Ids) -> Json:
    return {
        "architectures": ["AriaForConditionalGeneration"],
        "model_type": "aria",
        "text_config": text(
            "aria_text", "AriaTextForCausalLM", moe_num_experts=2, moe_topk=1, pad_token_id=0
        ),
        "vision_config": tower("idefics3_vision", image_size=980, patch_size=14),
        "projector_patch_to_query_dict": {"1225": 128, "4900": 256},
        "image_token_index": ids["<|img|>"],
    }


_LLAMA4_TOKENS = (
    "<|image|>",
    "<|image_start|>",
    "<|image_end|>",
    "<|patch|>",
    "<|tile_x_separator|>",
    "<|tile_y_separator|>",
)

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "aria": Checkpoint(
        _aria,
        tokens=("<|img|>",),
        tokenizer={"image_token": "<|img|>"},
        files={
            "preprocessor_config.json": {
                "processor_class": "AriaProcessor",
                "image_processor_type": "AriaImageProcessor",
                "max_image_size": 490,
                "min_image_size": 336,
                **MEAN_STD,
            },
            "processor_config.json": {"processor_class": "AriaProcessor"},
        },
        placeholders={"image": "<|img|>"},
    ),
    "blip2": Checkpoint(
        _blip2,
        tokens=("<image>",),
        files={
            "preprocessor_config.json": {
                "processor_class": "Blip2Processor",
                "image_processor_type": "BlipImageProcessor",
                "size": {"height": 224, "width": 224},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Blip2Processor",
                "num_query_tokens": 32,
            },
        },
    ),
    "llava_next_video": Checkpoint(
        _llava_next_video,
        tokens=("<image>", "<video>"),
        files={
            "preprocessor_config.json": {
                "processor_class": "LlavaNextVideoProcessor",
                "image_processor_type": "LlavaNextImageProcessor",
                "crop_size": {"height": 336, "width": 336},
                "size": {"shortest_edge": 336},
                **MEAN_STD,
            },
            "video_preprocessor_config.json": {
                "processor_class": "LlavaNextVideoProcessor",
                "video_processor_type": "LlavaNextVideoVideoProcessor",
                "crop_size": {"height": 336, "width": 336},
                "size": {"shortest_edge": 336},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "LlavaNextVideoProcessor",
                "patch_size": 14,
                "num_additional_image_tokens": 1,
                "vision_feature_select_strategy": "default",
                "image_token": "<image>",
                "video_token": "<video>",
            },
        },
        placeholders={"video": "<video>"},
    ),
    "mistral3": Checkpoint(
        _mistral3,
        tokens=("[IMG]", "[IMG_BREAK]", "[IMG_END]"),
        files={
            "preprocessor_config.json": {
                "processor_class": "PixtralProcessor",
                "image_processor_type": "PixtralImageProcessor",
                "size": {"longest_edge": 336},
                "patch_size": {"height": 14, "width": 14},
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "PixtralProcessor",
                "patch_size": 14,
                "spatial_merge_size": 2,
            },
        },
        placeholders={"image": "[IMG]"},
    ),
    "mllama4": Checkpoint(
        _mllama4,
        tokens=_LLAMA4_TOKENS,
        files={
            "preprocessor_config.json": {
                "processor_class": "Llama4Processor",
                "image_processor_type": "Llama4ImageProcessor",
                "size": {"height": 112, "width": 112},
                "max_patches": 4,
                **MEAN_STD,
            },
            "processor_config.json": {
                "processor_class": "Llama4Processor",
                "patch_size": 14,
                "pixel_shuffle_ratio": 0.5,
            },
        },
        placeholders={"image": "<|image|>"},
    ),
    "paligemma": Checkpoint(
        _paligemma,
        tokens=("<image>", "<bos>", *(f"<loc{i:04}>" for i in range(2)), "<seg000>"),
        tokenizer={"image_token": "<image>", "bos_token": "<bos>"},
        files={
            "preprocessor_config.json": {
                "processor_class": "PaliGemmaProcessor",
                "image_processor_type": "SiglipImageProcessor",
                "image_seq_length": 256,
                "size": {"height": 224, "width": 224},
                **MEAN_STD,
            },
        },
    ),
}
