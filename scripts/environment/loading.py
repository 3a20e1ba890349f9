"""Load every kernel once installed; what waits for a driver is loaded where one is there."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

Say = Callable[[str], None]
# An image is built on a host without a driver: these words of the loader are no fault of a kernel.
_NO_DRIVER = "libcuda.so.1: cannot open shared object file"
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
        print(f"{name}: {error}", flush=True)
"""


def _waiting(layout: Layout) -> Path:
    """Names what could not be loaded for want of a driver; gone once all of it was."""
    return layout.venv / "kernels.waiting"


def all_kernels(layout: Layout, device: str, env: Mapping[str, str], say: Say) -> None:
    """Load what is installed for `device`.

    Raises `OverlayError` with each kernel that does not load and the loader's words.
    """
    done = subprocess.run(
        [str(layout.venv / "bin" / "python"), "-P", "-c", LOAD_ALL, device],
        env={**env}, cwd=layout.root, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    said = done.stdout.strip().splitlines()
    waiting = [line for line in said if _NO_DRIVER in line]
    faults = [line for line in said if line not in waiting]
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["the first kernel"])[-1]
        faults.append(f"{last}: the process that loads it ended with {done.returncode}")
    if faults:
        raise OverlayError(
            "\n  ".join(["the kernels do not load:", *faults]),
            hint="python3 -m scripts doctor names what the machine lacks",
        )
    _waiting(layout).unlink(missing_ok=True)
    if waiting:
        _waiting(layout).write_text("".join(f"{line}\n" for line in waiting))
        say(f"{len(waiting)} kernels wait for a driver, to be loaded where one is: {_NO_DRIVER}")


def what_waited(layout: Layout, device: str, env: Mapping[str, str], say: Say) -> None:
    """Load once more, once, where a driver is there that was not when they were installed."""
    if not _waiting(layout).is_file() or not _driver():
        return
    say("a driver is there now: loading the kernels …")
    all_kernels(layout, device, env, say)


def _driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
