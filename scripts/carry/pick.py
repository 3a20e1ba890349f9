"""Put the series as commits on a new branch of an internal fork, and touch nothing else of it."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.carry import history, threeway
from scripts.carry.threeway import Item, Row
from scripts.core.errors import Conflict, OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout
from scripts.release import index
from scripts.release.pin import Pin
from scripts.series import mails, stack
from scripts.series.mails import Patch

_X = "-x"  # name the commit that each one came from
_TREE_BYTES = 1 << 29


@dataclass(frozen=True)
class Target:
    """What `pick` is asked for. `numbers` is a part of the series like `1,3-4`, empty for all."""

    fork: str
    onto: str
    branch: str
    numbers: str = ""


@dataclass(frozen=True)
class Picked:
    """The outcome of `pick`. `tip` is empty where the fork has it all already, or in a dry run.

    `kept` is where a person goes on after a conflict, with `steps` as what to type.
    """

    rows: tuple[Row, ...]
    onto: str
    tip: str = ""
    new: bool = False
    kept: Path | None = None
    steps: str = ""


def default_branch(pin: Pin) -> str:
    return f"picked/{pin.tag}"


def pick(
    layout: Layout, pin: Pin, patches: tuple[Patch, ...], target: Target, *, dry_run: bool
) -> Picked:
    """Carry the series onto `target.onto`; the fork's new branch appears when all is done.

    A conflict leaves the fork as it was, and the work in `Picked.kept`, but in a dry run.
    """
    fork, onto = _opened(target)
    _refuse_branch(fork, target, dry_run=dry_run)
    kept = layout.kept / f"pick-{target.branch.replace('/', '-')}"
    again = f"make pick FORK={shlex.quote(target.fork)} ONTO={onto[:12]} BRANCH={target.branch}"
    if kept.exists() and not dry_run:
        return _finish(layout, fork, onto, target, kept, again)
    items, notes = _items(layout, pin, patches, target)
    with _apart(layout, fork, onto) as git:
        known = _known(git, fork, pin, onto, patches, items)
        items = tuple(replace(item, there=known.get(item.name, "")) for item in items)
        rows = threeway.carry(git, items, _X)
        said = tuple(_said(git, pin, fork, onto, row, notes) for row in rows)
        if any(row.outcome == "conflict" for row in rows):
            if dry_run:
                return Picked(said, onto)
            _refuse_other(fork, target, "")
            threeway.stop_at_conflict(git, items, rows, _X)
            kept.parent.mkdir(exist_ok=True)
            os.rename(git.root, kept)
            return Picked(said, onto, kept=kept, steps=threeway.steps(layout, Git(kept), again))
        tip = git.out("rev-parse", "HEAD")
        if dry_run or tip == onto:
            return Picked(said, onto)
        return Picked(said, onto, tip, _branch(git, fork, target, tip, onto))


def _opened(target: Target) -> tuple[Git, str]:
    """The fork and the full id of the commit to pick onto."""
    if not target.fork or not target.onto:
        raise OverlayError(
            "pick needs a fork and a commit of it",
            hint="make pick FORK=path/to/the/fork ONTO=main",
        )
    folder = Path(target.fork).expanduser().absolute()
    fork = Git(folder)
    if not folder.is_dir() or not fork.ok("rev-parse", "--git-dir"):
        raise OverlayError(f"{folder} is no git repository", hint="FORK names a clone of the fork")
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


def _refuse_branch(fork: Git, target: Target, *, dry_run: bool) -> None:
    if not fork.ok("check-ref-format", "--branch", target.branch):
        raise OverlayError(f"{target.branch!r} is no name for a branch", hint="BRANCH=other-name")
    objects = fork.out("rev-parse", "--path-format=absolute", "--git-path", "objects")
    if not dry_run and not os.access(objects, os.W_OK):
        raise OverlayError(
            f"cannot write {objects}: the fork is read-only here",
            hint="make it writable for this user, or pick into a clone of it;"
            " DRY_RUN=1 shows what would happen",
        )


def _refuse_other(fork: Git, target: Target, tip: str) -> None:
    """Raise where the branch is there and is not `tip`."""
    ref = f"refs/heads/{target.branch}"
    found = fork.out("rev-parse", ref) if fork.ok("show-ref", "--verify", "--quiet", ref) else tip
    if found != tip:
        raise OverlayError(
            f"the fork has a branch {target.branch} already, at {found[:12]}",
            hint=f"name another: BRANCH=…, or put it aside:"
            f" git -C {shlex.quote(str(fork.root))} branch -m {target.branch} {target.branch}-old",
        )


def _items(
    layout: Layout, pin: Pin, patches: tuple[Patch, ...], target: Target
) -> tuple[tuple[Item, ...], dict[str, str]]:
    """What to carry, in order, and what to say of each: its needs, and why it came along."""
    needs = mails.needs(patches)
    asked = mails.chosen(patches, target.numbers)
    needed_by: dict[str, str] = {}
    for name in sorted(asked):
        for need in needs[name]:
            if need not in asked:
                needed_by.setdefault(need, name)
    _, commits = stack.commits(layout, pin, patches)
    items, notes = [], {}
    for patch, commit in zip(patches, commits, strict=True):
        if patch.name not in asked and patch.name not in needed_by:
            continue
        items.append(Item(layout.patches / patch.name, commit, needs[patch.name]))
        said = [f"needs {', '.join(n[:4] for n in needs[patch.name])}"] * bool(needs[patch.name])
        if patch.name in needed_by:
            said.append(f"not asked for, {needed_by[patch.name][:4]} needs it")
        notes[patch.name] = "; ".join(said)
    return tuple(items), notes


@contextmanager
def _apart(layout: Layout, fork: Git, onto: str) -> Iterator[Git]:
    """A repository with `onto` checked out, and the objects of the fork and of the work clone."""
    index.require_space(layout.build, _TREE_BYTES, "a checkout of the fork")
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=layout.build) as folder:
        git = Git(Path(folder) / "vllm")
        git.root.mkdir()
        git.raw("init", "--quiet", "--initial-branch=picked")
        threeway.prepare(git, fork, Git(layout.clone))
        threeway.borrow_shallow(git, fork)
        threeway.check_out_nothing(git)
        try:
            git.raw("reset", "--quiet", "--hard", onto)
            yield git
        except GitError as error:
            if not re.search(r"unable to read|missing|bad object", error.stderr):
                raise
            raise OverlayError(
                f"{fork.root} lacks files of {onto[:12]}: {error.stderr.strip()}",
                hint="a clone with --filter gets them by: git -C"
                f" {shlex.quote(str(fork.root))} fetch --refetch --no-filter",
            ) from error


def _known(
    git: Git, fork: Git, pin: Pin, onto: str, patches: tuple[Patch, ...], items: tuple[Item, ...]
) -> dict[str, str]:
    """Patch name → the fork's commit that has it already."""
    chosen = tuple(p for p in patches if p.name in {item.name for item in items})
    ids = history.patch_ids(git, tuple(item.commit for item in items))
    ours = dict(zip((item.name for item in items), ids, strict=True))
    span = _since_pin(fork, pin, onto)
    return history.by_message(git, span, chosen) | history.by_change(git, span, chosen, ours)


