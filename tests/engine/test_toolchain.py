"""The CUDA toolchain of this host, on a CUDA file of the pinned tree, with its build's flags."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.environment import machine, native
from tests.engine.conftest import LAYOUT

KDA, GDN = "VLLM_ENABLE_FUSED_KDA_DECODE", "VLLM_ENABLE_FUSED_GDN_DECODE"
BINDINGS = "csrc/libtorch_stable/torch_bindings.cpp"
GUARDS = {"8.0": [GDN], "8.9": [GDN], "9.0a": [KDA, GDN], "10.0f": [KDA, GDN]}
"""An architecture of each family, with what the pin's CMakeLists.txt defines for it alone."""


@pytest.fixture
def nvcc() -> str:
    found = machine.nvcc(os.environ)
    if not shutil.which(found):
        pytest.skip("no CUDA toolkit on this host: nvcc is neither in CUDA_HOME nor on PATH")
    return found


@pytest.mark.parametrize("arch", GUARDS)
def test_a_kernel_of_the_tree_compiles(tmp_path: Path, nvcc: str, arch: str) -> None:
    native.smoke(LAYOUT, nvcc, arch, tmp_path / "smoke.o")

    assert (tmp_path / "smoke.o").stat().st_size > 100_000


@pytest.mark.parametrize("guards", [[], [GDN], [KDA, GDN]], ids=["7.5", "8.x", "9.0 and newer"])
def test_the_bindings_compile_with_the_guards_of_each_family(
    tmp_path: Path, nvcc: str, guards: list[str]
) -> None:
    native.smoke(LAYOUT, nvcc, "8.0", tmp_path / "bindings.o", BINDINGS, guards)

    assert (tmp_path / "bindings.o").stat().st_size > 100_000
