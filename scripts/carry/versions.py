"""What of a series a tree holds already: verbatim, or as another version of a patch.

The history only says where to look; the tree decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.carry import made
from scripts.core.git import Git, GitError


@dataclass(frozen=True)
class Claim:
    """A commit of the history that says it has a patch, and how.

    `version` where it is that patch, in this form or in another one; `same` in this form.
    """

    commit: str
    shown: str
    version: bool = False
    same: bool = False


@dataclass(frozen=True)
class Held:
    """The patches whose every line a tree has, and that tree without them.

    `nearly` has those of which it has whole files.
    """

    names: frozenset[str]
    nearly: frozenset[str]
    beneath: str


def held(git: Git, onto: str, files: Iterable[Path]) -> Held:
    """Take the patches `files` away from `onto` from the last one on, where each is there whole."""
    apart = Git(git.root, {**git.env, "GIT_INDEX_FILE": str(git.path("index.held"))})
    apart.raw("read-tree", onto)
    names, nearly = set(), set()
    for file in reversed(list(files)):
        try:
            apart.raw("apply", "--cached", "--reverse", "--whitespace=nowarn", str(file))
            names.add(file.name)
        except GitError as error:
            touched = len(re.findall(rb"^diff --git ", file.read_bytes(), re.MULTILINE))
            if len(re.findall(r"^error: .*: (?:patch does not apply|does not exist in index)$",
                              error.stderr, re.MULTILINE)) < touched:  # fmt: skip
                nearly.add(file.name)
    return Held(frozenset(names), frozenset(nearly), apart.out("write-tree"))


def whole(git: Git, onto: str, commit: str) -> bool:
    """Whether `onto` has all of `commit`, with other changes near it: off and on again."""
    without = made.merged(git, onto, "revert", commit)
    if without in ("", made.tree(git, onto)):
        return False
    bare = made.commit(git, without, onto, commit)
    return made.merged(git, bare, "cherry-pick", commit) == made.tree(git, onto)


@dataclass(frozen=True)
class Version:
    """What became of the version that a history has: `gone` from the tree, there in `part`, the
    `same` as the patch, a `later` one, or an `other` that `commit` makes this one. `unclear` where
    a person has to see.
    """

    state: Literal["gone", "part", "same", "later", "other", "unclear"]
    commit: str = ""


def _joined(git: Git, claims: tuple[Claim, ...]) -> str:
    """One commit that makes what these (oldest first) made; empty where that conflicts."""
    first = claims[0].commit
    if not git.ok("rev-parse", "--verify", "--quiet", f"{first}^"):
        return ""
    joined = made.commit(git, made.tree(git, first), f"{first}^", first)
    for later in claims[1:]:  # an update of theirs, or the same once more
        tree = made.merged(git, joined, "cherry-pick", later.commit)
        if not tree:
            return ""
        joined = made.commit(git, tree, f"{first}^", first)
    return joined


def left_more(git: Git, own: tuple[Claim, ...], found: Held) -> bool:
    """Whether versions of a patch that is held left something that this one has not."""
    if not own or any(claim.same for claim in own):
        return False
    joined = _joined(git, own)
    bare = made.commit(git, found.beneath, own[-1].commit, own[-1].commit)
    return bool(joined) and made.merged(git, bare, "revert", joined) not in ("", found.beneath)


def version(git: Git, onto: str, commit: str, claims: tuple[Claim, ...]) -> Version:
    """How the version of the patch `commit` that `claims` (oldest first) made stands in `onto`."""
    first, theirs = claims[0].commit, _joined(git, claims)
    if not theirs:
        return Version("unclear")
    without = made.merged(git, onto, "revert", theirs)
    if without == made.tree(git, onto):
        return Version("gone")
    if without and not whole(git, onto, theirs):
        return Version("part")
    if any(claim.same for claim in claims):
        return Version("same" if claims[-1].same else "later")
    tree = made.merged(git, f"{first}^", "cherry-pick", commit)
    if not tree:
        return Version("unclear")
    if tree == made.tree(git, theirs):
        return Version("same")
    return Version("other", made.commit(git, tree, theirs, commit))
