"""A checkout of this repository in a temporary folder, and what a person does with it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.tools import mini

REPO = Path(__file__).resolve().parents[2]
CLOSED = "http://127.0.0.1:9/simple"  # the discard port: nothing answers there


@dataclass(frozen=True)
class Done:
    """How a command ended. `error` and `hint` are what it said in these lines."""

    code: int
    out: str
    err: str

    @property
    def hint(self) -> str:
        return self.err.partition("\nhint: ")[2].strip()

    @property
    def error(self) -> str:
        return self.err.removeprefix("error: ").partition("\nhint: ")[0].strip()


def finished(done: subprocess.CompletedProcess[str]) -> Done:
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Product:
    """`root` is the checkout, `home` the person's home folder, `upstream` what the pin names."""

    root: Path
    home: Path
    upstream: mini.Upstream

    @property
    def clone(self) -> Path:
        return self.root / "build" / "vllm"

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def sdist(self) -> Path:
        return self.root / "build" / "downloads" / mini.SDIST

    def env(self, **extra: str) -> dict[str, str]:
        """A person's environment: their home, a package index that is out of reach."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": CLOSED,
            "HF_HUB_OFFLINE": "1",
            **extra,
        }

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "scripts", *args]

    def run(self, *args: str, **env: str) -> Done:
        """`python3 -m scripts ARGS` in the product root, with `env` in its environment."""
        return self.run_by((), *args, **env)

    def run_by(self, starter: tuple[str, ...], *args: str, **env: str) -> Done:
        """The same, started by another command."""
        done = subprocess.run(
            [*starter, *self.command(*args)], cwd=self.root, env=self.env(**env),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="surrogateescape",
        )  # fmt: skip
        return finished(done)

    def succeed(self, *args: str, **env: str) -> str:
        done = self.run(*args, **env)
        assert done.code == 0, done
        return done.out

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """The same, without waiting."""
        return subprocess.Popen(
            self.command(*args), cwd=self.root, env=self.env(**env), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # A runner in the background of a shell ignores the interrupt, and so would its child.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    def shell(self, line: str, **env: str) -> Done:
        """A line that a person pastes into a shell in the product root."""
        env = {"GIT_EDITOR": "true", **env}
        done = subprocess.run(
            line, shell=True, cwd=self.root, env=self.env(**env), stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )  # fmt: skip
        return finished(done)

    def make(self, *args: str, **env: str) -> Done:
        command = [
            "make",
            "--no-print-directory",
            "-C",
            str(self.root),
            f"PYTHON={sys.executable}",
            *args,
        ]
        done = subprocess.run(
            command, env=self.env(**env), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return finished(done)

    def git(self, *args: str, repo: Path | None = None) -> str:
        """git as the person at work in the clone runs it, with their configuration."""
        done = subprocess.run(
            ["git", "-C", str(repo or self.clone), *args], env=self.env(GIT_EDITOR="true"),
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done
        return os.fsdecode(done.stdout).rstrip("\n")

    def series(self) -> dict[str, bytes]:
        """Everything in `patches/` but the pin and its companion."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.patches.iterdir())
            if path.name not in ("README.md", "upstream.json")
        }

    def write_series(self, files: Mapping[str, bytes]) -> None:
        """Make `patches/` hold these patches and no others."""
        for name in self.series():
            (self.patches / name).unlink()
        for name, raw in files.items():
            (self.patches / name).write_bytes(raw)

    def edit_pin(self, **changes: object) -> None:
        path = self.patches / "upstream.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def pin_sdist(self, data: bytes) -> None:
        """Pin `data` as the release's sdist, and have it in the downloads."""
        entry = {"project": "vllm", "file": mini.SDIST, "size": len(data)}
        self.edit_pin(sdist=entry | {"sha256": mini.digest(data)})
        self.sdist.parent.mkdir(parents=True, exist_ok=True)
        self.sdist.write_bytes(data)


def put_python(path: Path, **env: str) -> None:
    """A Python at `path` that has what this one has, and `env` in its environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = shlex.join(["env", *(f"{key}={value}" for key, value in env.items()), sys.executable])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def pin_text(upstream: mini.Upstream) -> str:
    sdist = {"project": "vllm", "file": mini.SDIST, "size": len(upstream.sdist)}
    return json.dumps(
        {
            "project": "vllm",
            "tag": mini.TAG,
            "commit": upstream.commit,
            "released": "2026-08-26",
            "repository": str(upstream.repo),
            "sdist": sdist | {"sha256": mini.digest(upstream.sdist)},
            "wheels": {},
        },
        indent=1,
    )


def tree(folder: Path) -> dict[str, str]:
    """Path -> what is there, for every file and link below `folder` but for git's own."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".git" in path.relative_to(folder).parts:
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            mode = path.stat().st_mode & 0o111
            found[name] = f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def snapshot(repo: Path) -> dict[str, object]:
    """All that a person could lose in a repository: refs, HEAD, index, stash, files, settings."""
    common = Path(mini.git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    return {
        "refs": mini.git(repo, "for-each-ref"),
        "head": (
            mini.git(repo, "rev-parse", "HEAD"),
            mini.git(repo, "rev-parse", "--symbolic-full-name", "HEAD"),
        ),
        "index": mini.git(repo, "ls-files", "--stage"),
        "stash": mini.git(repo, "stash", "list"),
        "worktrees": mini.git(repo, "worktree", "list", "--porcelain"),
        "config": (common / "config").read_bytes(),
        "hooks": tree(common / "hooks"),
        "files": tree(repo),
    }
