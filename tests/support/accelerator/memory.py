"""Pinned host memory, as far as placement goes: which storages count as pinned."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class PinnedMemory:
    """Marks storages of CPU tensors; the mark goes with the storage."""

    def __init__(self) -> None:
        self._marks: dict[int, StorageWeakRef] = {}

    def mark(self, tensor: torch.Tensor) -> torch.Tensor:
        # The weak reference keeps the address from being given to another storage.
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._marks[reference.cdata] = reference
        return tensor

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._marks

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """A pinned copy with the same strides, gaps included, or `tensor` if it is pinned.

        Source: ATen/native/Memory.cpp, `_pin_memory`: a storage for the sizes and strides of
        the tensor, then a copy.
        """
        if self.holds(tensor):
            return tensor
        copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        return self.mark(copy.copy_(tensor))
