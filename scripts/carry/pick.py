"""Put the series as commits on a new branch of an internal fork, and touch nothing else of it."""

from __future__ import annotations

import hashlib
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.carry import fork as forks
from scripts.carry import history, kept, made, threeway
from scripts.carry.fork import Target
from scripts.carry.threeway import Item, Row
from scripts.core import git as gits
from scripts.core.errors import OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout
from scripts.release import index
from scripts.release.pin import Pin
from scripts.series import mails, stack
from scripts.series.mails import Patch

_TREE_BYTES = 1 << 29


@dataclass(frozen=True)
class Picked:
    """The outcome of `pick`. `tip` is empty where nothing was carried, or in a dry run.

    `release` is the one that the fork's commit stands on, where it says so. `kept` is where a
    person goes on after a conflict, with `steps` as what to type; `aside` holds what a person left
    there beside the result.
    """

    rows: tuple[Row, ...]
    onto: str
    tip: str = ""
    new: bool = False
    release: str = ""
    kept: Path | None = None
    steps: str = ""
    aside: Path | None = None


@dataclass(frozen=True)
class _Job:
    """One run: where it works, what it carries and onto what."""

    layout: Layout
    pin: Pin
    patches: tuple[Patch, ...]
    target: Target
    fork: Git
    onto: str


def default_branch(pin: Pin) -> str:
    return f"picked/{pin.tag}"


def pick(
    layout: Layout, pin: Pin, patches: tuple[Patch, ...], target: Target, *, dry_run: bool
) -> Picked:
    """Carry the series onto `target.onto`; the fork's new branch appears when all is done.

    A conflict leaves the fork as it was, and the work in `Picked.kept`, but in a dry run.
    """
    fork, onto = forks.opened(target)
    forks.refuse_branch(fork, target, dry_run=dry_run)
    job = _Job(layout, pin, patches, target, fork, onto)
    waits = None if dry_run else _waiting(job)
    with _apart(job) as git:
        items, notes = _items(job, git)
        rows = threeway.carry(git, items)
        if waits:
            return _finish(job, waits, rows)
        tip = git.out("rev-parse", "HEAD")
        release = history.tag_of(git, onto)
        if any(row.outcome == "conflict" for row in rows):
            said = tuple(_said(job, git, row, notes, release) for row in rows)
            if dry_run:
                return Picked(said, onto, release=release)
            forks.refuse_other(fork, target, "")
            return _stop(job, git, items, said, release)
        said = tuple(_said(job, git, row, notes, release) for row in rows)
        if dry_run or tip == onto:
            return Picked(said, onto, release=release)
        new = forks.branch(git, fork, target, tip, onto)
        return Picked(said, onto, tip, new, release)


def _waiting(job: _Job) -> Path | None:
    """Where a person's work on a pick waits: of this branch, or onto this commit."""
    mine = {place: marks for place, marks in kept.waiting(job.layout).items()
            if marks.get("fork") == forks.identity(job.fork)}  # fmt: skip
    named = [place for place, marks in mine.items() if marks["branch"] == job.target.branch]
    same = [place for place, marks in mine.items() if marks["onto"] == job.onto]
    return next(iter(named + same), None)


def _stop(
    job: _Job, git: Git, items: tuple[Item, ...], rows: tuple[Row, ...], release: str
) -> Picked:
    told = kept.stop_at_conflict(git, items, rows)
    identity = forks.identity(job.fork)
    key = hashlib.sha256(f"{identity}\0{job.target.branch}".encode()).hexdigest()[:8]
    name = f"pick-{re.sub(r'[^A-Za-z0-9._]+', '-', job.target.branch)}-{key}"
    again = job.target.again(job.onto)
    marks = {"fork": identity, "branch": job.target.branch, "onto": job.onto}
    place = kept.park(job.layout, git, name, again, **marks)
    steps = kept.steps(job.layout, Git(place), again)
    return Picked(tuple(told), job.onto, release=release, kept=place, steps=steps)


