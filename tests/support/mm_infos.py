"""Processing infos of families whose checkpoints cannot be made without remote code."""

# ruff: noqa: ANN401 (configurations are the model's own)

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def make_info(
    family: str,
    config: Any,
    tokenizer: Path,
    mm_processor_kwargs: Any = None,
    **overrides: Any,
) -> Any:
    """Make the info `MODULE:CLASS` of vLLM's models on a plain configuration.

    `config` holds the attributes of the Hugging Face configuration, `tokenizer` is the
    folder of a checkpoint that has one; `overrides` replace methods of the class.
    """
    import torch
    from transformers import PretrainedConfig, PreTrainedTokenizerFast
    from vllm.config.multimodal import MultiModalConfig
    from vllm.multimodal.processing import InputProcessingContext
    from vllm.multimodal.registry import _ProcessorFactories

    mm_config = MultiModalConfig(
        mm_processor_kwargs=mm_processor_kwargs,
        limit_per_prompt={"image": 1, "video": 1},
        mm_device_do_normalize=False,
    )
    model_config: Any = SimpleNamespace(
        model=str(tokenizer),
        revision=None,
        trust_remote_code=False,
        dtype=torch.float32,
        max_model_len=8192,
        hf_config=PretrainedConfig(**config),
        multimodal_config=mm_config,
        get_multimodal_config=lambda: mm_config,
    )
    module, name = family.split(":")
    cls = getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)
    make = _ProcessorFactories(
        info=type(name, (cls,), overrides), processor=None, dummy_inputs=None
    )  # type: ignore[arg-type]
    return make.build_info(
        InputProcessingContext(model_config, PreTrainedTokenizerFast.from_pretrained(tokenizer))
    )
