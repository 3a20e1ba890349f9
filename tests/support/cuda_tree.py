"""vLLM in this process, built for the CPU, on the paths that it takes on CUDA.

`cuda_tree` puts the simulated accelerator in place of the GPU: pinned memory is there, the vision
towers choose flash attention, the tree's own `gpu_sync_allowed()` counts.
"""

# ruff: noqa: ANN401 (a kernel's options)

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor


@contextmanager
def cuda_tree(
    *, strict: bool = False, faults: Literal["raise", "record"] = "record"
) -> Iterator[Accelerator]:
    """Watch vLLM; lines are blamed relative to the folder that holds the `vllm` package."""
    import vllm
    from vllm.utils import gpu_sync_debug
    from vllm.v1.attention.ops import vit_attn_wrappers

    if "vllm.v1.worker.cpu.shm" in sys.modules:
        raise RuntimeError("the CPU worker has replaced torch's pin_memory: use another process")
    body = vit_attn_wrappers.flash_attn_maxseqlen_wrapper
    accelerator = Accelerator(
        root=Path(vllm.__file__).parent.parent,
        allowed=lambda: gpu_sync_debug._allow_depth.get() > 0,
        strict=strict,
        faults=faults,
        kernels={"vllm::flash_attn_maxseqlen_wrapper": body},
    )
    with ExitStack() as stack:
        for change in _changes(accelerator):
            stack.enter_context(change)
        stack.enter_context(accelerator)
        yield accelerator


def _changes(accelerator: Accelerator) -> Iterator[Any]:
    from vllm.model_executor.layers import rotary_embedding
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention
    from vllm.model_executor.models import moonvit
    from vllm.platforms import current_platform
    from vllm.utils import gpu_sync_debug, platform_utils
    from vllm.v1.attention.backends import fa_utils
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    platform = type(current_platform)
    flash = AttentionBackendEnum.FLASH_ATTN
    # The guard is off where the platform is not CUDA: read once, at import.
    yield patch.object(gpu_sync_debug, "_SYNC_CHECK_MODE", "error")
    yield patch.object(platform, "device_type", DEVICE.type)
    yield patch.object(platform, "is_pin_memory_available", classmethod(lambda _cls: True))
    yield _forget(platform_utils.is_pin_memory_available)
    # Rotary embeddings are shared between models, and so would be with those on the CPU.
    yield patch.object(rotary_embedding, "_ROPE_DICT", {})
    yield _pinning()
    yield patch.object(
        platform, "get_vit_attn_backend", classmethod(lambda *_args, **_options: flash)
    )
    yield patch.object(MMEncoderAttention, "forward_cpu", MMEncoderAttention.forward_cuda)
    attend = _flash_attention(accelerator)
    yield patch.object(fa_utils, "flash_attn_varlen_func", attend, create=True)
    yield patch.object(
        fa_utils, "compile_flash_attn_varlen_func_from_specs", None, create=True
    )  # who imports the one imports the other
    from vllm.v1.attention.backends.mla.prefill import flash_attn as prefill

    yield patch.object(prefill, "flash_attn_varlen_func", attend)
    yield _new_parameters()
    # The default device of Kimi's rotary embedding: read once, at import.
    rotary = moonvit.Rope2DPosEmb.__init__
    theta = inspect.signature(rotary).parameters["theta_base"].default
    yield patch.object(rotary, "__defaults__", (theta, DEVICE.type))
    yield patch.object(torch.accelerator, "get_memory_info", lambda *_: (8 << 30, 16 << 30))
    yield patch.object(torch.cuda, "CUDAGraph", _Graph)
    yield patch.object(torch.cuda, "graph", lambda *_args, **_options: nullcontext())


@contextmanager
def _forget(cached: Any) -> Iterator[None]:
    cached.cache_clear()
    try:
        yield
    finally:
        cached.cache_clear()


@contextmanager
def _pinning() -> Iterator[None]:
    """Modules take `PIN_MEMORY` over at import: those that are there, and those that come."""
    from vllm.utils import torch_utils

    before = torch_utils.PIN_MEMORY
    _set_pin_memory(True)
    try:
        yield
    finally:
        _set_pin_memory(before)


def _set_pin_memory(value: bool) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm.") and hasattr(module, "PIN_MEMORY"):
            module.__dict__["PIN_MEMORY"] = value


@contextmanager
def _new_parameters() -> Iterator[None]:
    """`Module.to` replaces parameters: assigning to `data` would leave a `DeviceTensor`'s host."""
    future = torch.__future__
    before = future.get_overwrite_module_params_on_conversion()
    future.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_overwrite_module_params_on_conversion(before)


class _Graph:
    """A captured graph that replays nothing: its launch moves no data and waits for nothing."""

    def replay(self) -> None:
        pass


def _flash_attention(accelerator: Accelerator) -> Any:
    """`flash_attn_varlen_func` as far as encoders use it; heads last but one.

    csrc/flash_attn/flash_api.cpp of flash-attention, `mha_varlen_fwd`: `CHECK_DEVICE` on q, k,
    v and both `cu_seqlens`; the bounds `max_seqlen_*` are numbers.
    """

    def attend(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        cu_seqlens_q: torch.Tensor,
        max_seqlen_q: int,
        softmax_scale: float | None = None,
        **_: Any,
    ) -> torch.Tensor:
        accelerator.require("flash_attn_varlen_func", q, k, v, cu_seqlens_q)
        if not isinstance(max_seqlen_q, int):
            raise TypeError(f"max_seqlen_q is {max_seqlen_q!r}, not a number")
        host = [t.host if isinstance(t, DeviceTensor) else t for t in (q, k, v, cu_seqlens_q)]
        q, k, v, bounds = host
        result = torch.zeros_like(q)
        groups = q.shape[1] != k.shape[1]
        edges = bounds.tolist()
        for start, end in pairwise(edges):
            parts = [t[start:end].transpose(0, 1)[None] for t in (q, k, v)]
            part = torch.nn.functional.scaled_dot_product_attention(
                *parts, scale=softmax_scale, enable_gqa=groups
            )
            result[start:end] = part[0].transpose(0, 1)
        return DeviceTensor(result)

    return attend
