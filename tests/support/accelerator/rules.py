"""What CUDA does with an operator: which devices it accepts, when the host waits.

"Waits" is what `torch.cuda.set_sync_debug_mode` reports, which the tree's own guard
(`vllm/utils/gpu_sync_debug.py`) builds on. Sources are files of PyTorch 2.13; headers are
in the installed package.
"""

# ruff: noqa: ANN401 (what operators take)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from tests.support.accelerator.tensor import on_device, tensors

aten = torch.ops.aten

SYNCING: Mapping[Any, str] = {
    # ATen/native/cuda/CUDAScalar.cu: also `int()`, `bool()`, `tolist()` of a scalar.
    aten._local_scalar_dense.default: "the value goes to the host",
    # ATen/native/cuda/Nonzero.cu: the count decides the size of the result. One-argument
    # `where`, `argwhere` come here.
    aten.nonzero.default: "the size of the result depends on the data",
    # ATen/native/cuda/IndexKernel.cpp, masked_select_out_cuda_impl: index by a mask.
    aten.masked_select.default: "the size of the result depends on the data",
    # ATen/native/cuda/Unique.cu, UniqueCub.cu.
    aten._unique2.default: "the size of the result depends on the data",
    aten._unique.default: "the size of the result depends on the data",
    aten.unique_dim.default: "the size of the result depends on the data",
    aten.unique_consecutive.default: "the size of the result depends on the data",
    aten.unique_dim_consecutive.default: "the size of the result depends on the data",
    # ATen/native/cuda/SummaryOps.cu, _bincount_cuda: minimum and maximum are read.
    aten.bincount.default: "the size of the result depends on the data",
    # ATen/native/cuda/Equal.cpp: `.item()` of the reduction.
    aten.equal.default: "the answer goes to the host",
}
"""Operators that wait whenever an operand is on the device."""

ANY_DEVICE = {
    aten.copy_.default,
    aten._to_copy.default,
    aten.is_pinned.default,
    aten.lift_fresh.default,
    # ATen/native/Fill.cpp: a value from elsewhere is read with `.item()`, which is its own rule.
    aten.fill_.Tensor,
    # ATen/native/TensorFactories.cpp and friends: only shape and type of the operand count.
    aten.empty_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.rand_like.default,
    aten.randn_like.default,
    aten.new_empty.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
    aten.new_empty_strided.default,
}
"""Operators with no check of their own across devices."""

INDEXING = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index_put.default,
}


def mismatch(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The operands if CUDA refuses them, else nothing.

    ATen/native/TensorIterator.cpp, `compute_types`: all on one device, but pointwise operators
    take one CPU scalar (no dimensions) that they do not write. Others (`cat`, `index_select`,
    `embedding`, `mm`, …) take none: the device check that torchgen writes around CUDA kernels.
    """
    operands = tensors(args, dict(kwargs))
    devices = [on_device(t) for t in operands]
    if func in ANY_DEVICE or not any(devices) or all(devices):
        return ()
    if func in INDEXING:
        return _index_mismatch(args)
    strangers = [t for t in operands if not on_device(t)]
    scalars = [t for t in strangers if t.ndim == 0 and not _written(func, args, kwargs, t)]
    if len(strangers) == len(scalars) == 1 and _takes_scalar(func):
        return ()
    return describe(operands)


def _takes_scalar(func: OpOverload) -> bool:
    # `vllm::` kernels read single values with `.item()`, see vit_attn_wrappers.py.
    return torch.Tag.pointwise in func.tags or func.namespace == "vllm"


def _index_mismatch(args: Sequence[Any]) -> tuple[str, ...]:
    """ATen/native/TensorAdvancedIndexing.cpp: indices may be on the CPU or where `self` is.

    Values are where `self` is, or a CPU scalar (`_index_put_impl_`).
    """
    self, indices, *rest = args
    indices = [i for i in indices if i is not None]
    ok = on_device(self) or not any(map(on_device, indices))
    if rest and isinstance(rest[0], torch.Tensor):
        ok &= on_device(rest[0]) == on_device(self) or (
            rest[0].ndim == 0 and not on_device(rest[0])
        )
    return () if ok else describe(tensors(args))


def index_staging(args: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor | None]]:
    """How indices and values reach the device: ("waits", None) or ("async"/"blocking", tensor).

    ATen/native/IndexingUtils.h, `expandTensors`: a CPU mask becomes numbers in pinned memory,
    copied without waiting; CPU numbers are copied with `.to(device)`, which waits; a mask on
    the device is a `nonzero`. `_index_put_impl_` first tries `canDispatchToMaskedFill`
    (TensorAdvancedIndexingUtils.h), which waits for nothing, and copies a CPU scalar with `.to`.
    """
    self, indices, *rest = args
    if not on_device(self):
        return
    value = rest[0] if rest and isinstance(rest[0], torch.Tensor) else None
    accumulate = len(rest) > 1 and rest[1]
    indices = [i for i in indices if i is not None]
    masks = [i for i in indices if i.dtype in (torch.bool, torch.uint8)]
    if (
        value is not None
        and value.numel() == 1
        and not on_device(value)
        and not accumulate
        and len(indices) == len(masks) == 1
        and on_device(masks[0])
    ):
        return
    for index in indices:
        is_mask = any(index is m for m in masks)
        if on_device(index):
            if is_mask:
                yield "waits", None
        elif is_mask:
            yield "async", index.nonzero()
        else:
            yield "blocking", index
    if value is not None and not on_device(value):
        yield "blocking", value


def waits(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why `func` waits for the device, indexing and copies left aside."""
    if not any(map(on_device, tensors(args, dict(kwargs)))):
        return None
    if func is aten.repeat_interleave.Tensor:
        # ATen/native/Repeat.h: without `output_size` the sum is read.
        known = kwargs.get("output_size", args[1] if len(args) > 1 else None)
        return None if known is not None else "the size of the result depends on the data"
    return SYNCING.get(func)


def scalar_operands(func: OpOverload, args: Sequence[Any]) -> list[torch.Tensor]:
    """CPU scalars that `where` copies with `.to(device)`: ATen/native/TensorCompare.cpp."""
    if func is not aten.where.self or not any(map(on_device, args)):
        return []
    return [t for t in args if not on_device(t) and t.ndim == 0]


def stages_through_pageable(host: torch.Tensor, device: torch.Tensor) -> bool:
    """Whether the copy needs a temporary in ordinary host memory.

    ATen/native/cuda/Copy.cu, `copy_requires_temporaries`: none for equal types if both sides
    are dense with the same strides; else `.contiguous()` is the temporary, on the host.
    """
    if host.is_contiguous():
        return False
    same = host.dtype == device.dtype and host.stride() == device.stride()
    return not (same and is_dense(host))


def is_dense(tensor: torch.Tensor) -> bool:
    """No gaps and no overlap between the elements, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _written(func: OpOverload, args: Any, kwargs: Mapping[str, Any], tensor: torch.Tensor) -> bool:
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        alias = argument.alias_info
        if alias is not None and alias.is_write and any(t is tensor for t in tensors(value)):
            return True
    return False


def describe(operands: Sequence[torch.Tensor]) -> tuple[str, ...]:
    """Device, type and shape of each operand."""
    return tuple(
        f"{t.device.type} {str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in operands
    )
