"""The tests that releases of transformers decide, with another release in front of the environment.

`python -m scripts.suites.floor RELEASE COMMAND…` runs the command with it; `""` is the least one
that the pinned vLLM allows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import hub

MODULES = ("test_scoped_mm_kwargs.py", "test_scoped_mm_kwargs_items.py", "test_warmup_budget.py")


def least(layout: Layout) -> str:
    """Raise `OverlayError` where the pinned tree names none."""
    file = layout.clone / "requirements" / "common.txt"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = re.search(r"^transformers\s*>=\s*([\d.]+)", text, re.MULTILINE)
    if found is None:
        raise OverlayError("no floor of transformers is known", hint="set TRANSFORMERS=5.9.0")
    return found[1]


def ensure(layout: Layout, release: str) -> Path:
    """Install the release alone, once: what it needs is in the environment."""
    folder = layout.venv.parent / "transformers" / release
    if not folder.is_dir():
        beside = folder.with_name(f"{release}.part")
        uv = str(tools.ensure(layout).with_name("uv"))
        install = [uv, "pip", "install", "--no-deps", "--target", str(beside)]
        install += ["--python", str(layout.venv / "bin" / "python"), f"transformers=={release}"]
        if subprocess.run(install, env=tools.uv_environment(layout)).returncode != 0:
            raise OverlayError(f"cannot install transformers {release}", hint="another version?")
        beside.replace(folder)
    return folder


def main(layout: Layout, release: str, command: list[str]) -> int:
    """Run the command and return its exit code."""
    front = ensure(layout, release or least(layout))
    env = dict(os.environ) | hub.closed(layout, str(front))
    return subprocess.run(command, cwd=layout.root, env=env).returncode


if __name__ == "__main__":
    try:
        here = Layout.of(Path(__file__).resolve().parents[2], os.environ.get("VLLM_DIR"))
        raise SystemExit(main(here, sys.argv[1], sys.argv[2:]))
    except OverlayError as error:
        raise SystemExit(f"error: {error}\nhint: {error.hint}") from None
