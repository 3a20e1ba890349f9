"""What a history says it has of the series: by change, by title, by pull request, by release.

Words only: whether the tree has it, too, is for the tree to say (`versions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.carry.versions import Claim
from scripts.core.git import Git, GitError
from scripts.core.layout import Layout
from scripts.release.lookup import Wish
from scripts.release.pin import Pin
from scripts.series.mails import Patch
from scripts.series.written import DIFF

_PLAIN = ("--no-show-signature", "--no-mailmap", "--no-color", "--no-decorate")
_PATCH = ("--patch", "--no-renames", "--no-textconv", "--no-ext-diff", *DIFF)
_MERGED = re.compile(r"\(#(\d+)\)$")  # as GitHub ends the title of a squash merge
_PULL = re.compile(r"^Upstream-PR: https://github\.com/vllm-project/vllm/pull/(\d+)$", re.MULTILINE)
_BACKPORT = re.compile(r"backport (v[\d.]+)((?:, #\d+ v[\d.]+)*)")


@dataclass(frozen=True)
class Ours:
    """A patch as it is here: its commit, its patch id."""

    commit: str = ""
    change: str = ""


def source(commit: str) -> str:
    """The line that names the commit which one was carried from, as `cherry-pick -x` writes it."""
    return f"(cherry picked from commit {commit})"


@dataclass(frozen=True)
class _Commit:
    id: str
    subject: str
    body: str

    @property
    def shown(self) -> str:
        return f"{self.id[:12]} {self.subject}"

    @property
    def pulls(self) -> set[str]:
        """The pull requests that stand in its trailers or end its title: `… (#N)`."""
        return {*_MERGED.findall(self.subject), *_PULL.findall(self.body)}


def claims(
    git: Git, span: tuple[str, ...], patches: tuple[Patch, ...], ours: Mapping[str, Ours]
) -> dict[str, tuple[Claim, ...]]:
    """Patch name → the commits within `span` (arguments of `git log`) that say they have it, the
    oldest first. `ours` is patch name → what it is here.
    """
    commits = list(reversed(_commits(git, span)))
    paths = sorted({diff.path for patch in patches for diff in patch.diffs})
    log = git.raw("log", *_PLAIN, *_PATCH, "--no-merges", "--full-history",
                  "--format=commit %H", *span, "--", *paths)  # fmt: skip
    ids = _ids(git, log)
    return {
        patch.name: tuple(claim for commit in commits
                          if (claim := _claim(commit, patch, ids.get(commit.id), ours[patch.name])))
        for patch in patches
    }  # fmt: skip


def _claim(commit: _Commit, patch: Patch, change: str | None, ours: Ours) -> Claim | None:
    if change and change == ours.change:
        return Claim(commit.id, f"{commit.shown} (same change)", version=True, same=True)
    if ours.commit and f"\n{source(ours.commit)}" in commit.body:
        return Claim(commit.id, f"{commit.shown} (made from it)", version=True, same=True)
    if commit.subject == patch.subject and "\nUpstream-Status: " in f"\n{commit.body}":
        said = f"{commit.shown} (same title, our trailers)"
        return Claim(commit.id, said, version=True)
    found = [number for number in pull_requests(patch) if number in commit.pulls]
    said = f"{commit.shown} (pull request {', '.join(found)})"
    return Claim(commit.id, said) if found else None


def pull_requests(patch: Patch) -> list[str]:
    """The numbers of the pull requests that a patch is a backport of."""
    if any(status.startswith("internal") for status in patch.values("Upstream-Status")):
        return []  # what it names is related, not the same
    return [url.rpartition("/")[2] for url in patch.values("Upstream-PR")]


def releases(patch: Patch) -> dict[str, str]:
    """Pull request of a backport → the first release that has it."""
    for status in patch.values("Upstream-Status"):
        found = _BACKPORT.fullmatch(status)
        if found:
            first = str(found[1])
            later = dict(re.findall(r"#(\d+) (v[\d.]+)", found[2]))
            return {pull: str(later.get(pull, first)) for pull in pull_requests(patch)}
    return {}


def in_tag(patch: Patch, tag: str) -> str:
    """What of the patch the release `tag` has, and what only a later one; empty without trailers.

    Such as `v0.30.0 has #1, first in v0.29.0; #2 is first in v0.31.0`.
    """
    found = releases(patch)
    has = {pull: since for pull, since in found.items() if _numbers(since) <= _numbers(tag)}
    if not has:
        return ""
    by_first: dict[str, list[str]] = {}
    for pull, first in has.items():
        by_first.setdefault(first, []).append(f"#{pull}")
    said = [f"{tag} has {', '.join(pulls)}, first in {first}" for first, pulls in by_first.items()]
    said += [f"#{pull} is first in {first}" for pull, first in found.items() if pull not in has]
    return "; ".join(said)


def tag_of(git: Git, onto: str) -> str:
    """The release that a fork's commit stands on: by the version that an sdist brings, or by the
    nearest tag. Empty where neither says it.
    """
    try:
        said = git.out("show", f"{onto}:vllm/_version.py")
    except GitError:
        said = ""
    found = re.search(r"^__version__ = version = '(\d+\.\d+\.\d+)", said, re.MULTILINE)
    if found:
        return f"v{found[1]}"
    try:
        tag = git.out("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", onto)
    except GitError:
        return ""
    named = re.match(r"v\d+\.\d+\.\d+", tag)
    return named[0] if named else ""


def patch_ids(git: Git, commits: tuple[str, ...]) -> list[str]:
    """The patch id of each of these commits, in their order."""
    if not commits:
        return []
    log = git.raw("log", *_PLAIN, *_PATCH, "--no-walk=unsorted", "--format=commit %H", *commits)
    by_commit = _ids(git, log)
    return [by_commit.get(commit, "") for commit in commits]


def _ids(git: Git, log: bytes) -> dict[str, str]:
    """Commit → patch id."""
    lines = git.raw("patch-id", "--stable", stdin=log).decode().split("\n")
    return {commit: key for key, _, commit in (line.partition(" ") for line in lines) if key}


def _commits(git: Git, span: tuple[str, ...]) -> list[_Commit]:
    """Newest first; a merge makes no change of its own."""
    log = git.out("log", *_PLAIN, "--no-merges", "--format=%x00%H%n%s%n%b", *span)
    found = []
    for entry in log.split("\0")[1:]:
        commit, subject, body = (*entry.split("\n", 2), "")[:3]
        found.append(_Commit(commit, subject, body))
    return found


def in_release(
    there: Layout, pin: Pin, new: Pin, patches: tuple[Patch, ...], wish: Wish
) -> tuple[dict[str, str], dict[str, str]]:
    """Patch name → what its trailers say that the release has of it, and what a commit of the
    release's history says.
    """
    found = {patch.name: said for patch in patches if (said := in_tag(patch, new.tag))}
    if wish.kind != "git":  # an sdist has no history
        return found, {}
    folder = Git(there.root / "history")
    folder.root.mkdir()
    folder.raw("init", "--quiet", "--bare")
    # Commits only, none that the old release has.
    options = ("--filter=tree:0", f"--shallow-exclude=refs/tags/{pin.tag}")
    url = str(Path(wish.url).expanduser().absolute()) if Path(wish.url).exists() else wish.url
    try:
        folder.fetch(url or pin.repository, f"refs/tags/{new.tag}", *options)
    except GitError:
        return found, {}
    commits = _commits(folder, ("FETCH_HEAD",))
    return found, {p.name: said for p in patches if (said := _newest(commits, p))}


def _newest(commits: Iterable[_Commit], patch: Patch) -> str:
    for commit in commits:
        claim = _claim(commit, patch, None, Ours())
        if claim:
            return claim.shown
    return ""


def _numbers(tag: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", tag)]
