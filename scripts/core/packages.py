"""What the system must bring beside Python, how each is looked for, and the Debian packages."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

# The line in the README is this list; `make` is there where it was typed.
README = ("g++", "git", "libnuma1", "make", "python3-dev", "python3-venv")
# The locks in ci/ are for these: numpy, ray and more of upstream's own lock have no wheel beyond.
PYTHONS = ((3, 11), (3, 13))


def missing(env: Mapping[str, str]) -> dict[str, str]:
    """Debian package → what of it is not there, of all that `make test` needs.

    torch compiles with `$CXX` or g++ as it runs, triton against Python's headers, and the kernels
    link libnuma.
    """
    python = Path(sys.executable).name  # Debian's python3.12 has its own python3.12-dev
    path = env.get("PATH", os.defpath)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    modules = [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    wanted = {
        "g++": ("a C++ compiler", shutil.which(env.get("CXX") or "g++", path=path)),
        "git": ("git", shutil.which("git", path=path)),
        "libnuma1": ("libnuma.so.1", _loads("libnuma.so.1")),
        f"{python}-dev": ("Python.h", header.is_file()),
        f"{python}-venv": (f"Python's {' and '.join(modules)}", not modules),
    }
    return {package: what for package, (what, there) in wanted.items() if not there}


def python(version: str) -> str:
    """What is wrong with this version of Python, "" where nothing is."""
    first, last = (".".join(map(str, one)) for one in PYTHONS)
    if tuple(map(int, version.split(".")[:2])) <= PYTHONS[1]:
        return ""
    return f"Python {version}: what the locks in ci/ name is there for {first} to {last}"


def notes(env: Mapping[str, str]) -> list[str]:
    """A line each for the Python and for the packages, where they do not do."""
    lacking = missing(env)
    wrong = python(platform.python_version())
    return [*([wrong] if wrong else []), *([line(lacking)] if lacking else [])]


def line(packages: Iterable[str]) -> str:
    """The one line to type for what is missing."""
    return f"apt-get install {' '.join(sorted(packages))}"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
