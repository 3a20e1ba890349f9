"""What this machine has: facts only, parsed once; `doctor` judges them."""

from __future__ import annotations

import csv
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import packages
from scripts.core.layout import Layout

_QUERY = "index,name,driver_version,compute_cap,memory.total,memory.free,mig.mode.current"
_LIBRARIES = (
    "cublas", "cublasLt", "cudart", "cufft", "curand", "cusolver", "cusparse", "nvJitLink", "nvrtc",
)  # fmt: skip
_TIMEOUT = 30  # seconds; a driver in trouble can keep nvidia-smi waiting


@dataclass(frozen=True)
class Said:
    """How a command ended. `code` is None where there is no such command."""

    code: int | None
    text: str


@dataclass(frozen=True)
class Probe:
    """The ways in which facts are asked for; tests give recorded answers."""

    run: Callable[[Sequence[str]], Said]
    env: Mapping[str, str]
    free: Callable[[Path], int]
    """Bytes free on the file system of a path, which need not exist yet."""
    memory: Callable[[], int]
    """Bytes, as `memory` counts them."""
    missing: Callable[[Mapping[str, str]], Mapping[str, str]]
    """What the system lacks, as `packages.missing` finds it."""


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi. Memory in MiB; `mig` where the GPU is cut into instances."""

    index: int
    name: str
    driver: str
    capability: str
    total: int
    free: int
    mig: bool


@dataclass(frozen=True)
class Machine:
    """Everything `doctor` judges. Versions are empty where the tool is missing; sizes in bytes."""

    python: str
    processor: str
    cores: int
    memory: int
    disk: int
    shm: int
    gpus: tuple[Gpu, ...]
    gpu_trouble: str
    """Why nvidia-smi lists no GPU: its own words, empty where it lists some or is missing."""
    driver_cuda: str
    """The newest CUDA that the driver runs."""
    nvcc: str
    toolkit_lacks: tuple[str, ...]
    """What upstream's configure looks for below CUDA_HOME, and is not there."""
    toolkit_compiler: int
    """The newest GCC, its first number, that the toolkit in CUDA_HOME takes; 0 where unknown."""
    compiler: str
    cache: str
    hub_real: bool
    hub_cache: str
    hub_token: bool
    missing: Mapping[str, str]
    """Debian package → what of it is not there."""


def here() -> Probe:
    """The probe of the machine that this runs on."""
    return Probe(_run, os.environ, _free, memory, packages.missing)


def look(layout: Layout, probe: Probe) -> Machine:
    """Ask everything once; about 0.1 s where there is no GPU."""
    gpus, trouble = _gpus(probe)
    smi = probe.run(["nvidia-smi"]).text if gpus else ""
    home = Path(probe.env.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub_cache = Path(probe.env.get("HF_HUB_CACHE") or home / "hub")
    return Machine(
        python=platform.python_version(),
        processor=platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory=probe.memory(),
        disk=probe.free(layout.build),
        shm=probe.free(Path("/dev/shm")),
        gpus=gpus,
        gpu_trouble=trouble,
        driver_cuda=_found(r"CUDA Version:\s*([\d.]+)", smi),
        nvcc=_found(r"release ([\d.]+)", probe.run([nvcc(probe.env), "--version"]).text),
        toolkit_lacks=_lacks(toolkit(probe.env)),
        toolkit_compiler=_newest_compiler(toolkit(probe.env)),
        compiler=_found(
            r"\) ([\d.]+)", probe.run([probe.env.get("CXX") or "c++", "--version"]).text
        ),
        cache=next((c for c in ("sccache", "ccache") if probe.run([c, "--version"]).code == 0), ""),
        hub_real=probe.env.get("HUB") == "real",
        hub_cache=str(hub_cache) if hub_cache.is_dir() else "",
        hub_token=bool(probe.env.get("HF_TOKEN")) or (home / "token").is_file(),
        missing=probe.missing(probe.env),
    )


def toolkit(env: Mapping[str, str]) -> str:
    """The folder of the CUDA toolkit that was named, empty where none was."""
    return env.get("CUDA_HOME") or env.get("CUDA_PATH") or ""


def nvcc(env: Mapping[str, str]) -> str:
    """As torch's extension builder looks for it: CUDA_HOME before PATH."""
    home = toolkit(env)
    return str(Path(home) / "bin" / "nvcc") if home else "nvcc"


def _lacks(home: str) -> tuple[str, ...]:
    """Of a folder without nvcc nothing is asked: it is no toolkit."""
    folder = Path(home)
    if not home or not (folder / "bin" / "nvcc").exists():
        return ()
    there = "lib64" if (folder / "lib64").is_dir() else "lib"  # which wants a link, `lib64`
    files = [*(f"lib{name}.so" for name in _LIBRARIES), "stubs/libcuda.so"]
    lacking = [f"lib64/{name}" for name in files if not (folder / there / name).exists()]
    return (*(["lib64"] if there == "lib" else []), *lacking)


def _newest_compiler(home: str) -> int:
    """As the toolkit's own header says it, which ends a compile with a newer one."""
    header = Path(home) / "include" / "crt" / "host_config.h"
    if not home or not header.is_file():
        return 0
    return int(_found(r"__GNUC__ > (\d+)", header.read_text(errors="replace")) or 0)


def _gpus(probe: Probe) -> tuple[tuple[Gpu, ...], str]:
    said = probe.run(["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"])
    if said.code is None:
        return (), ""
    rows = [[cell.strip() for cell in row] for row in csv.reader(said.text.splitlines())]
    if said.code == 0 and rows and all(len(row) == len(_QUERY.split(",")) for row in rows):
        return tuple(_gpu(row) for row in rows), ""
    return (), said.text.strip().splitlines()[0] if said.text.strip() else "nvidia-smi said nothing"


def _gpu(row: list[str]) -> Gpu:
    index, name, driver, capability, total, free, mig = row

    def mebibytes(text: str) -> int:  # `[N/A]` on shared-memory parts, `[Insufficient …]` on MIG
        return int(text) if text.isdigit() else 0

    known = capability if re.fullmatch(r"\d+\.\d+", capability) else ""
    total_mib, free_mib = mebibytes(total), mebibytes(free)
    return Gpu(int(index), name, driver, known, total_mib, free_mib, mig == "Enabled")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


def _run(command: Sequence[str]) -> Said:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return Said(None, "")
    except subprocess.TimeoutExpired:
        return Said(-1, f"{command[0]} gave no answer in {_TIMEOUT} s")
    return Said(done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr)


def _free(path: Path) -> int:
    while not path.exists():
        if path == path.parent:
            return 0
        path = path.parent
    return shutil.disk_usage(path).free


def memory() -> int:
    """Bytes of memory in this machine, or what its control group allows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.is_file() else "max"
    return min(total, int(allowed)) if allowed.isdigit() else total
