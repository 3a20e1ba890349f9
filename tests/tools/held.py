"""A `git` that waits where a test wants to look, then is the real one."""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 900
"""Seconds after which something hangs, however busy the machine is."""
_SCRIPT = """\
#!/bin/sh
for word; do
    [ "$word" = am ] || continue
    echo $$ > '{ready}'
    read -r _ < '{gate}'
    break
done
exec '{real}' "$@"
"""


@dataclass(frozen=True)
class HeldGit:
    """`path` is a PATH whose git stops before `git am`. `ready` and `gate` are open FIFOs."""

    path: str
    ready: int
    gate: int

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[HeldGit]:
        folder.mkdir()
        ready, gate = folder / "ready", folder / "gate"
        os.mkfifo(ready)
        os.mkfifo(gate)
        script = folder / "git"
        script.write_text(_SCRIPT.format(ready=ready, gate=gate, real=shutil.which("git")))
        script.chmod(0o755)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        # Open both ways, so that no open and no write waits for the other side.
        held = cls(path, os.open(ready, os.O_RDWR), os.open(gate, os.O_RDWR))
        try:
            yield held
        finally:
            held.release()
            os.close(held.ready)
            os.close(held.gate)

    def wait(self) -> int:
        """Until `git am` is about to start; its process id."""
        readable, _, _ = select.select([self.ready], [], [], PATIENCE)
        assert readable, "git am did not start"
        return int(os.read(self.ready, 32))

    def release(self) -> None:
        """Let the one that waits, or the next that comes, go on."""
        os.write(self.gate, b"\n")
