"""A simulated accelerator: data stays on the CPU, placement and synchronisation are CUDA's.

Inside `Accelerator()` tensors may live on `DEVICE`. Every host↔device copy, every
synchronising operation and every operation that CUDA would refuse is recorded with the line of
vLLM that caused it. The rules, with their sources, are in `rules`.
"""

from tests.support.accelerator.record import Copy, Mismatch, Record, Sync
from tests.support.accelerator.tensor import DEVICE, DeviceTensor
from tests.support.accelerator.watch import Accelerator

__all__ = ["DEVICE", "Accelerator", "Copy", "DeviceTensor", "Mismatch", "Record", "Sync"]
