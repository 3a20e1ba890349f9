"""The kernels compiled by upstream's own build: how it is asked, and why it stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import doctor, machine
from scripts.environment.machine import Machine

Say = Callable[[str], None]
LIB, _TEMP = "build/lib", "build/kernels"  # in the clone, where git ignores them; kept, so that
# a compile that was cut short, or follows a changed patch, does only what is left to do
COMPILE = ("setup.py", "build_ext", "--build-lib", LIB, "--build-temp", _TEMP)
# Stands before `setup.py` where TARGETS names a part: upstream's build knows only the whole.
_PART = """
import os, runpy, sys, setuptools
wanted = os.environ["TARGETS"].split(",")
whole = setuptools.setup
def part(*, ext_modules, **rest):
    known = {one.name.rpartition(".")[2]: one for one in ext_modules}
    unknown = ", ".join(name for name in wanted if name not in known)
    if unknown:
        sys.exit(f"no such target: {unknown}; there are: {', '.join(sorted(known))}")
    rest["rust_extensions"] = []
    whole(ext_modules=[known[name] for name in wanted], **rest)
setuptools.setup = part
del sys.argv[0]  # setup.py knows its folder by its own path
sys.argv[0] = os.path.abspath(sys.argv[0])
sys.path.insert(0, "")
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\]")
# As CMake and git say it. The last source that CMake names is the one it stopped at: those that it
# has are named before.
_NO_SOURCE = re.compile(r"Build step for \S+ failed|Failed to clone|unable to access|resolve host")
_CMAKE_SAYS = re.compile(r"^CMake Error(?: at )?([^\n]*):\n((?:(?:  .*)?\n)+)", re.MULTILINE)
# As nvcc, `f.cu(7): error: …`, and as g++ and clang say it, `f.cpp:7:3: error: …`.
_COMPILER_SAYS = re.compile(r"^(\S+?)(?:\(\d+\)|:\d+(?::\d+)?): (?:\w+ )?error\b.*$", re.MULTILINE)
_ANY_ERROR = re.compile(r"^.*\b(?:error|Error|FAILED|no such target)\b.*$", re.MULTILINE)
_THIRD_PARTY = re.compile(r"([\w-]+)-(?:populate|subbuild)\b")
# CMake's names of what upstream's build fetches, and upstream's variables for a local copy.
LOCAL_COPY = {
    "cutlass": "VLLM_CUTLASS_SRC_DIR",
    "deepgemm": "DEEPGEMM_SRC_DIR",
    "flashkda": "FLASH_KDA_SRC_DIR",
    "flashmla": "FLASH_MLA_SRC_DIR",
    "fmha_sm100": "FMHA_SM100_SRC_DIR",
    "onednn": "FETCHCONTENT_SOURCE_DIR_ONEDNN",
    "qutlass": "QUTLASS_SRC_DIR",
    "tml_fa4": "TML_FA4_SRC_DIR",
    "triton_kernels": "TRITON_KERNELS_SRC_DIR",
    "vllm-flash-attn": "VLLM_FLASH_ATTN_SRC_DIR",
}


def environment(machine: Machine, given: Mapping[str, str], device: str) -> dict[str, str]:
    """How upstream's build is told its size: what the user gave, else what fits this machine.

    Raises `OverlayError` where no CUDA architecture is given and no GPU tells it: upstream
    would then compile for all of them, for hours.
    """
    threads = given.get("NVCC_THREADS", "1")
    env = {"MAX_JOBS": given.get("MAX_JOBS", str(doctor.jobs(machine)))}
    if device != "cuda":
        return env
    archs = given.get("TORCH_CUDA_ARCH_LIST") or doctor.architectures(machine)
    if not archs:
        raise OverlayError(
            "no GPU here tells for which architecture to compile"
            + f": {machine.gpu_trouble}" * bool(machine.gpu_trouble),
            hint="name it: make build KERNELS=source TORCH_CUDA_ARCH_LIST=9.0",
        )
    return env | {"NVCC_THREADS": threads, "TORCH_CUDA_ARCH_LIST": archs}


# One CUDA file that needs torch's headers and nothing fetched, 15 s; and what CMakeLists.txt
# defines for its target.
SMOKE = "csrc/libtorch_stable/activation_kernels.cu"
_DEFINES = ("USE_CUDA", "TORCH_TARGET_VERSION=0x020B000000000000ULL")


