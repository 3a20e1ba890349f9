"""An internal fork: opened whatever its shape and owner, given one new branch, else left alone."""

from __future__ import annotations

import datetime
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git, GitError
from scripts.release.pin import Pin


@dataclass(frozen=True)
class Target:
    """What `pick` is asked for. `numbers` is a part of the series like `1,3-4`, empty for all."""

    fork: str
    onto: str
    branch: str
    numbers: str = ""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def again(self, onto: str) -> str:
        """The command that goes on with this onto the commit `onto`."""
        words = {"FORK": self.fork, "ONTO": onto[:12], "BRANCH": self.branch}
        words |= {"PATCHES": self.numbers} if self.numbers else {}
        return " ".join(["make pick", *(f"{key}={shlex.quote(value)}" for key, value in
                                        words.items())])  # fmt: skip


def opened(target: Target) -> tuple[Git, str]:
    """The fork and the full id of the commit to pick onto."""
    if not target.fork or not target.onto:
        raise OverlayError(
            "pick needs a fork and a commit of it",
            hint="make pick FORK=path/to/the/fork ONTO=main",
        )
    folder = Path(target.fork).expanduser().absolute()
    fork = Git(folder)
    reason = fork.why_not("rev-parse", "--git-dir")
    if reason:
        raise OverlayError(
            f"{folder} is no git repository: {reason}", hint="FORK names a clone of the fork"
        )
    if not fork.why_not("rev-parse", "--show-toplevel"):  # a bare one has none
        fork = Git(Path(fork.out("rev-parse", "--show-toplevel")))
    try:
        rev = f"{target.onto}^{{commit}}"
        onto = fork.out("rev-parse", "--verify", "--quiet", "--end-of-options", rev).split("\n")[-1]
    except GitError as error:
        raise OverlayError(
            f"{folder} has no commit {target.onto!r}",
            hint=f"see git -C {shlex.quote(str(folder))} branch --all",
        ) from error
    if not fork.ok("cat-file", "-e", f"{onto}:vllm/__init__.py"):
        raise OverlayError(
            f"{target.onto} of {folder} is not a vLLM tree", hint="ONTO names a commit of vLLM"
        )
    return fork, onto


def identity(fork: Git) -> str:
    """The same for all worktrees of one fork, by whatever path."""
    return fork.out("rev-parse", "--path-format=absolute", "--git-common-dir")


def refuse_branch(fork: Git, target: Target, *, dry_run: bool) -> None:
    """Raise where the branch cannot be made, before there is any work to do."""
    if not fork.ok("check-ref-format", "--branch", target.branch):
        raise OverlayError(f"{target.branch!r} is no name for a branch", hint="BRANCH=other-name")
    parts = target.branch.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    refs = fork.lines("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
    clash = [ref for ref in refs if ref in above or ref.startswith(f"{target.branch}/")]
    if clash:
        raise OverlayError(
            f"cannot make branch {target.branch} in {fork.root}: it has a branch {clash[0]}",
            hint="name another: BRANCH=other-name",
        )
    objects = fork.out("rev-parse", "--path-format=absolute", "--git-path", "objects")
    if not dry_run and not os.access(objects, os.W_OK):
        raise OverlayError(
            f"cannot write {objects}: the fork is read-only here",
            hint="make it writable for this user, or pick into a clone of it;"
            " DRY_RUN=1 shows what would happen",
        )


def refuse_other(fork: Git, target: Target, tip: str) -> bool:
    """Whether the branch is there as `tip`. Raises where it is there and is another."""
    if not fork.ok("show-ref", "--verify", "--quiet", target.ref):
        return False
    found = fork.out("rev-parse", target.ref)
    if found != tip:
        at = f"git -C {shlex.quote(str(fork.root))}"
        name = shlex.quote(target.branch)
        old = shlex.quote(f"{target.branch}-old")
        raise OverlayError(
            f"the fork has a branch {target.branch} already, at {found[:12]}",
            hint=f"name another: BRANCH=…, or put it aside: {at} branch -m {name} {old}",
        )
    return True


def since_pin(fork: Git, pin: Pin, onto: str) -> tuple[str, ...]:
    """Arguments of `git log` for what `onto` has and the pinned release has not."""
    if fork.ok("cat-file", "-e", f"{pin.commit}^{{commit}}"):
        bases = fork.lines("merge-base", pin.commit, onto) if fork.ok(
            "merge-base", pin.commit, onto) else []  # fmt: skip
        if bases:
            return (f"{bases[0]}..{onto}",)
    # Without common history, as in a fork that began with an archive: what may be of the series
    # was made in the months around the release at the earliest.
    start = datetime.date.fromisoformat(pin.released) - datetime.timedelta(days=120)
    return (f"--since={start}T00:00:00Z", onto)


def branch(git: Git, fork: Git, target: Target, tip: str, onto: str) -> bool:
    """Make the branch in the fork. False where it is there, and is the same."""
    if refuse_other(fork, target, tip):
        return False
    try:
        _deliver(git, fork, tip, onto)
        # The zeros: only where nobody made it in the meantime.
        fork.raw("update-ref", "-m", "pick", target.ref, tip, "0" * 40)
    except GitError as error:
        said = error.stderr.strip()
        hint = error.hint or "name another branch: BRANCH=…"
        if "No space left" in said:
            hint = f"free some disk space under {fork.root}, then run this again"
        elif re.search("Permission denied|Read-only|insufficient permission", said):
            hint = "make the fork writable for this user"
        raise OverlayError(
            f"cannot make branch {target.branch} in {fork.root}: {said}", hint=hint
        ) from error
    return True


def _deliver(git: Git, fork: Git, tip: str, onto: str) -> None:
    """Give the fork, which has `onto`, every object of `tip` that it may lack."""
    # Written by hand in place of a fetch: that would look at refs, settings and shallow limits.
    pack = git.raw(
        "pack-objects", "--revs", "--stdout", "--quiet", stdin=f"{tip}\n^{onto}\n".encode()
    )
    fork.raw("index-pack", "--stdin", stdin=pack)
