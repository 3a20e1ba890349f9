"""Start the probes of `tests/support` on any tree, each in a fork of a process that has vLLM."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import later, worktree

_SERVER = "tests.support.forked"
_LOADED = ("transformers", "vllm.config")  # what takes long and nobody measures
_SECONDS = 900
"""That a probe gets; on an idle machine it needs a tenth of them."""


class ProbeFailed(Exception):
    """A probe gave no figures; the text is the last line of its log."""


class NotHere(Exception):
    """A probe lacks what it measures; the text is its own."""


class Probes:
    """One process a tree, started with the first probe that asks for it."""

    def __init__(
        self, layout: Layout, device: str, commits: Mapping[str, str],
        releases: Mapping[str, Layout],
    ) -> None:  # fmt: skip
        self._layout, self._device, self._commits = layout, device, commits
        self.releases = releases
        self._trees: dict[str, Path] = {}
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def ask(
        self, commit: str, module: str, arguments: Sequence[str], log: Path
    ) -> list[dict[str, Any]]:
        """The JSON lines of `module`; `log` gets its errors. Raises `ProbeFailed` or `NotHere`."""
        out = log.with_suffix(".out")
        wish = {"module": module, "arguments": list(arguments), "seconds": _SECONDS,
                "out": str(out), "log": str(log)}  # fmt: skip
        status = self._say(self._server(commit), wish)
        if status:
            text = log.read_text(errors="replace") if log.is_file() else ""
            said = [line.strip() for line in text.splitlines() if line.strip()]
            lacks = later.lacks(self.releases[commit]) if commit in self.releases else ""
            last = said[-1] if said else f"it ended with {status} and said nothing"
            raise ProbeFailed(f"{lacks}: {last}" if lacks else last)
        told = [json.loads(line) for line in out.read_text().splitlines()]
        lacking = [one["why_not"] for one in told if "why_not" in one]
        if lacking and len(lacking) == len(told):
            raise NotHere(lacking[0])
        if lacking and commit not in self.releases:
            raise ProbeFailed(lacking[0])
        return told

    def _server(self, name: str) -> subprocess.Popen[str]:
        if name not in self._servers:
            release = self.releases.get(name)
            tree = release.clone if release else self._tree(name)
            logs = self._layout.reports / "bench"
            logs.mkdir(parents=True, exist_ok=True)
            env = worktree.environment(self._layout, tree, self._device)
            # What vLLM keeps of each model is for one tree: two that share it look anew each time.
            env["VLLM_CACHE_ROOT"] = str(logs / f"cache-{name.replace(' ', '-')}")
            python = (release or self._layout).venv / "bin" / "python"
            command = [str(python), "-P", "-m", _SERVER, *_LOADED]
            log = logs / f"{name.replace(' ', '-')}.log"
            with log.open("wb") as errors:
                server = self._servers[name] = subprocess.Popen(
                    command, env=env, cwd=self._layout.root, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                )  # fmt: skip
            self._require_own(server, tree, log)
        return self._servers[name]

    def _require_own(self, server: subprocess.Popen[str], tree: Path, log: Path) -> None:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise OverlayError(f"vLLM of {self._layout.shown(tree)} does not load: {said[0]}")
        path = json.loads(line)["vllm"]
        if Path(path).parent.parent != tree:
            raise OverlayError(f"probes would measure {path}, not {self._layout.shown(tree)}")

    def _say(self, server: subprocess.Popen[str], wish: Mapping[str, Any]) -> int:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(wish) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            logs = self._layout.shown(self._layout.reports / "bench")
            raise OverlayError(
                "a process that runs probes has ended", hint=f"see the logs in {logs}"
            )
        return int(answer)

    def _tree(self, name: str) -> Path:
        """What is not checked out gets a worktree with the clone's kernels."""
        commit = self._commits[name]
        if not commit:
            return self._layout.clone
        if name not in self._trees:
            place = self._layout.build / f"bench-{commit[:12]}"
            self._trees[name] = worktree.add(self._layout, commit, place)
        return self._trees[name]

    def end(self) -> None:
        for server in self._servers.values():
            server.terminate()  # it takes the probe with it that is running
            server.communicate()
        for tree in self._trees.values():
            worktree.remove(self._layout, tree)


@contextmanager
def started(
    layout: Layout, device: str, commits: Mapping[str, str], releases: Mapping[str, Layout]
) -> Iterator[Probes]:
    """Probes on these trees: name → commit, empty for the work clone as it is; and on later
    releases, which are in environments of their own.
    """
    probes = Probes(layout, device, commits, releases)
    try:
        yield probes
    finally:
        probes.end()
