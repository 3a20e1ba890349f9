"""Real renderers, built as the API server builds them, without an accelerator."""

# ruff: noqa: ANN401 (options of ModelConfig)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer


def make_renderer(
    checkpoint: Path,
    *,
    max_model_len: int = 262144,
    max_num_batched_tokens: int = 8192,
    chunked_prefill: bool = True,
    **model_options: Any,
) -> BaseRenderer[Any]:
    """Build the renderer of `checkpoint`; lengths are in tokens.

    Further keywords go to `vllm.config.ModelConfig`, whose errors come through.
    """
    from vllm.config import DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.renderers.registry import renderer_from_config

    scheduler_config = SchedulerConfig(
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=8,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
    )
    # Set afterwards, since the constructor wants a budget of max_model_len then.
    scheduler_config.enable_chunked_prefill = chunked_prefill
    return renderer_from_config(
        VllmConfig(
            model_config=ModelConfig(
                model=str(checkpoint),
                max_model_len=max_model_len,
                dtype="float32",
                **model_options,
            ),
            scheduler_config=scheduler_config,
            device_config=DeviceConfig(device="cpu"),
        )
    )
