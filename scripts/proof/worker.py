"""A worker of `prove`: a tree of its own, and a process in it that forks for pytest sessions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import worktree
from scripts.proof.hunks import Cut

_SERVER = "tests.support.proof.server"
_TEST_SECONDS = 300  # a test that takes longer hangs

Level = tuple[str, Sequence[str]]
"""A name, and the modules that a process of this level has loaded beyond the one before it."""


class Worker:
    """The clone is never edited: `tree` is a worktree in `build/`, at whatever commit is asked.

    A worker that is killed leaves an edited worktree; the next one puts it right.
    """

    def __init__(self, layout: Layout, folder: Path, device: str) -> None:
        self._layout, self._folder, self._device = layout, folder, device
        self.tree = folder / "vllm"
        self.commit = ""
        self.levels: list[Level] = []
        self._loaded: list[list[str]] = []
        self._process: subprocess.Popen[str] | None = None

    def stand_at(self, commit: str) -> None:
        """Have `commit` checked out, unedited, and nothing of it loaded."""
        if commit == self.commit:
            return
        self.end()
        self._folder.mkdir(parents=True, exist_ok=True)
        worktree.add(self._layout, commit, self.tree)
        Git(self.tree).raw("checkout", "--quiet", "--force", "--detach", commit)
        Git(self.tree).raw("clean", "--quiet", "--force", "-d")
        worktree.link(self._layout, self.tree)
        self.commit = commit
        self._start()

    def _start(self) -> None:
        env = worktree.environment(self._layout, self.tree, self._device)
        # Two workers with a thread a core each would wait for one another.
        env |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        command = [str(self._layout.venv / "bin" / "python"), "-P", "-m", _SERVER]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._layout.root, env=env, text=True, stderr=log,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None, "stand_at comes first"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> OverlayError:
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines() or [""]
        return OverlayError(f"the process that runs the tests ended: {lines[-1][:200]}")

    def have(self, levels: Sequence[Level]) -> None:
        """Be a process with these levels and no others."""
        wanted = [name for name, _ in levels]
        while [name for name, _ in self.levels] != wanted[: len(self.levels)]:
            self.leave()
        for level in levels[len(self.levels) :]:
            answer = self._ask({"load": list(level[1])})
            if "loaded" not in answer:
                raise self._ended()
            self.levels.append(level)
            self._loaded.append(answer["loaded"])

    @property
    def loaded(self) -> Sequence[str]:
        """Every module that the process has, as they came in."""
        return self._loaded[-1] if self._loaded else ()

    def leave(self) -> None:
        """Be the process of the level before."""
        self._ask({"leave": True})
        self.levels.pop()
        self._loaded.pop()

    def run(self, work: Mapping[str, Any], cut: Cut | None = None) -> dict[str, Any]:
        """The answer of `tests/support/proof/session.py`, with the hunk of `cut` gone."""
        scratch = self._folder / "scratch"
        message = {"run": {**work, "folder": str(scratch), "seconds": _TEST_SECONDS}}
        try:
            if cut is None:
                return self._ask(message)
            return self._without(cut, message)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _without(self, cut: Cut, message: Mapping[str, Any]) -> dict[str, Any]:
        path = self.tree / cut.path
        whole = path.read_bytes() if path.exists() else None  # the patch takes the file away
        made = path.stat().st_mtime if path.exists() else time.time()
        try:
            # Bytecode is known by size and second: that of the whole file must not do.
            _put(path, cut.text, made - 10)
            return self._ask(message)
        finally:
            _put(path, whole, made)

    def end(self) -> None:
        """Stop the process and all that its tests started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process, self.levels, self._loaded, self.commit = None, [], [], ""

    def remove(self) -> None:
        """End, and leave nothing behind."""
        self.end()
        if self.tree.exists():
            worktree.remove(self._layout, self.tree)
        shutil.rmtree(self._folder, ignore_errors=True)


def _put(path: Path, text: bytes | None, made: float) -> None:
    """Have a new file with `text`, made at that time, or none."""
    path.unlink(missing_ok=True)
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        os.utime(path, (made, made))
