"""The one place that starts git: isolated from the user's configuration, raising on failure."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scripts.core.errors import OverlayError

# Fixed, so that the same series gives the same commit ids on any machine. The `.invalid` domain
# (RFC 2606) can never be somebody's address.
IDENTITY = ("vllm-mm-patches maintainers", "maintainers@vllm-mm-patches.invalid")

# `merge-ort` is the default from here on; what it makes of a rename decides where a patch fits.
LEAST = (2, 34)

_SETTINGS = (
    # A hook of the user's checkout must not run, let alone veto or rewrite what we do.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    # A person named this repository, so its owner may be another user (a container's mount). By
    # name it would have to be the top of the checkout, with every link resolved.
    "safe.directory=*",
    # Bytes in, bytes out, whatever the platform or the checkout's own configuration prefers.
    "core.autocrlf=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "advice.detachedHead=false",
    # No background repack behind a command that has ended.
    "gc.auto=0",
    "maintenance.auto=false",
    # What a checkout of the user's may set for itself, and no flag overrides.
    "apply.ignoreWhitespace=no",
    "diff.suppressBlankEmpty=false",
    "log.showRoot=false",  # the whole tree is no change that we look for
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "status.showUntrackedFiles=normal",
)

# They would move a command to another repository than the one it names (`rev-parse
# --local-env-vars` lists them); settings that are passed by environment are no such thing.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
              "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_NAMESPACE",
              "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_PREFIX")  # fmt: skip


class GitError(OverlayError):
    """A git command failed; `stderr` is what it said."""

    def __init__(self, command: str, stderr: str) -> None:
        said = stderr.strip() or "no message"
        held = re.search(r"'([^'\n]+\.lock)': File exists", stderr)
        super().__init__(f"git {command} failed: {said}", hint=lock_hint(held[1]) if held else "")
        self.stderr = stderr


def lock_hint(lock: str) -> str:
    """What to do about a lock file of git's: it outlives a git that is killed."""
    return f"if no git is at work there, one was killed: rm {shlex.quote(lock)}"


def _isolated(extra: Mapping[str, str]) -> dict[str, str]:
    name, email = IDENTITY
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        "LC_ALL": "C",
        "TZ": "UTC",
        **extra,
    }


@cache
def _folder(root: Path) -> Path:
    """Asked once: it stays as long as the checkout does."""
    return Path(Git(root).out("rev-parse", "--absolute-git-dir"))


@cache
def require() -> tuple[int, int]:
    """The version of git, once. Raises where there is none, or one that is too old."""
    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True)
    except OSError as error:
        from scripts.core import packages

        raise OverlayError(
            "git is not installed",
            hint=f"install it: {packages.line(packages.missing(os.environ))}",
        ) from error
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < LEAST:
        said = done.stdout.strip() or done.stderr.strip() or "git says no version"
        raise OverlayError(
            f"{said} is too old: {LEAST[0]}.{LEAST[1]} or newer is needed",
            hint="install a newer git, and have it first in PATH",
        )
    return version


@dataclass(frozen=True)
class Git:
    """Commands on the repository at `root`. Every one raises `GitError` when it fails."""

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def raw(self, *args: str, stdin: bytes = b"") -> bytes:
        """The standard output of `git ARGS`, as bytes."""
        require()
        settings = [word for item in _SETTINGS for word in ("-c", item)]
        return self._start([*settings, *args], args[0], _isolated(self.env), stdin)

    def out(self, *args: str) -> str:
        """The standard output of `git ARGS`, as text, without its last line end."""
        return os.fsdecode(self.raw(*args)).rstrip("\n")

    def lines(self, *args: str) -> list[str]:
        return [line for line in self.out(*args).split("\n") if line]

    def ok(self, *args: str) -> bool:
        """Whether `git ARGS` answers yes."""
        try:
            self.raw(*args)
        except GitError:
            return False
        return True

    def fetch(self, url: str, ref: str, *options: str) -> None:
        """Fetch one commit, without history unless `options` say so."""
        self._as_user("fetch", "--quiet", "--no-tags", *(options or ("--depth=1",)), url, ref)

    def tagged(self, url: str, tag: str) -> str:
        """The commit that `tag` names in the repository at `url`, empty where it has none."""
        ref = f"refs/tags/{tag}"
        listed = os.fsdecode(self._as_user("ls-remote", "--quiet", url, ref, f"{ref}^{{}}"))
        ids = {name: commit for commit, _, name in (line.partition("\t") for line in
               listed.splitlines())}  # fmt: skip
        return ids.get(f"{ref}^{{}}", ids.get(ref, ""))

    def why_not(self, *args: str) -> str:
        """What `git ARGS` says when it fails, empty where it does not."""
        try:
            self.raw(*args)
        except GitError as error:
            return error.stderr.strip().removeprefix("fatal: ") or "no message"
        return ""

    def _as_user(self, *args: str) -> bytes:
        """With the user's own configuration and environment.

        Credentials, proxies and `insteadOf` rewrites live there, and a remote needs them.
        """
        require()
        env = {k: v for k, v in os.environ.items() if k not in _ELSEWHERE} | {"LC_ALL": "C"}
        return self._start(list(args), args[0], env)

    def path(self, name: str) -> Path:
        """Where git keeps its file `name`, of those that are of this checkout alone."""
        return _folder(self.root) / name

    def _start(
        self, args: list[str], name: str, env: Mapping[str, str], stdin: bytes = b""
    ) -> bytes:
        command = ["git", "-C", str(self.root), *args]
        done = subprocess.run(command, env=env, input=stdin, capture_output=True)
        if done.returncode != 0:
            raise GitError(name, os.fsdecode(done.stderr or done.stdout))
        return done.stdout
