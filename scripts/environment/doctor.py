"""Preflight: is this machine fit for the device and kernel mode; each point ok, warn or fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scripts.core import packages
from scripts.core.errors import OverlayError
from scripts.environment.machine import Gpu, Machine

State = Literal["ok", "warn", "fail"]
_GIB = 1 << 30

# torch 2.13 for CUDA 13.0 needs the driver branch of CUDA 13.0 (its release notes, table 3), and
# CUDA 13 compiles for Turing and newer (CUDA_SUPPORTED_ARCHS in the pin's CMakeLists.txt).
CUDA = (13, 0)
DRIVER = (580, 65)
CAPABILITY = (7, 5)
# C++20, which the pin's CMakeLists.txt asks for, is whole since GCC 11; for a CPU of this kind
# cmake/cpu_extension.cmake wants more.
COMPILER, COMPILER_X86 = (11,), (12, 3)
_DISK = {"source": 60 * _GIB, "precompiled": 20 * _GIB, "cpu": 8 * _GIB}
_JOB = 4 * _GIB  # memory of one nvcc at work on the largest template files of the pin
_SHM = 8 * _GIB  # NCCL, and the processor's shared-memory cache (4 GiB by default)
_GPU_FREE = 16 << 10  # MiB; the GPU tier's models take a few GiB, profiling wants the rest free


@dataclass(frozen=True)
class Finding:
    """One point: what was found, and where it is not `ok`, the mend."""

    point: str
    state: State
    said: str
    mend: str = ""

    @property
    def shown(self) -> str:
        """A line for a person, and one for the mend."""
        mend = f"\n      {'':<16}{self.mend}" * bool(self.mend)
        return f"{self.state:<6}{self.point:<16}{self.said}{mend}"


def examine(machine: Machine, *, device: str, kernels: str, run: bool) -> list[Finding]:
    """Every point for `device` and `kernels`; a GPU must be there only to `run` tests on it."""
    found = [
        _disk(machine, kernels),
        _shm(machine),
        *([_hub(machine)] if machine.hub_real else []),
        _packages(machine, device),
        _python(machine),
    ]
    if device == "cuda":
        missing: State = "fail" if run else "warn"
        found += _gpus(machine, missing) if machine.gpus else [_no_gpu(machine, missing)]
    if kernels == "source":
        # For a CPU, too: torch in the lock is the index's, whose CMake files want its toolkit.
        found += [*_toolchain(machine, device), _nvcc(machine), _toolkit(machine)]
    return sorted(found, key=lambda one: one.point)


def refuse(found: list[Finding]) -> None:
    """Raise `OverlayError` where a point failed."""
    failed = [one for one in found if one.state == "fail"]
    if failed:
        raise OverlayError(
            f"this machine is not fit: {', '.join(one.point for one in failed)}",
            hint="; ".join(one.mend for one in failed),
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _gib(size: int) -> str:
    return f"{size / _GIB:.0f} GiB"


def _disk(machine: Machine, kernels: str) -> Finding:
    need = _DISK[kernels]
    mend = f"KERNELS={kernels} takes {_gib(need)}: free some, or put build/ on a larger disk"
    return _room("disk", machine.disk, need, mend)


def _shm(machine: Machine) -> Finding:
    mend = f"{_gib(_SHM)} are wanted: docker run --shm-size=16g, or --ipc=host"
    return _room("/dev/shm", machine.shm, _SHM, mend)


def _room(name: str, free: int, need: int, mend: str) -> Finding:
    said = f"{_gib(free)} free"
    return Finding(name, "ok", said) if free >= need else Finding(name, "warn", said, mend)


def _hub(machine: Machine) -> Finding:
    token = "a token" if machine.hub_token else "no token"
    said = f"the real one: {token}, cache {machine.hub_cache or 'empty'}"
    mend = (
        "upstream's suites download each model that they name, whole: hours, and disk for all of"
        " them at HF_HOME; gated ones need HF_TOKEN. Without HUB=real nothing is downloaded"
    )
    return Finding("model hub", "warn", said, mend)


def _packages(machine: Machine, device: str) -> Finding:
    missing = dict(machine.missing)
    if device != "cpu":
        missing.pop("libnuma1", None)  # the kernels of the CPU alone link it
    if not missing:
        return Finding("packages", "ok", "all there")
    said = f"missing: {', '.join(missing.values())}"
    return Finding("packages", "fail", said, packages.line(missing))


def _python(machine: Machine) -> Finding:
    said = packages.python(machine.python)
    if not said:
        return Finding("Python", "ok", machine.python)
    last = ".".join(map(str, packages.PYTHONS[1]))
    return Finding("Python", "fail", said, f"install one of these, then make PYTHON=python{last} …")


def _no_gpu(machine: Machine, missing: State) -> Finding:
    if machine.gpu_trouble:
        mend = "mend the driver: dmesg | grep -i nvrm, nvidia-smi; in a container --gpus all"
        return Finding("GPU", missing, machine.gpu_trouble, mend)
    mend = "run on a GPU host, in a container with --gpus all, or with DEVICE=cpu"
    return Finding("GPU", missing, "no nvidia-smi", mend)


def _gpus(machine: Machine, missing: State) -> list[Finding]:
    return [
        _driver(machine, missing),
        *(_gpu(gpu) for gpu in machine.gpus),
    ]


def _driver(machine: Machine, missing: State) -> Finding:
    driver = machine.gpus[0].driver
    cuda = machine.driver_cuda or "unknown"
    said = f"{driver}, runs CUDA up to {cuda}"
    wanted = ".".join(map(str, CUDA))
    if _version(machine.driver_cuda) >= CUDA or _version(driver) >= DRIVER:
        return Finding("driver", "ok", said)
    mend = f"CUDA {wanted} needs driver {DRIVER[0]} or newer (cuda-compat on data-centre GPUs)"
    return Finding("driver", missing, said, mend)


def _gpu(gpu: Gpu) -> Finding:
    point = f"GPU {gpu.index}"
    said = f"{gpu.name}, sm_{gpu.capability.replace('.', '')}" * bool(gpu.capability) or gpu.name
    said += f", {gpu.free} of {gpu.total} MiB free"
    if gpu.capability and _version(gpu.capability) < CAPABILITY:
        mend = "CUDA 13 dropped it; use a GPU of compute capability 7.5 or newer"
        return Finding(point, "fail", said, mend)
    if gpu.mig:
        mend = "name one instance: CUDA_VISIBLE_DEVICES=MIG-… from nvidia-smi -L"
        return Finding(point, "warn", f"{said}, MIG on", mend)
    if gpu.free < _GPU_FREE:
        mend = f"{_GPU_FREE} MiB are wanted: nvidia-smi shows who holds it"
        return Finding(point, "warn", said, mend)
    return Finding(point, "ok", said)


def _toolchain(machine: Machine, device: str) -> list[Finding]:
    cache = machine.cache
    mend = "apt-get install ccache: a second build then takes minutes"
    return [
        _compiler(machine, device),
        Finding(
            "compiler cache", "ok" if cache else "warn", cache or "none", "" if cache else mend
        ),
        _memory(machine),
    ]


def _compiler(machine: Machine, device: str) -> Finding:
    x86 = device == "cpu" and machine.processor == "x86_64"
    wanted = COMPILER_X86 if x86 else COMPILER
    if _version(machine.compiler) >= wanted:
        return Finding("C++ compiler", "ok", machine.compiler)
    mend = (
        f"install g++ {'.'.join(map(str, wanted))} or newer, and name it: CXX=g++-{wanted[0] + 1}"
    )
    return Finding("C++ compiler", "fail", machine.compiler or "none", mend)


def _memory(machine: Machine) -> Finding:
    said = f"{_gib(machine.memory)}, {machine.cores} cores"
    if machine.memory >= _JOB:
        return Finding("memory", "ok", said)
    return Finding("memory", "fail", said, f"one compiler takes up to {_gib(_JOB)}")


def _nvcc(machine: Machine) -> Finding:
    wanted = ".".join(map(str, CUDA))
    if _version(machine.nvcc)[:1] == CUDA[:1]:
        return Finding("nvcc", "ok", machine.nvcc)
    mend = f"install the CUDA {wanted} toolkit and set CUDA_HOME to it"
    return Finding("nvcc", "fail", machine.nvcc or "none", mend)


def _toolkit(machine: Machine) -> Finding:
    newest, found = machine.toolkit_compiler, machine.compiler
    if machine.toolkit_lacks:
        mend = "ci/README.md, Kernels from source: the toolkit without root, with all its links"
        return Finding("CUDA_HOME", "fail", f"lacks {', '.join(machine.toolkit_lacks)}", mend)
    if newest and _version(found)[:1] > (newest,):
        mend = f"apt-get install g++-{newest}, and CXX=g++-{newest} NVCC_CCBIN=g++-{newest}"
        return Finding("CUDA_HOME", "fail", f"takes GCC up to {newest}, not {found}", mend)
    return Finding("CUDA_HOME", "ok", "whole, or the nvcc of the path")


def jobs(machine: Machine) -> int:
    """Compilers at a time: as many as the cores and the memory carry, at least one."""
    return max(1, min(machine.cores, machine.memory // _JOB))


def architectures(machine: Machine) -> str:
    """`TORCH_CUDA_ARCH_LIST` of the GPUs at hand, empty where there is none."""
    found = {gpu.capability for gpu in machine.gpus if gpu.capability}
    return " ".join(sorted(found, key=_version))
