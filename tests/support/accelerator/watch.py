"""The context in which tensors can be put on the device and everything is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from tests.support.accelerator import rules
from tests.support.accelerator.functions import Functions
from tests.support.accelerator.memory import PinnedMemory
from tests.support.accelerator.operators import Operators
from tests.support.accelerator.record import Copy, Mismatch, Record, Sync, calling_line
from tests.support.accelerator.tensor import on_device

Kernel = Callable[..., Any]


class PlacementError(RuntimeError):
    """A fault that CUDA, or the tree's guard, would raise here."""


class Accelerator:
    """Watch placement inside `with`; `record` holds what happened.

    `root` is the folder whose lines are blamed, `allowed` tells whether the tree allows syncs
    at the moment. `strict` counts an asynchronous copy as a sync if it starts in pageable host
    memory or needs a temporary there. `faults="raise"` stops at the first fault. `kernels` are
    custom operators by name whose Python body is to be run in place of their CPU kernel.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        allowed: Callable[[], bool] = lambda: False,
        strict: bool = False,
        faults: Literal["raise", "record"] = "raise",
        kernels: Mapping[str, Kernel] | None = None,
    ) -> None:
        self.record = Record(strict=strict)
        self.pinned = PinnedMemory()
        self.kernels = dict(kernels or {})
        self.root, self._allowed, self._raise = root, allowed, faults == "raise"
        self._watching = True
        self._late: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Accelerator:
        self._stack.enter_context(Functions(self))
        self._stack.enter_context(Operators(self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Set-up work, which the tree's guard leaves alone too."""
        before, self._watching = self._watching, False
        try:
            yield
        finally:
            self._watching = before

    def require(self, op: str, *operands: torch.Tensor) -> None:
        """What a kernel launch asks of its operands: all on the device."""
        if not all(map(on_device, operands)):
            self.refuses(op, rules.describe(operands))

    def arrives_late(self, host: torch.Tensor) -> None:
        """Take the data of a copy to the host away until something waits for the device."""
        self._late.append((host, host.clone()))
        host.zero_()

    def waits(self, op: str, reason: str, *, strict: bool = False) -> None:
        if not strict:
            for host, data in self._late:
                host.copy_(data)
            self._late.clear()
        if not self._watching:
            return
        sync = Sync(op, reason, calling_line(self.root), self._allowed(), strict)
        self.record.syncs.append(sync)
        if self._raise and not sync.allowed and (self.record.strict or not strict):
            raise PlacementError(str(sync))

    def reads(self, scalar: torch.Tensor) -> None:
        """Note that one value went to the host."""
        if self._watching:
            line = calling_line(self.root)
            self.record.copies.append(Copy("d2h", scalar.element_size(), False, True, line))

    def refuses(self, op: str, operands: tuple[str, ...]) -> None:
        if not self._watching:
            return
        fault = Mismatch(op, operands, calling_line(self.root))
        self.record.mismatches.append(fault)
        if self._raise:
            raise PlacementError(str(fault))

    def copies(
        self, op: str, source: torch.Tensor, target: torch.Tensor, *, blocking: bool
    ) -> None:
        """Note a transfer between two tensors of which one is on the device.

        Sources: ATen/native/cuda/Copy.cu, `copy_kernel_cuda` (a blocking copy is
        `memcpy_and_sync`) and `copy_requires_temporaries` (a blocking copy converts on the
        host, another one on the device).
        """
        if not self._watching or target.numel() == 0:
            return
        up = on_device(target)
        host, device = (source, target) if up else (target, source)
        moved = target if up == blocking else source
        pinned = self.pinned.holds(host)
        temporary = rules.stages_through_pageable(host, device)
        size = target.numel() * moved.element_size()
        line = calling_line(self.root)
        self.record.copies.append(Copy("h2d" if up else "d2h", size, pinned, blocking, line))
        if blocking:
            self.waits(op, f"blocking copy {'to' if up else 'from'} the device")
        elif temporary:
            self.waits(op, "asynchronous copy of host memory that is gappy", strict=True)
        elif not pinned:
            self.waits(op, "asynchronous copy with pageable host memory", strict=True)
