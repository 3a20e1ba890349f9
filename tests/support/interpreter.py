"""Triton's kernels in Python, on the CPU: model runner v2 has no others."""

from __future__ import annotations

import os
from types import SimpleNamespace


def interpret_kernels() -> None:
    """Have Triton interpret, in this process and its children; before vLLM is imported.

    vLLM takes Triton for usable if it has a backend for the device, which interpreting needs not.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from triton.backends import backends

    backends["cpu"] = SimpleNamespace(driver=None)
    from vllm.triton_utils import HAS_TRITON

    del backends["cpu"]
    assert HAS_TRITON
