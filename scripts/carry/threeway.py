"""Carry commits 3-way onto another commit, in a repository apart that borrows objects.

Nothing of the repository that they are for takes part: not its checkout, its index, its settings,
its hooks, its attributes. It gets objects and one new ref, when all is done.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from scripts.carry import made, versions
from scripts.carry.versions import Claim, Held
from scripts.core.git import IDENTITY, Git, GitError
from scripts.series import mails

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
_WIDTH = 100  # columns of what a person reads

Outcome = Literal["clean", "3-way", "already there", "other version", "left out", "conflict",
                  "not tried"]  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One commit to carry: its patch file, the patches it needs, why it is left out if so, and the
    commits of the other history that say they have it, oldest first.
    """

    file: Path
    commit: str
    needs: tuple[str, ...] = ()
    there: str = ""
    claims: tuple[Claim, ...] = ()

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True)
class Row:
    """How carrying one patch ended. `commit` is what it became, `paths` what is in conflict.

    `source` is the commit that was carried: the patch, or what of it fits there.
    """

    name: str
    outcome: Outcome
    details: tuple[str, ...] = ()
    commit: str = ""
    paths: tuple[str, ...] = ()
    source: str = ""


@dataclass
class _There:
    """What the tree holds that is carried onto; found anew where a carried commit changed that."""

    held: Held
    rows: dict[str, Row] = field(default_factory=dict)


def shown(rows: Iterable[Row]) -> list[str]:
    """A table: a line a patch, what there is to say of it below."""
    table = list(rows)
    width = max((len(row.name) for row in table), default=0)
    lines = []
    for row in table:
        lines.append(f"{row.name:<{width}}  {row.outcome}")
        lines += [line for detail in row.details for line in wrapped(detail)]
    return lines


