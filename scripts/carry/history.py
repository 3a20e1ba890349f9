"""What of the series a history has already: by patch id, by pull request, by title."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scripts.core.git import Git, GitError
from scripts.core.layout import Layout
from scripts.release.lookup import Wish
from scripts.release.pin import Pin
from scripts.series.mails import Patch
from scripts.series.stack import DIFF

_PLAIN = ("--no-show-signature", "--no-mailmap", "--no-color", "--no-decorate")
_PATCH = ("--patch", "--no-renames", "--no-textconv", "--no-ext-diff", *DIFF)
_MERGED = re.compile(r"\(#(\d+)\)$")  # as GitHub ends the title of a squash merge
_PULL = re.compile(r"^Upstream-PR: https://github\.com/vllm-project/vllm/pull/(\d+)$", re.MULTILINE)
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{7,40})", re.MULTILINE)


@dataclass(frozen=True)
class _Commit:
    id: str
    subject: str
    body: str

    @property
    def shown(self) -> str:
        return f"{self.id[:12]} {self.subject}"


def by_change(
    git: Git, span: tuple[str, ...], patches: tuple[Patch, ...], ours: dict[str, str]
) -> dict[str, str]:
    """Patch name → the commit within `span` (arguments of `git log`) that makes the same change.

    `ours` is patch name → patch id. Commits that a later one reverts do not count.
    """
    shown = {commit.id: commit.shown for commit in _commits(git, span)}
    paths = sorted({diff.path for patch in patches for diff in patch.diffs})
    log = git.raw("log", *_PLAIN, *_PATCH, "--no-merges", "--format=commit %H", *span, "--", *paths)
    by_id = {key: commit for key, commit in _ids(git, log).items() if commit in shown}
    same = {patch.name: by_id.get(ours[patch.name]) for patch in patches}
    return {name: f"{shown[commit]} (same change)" for name, commit in same.items() if commit}


def by_message(git: Git, span: tuple[str, ...], patches: tuple[Patch, ...]) -> dict[str, str]:
    """The same, by what a commit says: every pull request of the patch, or its title and trailers.

    A pull request stands in an `Upstream-PR` trailer, or ends the title: `… (#N)`.
    """
    commits = _commits(git, span)
    by_pull: dict[str, _Commit] = {}
    by_title: dict[str, _Commit] = {}
    for commit in commits:
        title = _MERGED.search(commit.subject)
        for number in [*([title[1]] if title else []), *_PULL.findall(commit.body)]:
            by_pull.setdefault(number, commit)
        if "\nUpstream-Status: " in f"\n{commit.body}":
            by_title.setdefault(commit.subject, commit)
    found = {}
    for patch in patches:
        pulls = pull_requests(patch)
        if pulls and all(number in by_pull for number in pulls):
            found[patch.name] = f"{by_pull[pulls[0]].shown} (pull request {pulls[0]})"
        elif patch.subject in by_title:
            found[patch.name] = f"{by_title[patch.subject].shown} (same title, our trailers)"
    return found


def pull_requests(patch: Patch) -> list[str]:
    """The numbers of the pull requests that a patch is a backport of."""
    if any(status.startswith("internal") for status in patch.values("Upstream-Status")):
        return []  # what it names is related, not the same
    return [url.rpartition("/")[2] for url in patch.values("Upstream-PR")]


def patch_ids(git: Git, commits: tuple[str, ...]) -> list[str]:
    """The patch id of each of these commits, in their order."""
    if not commits:
        return []
    log = git.raw("log", *_PLAIN, *_PATCH, "--no-walk=unsorted", "--format=commit %H", *commits)
    by_commit = {commit: key for key, commit in _ids(git, log).items()}
    return [by_commit.get(commit, "") for commit in commits]


def _ids(git: Git, log: bytes) -> dict[str, str]:
    """Patch id → commit, the newest where there are several."""
    lines = git.raw("patch-id", "--stable", stdin=log).decode().split("\n")
    return {key: commit for key, _, commit in (line.partition(" ") for line in reversed(lines))
            if key}  # fmt: skip


def _commits(git: Git, span: tuple[str, ...]) -> list[_Commit]:
    """Newest first, without those that a later one reverts."""
    log = git.out("log", *_PLAIN, "--format=%x00%H%n%s%n%b", *span)
    reverted: set[str] = set()
    found = []
    for entry in log.split("\0")[1:]:
        commit, subject, body = (*entry.split("\n", 2), "")[:3]
        if any(commit.startswith(start) for start in reverted):
            continue
        reverted |= set(_REVERTS.findall(body))
        found.append(_Commit(commit, subject, body))
    return found


def in_release(
    there: Layout, pin: Pin, new: Pin, patches: tuple[Patch, ...], wish: Wish
) -> dict[str, str]:
    """Patch name → how we know that the release has its pull request."""
    found = {}
    for patch in patches:
        for status in patch.values("Upstream-Status"):
            since = re.fullmatch(r"backport (v\d+\.\d+\.\d+)", status)
            if since and _numbers(since[1]) <= _numbers(new.tag):
                found[patch.name] = f"its Upstream-Status is {status}"
    if wish.kind == "git":  # an sdist has no history
        folder = Git(there.root / "history")
        folder.root.mkdir()
        folder.raw("init", "--quiet", "--bare")
        # Commits only, none that the old release has.
        options = ("--filter=tree:0", f"--shallow-exclude=refs/tags/{pin.tag}")
        url = str(Path(wish.url).expanduser().absolute()) if Path(wish.url).exists() else wish.url
        try:
            folder.fetch(url or pin.repository, f"refs/tags/{new.tag}", *options)
        except GitError:
            return found
        found |= by_message(folder, ("FETCH_HEAD",), patches)
    return found


def _numbers(tag: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", tag)]
