"""The state of the work clone, read from git: commits on the overlay branch, edits, sessions."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import IDENTITY, Git, lock_hint
from scripts.core.layout import Layout
from scripts.release import source
from scripts.release.pin import Pin

_COMMIT = "%m%x00%H%x00%P%x00%T%x00%ce%x00%ct %at%x00%s"
# What git keeps for the length of a session; the first that is there, for a rebase picks, too.
_SESSIONS = {
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "rebase-merge": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "MERGE_HEAD": "merge",
    "BISECT_LOG": "bisect",
}
_UNMERGED = ("DD", "AU", "UD", "UA", "DU", "AA", "UU")


@dataclass(frozen=True)
class Commit:
    """A commit on the overlay branch; `ours` where `apply` made it."""

    id: str
    subject: str
    ours: bool


@dataclass(frozen=True)
class State:
    """What the work clone holds. `edits` and `strangers` are tracked edits and untracked files.

    `session` is the git command that a person has begun and not ended, empty where there is none;
    `conflicts` are files of a merge that nobody mended, `rejects` hunks that found no place;
    `lock` is the lock of git's index, where one is held or was left by a git that was killed.
    """

    base: str
    head: str
    on_branch: bool
    tip: str | None
    commits: tuple[Commit, ...]
    edits: tuple[str, ...]
    strangers: tuple[str, ...]
    session: str
    conflicts: tuple[str, ...]
    rejects: tuple[str, ...]
    lock: str


def state(layout: Layout, pin: Pin) -> State:
    """Read the work clone's state from git; nothing is stored elsewhere."""
    base = source.base(layout, pin)
    git = Git(layout.clone)
    ref = f"refs/heads/{pin.branch}"
    # Begins with a star where HEAD is on it.
    branch = git.out("for-each-ref", "--format=%(HEAD)%(objectname)", ref)
    tip = branch[1:] or None
    entries = git.out("status", "--porcelain", "-z", "--no-renames").split("\0")
    return State(
        base=base,
        head=git.out("rev-parse", "HEAD"),
        on_branch=branch.startswith("*"),
        tip=tip,
        commits=_commits(git, pin, base, tip) if tip else (),
        edits=tuple(sorted(e[3:] for e in entries if e and not e.startswith("??"))),
        strangers=tuple(sorted(e[3:] for e in entries if e.startswith("??"))),
        session=session(git),
        conflicts=tuple(sorted(e[3:] for e in entries if e[:2] in _UNMERGED)),
        rejects=rejects(git),
        lock=str(lock) if (lock := git.path("index.lock")).exists() else "",
    )


def session(git: Git) -> str:
    """The git command that a person has begun there and not ended, empty where there is none."""
    for path, command in _SESSIONS.items():
        if git.path(path).exists():
            return command
    todo = git.path("sequencer/todo")  # between two of several, as after `git commit`
    if todo.is_file():
        return "revert" if todo.read_text().startswith("revert ") else "cherry-pick"
    return ""


def way_out(command: str, at: str) -> str:
    """What to type to end the session of `command`; `at` is git with the place."""
    if command == "bisect":
        return f"end it: {at} bisect reset"
    return (
        f"finish it: mend what `{at} status` lists, {at} add --update, {at} {command} --continue;"
        f" or drop it: {at} {command} --abort"
    )


def strangers(git: Git) -> tuple[str, ...]:
    """Files that git does not track, and rejected hunks, also where .gitignore names them."""
    listed = git.out("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return tuple(sorted({path for path in listed if path} | set(rejects(git))))


def rejects(git: Git) -> tuple[str, ...]:
    """What `git apply --reject` left of hunks that found no place."""
    return tuple(sorted(p for p in git.out("ls-files", "--others", "-z", "--", "*.rej").split("\0")
                        if p))  # fmt: skip


def _commits(git: Git, pin: Pin, base: str, tip: str) -> tuple[Commit, ...]:
    clone = shlex.quote(str(git.root))
    # The base is among the commits that the span ends at, where the branch stands on it.
    log = git.lines("log", "--reverse", "--boundary", f"--format={_COMMIT}", f"{base}..{tip}")
    entries = [line.split("\0") for line in log]
    before = next((tree for _, commit, _, tree, *_ in entries if commit == base), "")
    if tip != base and not before:
        raise OverlayError(
            f"branch {pin.branch} does not stand on the pin",
            hint=f"move it away: git -C {clone} branch -m {pin.branch} old-overlay",
        )
    found = []
    for mark, commit, parents, tree, committer, times, subject in entries:
        if mark == "-":
            continue
        if len(parents.split()) != 1:
            raise OverlayError(
                f"{commit[:12]} on {pin.branch} is a merge; a series is a line of commits",
                hint=f"git -C {clone} rebase {base[:12]} {pin.branch}",
            )
        if tree == before:
            raise OverlayError(
                f"{commit[:12]} on {pin.branch} changes nothing; no patch file can hold it",
                hint=f"git -C {clone} rebase --onto {commit[:12]}~1 {commit[:12]} {pin.branch}",
            )
        before = tree
        # A commit that a person makes or amends has their name or a committer date of its own.
        ours = committer == IDENTITY[1] and len(set(times.split())) == 1
        found.append(Commit(commit, subject, ours))
    return tuple(found)


def refuse_unsafe(layout: Layout, pin: Pin, now: State) -> None:
    """Raise where moving the branch, or writing patches from it, would lose somebody's work."""
    clone = layout.shown(layout.clone)
    if now.lock:  # first: a checkout that was killed left edits, too, and git can do nothing yet
        raise OverlayError(f"git's index in {clone} is locked", hint=lock_hint(now.lock))
    if now.session:
        raise OverlayError(
            f"an unfinished git {now.session} is open in {clone}",
            hint=way_out(now.session, f"git -C {clone}"),
        )
    if now.conflicts:
        raise OverlayError(
            f"{clone} has files in conflict: {', '.join(now.conflicts)}",
            hint=f"mend them, then git -C {clone} add --update and commit;"
            f" or give that up: git -C {clone} checkout HEAD -- {shlex.join(now.conflicts)}",
        )
    if now.edits:
        raise OverlayError(
            f"{clone} has local edits: {', '.join(now.edits)}",
            hint=f"commit them (git -C {clone} commit -a) or stash them (git -C {clone} stash)",
        )
    if not now.on_branch and now.head != now.base:
        raise OverlayError(
            f"{clone} stands at {now.head[:12]}, neither at the pin nor on {pin.branch}",
            hint=f"git -C {clone} switch {pin.branch if now.tip else f'--detach {now.base[:12]}'}",
        )


def refuse_elsewhere(layout: Layout, pin: Pin) -> None:
    """An older git moves a branch under the edits of another worktree."""
    git, place = Git(layout.clone), ""
    for line in git.lines("worktree", "list", "--porcelain"):
        place = line.removeprefix("worktree ") if line.startswith("worktree ") else place
        mine = Path(place).resolve() == Path(git.out("rev-parse", "--show-toplevel")).resolve()
        if line == f"branch refs/heads/{pin.branch}" and not mine:
            raise OverlayError(
                f"{pin.branch} is checked out in another worktree, {place}",
                hint=f"git -C {shlex.quote(place)} switch --detach, then run this again",
            )
