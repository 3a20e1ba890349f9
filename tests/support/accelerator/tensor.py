"""The device, and tensors that say they live on it."""

# ruff: noqa: ANN401 (what operators take and give)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

# PrivateUse1 can be named once in a process; it is torch's device for back ends in Python.
_setup_privateuseone_for_python_backend("sim")  # type: ignore[no-untyped-call]
DEVICE = torch.device("sim:0")


class DeviceTensor(torch.Tensor):
    """A tensor on `DEVICE`; `host` holds its data."""

    host: torch.Tensor

    @staticmethod
    def __new__(
        cls: type[DeviceTensor], tensor: torch.Tensor, **parameter: Any
    ) -> DeviceTensor | torch.nn.Parameter:
        """Wrap `tensor`, sharing its memory.

        Loaders that make a parameter again by its class, on the device or on "meta", say so
        with `requires_grad` and its attributes.
        """
        if parameter and not isinstance(tensor, DeviceTensor):
            return torch.nn.Parameter(tensor, requires_grad=False)
        host = tensor.host if isinstance(tensor, DeviceTensor) else tensor
        wrapper: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=DEVICE,
            requires_grad=False,
        )
        wrapper.host = host
        for name, value in parameter.items():
            if name != "host":
                setattr(wrapper, name, value)
        return wrapper

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"DeviceTensor({self.host!r})"

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Callable[..., Any],
        _types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        # Reached outside `Accelerator()` only, where nothing is checked.
        return run(func, args, kwargs or {})


def on_device(value: Any) -> bool:
    return isinstance(value, DeviceTensor)


def tensors(*values: Any) -> list[torch.Tensor]:
    """All tensors in nested arguments, in order."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def run(func: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Run `func` on the data of its tensors; results live where its `device` or tensors say."""
    operands = [t for t in tensors(args, dict(kwargs)) if isinstance(t, DeviceTensor)]
    kwargs = dict(kwargs)
    target = kwargs.get("device")
    device = bool(operands) if target is None else torch.device(target).type == DEVICE.type
    if target is not None and device:
        kwargs["device"] = torch.device("cpu")
        kwargs.pop("pin_memory", None)
    plain_args, plain_kwargs = pytree.tree_map_only(DeviceTensor, lambda t: t.host, (args, kwargs))
    result = func(*plain_args, **plain_kwargs)
    if not device:
        return result

    known = {id(t.host): t for t in operands}

    def wrap(tensor: torch.Tensor) -> torch.Tensor:
        same = known.get(id(tensor))
        if same is None:
            return DeviceTensor(tensor)
        if same.shape != tensor.shape or same.stride() != tensor.stride():
            raise NotImplementedError(f"{func} changes the shape of its operand in place")
        return same

    return pytree.tree_map_only(torch.Tensor, wrap, result)
