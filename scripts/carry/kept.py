"""Work that waits for a person after a conflict: left in `build/kept`, taken over, never lost."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from scripts.carry import threeway
from scripts.carry.threeway import Item, Row
from scripts.core.errors import Conflict, OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout, move_folder
from scripts.series import clone, mails, written


def stop_at_conflict(git: Git, items: Sequence[Item], rows: Sequence[Row]) -> list[Row]:
    """Leave the first conflict, and all that comes after it, in git's own session for a person.

    Returns the rows, with what was left out of those that were not tried.
    """
    at = next(n for n, row in enumerate(rows) if row.outcome == "conflict")
    after = next((row.commit for row in rows[at:] if row.commit), "")
    if after:  # what was carried in spite of the conflict comes after it again
        git.raw("reset", "--quiet", "--hard", f"{after}~1")
    git.raw("sparse-checkout", "disable")
    told, todo = list(rows), []
    for n, item in list(enumerate(items))[at:]:
        if rows[n].outcome == "not tried":
            told[n] = threeway.fitted(git, f"{items[0].commit}^", item, rows[n])
        if told[n].source and told[n].outcome in ("conflict", "not tried", "clean", "3-way"):
            todo.append(told[n].source)
    git.ok("cherry-pick", *todo)
    return told


def park(layout: Layout, git: Git, name: str, again: str, **marks: str) -> Path:
    """Move the repository of a stopped run to `build/kept`; `again` finishes it."""
    for key, value in {"again": again, **marks}.items():
        git.raw("config", f"overlay.{key}", value)
    place = layout.kept / name
    if place.exists():
        shown = layout.shown(place)
        raise OverlayError(
            f"{shown} is in the way", hint=f"look at it, then mv {shown} {shown}.old"
        )
    move_folder(git.root, place)
    return place


def waiting(layout: Layout) -> dict[Path, dict[str, str]]:
    """What waits in `build/kept`, with the marks that `park` gave it."""
    found: dict[Path, dict[str, str]] = {}
    for place in sorted(layout.kept.iterdir()) if layout.kept.is_dir() else []:
        if (place / ".git").exists() and not place.name.startswith(SCRATCH):
            try:
                lines = Git(place).lines("config", "--local", "--list")
            except GitError:  # a repository no more; it is named all the same
                lines = []
            pairs = (line.partition("=") for line in lines if line.startswith("overlay."))
            found[place] = {key.removeprefix("overlay."): value for key, _, value in pairs}
    return found


def steps(layout: Layout, git: Git, again: str) -> str:
    """How a person goes on with a conflict in `git`, or drops it."""
    at = f"git -C {layout.shown(git.root)}"
    return (
        f"mend the files that `{at} status` lists; {at} add --update;"
        f" {at} cherry-pick --continue (or --skip to leave that patch out); {again}\n"
        f"      or drop it all: rm -rf {layout.shown(git.root)}"
    )


def refuse_unfinished(layout: Layout, git: Git, onto: str, what: str, again: str) -> None:
    """Raise where the work that a person goes on with is not whole: `again` finishes it."""
    shown = layout.shown(git.root)
    at = f"git -C {shown}"
    drop = f"or drop it: rm -rf {shown}"
    session = clone.session(git)
    if session == "cherry-pick":
        raise Conflict(f"{what} is unfinished in {shown}", hint=steps(layout, git, again))
    if session:
        raise Conflict(f"an unfinished git {session} is open in {shown}",
                       hint=f"{clone.way_out(session, at)}; then {again}")  # fmt: skip
    if git.lines("status", "--porcelain", "--untracked-files=no"):
        raise OverlayError(
            f"{shown} has edits that are not committed",
            hint=f"commit them there, then {again}; {drop}",
        )
    strangers = clone.strangers(git)
    if strangers:
        files = shlex.join(strangers)
        raise OverlayError(
            f"{shown} has files that no commit has: {', '.join(strangers)}",
            hint=f"{at} add {files}; {at} commit --amend --no-edit; {again}; or move them away",
        )
    if not git.ok("merge-base", "--is-ancestor", onto, "HEAD"):
        raise OverlayError(
            f"{shown} was begun on another commit than {onto[:12]}",
            hint=f"name the commit that it was begun on; {drop}",
        )
    _refuse_markers(git, onto, shown, again)


def _refuse_markers(git: Git, onto: str, shown: str, again: str) -> None:
    tip = git.out("rev-parse", "HEAD")
    found = []
    for commit in git.lines("rev-list", "--reverse", "--no-merges", f"{onto}..{tip}"):
        for raw in written.exported(git, f"{commit}~1", commit).values():
            found += [
                (commit, place) for place in mails.unfinished(mails.parse("0000-.patch", raw))
            ]
    if found:
        at = f"git -C {shown}"
        fixups = "; ".join(f"{at} commit --all --fixup {commit[:12]}" for commit in
                           sorted({commit for commit, _ in found})[:1])  # fmt: skip
        squash = f"{at} -c sequence.editor=true rebase --interactive --autosquash {onto[:12]}"
        raise OverlayError(
            f"{shown} is not mended yet: {'; '.join(place for _, place in found)}",
            hint=f"mend these places; {fixups}; {squash}; {again}",
        )


def dispose(layout: Layout, place: Path) -> Path | None:
    """Take a finished `place` away. What a person has there beside the result is kept: where."""
    git = Git(place)
    ignored = git.lines("ls-files", "--others", "--ignored", "--exclude-standard")
    theirs = [name for name in ignored if not name.endswith(".pyc")]
    refs = git.lines("for-each-ref", "--no-merged=HEAD", "--format=%(refname)")
    theirs += [ref for ref in refs if not ref.startswith("refs/tags/v")]  # a release's, lent
    theirs += git.lines("worktree", "list", "--porcelain")[3:]
    if not theirs:
        gone = place.with_name(f"{SCRATCH}{place.name}")
        shutil.rmtree(gone, ignore_errors=True)  # by a run that was killed
        place.rename(gone)  # at once; what is left half-way would look like work
        shutil.rmtree(gone)
        return None
    aside = layout.removed / place.name
    n = 1
    while aside.exists():
        n += 1
        aside = aside.with_name(f"{place.name}-{n}")
    move_folder(place, aside)
    return aside
