"""Families whose configuration, and often processor, is the tree's own."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MROPE, Checkpoint, Ids, Json, text, tower


def _deepseek(**more: object) -> Json:
    """DeepSeek's attention, all layers dense."""
    return text(
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        q_lora_rank=None,
        kv_lora_rank=32,
        qk_rope_head_dim=32,
        qk_nope_head_dim=32,
        v_head_dim=32,
        first_k_dense_replace=2,
        n_routed_experts=2,
        moe_intermediate_size=64,
        topk_method="greedy",
        **more,
    )


def _kimi_vl(ids: Ids) -> Json:
    return {
        "architectures": ["KimiVLForConditionalGeneration"],
        "model_type": "kimi_vl",
        "text_config": _deepseek(),
        "vision_config": tower(
            "moonvit", patch_size=14, init_pos_emb_height=64, init_pos_emb_width=64
        ),
        "media_placeholder_token_id": ids["<|media_pad|>"],
    }


def _step3_vl(ids: Ids) -> Json:
    return {
        "architectures": ["Step3VLForConditionalGeneration"],
        "model_type": "step3_vl",
        "text_config": {
            "model_type": "step3_text",
            "architectures": ["Step3TextForCausalLM"],
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "head_dim": 32,
            "share_q_dim": 64,
            "vocab_size": 512,
            "moe_layers_enum": "9",
        },
        "vision_config": tower(
            "step3_vision_encoder", output_hidden_size=64, image_size=728, patch_size=14
        ),
        "understand_projector_stride": 2,
        "projector_bias": False,
        "image_token_id": ids["<im_patch>"],
    }


def _ovis(_ids: Ids) -> Json:
    return {
        "architectures": ["Ovis"],
        "model_type": "ovis",
        "llm_config": text("qwen2", "Qwen2ForCausalLM"),
        "visual_tokenizer_config": {
            "model_type": "siglip_visual_tokenizer",
            "vocab_size": 128,
            "hidden_stride": 2,
            "tokenize_function": "softmax",
            "backbone_config": tower(
                "siglip_vision_model", image_size=112, patch_size=14, vision_use_head=False
            ),
        },
        "hidden_size": 64,
        "conversation_formatter_class": "QwenConversationFormatter",
    }


def _minicpmv(_ids: Ids) -> Json:
    """Served with `families.sub_configs`; its own class is remote code."""
    return {
        **text("qwen2", "MiniCPMV"),
        "hidden_size": 128,
        "version": 2.6,
        "query_num": 64,
        "drop_vision_last_layer": False,
        "vision_config": tower("siglip_vision_model", image_size=448, patch_size=14),
    }


def _ernie45_vl(ids: Ids) -> Json:
    """Served with `families.sub_configs`; its own class is remote code. All layers dense."""
    return {
        **text("ernie4_5", "Ernie4_5_VLMoeForConditionalGeneration"),
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "freq_allocation": 8,
        "use_moe": False,
        "moe_num_experts": [0, 0],
        "moe_layer_start_index": [0, 0],
        "vision_config": {
            "depth": 2,
            "embed_dim": 64,
            "hidden_size": 64,
            "hidden_act": "quick_gelu",
            "in_channels": 3,
            "mlp_ratio": 2,
            "num_heads": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
        },
        "pixel_hidden_size": 64,
        "spatial_conv_size": 2,
        "temporal_conv_size": 2,
        "use_temporal_conv": True,
        "im_patch_id": ids["<|IMAGE_PLACEHOLDER|>"],
        "image_start_token_id": ids["<|IMAGE_START|>"],
        "image_end_token_id": ids["<|IMAGE_END|>"],
        "video_start_token_id": ids["<|VIDEO_START|>"],
        "video_end_token_id": ids["<|VIDEO_END|>"],
    }


def _keye(ids: Ids) -> Json:
    """Served with `families.sub_configs`; its own class is remote code."""
    return {
        **text("qwen3", "KeyeForConditionalGeneration", rope_parameters=MROPE),
        "vision_config": {
            **tower("siglip_vision_model", image_size=112, patch_size=14),
            "num_channels": 3,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "attention_dropout": 0.0,
            "spatial_merge_size": 2,
            "temporal_patch_size": 1,
        },
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
    }


