"""The model hub of the tests: a generated one, offline; the real one where it is asked for."""

from __future__ import annotations

import os
import subprocess

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

# What else would call home from a test.
_SILENT = {"VLLM_NO_USAGE_STATS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def real() -> bool:
    """Whether tests load models from the real hub: `HUB=real`."""
    asked = os.environ.get("HUB") or "generated"
    if asked not in ("generated", "real"):
        raise OverlayError(f"HUB={asked} is no hub", hint="HUB=generated, the default, or HUB=real")
    return asked == "real"


def tier(device: str) -> str:
    """What outcomes depend on beside the versions: `cpu`, `cpu-hub`, `cuda`, `cuda-hub`."""
    return f"{device}-hub" if real() else device


def closed(layout: Layout, *paths: str) -> dict[str, str]:
    """The environment for tests that import from `paths` first: without internet, see `offline`."""
    offline = [] if real() else [str(layout.root / "tests" / "support" / "offline")]
    given = os.environ.get("PYTHONPATH")
    found = [*paths, *offline, *([given] if given and not paths else [])]
    python_path = {"PYTHONPATH": os.pathsep.join(found)} if found else {}
    return python_path if real() else {**_SILENT, "HF_HUB_OFFLINE": "1", **python_path}


def environment(layout: Layout) -> dict[str, str]:
    """The environment for upstream's tests: the real hub, or `build/hub` as all there is.

    `build/hub` is made by `tests.support.hub` from tables, so it is the same on every machine.
    """
    if real():
        return {}
    folder = layout.build / "hub"
    command = [str(layout.venv / "bin" / "python"), "-m", "tests.support.hub", str(folder)]
    done = subprocess.run(
        command, cwd=layout.root, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OverlayError(f"could not make {layout.shown(folder)}: {said[0]}")
    return {
        "HF_HOME": str(folder),
        "HF_HUB_CACHE": str(folder / "hub"),
        "VLLM_ASSETS_CACHE": str(folder / "assets"),
    }
