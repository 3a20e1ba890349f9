"""`make build` loads every kernel for the device, with the loader's own words where one does not.

torch and vLLM are stand-ins here; the shared objects, and who loads them, are not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import loading
from tests.tools.product import put_python

# As vLLM's own CPU platform does: one of the `_C*`, a warning where that fails.
PLATFORM = """
import ctypes, logging, pathlib
class current_platform:
    def import_kernels():
        try:
            ctypes.CDLL(str(pathlib.Path(__file__).with_name("_C.so")))
        except OSError as error:
            logging.getLogger("vllm").warning("Failed to import from vllm._C: %r", error)
"""


def compiled(file: Path, *args: str) -> None:
    command = ["g++", "-shared", "-x", "c", "-", "-x", "none", *args, "-o", str(file)]
    subprocess.run(command, input=b"int here;", check=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "vllm"
    package.mkdir()
    (tmp_path / "torch.py").touch()
    (package / "__init__.py").touch()
    (package / "platforms.py").write_text(PLATFORM)
    for name in ("_C", "_C_AVX2", "other"):
        compiled(package / f"{name}.so")
    return tmp_path


def loaded(tree: Path, device: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", loading.LOAD_ALL, device], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tree)}, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def without_library(file: Path) -> None:
    """A shared object that links one which is gone: what a missing package is."""
    library = file.with_name("libgone.so.1")
    compiled(library)
    compiled(file, "-Wl,--no-as-needed", str(library))
    library.unlink()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_that_load_say_nothing(tree: Path, device: str) -> None:
    assert loaded(tree, device) == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["_C", "other"])
def test_a_kernel_that_does_not_load_is_named_in_the_loaders_words(
    tree: Path, device: str, name: str
) -> None:
    without_library(tree / "vllm" / f"{name}.so")
    said = "\n".join(loaded(tree, device))
    assert f"vllm.{name}" in said or f"vllm/{name}.so" in said
    assert "libgone.so.1: cannot open shared object file" in said


def test_a_platform_that_hides_the_failure_does_not_hide_it_from_us(tree: Path) -> None:
    (tree / "vllm/platforms.py").write_text(
        PLATFORM.replace("_C.so", "absent.so").split("exc")[0]
        + "except OSError:\n            pass\n"
    )
    assert loaded(tree, "cpu") == ["vllm._C: none is loaded of _C.so _C_AVX2.so"]


def test_a_set_for_another_processor_is_left_alone_on_the_cpu(tree: Path) -> None:
    (tree / "vllm/_C_AVX2.so").write_bytes(b"cut")
    assert loaded(tree, "cpu") == []
    assert loaded(tree, "cuda")[0].endswith("_C_AVX2.so: file too short")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_module_for_another_python_is_left_alone(tree: Path, device: str) -> None:
    own = EXTENSION_SUFFIXES[0]
    for suffix in (own, own.replace(f"-{sys.version_info.major}{sys.version_info.minor}-", "-39-")):
        (tree / f"vllm/_D{suffix}").write_bytes(b"cut")
    assert [line.partition(": ")[0] for line in loaded(tree, device)] == [f"vllm/_D{own}"]


@pytest.fixture
def layout(tree: Path) -> Layout:
    layout = Layout.of(tree, None)
    put_python(layout.venv / "bin" / "python", PYTHONPATH=str(tree))
    return layout


def without_driver(file: Path) -> None:
    library = file.with_name("libcuda.so.1")
    compiled(library, "-Wl,-soname,libcuda.so.1")
    compiled(file, "-Wl,--no-as-needed", str(library))
    library.unlink()


def test_a_missing_driver_is_told_from_a_broken_kernel(layout: Layout) -> None:
    package, said = layout.root / "vllm", list[str]()
    without_driver(package / "other.so")
    loading.all_kernels(layout, "cuda", os.environ, said.append)
    assert said == [
        "1 kernels wait for a driver, to be loaded where one is:"
        " libcuda.so.1: cannot open shared object file"
    ]
    without_library(package / "_C.so")
    with pytest.raises(OverlayError) as raised:
        loading.all_kernels(layout, "cuda", os.environ, said.append)
    assert "libgone.so.1: cannot open" in str(raised.value)
    assert "other.so" not in str(raised.value)


def test_on_the_gpu_host_what_waited_is_loaded_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, said = layout.root / "vllm", list[str]()
    without_driver(package / "other.so")
    loading.all_kernels(layout, "cuda", os.environ, said.append)
    loading.what_waited(layout, "cuda", os.environ, said.append)
    assert len(said) == 1  # no driver here yet
    monkeypatch.setattr(loading, "_driver", lambda: True)
    without_library(package / "other.so")
    with pytest.raises(OverlayError, match=r"libgone.so.1"):
        loading.what_waited(layout, "cuda", os.environ, said.append)
    compiled(package / "other.so")
    for _ in range(2):
        loading.what_waited(layout, "cuda", os.environ, said.append)
    assert said[1:] == ["a driver is there now: loading the kernels …"] * 2


def test_a_kernel_that_ends_the_process_is_named(layout: Layout) -> None:
    source = "__attribute__((constructor)) static void end(void) { __builtin_trap(); }"
    file = layout.root / "vllm/other.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-x", "c", "-", "-o", file], input=source.encode(), check=True
    )
    with pytest.raises(OverlayError, match=r"vllm/other.so: the process that loads it ended with"):
        loading.all_kernels(layout, "cuda", os.environ, lambda _: None)