def smoke(
    layout: Layout,
    nvcc: str,
    arch: str,
    out: Path,
    source: str = SMOKE,
    defines: Sequence[str] = (),
) -> None:
    """Compile `source` for `arch` (as `9.0`) before the hour that all of them take.

    Raises `OverlayError` with the compiler's first error: toolkit, headers or flags do not fit.
    """
    packages = next((layout.venv / "lib").glob("python3*/site-packages"))
    torch = packages / "torch" / "include"
    headers = (layout.clone / "csrc", torch, torch / "torch/csrc/api/include",
               sysconfig.get_path("include"))  # fmt: skip
    sm = arch.split("+")[0].replace(".", "")
    command = [nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-w"]
    command += ["-gencode", f"arch=compute_{sm},code=sm_{sm}"]
    command += [f"-D{name}" for name in (*_DEFINES, *defines)] + [
        f"-I{folder}" for folder in headers
    ]
    # Of the libraries that a toolkit may lack. After its own: a compiler takes no other's headers.
    command += ["-isystem", str(packages / "nvidia" / "cu13" / "include")]
    command += ["-c", str(layout.clone / source), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        faults = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        said = (faults or ["no message"])[0]
        raise OverlayError(
            f"this toolchain does not compile {source} for sm_{sm}: {said}",
            hint="python3 -m scripts doctor --kernels source --device cuda",
        )


def compile_all(layout: Layout, env: Mapping[str, str], *, targets: str = "", say: Say) -> None:
    """Upstream's own build of every extension, or of `targets`; its output goes to one log."""
    if env["VLLM_TARGET_DEVICE"] == "cuda":
        arch = re.split(r"[\s;]+", env["TORCH_CUDA_ARCH_LIST"])[0]
        with tempfile.TemporaryDirectory() as scratch:
            smoke(layout, machine.nvcc(env), arch, Path(scratch) / "smoke.o")
    log = layout.reports / "kernels.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    temp = layout.clone / _TEMP
    if not (temp / "build.ninja").is_file():
        # It did not configure: CMake would not look again for what it did not find.
        (temp / "CMakeCache.txt").unlink(missing_ok=True)
    if targets:
        # Upstream's build copies it from there, made or not.
        (layout.clone / LIB / "vllm/third_party/triton_kernels").mkdir(parents=True, exist_ok=True)
    with log.open("w", errors="replace", buffering=1) as file:
        process = subprocess.Popen(
            [str(layout.venv / "bin" / "python"), *(("-c", _PART) if targets else ()), *COMPILE],
            cwd=layout.clone,
            env=_with_tools(layout, env) | {"TARGETS": targets},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        tenth = -1
        for line in process.stdout:
            file.write(line)
            step = _PROGRESS.match(line)
            if step and int(step[1]) * 10 // int(step[2]) > tenth:
                tenth = int(step[1]) * 10 // int(step[2])
                say(f"  {step[1]} of {step[2]} compiled")
    if process.wait() != 0:
        raise why_not(log.read_text(errors="replace"), layout.shown(log), layout.clone)


def _with_tools(layout: Layout, env: Mapping[str, str]) -> dict[str, str]:
    """The lock's cmake and ninja come first; torch's CMake files know CUDA_PATH, not CUDA_HOME."""
    path = f"{layout.venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    home = machine.toolkit(env)
    return {**env, "PATH": path, **({"CUDA_PATH": home} if home else {})}


def why_not(log: str, shown: str, clone: Path) -> OverlayError:
    """What a failed compile comes down to, and the next step."""
    if _NO_SOURCE.search(log):
        named = _THIRD_PARTY.findall(log)
        name = named[-1] if named else "NAME"
        local = LOCAL_COPY.get(name, f"CMAKE_ARGS=-DFETCHCONTENT_SOURCE_DIR_{name.upper()}")
        what = f"the third-party source {name}" if named else "a third-party source"
        return OverlayError(
            f"upstream's build cannot fetch {what}",
            hint=f"let this host reach it, or name a copy: {local}=FOLDER (log: {shown});"
            " what is fetched and compiled stays",
        )
    file, said = _first_error(log)
    titles = _patches_of(clone, file) if file else []
    said += f"\n  {file} is changed by: {'; '.join(titles)}" if titles else ""
    return OverlayError(
        f"upstream's build failed: {said}",
        hint=f"the whole output is in {shown}; what is compiled stays: run this again",
    )


def _first_error(log: str) -> tuple[str, str]:
    """The file that the compiler stopped at, empty where it was none, and what was said."""
    if fault := _CMAKE_SAYS.search(log):
        place = fault[1].split(" ")[0]
        return "", " ".join((f"{place}: " * bool(place) + fault[2]).split())
    if fault := _COMPILER_SAYS.search(log):
        return fault[1], fault[0]
    fault = _ANY_ERROR.search(log)
    return "", " ".join(fault[0].split()) if fault else "no message"


def _patches_of(clone: Path, file: str) -> list[str]:
    """Titles of the patches of the series that touch `file`, as a compiler names it."""
    path = Path(os.path.normpath(clone / _TEMP / file))
    if not path.is_relative_to(clone):
        return []
    ours = "--grep=^Upstream-Status: "  # the trailer that each patch has
    return Git(clone).lines("log", "--format=%s", ours, "--", str(path.relative_to(clone)))