def _since_pin(fork: Git, pin: Pin, onto: str) -> tuple[str, ...]:
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


def _said(git: Git, pin: Pin, fork: Git, onto: str, row: Row, notes: dict[str, str]) -> Row:
    """The row with what a person wants to know of it."""
    detail = [row.detail] if row.detail else []
    if row.outcome == "conflict":
        for path in row.paths:
            log = git.lines("log", "-3", "--format=%h %s", *_since_pin(fork, pin, onto), "--", path)
            theirs = "; ".join(log) or "the fork's own history"
            detail.append(f"{path}: the fork has {theirs}")
    if notes[row.name]:
        detail.append(notes[row.name])
    return replace(row, detail="; ".join(detail))


def _branch(git: Git, fork: Git, target: Target, tip: str, onto: str) -> bool:
    """Make the branch in the fork. False where it is there, and is the same."""
    _refuse_other(fork, target, tip)
    ref = f"refs/heads/{target.branch}"
    if fork.ok("show-ref", "--verify", "--quiet", ref):
        return False
    try:
        threeway.deliver(git, fork, tip, onto)
        # The zeros: only where nobody made it in the meantime.
        fork.raw("update-ref", "-m", "pick", ref, tip, "0" * 40)
    except GitError as error:
        raise OverlayError(
            f"cannot make branch {target.branch} in {fork.root}: {error.stderr.strip()}",
            hint="make the fork writable for this user, or name another branch: BRANCH=…",
        ) from error
    return True


def _finish(layout: Layout, fork: Git, onto: str, target: Target, kept: Path, again: str) -> Picked:
    """Take over what a person made of a pick that had stopped."""
    git = Git(kept)
    if threeway.in_session(git):
        raise Conflict(
            f"a pick as {target.branch} is unfinished in {layout.shown(kept)}",
            hint=threeway.steps(layout, git, again),
        )
    threeway.refuse_unfinished(layout, git, onto, again)
    log = git.lines("log", "--reverse", "--format=%H%x00%s", f"{onto}..HEAD")
    rows = tuple(Row(subject, "3-way", commit=commit) for commit, _, subject in
                 (line.partition("\0") for line in log))  # fmt: skip
    tip = git.out("rev-parse", "HEAD")
    new = tip != onto and _branch(git, fork, target, tip, onto)
    shutil.rmtree(kept)
    return Picked(rows, onto, "" if tip == onto else tip, new)