def _molmo2(ids: Ids) -> Json:
    """Served with `families.sub_configs`; its own class is remote code."""
    return {
        "architectures": ["Molmo2ForConditionalGeneration"],
        "model_type": "qwen3",
        "text_config": text(
            "molmo2_text",
            "Molmo2TextModel",
            hidden_act="silu",
            additional_vocab_size=128,
            qkv_bias=False,
            use_qk_norm=True,
            qk_norm_type="qwen3",
            norm_after=False,
            layer_norm_eps=1e-6,
            rope_scaling_layers=None,
            rope_theta=10000.0,
        ),
        "vit_config": {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 16,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "image_default_input_size": [112, 112],
            "image_patch_size": 14,
            "image_num_pos": 64,
        },
        "adapter_config": {
            "vit_layers": [-1, -2],
            "pooling_attention_mask": True,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 16,
            "hidden_act": "silu",
            "intermediate_size": 128,
            "text_hidden_size": 64,
        },
        "image_patch_id": ids["<im_patch>"],
        "image_col_id": ids["<im_col>"],
        "image_start_token_id": ids["<im_start>"],
        "image_end_token_id": ids["<im_end>"],
        "low_res_image_start_token_id": ids["<low_res_im_start>"],
        "frame_start_token_id": ids["<frame_start>"],
        "frame_end_token_id": ids["<frame_end>"],
        "image_low_res_id": ids["<im_low>"],
    }


def _phi4mm(_ids: Ids) -> Json:
    """The tower's sizes are fixed in the model class; one of its layers is left."""
    return {
        **text("phi3", "Phi4MMForCausalLM", pad_token_id=0),
        "img_processor": {"layer_idx": 0, "type_feature": "patch"},
        "audio_processor": {
            "name": "cascades",
            "config": {
                "input_size": 80,
                "chunk_size": -1,
                "left_chunk": 18,
                "attention_dim": 64,
                "attention_heads": 4,
                "linear_units": 128,
                "num_blocks": 2,
                "depthwise_seperable_out_channel": 64,
                "ext_pw_out_channel": 64,
                "time_reduction": 8,
                "input_layer": "nemo_conv",
                "nemo_conv_settings": {"conv_channels": 64},
                "conv_activation": "swish",
                "conv_glu_type": "swish",
                "activation": "swish",
                "encoder_embedding_config": {"input_size": 80},
                "relative_attention_bias_args": {"t5_bias_max_distance": 500, "type": "t5"},
            },
        },
        "embd_layer": {
            "embedding_cls": "image_audio",
            "audio_embd_layer": {
                "embedding_cls": "audio",
                "projection_cls": "mlp",
                "downsample_rate": 1,
                "compression_rate": 8,
            },
        },
    }


def _pixtral(ids: Ids) -> Json:
    """In Mistral's own format, as `vllm.transformers_utils.configs.mistral` gives it."""
    return {
        "architectures": ["PixtralForConditionalGeneration"],
        "model_type": "mistral",
        "text_config": text("mistral", "MistralForCausalLM"),
        "vision_config": {
            **tower("pixtral", image_size=224, patch_size=14),
            "model_type": "",  # Mistral's own has none, and transformers' would drop `rope_theta`
            "num_channels": 3,
            "rope_theta": 10000.0,
            "image_token_id": ids["[IMG]"],
            "spatial_merge_size": 2,
            "mm_projector_id": "patch_merge",
            "add_pre_mm_projector_layer_norm": True,
        },
    }


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "ernie45_vl": Checkpoint(
        _ernie45_vl,
        tokens=(
            "<|IMAGE_PLACEHOLDER|>",
            "<|IMAGE_START|>",
            "<|IMAGE_END|>",
            "<|VIDEO_START|>",
            "<|VIDEO_END|>",
        ),
    ),
    "keye": Checkpoint(_keye, tokens=("<|image_pad|>", "<|video_pad|>", "<|vision_start|>")),
    "kimi_vl": Checkpoint(_kimi_vl, tokens=("<|media_pad|>",)),
    "minicpmv": Checkpoint(_minicpmv),
    "molmo2": Checkpoint(
        _molmo2,
        tokens=(
            "<im_patch>",
            "<im_col>",
            "<im_start>",
            "<im_end>",
            "<low_res_im_start>",
            "<frame_start>",
            "<frame_end>",
            "<im_low>",
        ),
    ),
    "ovis": Checkpoint(
        _ovis,
        tokens=("<image>", "<|image_pad|>"),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "SiglipImageProcessor",
                "size": {"height": 112, "width": 112},
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.5, 0.5, 0.5],
            },
        },
        placeholders={"image": "<image>"},
    ),
    "phi4mm": Checkpoint(_phi4mm),
    "pixtral": Checkpoint(_pixtral, tokens=("[IMG]",)),
    "step3_vl": Checkpoint(
        _step3_vl,
        tokens=(
            "<im_patch>",
            "<im_start>",
            "<im_end>",
            "<patch_start>",
            "<patch_end>",
            "<patch_newline>",
        ),
        placeholders={"image": "<im_patch>"},
    ),
}
