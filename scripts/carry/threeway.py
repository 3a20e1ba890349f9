"""Carry commits 3-way onto another commit, in a repository apart that borrows objects.

Nothing of the repository that they are for takes part: not its checkout, its index, its settings,
its hooks, its attributes. It gets objects and one new ref, when all is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.core.errors import OverlayError
from scripts.core.git import IDENTITY, Git, GitError
from scripts.core.layout import Layout

_CONFIG = {
    # A person may go on here after a conflict: with a name, without their hooks and line ends.
    "user.name": IDENTITY[0],
    "user.email": IDENTITY[1],
    "core.hooksPath": "/dev/null",
    "core.autocrlf": "false",
    "commit.gpgSign": "false",
    "core.commentChar": ";",  # a line of a message that starts with `#55448` is no comment
    "advice.detachedHead": "false",
}
# Files of the tree name attributes, too; these come before them. Bytes in, bytes out.
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol !merge\n"

Outcome = Literal["clean", "3-way", "already there", "conflict", "not tried"]


@dataclass(frozen=True)
class Item:
    """One commit to carry: its patch file, the patches it needs, and why it is left out if so."""

    file: Path
    commit: str
    needs: tuple[str, ...] = ()
    there: str = ""

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True)
class Row:
    """How carrying one patch ended. `commit` is what it became, `paths` what is in conflict."""

    name: str
    outcome: Outcome
    detail: str = ""
    commit: str = ""
    paths: tuple[str, ...] = ()


def shown(rows: Iterable[Row]) -> list[str]:
    """A table, a line a patch."""
    table = list(rows)
    width = max((len(row.name) for row in table), default=0)
    return [f"{r.name:<{width}}  {r.outcome:<13}  {r.detail}".rstrip() for r in table]


def prepare(git: Git, *lenders: Git) -> None:
    """Let the fresh repository `git` read the objects of others, and bend no byte of a file."""
    objects = [lender.out("rev-parse", "--path-format=absolute", "--git-path", "objects")
               for lender in lenders]  # fmt: skip
    _add_lines(git.path("objects/info/alternates"), objects)
    git.path("info/attributes").parent.mkdir(exist_ok=True)
    git.path("info/attributes").write_text(_ATTRIBUTES)
    for key, value in _CONFIG.items():
        git.raw("config", key, value)


def check_out_nothing(git: Git) -> None:
    """Leave every file in the index until a person needs it: 6,600 files take their time."""
    git.raw("config", "core.sparseCheckout", "true")
    git.path("info/sparse-checkout").write_text("/.nothing\n")


def borrow_shallow(git: Git, lender: Git) -> None:
    """Know where the history of a shallow lender ends."""
    if lender.path("shallow").is_file():
        _add_lines(git.path("shallow"), lender.path("shallow").read_text().split())


def _add_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def carry(git: Git, items: tuple[Item, ...], *options: str) -> list[Row]:
    """Cherry-pick each item onto HEAD, with these options; what conflicts is left out.

    The rows tell of every item. A patch is not tried without one that it needs.
    """
    rows: dict[str, Row] = {}
    for item in items:
        missing = [n for n in item.needs if n in rows and rows[n].outcome in _LEFT_OUT]
        if item.there:
            rows[item.name] = Row(item.name, "already there", item.there)
        elif missing:
            rows[item.name] = Row(item.name, "not tried", f"needs {', '.join(missing)}")
        else:
            rows[item.name] = _pick(git, item, options)
    return list(rows.values())


_LEFT_OUT = ("conflict", "not tried")


def _pick(git: Git, item: Item, options: tuple[str, ...]) -> Row:
    clean = git.ok("apply", "--cached", "--check", "--whitespace=nowarn", str(item.file))
    # The author's date for the committer, too: the same series gives the same ids anywhere.
    date = git.out("show", "--no-patch", "--date=raw", "--format=%ad", item.commit)
    dated = Git(git.root, {**git.env, "GIT_COMMITTER_DATE": date})
    try:
        dated.raw("cherry-pick", *options, item.commit)
    except GitError:
        if not in_session(git):
            raise
        paths = tuple(git.lines("diff", "--name-only", "--diff-filter=U"))
        git.raw("cherry-pick", "--abort")
        if paths:
            return Row(item.name, "conflict", paths=paths)
        return Row(item.name, "already there", "its changes are all in the tree")
    return Row(item.name, "clean" if clean else "3-way", commit=git.out("rev-parse", "HEAD"))


def in_session(git: Git) -> bool:
    """Whether a cherry-pick waits for a person."""
    one = git.ok("rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD")
    return one or git.path("sequencer").exists()


def stop_at_conflict(git: Git, items: tuple[Item, ...], rows: list[Row], *options: str) -> None:
    """Leave the first conflict, and all that comes after it, in git's own session for a person."""
    at = next(n for n, row in enumerate(rows) if row.outcome == "conflict")
    after = next((row.commit for row in rows[at:] if row.commit), "")
    if after:  # what was carried in spite of the conflict comes after it again
        git.raw("reset", "--quiet", "--hard", f"{after}~1")
    git.raw("sparse-checkout", "disable")
    rest = zip(items[at:], rows[at:], strict=True)
    todo = [item.commit for item, row in rest if row.outcome != "already there"]
    git.ok("cherry-pick", *options, *todo)


def refuse_unfinished(layout: Layout, git: Git, onto: str, again: str) -> None:
    """Raise where the work that a person goes on with is not whole: `again` finishes it."""
    shown = layout.shown(git.root)
    drop = f"or drop it: rm -rf {layout.shown(git.root)}"
    if git.lines("status", "--porcelain", "--untracked-files=no"):
        raise OverlayError(
            f"{shown} has edits that are not committed",
            hint=f"commit them there, then {again}; {drop}",
        )
    if not git.ok("merge-base", "--is-ancestor", onto, "HEAD"):
        raise OverlayError(
            f"{shown} was begun on another commit than {onto[:12]}",
            hint=f"name the commit that it was begun on; {drop}",
        )


def steps(layout: Layout, git: Git, again: str) -> str:
    """How a person goes on with a conflict in `git`, or drops it."""
    at = f"git -C {layout.shown(git.root)}"
    return (
        f"mend the files that `{at} status` lists; {at} add --update;"
        f" {at} cherry-pick --continue (or --skip to leave that patch out); {again}\n"
        f"      or drop it all: rm -rf {layout.shown(git.root)}"
    )


def deliver(git: Git, target: Git, tip: str, onto: str) -> None:
    """Give `target`, which has `onto`, every object of `tip` that it may lack."""
    # Written by hand in place of a fetch: that would look at refs, settings and shallow limits.
    pack = git.raw(
        "pack-objects", "--revs", "--stdout", "--quiet", stdin=f"{tip}\n^{onto}\n".encode()
    )
    target.raw("index-pack", "--stdin", stdin=pack)
