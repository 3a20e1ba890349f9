"""Every ATen operator, after composite ones are taken apart."""

# ruff: noqa: ANN401 (what operators take and give)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.accelerator import rules
from tests.support.accelerator.functions import Functions
from tests.support.accelerator.tensor import DeviceTensor, on_device, run, tensors

if TYPE_CHECKING:
    from tests.support.accelerator.watch import Accelerator

aten = torch.ops.aten


class Operators(TorchDispatchMode):
    """Every ATen operator, after composite ones are taken apart."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self._acc = accelerator

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        acc, kwargs = self._acc, dict(kwargs or {})
        if func._can_decompose():  # in inference mode composite operators come whole
            with self:
                return func.decompose(*args, **kwargs)
        if func in (aten._pin_memory.default, aten.is_pinned.default) or kwargs.get("pin_memory"):
            return self._pinning(func, args, kwargs)
        if func in (aten._to_copy.default, aten.copy_.default, aten.fill_.Tensor):
            return self._transfer(func, args, kwargs)
        kernel = acc.kernels.get(func._schema.name)
        if kernel is not None and any(map(on_device, tensors(args, kwargs))):
            with Functions(acc), self:
                return kernel(*args, **kwargs)
        if operands := rules.mismatch(func, args, kwargs):
            acc.refuses(str(func), operands)
        elif func in rules.INDEXING:
            self._stage(func, args)
        for scalar in rules.scalar_operands(func, args):
            acc.copies(str(func), scalar, DeviceTensor(scalar), blocking=True)
        if reason := rules.waits(func, args, kwargs):
            acc.waits(str(func), reason)
            if func is aten._local_scalar_dense.default:
                acc.reads(args[0])
        return run(func, args, kwargs)

    def _pinning(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        memory = self._acc.pinned
        if func is aten._pin_memory.default:
            if on_device(args[0]):
                # ATen/native/Memory.cpp: "only dense CPU tensors can be pinned".
                self._acc.refuses(str(func), rules.describe(args))
                return args[0]
            return memory.pin(args[0])
        if func is aten.is_pinned.default:
            return not on_device(args[0]) and memory.holds(args[0])
        del kwargs["pin_memory"]
        return memory.mark(run(func, args, kwargs))

    def _transfer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`_to_copy`, `copy_` and `fill_`, the operators that take two devices."""
        acc = self._acc
        if func is aten._to_copy.default:
            blocking = not kwargs.get("non_blocking", False)
            result = run(func, args, kwargs)
            if on_device(result) != on_device(args[0]):
                # ATen/native/TensorConversions.cpp, `_to_copy`: device to host without waiting
                # goes to pinned memory.
                if not blocking and not on_device(result):
                    acc.pinned.mark(result)
                acc.copies(str(func), args[0], result, blocking=blocking)
                if not blocking and not on_device(result):
                    acc.arrives_late(result)
            return result
        target, source = args[:2]
        if on_device(target) == on_device(source):
            return run(func, args, kwargs)
        if func is aten.fill_.Tensor:
            if on_device(source):
                acc.waits(str(func), "the value goes to the host")
        else:
            non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
            acc.copies(str(func), source, target, blocking=not non_blocking)
        plain = [t.host if isinstance(t, DeviceTensor) else t for t in args]
        func(*plain, **kwargs)
        return target

    def _stage(self, func: Any, args: tuple[Any, ...]) -> None:
        acc = self._acc
        for how, tensor in rules.index_staging(args):
            if tensor is None:
                acc.waits(str(func), "a mask on the device: the result's size depends on the data")
                continue
            host = acc.pinned.pin(tensor) if how == "async" else tensor
            acc.copies(str(func), host, DeviceTensor(host), blocking=how == "blocking")
