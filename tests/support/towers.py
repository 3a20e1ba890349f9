"""Encoders on the simulated accelerator, a part at a time."""

# ruff: noqa: ANN401 (classes of vLLM)

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor

Sent = Callable[..., torch.Tensor]


def of_model(module: str, name: str) -> Any:
    return getattr(import_module(f"vllm.model_executor.models.{module}"), name)


def faults(accelerator: Accelerator) -> list[str]:
    return [str(fault) for fault in accelerator.record.faults()]


def waits(accelerator: Accelerator) -> list[str]:
    """With those that the tree allows."""
    return [str(sync) for sync in accelerator.record.syncs]


def sender(accelerator: Accelerator) -> Sent:
    """Makes tensors of zeros on the device."""

    def make(*shape: int) -> torch.Tensor:
        with accelerator.unwatched():
            return torch.zeros(shape).to(DEVICE)

    return make


def select(cls: Any, mm_kwargs: dict[str, Any], indices: list[int]) -> int:
    """How many items `cls` selects for a graph; each field stays where it is."""
    selected = cls.select_encoder_cudagraph_items(cls.__new__(cls), mm_kwargs, indices)
    for key, value in selected.items():
        assert isinstance(value, DeviceTensor) == isinstance(mm_kwargs[key], DeviceTensor), key
    (number,) = {len(selected[key]) for key in mm_kwargs if "grid" in key or "num" in key} or {
        len(selected[key]) for key in mm_kwargs
    }
    return number
