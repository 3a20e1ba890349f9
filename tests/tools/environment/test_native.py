"""Kernels compiled by the tree's own build, which a short `setup.py` stands in for here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import kernels, native
from tests.tools import mini

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
    mini.git(layout.clone, "init", "--quiet")
    mini.commit(layout.clone, "Pin", {"LICENSE": b""})
    (layout.venv / "bin").mkdir(parents=True)
    (layout.venv / "bin" / "python").symlink_to(sys.executable)
    return layout


def compiled(layout: Layout, cuda: str = "toolkit", targets: str = "") -> list[str]:
    said: list[str] = []
    env = dict(os.environ) | {"VLLM_TARGET_DEVICE": "cpu", "CUDA_HOME": cuda, "CUDA_PATH": ""}
    native.compile_all(layout, env, targets=targets, say=said.append)
    kernels.place(layout, targets)
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


PARTS = """
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from pathlib import Path

class build(build_ext):
    def run(self):
        for one in self.extensions:
            file = Path(self.build_lib, *one.name.split(".")).with_suffix(".abi3.so")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("new kernels")

setup(name="p", packages=[], cmdclass={"build_ext": build},
      ext_modules=[Extension(n, []) for n in ("vllm._C", "vllm._D", "vllm.sub._E")])
"""


def test_targets_compile_and_replace_these_alone(layout: Layout) -> None:
    (layout.clone / "setup.py").write_text(PARTS)
    for name in ("_C", "_D"):  # of the wheel, and of an earlier compile
        (layout.clone / f"vllm/{name}.abi3.so").write_text("of the wheel")
    (layout.clone / "build/lib/vllm").mkdir(parents=True)
    (layout.clone / "build/lib/vllm/_D.abi3.so").write_text("old kernels")

    compiled(layout, targets="_C,_E")

    assert (layout.clone / "vllm/_C.abi3.so").read_text() == "new kernels"
    assert (layout.clone / "vllm/sub/_E.abi3.so").read_text() == "new kernels"
    assert (layout.clone / "vllm/_D.abi3.so").read_text() == "of the wheel"


def test_an_unknown_target_names_those_there_are(layout: Layout) -> None:
    (layout.clone / "setup.py").write_text(PARTS)
    with pytest.raises(OverlayError, match="no such target: _X; there are: _C, _D, _E"):
        compiled(layout, targets="_C,_X")


def test_a_compiler_error_names_the_patch_that_touches_the_file(layout: Layout) -> None:
    mini.commit(layout.clone, "[Kernel] Ours\n\nUpstream-Status: internal x", {"csrc/a.cu": b""})
    mini.commit(layout.clone, "[Kernel] Upstream's", {"csrc/b.cu": b""})

    def said(file: str) -> str:
        return str(native.why_not(f"{file}(7): error: no\n", "log", layout.clone))

    for named in (layout.clone / "csrc/a.cu", Path("../../csrc/a.cu")):
        assert said(str(named)).endswith(
            f"{named}(7): error: no\n  {named} is changed by: [Kernel] Ours"
        )
    assert said(str(layout.clone / "csrc/b.cu")).endswith("(7): error: no")


@pytest.mark.parametrize(
    ("log", "said", "hint"),
    [
        (
            "[1/9] Creating directories for 'cutlass-populate'\nfatal: unable to access "
            "'https://github.com/nvidia/cutlass.git/': Could not resolve host: github.com\n",
            "third-party source cutlass",
            "VLLM_CUTLASS_SRC_DIR",
        ),
        (
            "-- Populating cutlass-populate\n[1/9] Performing download step for"
            " 'vllm-flash-attn-populate'\nCloning into 'vllm-flash-attn-src'...\nCMake Error at"
            " FetchContent.cmake:9 (message):\n  Build step for vllm-flash-attn failed: 1\n",
            "third-party source vllm-flash-attn",
            "VLLM_FLASH_ATTN_SRC_DIR=FOLDER",
        ),
        (
            "[1/9] Creating directories for 'later-populate'\nFailed to clone repository\n",
            "third-party source later",
            "CMAKE_ARGS=-DFETCHCONTENT_SOURCE_DIR_LATER=FOLDER",
        ),
        ("fatal: unable to access 'https://x': 503\n", "a third-party source", "_NAME=FOLDER"),
        (
            "CMake Warning at cuda.cmake:40 (message):\n  The next error will say more.\n\n"
            "CMake Error at Caffe2Config.cmake:90 (message):\n  I cannot find the CUDA\n"
            "  libraries.\nCall Stack (most recent call first):\n  CMakeLists.txt:112\n",
            "failed: Caffe2Config.cmake:90: I cannot find the CUDA libraries.",
            "run this again",
        ),
        (
            "CMake Error at CMakeLists.txt:9 (add_library):\n  Cannot find source file:\n\n"
            "    csrc/gone.cu\n\n\nCMake Generate step failed.\n",
            "failed: CMakeLists.txt:9: Cannot find source file: csrc/gone.cu",
            "run this again",
        ),
        (
            "FAILED: [code=1] a.o\nc++ -Werror a.cpp\nIn file included from a.cpp:\n"
            "/usr/include/b.h:7:3: fatal error: c.h: No such file\n/usr/d.h:8: error: later\n",
            "failed: /usr/include/b.h:7:3: fatal error: c.h: No such file",
            "run this again",
        ),
        (
            "CMake Error at CMakeLists.txt:4 (include):\n  include could not find requested file:\n"
            "\n    cmake/utils.cmake\n\n\n-- Configuring incomplete, errors occurred!\n",
            "failed: CMakeLists.txt:4: include could not find requested file: cmake/utils.cmake",
            "run this again",
        ),
        (
            "-- FetchContent base directory: .deps\nx.cu(12): error: identifier undefined\n",
            "x.cu(12): error",
            "run this again",
        ),
    ],
)
def test_a_failed_compile_says_what_it_comes_down_to(
    tmp_path: Path, log: str, said: str, hint: str
) -> None:
    mini.git(tmp_path, "init", "--quiet")
    mini.commit(tmp_path, "Pin", {"LICENSE": b""})
    error = native.why_not(log, "build/reports/kernels.log", tmp_path)

    assert said in str(error)
    assert hint in error.hint
    assert "build/reports/kernels.log" in error.hint