def _items(job: _Job, git: Git) -> tuple[tuple[Item, ...], dict[str, str]]:
    """What to carry, in order, and what to say of each: its needs, and why it came along."""
    patches = job.patches
    needs = mails.needs(patches)
    asked = mails.chosen(patches, job.target.numbers)
    needed_by: dict[str, str] = {}
    for name in sorted(asked):
        for need in needs[name]:
            if need not in asked:
                needed_by.setdefault(need, name)
    _, commits = stack.commits(job.layout, job.pin, patches)
    wanted = [(patch, commit) for patch, commit in zip(patches, commits, strict=True)
              if patch.name in asked or patch.name in needed_by]  # fmt: skip
    ids = history.patch_ids(git, tuple(commit for _, commit in wanted))
    ours = {patch.name: history.Ours(commit, key)
            for (patch, commit), key in zip(wanted, ids, strict=True)}  # fmt: skip
    span = forks.since_pin(job.fork, job.pin, job.onto)
    claims = history.claims(git, span, tuple(patch for patch, _ in wanted), ours)
    items, notes = [], {}
    for patch, commit in wanted:
        named = made.commit(git, made.tree(git, commit), f"{commit}^", commit,
                            history.source(commit))  # fmt: skip
        items.append(Item(job.layout.patches / patch.name, named, needs[patch.name],
                          claims=claims[patch.name]))  # fmt: skip
        said = [f"needs {threeway.numbers(needs[patch.name])}"] * bool(needs[patch.name])
        if patch.name in needed_by:
            said.append(f"not asked for, {needed_by[patch.name][:4]} needs it")
        notes[patch.name] = "; ".join(said)
    return tuple(items), notes


@contextmanager
def _apart(job: _Job) -> Iterator[Git]:
    """A repository with `onto` checked out, and the objects of the fork and of the work clone."""
    layout, fork, onto = job.layout, job.fork, job.onto
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
            at = f"git -C {shlex.quote(str(fork.root))}"
            get = f"{at} fetch --refetch --no-filter"
            if gits.require() < (2, 36):
                get = f"{at} worktree add --detach ../files-of-{onto[:12]} {onto[:12]}"
            raise OverlayError(
                f"{fork.root} lacks files of {onto[:12]}: {error.stderr.strip()}",
                hint=f"a clone with --filter gets them by: {get}",
            ) from error


def _said(job: _Job, git: Git, row: Row, notes: dict[str, str], release: str) -> Row:
    """The row with what a person wants to know of it."""
    patch = next(patch for patch in job.patches if patch.name == row.name)
    details = [*row.details]
    if row.outcome == "conflict":
        details = [*_conflicts(job, git, row, patch), *details]
    upstream = history.in_tag(patch, release) if release else ""
    if upstream and row.outcome != "already there":
        details.append(upstream)
    if notes[row.name] and row.outcome not in ("not tried", "already there"):
        details.append(notes[row.name])
    return replace(row, details=tuple(details))


def _conflicts(job: _Job, git: Git, row: Row, patch: Patch) -> list[str]:
    """Where a patch conflicts, with the fork's commits there."""
    span = forks.since_pin(job.fork, job.pin, job.onto)
    by: dict[str, list[str]] = {}
    for path in row.paths:
        log = git.lines("log", "-3", "--format=%h %s", *span, "--", path)
        by.setdefault("; ".join(log) or "the fork's own history", []).append(path)
    said = [f"{', '.join(paths)}: the fork has {log}" for log, paths in by.items()]
    ours = {diff.path for diff in patch.diffs
            if any(line.endswith(b"\r") for hunk in diff.hunks for line in hunk.lines)}  # fmt: skip
    eol = git.lines("ls-files", "--eol", "--", *row.paths)
    crlf = [line.partition("\t")[2] for line in eol if line.startswith("i/crlf")]
    if set(crlf) - ours:
        said.append("the fork stores CRLF line ends where the release has LF: pick onto a commit"
                    " with LF (git add --renormalize .)")  # fmt: skip
    return said


def _finish(job: _Job, place: Path, rows: list[Row]) -> Picked:
    """Take over what a person made of a pick that had stopped. `rows` are those of a new one."""
    git, again = Git(place), job.target.again(job.onto)
    kept.refuse_unfinished(job.layout, git, job.onto, f"a pick as {job.target.branch}", again)
    log = git.lines("log", "--reverse", "--format=%H%x00%s", f"{job.onto}..HEAD")
    made_of = {subject: commit for commit, _, subject in (line.partition("\0") for line in log)}
    told = []
    for row in rows:
        patch = next(patch for patch in job.patches if patch.name == row.name)
        commit = made_of.pop(patch.subject, "")
        if commit:
            told.append(Row(row.name, "3-way", row.details * (row.outcome != "conflict"), commit))
        elif row.outcome in ("already there", "other version", "left out"):
            told.append(row)
        else:
            told.append(Row(row.name, "left out", ("by hand",)))
    told += [Row(subject, "3-way", ("a commit of yours",), commit)
             for subject, commit in made_of.items()]  # fmt: skip
    tip = git.out("rev-parse", "HEAD")
    new = tip != job.onto and forks.branch(git, job.fork, job.target, tip, job.onto)
    aside = kept.dispose(job.layout, place)
    return Picked(tuple(told), job.onto, "" if tip == job.onto else tip, new, aside=aside)
