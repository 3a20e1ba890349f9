"""Python entries that never reach an operator, or would reach another one than on CUDA."""

# ruff: noqa: ANN401 (what functions take and give)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from tests.support.accelerator import rules
from tests.support.accelerator.tensor import DEVICE, DeviceTensor, on_device, run, tensors

if TYPE_CHECKING:
    from tests.support.accelerator.watch import Accelerator


class Functions(TorchFunctionMode):
    """Python entries that never reach an operator, or would reach another one than on CUDA."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self._acc = accelerator
        self._special: dict[Any, Callable[..., Any]] = {
            torch.tensor: self._tensor,
            torch.as_tensor: self._as_tensor,
            torch.asarray: self._as_tensor,
            torch.Tensor.new_tensor: self._new_tensor,
            torch.Tensor.tolist: self._tolist,
            torch.Tensor.numpy: self._numpy,
            torch.Tensor.__array__: self._numpy,
            torch.Tensor.__getitem__: self._getitem,
            torch.Tensor.__setitem__: self._setitem,
            torch.Tensor.cuda: self._cuda,
            torch.nn.functional.scaled_dot_product_attention: self._attention,
        }

    def __torch_function__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        special = self._special.get(func)
        return (special or func)(*args, **(kwargs or {}))

    def _tensor(self, data: Any, **options: Any) -> Any:
        """torch/csrc/utils/tensor_new.cpp: built on the host, then a blocking copy."""
        if isinstance(data, torch.Tensor):
            options.setdefault("device", data.device)
        options.pop("requires_grad", None)
        pin, device = options.pop("pin_memory", False), options.pop("device", None)
        data = pytree.tree_map_only(DeviceTensor, self._value, data)
        host = torch.tensor(data, device="cpu", **options)
        if pin:
            self._acc.pinned.mark(host)
        return host if device is None else host.to(device)

    def _value(self, tensor: DeviceTensor) -> Any:
        return tensor.clone() if tensor.ndim else tensor.item()

    def _as_tensor(self, data: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
        if isinstance(data, torch.Tensor):
            return data.to(device=device or data.device, dtype=dtype or data.dtype)
        if device is None or torch.device(device).type == "cpu":
            return torch.as_tensor(
                pytree.tree_map_only(DeviceTensor, self._value, data), dtype=dtype
            )
        return self._tensor(data, dtype=dtype, device=device)

    def _new_tensor(self, like: torch.Tensor, data: Any, **options: Any) -> Any:
        return self._tensor(data, **{"dtype": like.dtype, "device": like.device, **options})

    def _tolist(self, tensor: torch.Tensor) -> Any:
        """torch/csrc/utils/tensor_list.cpp: a blocking copy to the host first."""
        return torch.Tensor.tolist(tensor.to("cpu"))

    def _numpy(self, tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        if not isinstance(tensor, DeviceTensor):
            return torch.Tensor.numpy(tensor, *args, **options)
        self._acc.refuses("numpy", rules.describe([tensor]))
        return tensor.host.numpy()

    def _getitem(self, tensor: torch.Tensor, index: Any) -> Any:
        return torch.Tensor.__getitem__(tensor, self._index(tensor, index))

    def _index(self, tensor: torch.Tensor, index: Any) -> Any:
        """torch/csrc/autograd/python_variable_indexing.cpp, `sequenceToVariable`.

        A list becomes a tensor where `tensor` is, as `torch.tensor` would make it.
        """
        if not on_device(tensor):
            return index
        if isinstance(index, tuple):
            return tuple(self._index(tensor, part) for part in index)
        if isinstance(index, list):
            return self._tensor(index, device=DEVICE)
        return index

    def _setitem(self, tensor: torch.Tensor, index: Any, value: Any) -> None:
        """torch/csrc/autograd/python_variable_indexing.cpp: on CUDA a number becomes a CPU scalar.

        What follows is `copy_to` of ATen/TensorIndexing.h: `fill_`, unless the target is a
        scalar too, which is a blocking copy.
        """
        if on_device(tensor) and not isinstance(value, torch.Tensor):
            value = torch.tensor(value, dtype=tensor.dtype, device="cpu")
        torch.Tensor.__setitem__(tensor, self._index(tensor, index), value)

    def _cuda(self, tensor: torch.Tensor, _device: Any = None, non_blocking: bool = False) -> Any:
        return tensor.to(DEVICE, non_blocking=non_blocking)

    def _attention(self, *args: Any, **kwargs: Any) -> Any:
        """One kernel; the composite one would ask PrivateUse1 to choose between several."""
        attend = torch.nn.functional.scaled_dot_product_attention
        operands = tensors(args, kwargs)
        if not any(map(on_device, operands)):
            return attend(*args, **kwargs)
        self._acc.require("scaled_dot_product_attention", *operands)
        return run(attend, args, kwargs)
