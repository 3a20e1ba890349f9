"""A command of pytest at work: what it says in a log, how far it is in one line for a terminal."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.suites import sessions

Note = Callable[[str], None]
"""Shows one line until the next takes its place."""
_FAR = re.compile(rb"\[ *(\d+)%\]")
_TAIL = 4096  # bytes of a log that hold its last line with a share


def run(
    name: str, command: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path, note: Note
) -> int:
    """Run it and return its exit code; when we are stopped it is, too, and takes down its own."""
    began = time.monotonic()
    with log.open("wb") as out:
        out.write(f"$ {shlex.join(command)}\n".encode())
        out.flush()
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            while process.poll() is None:
                note(f"{name:<12}{_far(log):>5}  {clock(time.monotonic() - began)}")
                time.sleep(0.2)
        finally:
            sessions.stop([process])
    return process.returncode


def _far(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        found = _FAR.findall(file.read())
    return f"{found[-1].decode()} %" if found else ""


def clock(seconds: float) -> str:
    """Minutes and seconds, as `2:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def tail(log: Path, lines: int) -> str:
    """The last lines that say something."""
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(said[-lines:])
