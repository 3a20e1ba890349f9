"""Kernels compiled by the tree's own build, which a short `setup.py` stands in for here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import kernels

SETUP = """
import os, pathlib, sys
print(os.environ.get("CUDA_PATH"), os.environ["PATH"].split(":")[0])
lib, temp = (pathlib.Path(sys.argv[sys.argv.index(f"--build-{n}") + 1]) for n in ("lib", "temp"))
temp.mkdir(parents=True, exist_ok=True)
cache = temp / "CMakeCache.txt"
if cache.exists() and cache.read_text() == "no CUDA":
    sys.exit("CMake Error at FindCUDA.cmake:1 (message):\\n  I know that there is no CUDA\\n")
cache.write_text("CUDA" if os.environ.get("CUDA_PATH") else "no CUDA")
if cache.read_text() == "no CUDA":
    sys.exit("CMake Error at FindCUDA.cmake:1 (message):\\n  I find no CUDA\\n")
(temp / "build.ninja").touch()
for step in range(1, 21):
    done = temp / str(step)
    print(f"[{step}/20] Building {done.name}{' (again)' * done.exists()}", flush=True)
    done.touch()
    if step == 12 and pathlib.Path("stop").exists():
        sys.exit("x.cu(7): error: identifier undefined")
(lib / "vllm" / "sub").mkdir(parents=True, exist_ok=True)
for name in ("_C.abi3.so", "sub/_D.abi3.so"):
    (lib / "vllm" / name).write_text("kernels")
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path, None)
    (layout.clone / "vllm").mkdir(parents=True)
    (layout.clone / "setup.py").write_text(SETUP)
    (layout.venv / "bin").mkdir(parents=True)
    (layout.venv / "bin" / "python").symlink_to(sys.executable)
    return layout


def compiled(layout: Layout, cuda: str = "toolkit") -> list[str]:
    said: list[str] = []
    env = dict(os.environ) | {"VLLM_TARGET_DEVICE": "cpu", "CUDA_HOME": cuda, "CUDA_PATH": ""}
    kernels.compile_all(layout, env, say=said.append)
    return said


def test_every_extension_lands_beside_the_python_files(layout: Layout) -> None:
    said = compiled(layout)

    assert (layout.clone / "vllm" / "_C.abi3.so").read_text() == "kernels"
    assert (layout.clone / "vllm" / "sub" / "_D.abi3.so").read_text() == "kernels"
    assert said[0] == "  1 of 20 compiled"
    assert said[-1] == "  20 of 20 compiled"
    assert len(said) <= 11
    assert "[7/20] Building 7\n" in (layout.reports / "kernels.log").read_text()


def test_a_compile_that_failed_goes_on_where_it_stopped(layout: Layout) -> None:
    (layout.clone / "stop").touch()
    with pytest.raises(OverlayError, match="identifier undefined") as raised:
        compiled(layout)
    assert "build/reports/kernels.log" in raised.value.hint
    (layout.clone / "stop").unlink()

    compiled(layout)

    log = (layout.reports / "kernels.log").read_text()
    assert "[12/20] Building 12 (again)\n[13/20] Building 13\n" in log


def test_what_a_failed_configure_did_not_find_is_looked_for_again(layout: Layout) -> None:
    """In the toolkit that CUDA_HOME names by then, and with the tools of the lock."""
    for _ in range(2):
        with pytest.raises(OverlayError, match="I find no CUDA"):
            compiled(layout, cuda="")

    compiled(layout, cuda="new toolkit")

    log = (layout.reports / "kernels.log").read_text()
    assert log.startswith(f"new toolkit {layout.venv / 'bin'}\n")
