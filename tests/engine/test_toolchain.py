"""The CUDA toolchain of this host, on a CUDA file of the pinned tree, with its build's flags."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.environment import kernels, machine
from tests.engine.conftest import LAYOUT


def test_a_kernel_of_the_tree_compiles_for_hopper(tmp_path: Path) -> None:
    nvcc = machine.nvcc(os.environ)
    if not shutil.which(nvcc):
        pytest.skip("no CUDA toolkit on this host: nvcc is neither in CUDA_HOME nor on PATH")

    kernels.smoke(LAYOUT, nvcc, "9.0", tmp_path / "smoke.o")

    assert (tmp_path / "smoke.o").stat().st_size > 100_000