def wrapped(detail: str) -> list[str]:
    """Lines of a detail, indented. A patch may conflict in dozens of files."""
    lines = []
    for text in detail.split("\n"):
        body = text.lstrip()
        first = "  " + text[: len(text) - len(body)]
        lines += textwrap.wrap(
            body, _WIDTH, initial_indent=first, subsequent_indent="      ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines


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
    limits = Path(lender.out("rev-parse", "--path-format=absolute", "--git-path", "shallow"))
    if limits.is_file():
        _add_lines(git.path("shallow"), limits.read_text().split())


def _add_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def carry(git: Git, items: Sequence[Item]) -> list[Row]:
    """Carry each item onto HEAD where the tree lacks it; what conflicts is left out.

    The rows tell of every item. A patch is not tried without one that it needs.
    """
    files = [item.file for item in items]
    there = _There(versions.held(git, git.out("rev-parse", "HEAD"), files))
    for at, item in enumerate(items):
        before = git.out("rev-parse", "HEAD")
        row = _row(git, item, there)
        there.rows[item.name] = row
        if git.out("rev-parse", "HEAD") != (row.commit or before):
            git.raw("reset", "--quiet", "--hard", row.commit or before)
        if row.outcome == "3-way" and row.source != item.commit:  # it may take away, too
            there.held = versions.held(git, row.commit, files[at + 1 :])
    return list(there.rows.values())


_LEFT_OUT = ("conflict", "not tried")


def _row(git: Git, item: Item, there: _There) -> Row:
    missing = [n for n in item.needs if n in there.rows and there.rows[n].outcome in _LEFT_OUT]
    if item.there:
        return Row(item.name, "already there", (item.there,))
    if missing:
        said = f"needs {numbers(missing)}, which is not carried"
        return Row(item.name, "not tried", (said,), source=item.commit)
    own = tuple(claim for claim in item.claims if claim.version)
    if item.name in there.held.names and not versions.left_more(git, own, there.held):
        said = own[-1].shown if own else "its changes are all in the tree"
        return Row(item.name, "already there", (said,))
    return _another(git, item, own, there) if own else _pick(git, item, item.commit, there)


def _another(git: Git, item: Item, own: tuple[Claim, ...], there: _There) -> Row:
    """The history has versions of the patch that the tree has not, or not as they were."""
    onto, last = git.out("rev-parse", "HEAD"), own[-1].shown
    found = versions.version(git, onto, item.commit, own)
    if found.state == "later":
        return Row(item.name, "other version", (f"a later one of the same patch: {last}",))
    if found.state == "other":
        row = _pick(git, replace(item, claims=()), found.commit, there)
        said = f"another version is there, {last}; this makes it ours"
        return replace(row, details=(said, *row.details))
    row = _pick(git, item, item.commit, there)
    if found.state == "same" and row.outcome == "conflict":
        said = f"in a form of its own: {last}"
        return Row(item.name, "other version", (said,))
    return row


def _pick(git: Git, item: Item, commit: str, there: _There) -> Row:
    """Carry `commit`, without its hunks on files that are not there."""
    onto = git.out("rev-parse", "HEAD")
    clean = commit == item.commit and git.ok(
        "apply", "--cached", "--check", "--whitespace=nowarn", str(item.file)
    )
    paths, gone = _try(git, commit)
    details = list(_claimed(item))
    left = _left(git, item, commit, gone) if gone else ""
    if gone:
        commit = _without(git, commit, gone)
        details.append(left)
        paths, _ = _try(git, commit)
    row = Row(item.name, "clean" if clean else "3-way", tuple(details), source=commit)
    if paths and item.name in there.held.nearly and versions.whole(git, onto, commit):
        return Row(item.name, "already there", ("its changes are all in the tree, near others",))
    if paths:
        return replace(row, outcome="conflict", paths=paths)
    head = git.out("rev-parse", "HEAD")
    if head != onto:
        return replace(row, commit=head)
    if gone:
        return Row(item.name, "left out", (left, "the rest is in the tree"))
    return Row(item.name, "already there", ("its changes are all in the tree",))


def _claimed(item: Item) -> list[str]:
    return [f"{claim.shown} says that it is there; the tree has not all of it"
            for claim in item.claims[-2:]]  # fmt: skip


def _left(git: Git, item: Item, commit: str, gone: Iterable[str]) -> str:
    diffs = {diff.path: len(diff.hunks) for diff in
             mails.parse(item.name, item.file.read_bytes()).diffs}  # fmt: skip
    before = _renamed(git, commit)
    gone = sorted(before.get(path, path) for path in gone)
    count = sum(diffs.get(path, 0) for path in gone)
    hunks = f"{count} hunk{'s' * (count != 1)}"
    # It may never have been there, as in an older release.
    deleted = git.lines("log", "-1", "--format=%h", "--diff-filter=D", "HEAD", "--", *gone)
    where = "deleted in the fork" if deleted else "not there"
    return f"{where}, {hunks} left out: {', '.join(gone)}"


def _try(git: Git, commit: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Cherry-pick onto HEAD. The paths in conflict, and of these those that HEAD lacks."""
    who, _ = made.said(git, commit)
    dated = Git(git.root, {**git.env, "GIT_COMMITTER_DATE": who["GIT_COMMITTER_DATE"]})
    try:
        dated.raw("cherry-pick", commit)
    except GitError:
        if not in_session(git):
            raise
        stages: dict[str, set[str]] = {}
        for entry in git.out("ls-files", "--unmerged", "-z").split("\0"):
            head, _, path = entry.partition("\t")
            if path:
                stages.setdefault(path, set()).add(head.split()[2])
        git.raw("cherry-pick", "--abort")
        # Of a file that both sides had, only base and theirs are left.
        gone = frozenset(path for path, found in stages.items() if found == {"1", "3"})
        return tuple(sorted(stages)), gone
    return (), frozenset()


def fitted(git: Git, base: str, item: Item, row: Row) -> Row:
    """The row of an item that was not tried, less its hunks on files of `base` that HEAD lacks."""
    touched = set(git.lines("diff", "--name-only", "--no-renames", f"{item.commit}^", item.commit))
    away = git.lines("diff", "--name-only", "-M", "--diff-filter=D", base, "HEAD")
    gone = sorted(touched & set(away))
    if not gone:
        return row
    commit = _without(git, item.commit, gone)
    empty = made.tree(git, commit) == made.tree(git, f"{item.commit}^")
    details = (*row.details, _left(git, item, item.commit, gone))
    return replace(row, details=details, source="" if empty else commit)


def _without(git: Git, commit: str, gone: Iterable[str]) -> str:
    """`commit` less what it does to these files of its parent, or to those it renames to them."""
    apart = Git(git.root, {**git.env, "GIT_INDEX_FILE": str(git.path("index.without"))})
    apart.raw("read-tree", commit)
    before = _renamed(git, commit)
    for path in gone:
        old = before.get(path, path)
        apart.raw("update-index", "--force-remove", "--", path)
        entry = git.out("ls-tree", "-z", f"{commit}^", "--", old).rstrip("\0")
        if entry:
            mode, _, blob = entry.partition("\t")[0].split()
            apart.raw("update-index", "--add", "--cacheinfo", f"{mode},{blob},{old}")
    return made.commit(git, apart.out("write-tree"), f"{commit}^", commit)


def _renamed(git: Git, commit: str) -> dict[str, str]:
    """New name → old name of each file that `commit` renames."""
    moved = git.out("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status",
                    f"{commit}^", commit).split("\0")  # fmt: skip
    return dict(zip(moved[2::3], moved[1::3], strict=False))


def in_session(git: Git) -> bool:
    """Whether a cherry-pick waits for a person."""
    one = git.ok("rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD")
    return one or git.path("sequencer").exists()


def numbers(names: Iterable[str]) -> str:
    return ", ".join(name[:4] for name in names)
