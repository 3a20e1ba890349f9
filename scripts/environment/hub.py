"""The model hub: whether it is in reach, and the generated one that stands in for it elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
from functools import cache
from urllib.parse import urlsplit

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout


def in_reach() -> bool:
    """Whether tests may load models from the hub: as `HF_HUB_OFFLINE` says, else by one connect."""
    asked = os.environ.get("HF_HUB_OFFLINE")
    if asked is not None:
        return asked.upper() not in ("1", "ON", "YES", "TRUE")
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname or ""
    return _answers(host)


@cache
def _answers(host: str) -> bool:
    try:
        socket.create_connection((host, 443), timeout=3).close()
    except OSError:
        return False
    return True


def tier(device: str) -> str:
    """What outcomes depend on beside the versions: `cpu`, `cpu-hub`, `cuda`, `cuda-hub`."""
    return f"{device}-hub" if in_reach() else device


def environment(layout: Layout) -> dict[str, str]:
    """The environment for tests: the hub as it is, or offline with `build/hub` as all there is.

    `build/hub` is made by `tests.support.hub` from tables, so it is the same on every machine.
    """
    if in_reach():
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
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder),
        "HF_HUB_CACHE": str(folder / "hub"),
        "VLLM_ASSETS_CACHE": str(folder / "assets"),
    }
