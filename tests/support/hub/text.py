"""Text models of upstream's tests: what counts is their tokenizer."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import Checkpoint, Ids, Json, text


def _model(model_type: str, architecture: str, *tokens: str, **more: object) -> Checkpoint:
    def config(_ids: Ids) -> Json:
        return text(model_type, architecture, **more)

    return Checkpoint(config, tokens=tokens)


_CHATML = ("<|im_start|>", "<|im_end|>")
_QWEN2 = _model("qwen2", "Qwen2ForCausalLM", *_CHATML)

MODELS: Mapping[str, Checkpoint] = {
    "NousResearch/Hermes-3-Llama-3.1-8B": _model("llama", "LlamaForCausalLM", *_CHATML),
    "Qwen/Qwen1.5-7B": _model("qwen2", "Qwen2ForCausalLM", max_position_embeddings=32768),
    "Qwen/Qwen2-0.5B-Instruct": _QWEN2,
    "Qwen/Qwen2.5-1.5B-Instruct": _QWEN2,
    "Qwen/Qwen3-0.6B": _model("qwen3", "Qwen3ForCausalLM", *_CHATML, max_position_embeddings=40960),
    "Qwen/Qwen3-8B": _model("qwen3", "Qwen3ForCausalLM", *_CHATML),
    "bert-base-uncased": _model("bert", "BertModel"),
    "facebook/opt-125m": _model("opt", "OPTForCausalLM", hidden_size=768),
    "meta-llama/Llama-Guard-3-1B": _model("llama", "LlamaForCausalLM"),
    "openai-community/gpt2": _model("gpt2", "GPT2LMHeadModel"),
}
