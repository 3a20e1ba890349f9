"""Apply (series → commits) and export (commits → series): exact inverses of each other."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import Conflict, OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout
from scripts.release.pin import Pin
from scripts.series import mails
from scripts.series.clone import State, refuse_elsewhere, refuse_unsafe, state
from scripts.series.mails import Patch
from scripts.series.written import exported, known, remember

# Those of the other direction are in `written`; each keeps bytes or commit ids stable.
_AM = (
    "--committer-date-is-author-date",  # with the fixed committer: same series, same commit ids
    "--keep",  # the subject as it is, as `--keep-subject` wrote it: `[Tags]`, `Re:`, blanks
    "--keep-cr",  # a file with CRLF line ends stays one
    "--no-3way",  # strict: 3-way drops a patch in silence that the base already has
    "--no-scissors",  # a cut line in a message is text
    "--patch-format=mbox",  # never guess
    "--whitespace=nowarn",  # lint speaks of blanks, with the patch's name
)


@dataclass(frozen=True)
class Applied:
    """The outcome of `apply`: the tip, its tree id, and whether anything changed."""

    tip: str
    tree: str
    count: int
    changed: bool


def apply(layout: Layout, pin: Pin, patches: tuple[Patch, ...], *, resolve: bool) -> Applied:
    """Make the overlay branch of the work clone equal to the series, or leave all as it was.

    With `resolve`, a patch that does not apply leaves git's own `am` session open in the work clone
    for a person to continue (`Conflict`); without it nothing changes.
    """
    now = state(layout, pin)
    refuse_unsafe(layout, pin, now)
    git = Git(layout.clone)
    if now.tip and now.on_branch and _canonical(layout, now, patches):
        return _applied(layout, now.base, now.tip, patches, changed=False)
    refuse_unexported(layout, pin, now, patches)
    if resolve:
        move(layout, pin, now.base)
        tip = am(layout, git, now.base, patches, resolve=True)
        return _applied(layout, now.base, tip, patches, changed=True)
    tip = _tip_of(layout, git, now.base, patches)
    move(layout, pin, tip)  # compute first, move last
    changed = tip != now.tip or not now.on_branch
    return _applied(layout, now.base, tip, patches, changed=changed)


def commits(layout: Layout, pin: Pin, patches: tuple[Patch, ...]) -> tuple[str, tuple[str, ...]]:
    """The base, and the commit that `apply` makes of each patch. The work clone stays as it is."""
    now = state(layout, pin)
    git = Git(layout.clone)
    tip = now.tip
    if not tip or not _canonical(layout, now, patches):
        tip = _tip_of(layout, git, now.base, patches)
    return now.base, tuple(git.lines("rev-list", "--reverse", f"{now.base}..{tip}"))


def _canonical(layout: Layout, now: State, patches: tuple[Patch, ...]) -> bool:
    """Whether the overlay branch is the series, with the ids that `apply` gives it."""
    # A commit that a person made keeps their committer; apply gives it the reproducible id.
    ours = all(commit.ours for commit in now.commits)
    return ours and known(layout, now, patches) == {patch.name: patch.raw for patch in patches}


def _applied(
    layout: Layout, base: str, tip: str, patches: tuple[Patch, ...], *, changed: bool
) -> Applied:
    remember(layout, base, tip, {patch.name: patch.raw for patch in patches})
    tree = Git(layout.clone).out("rev-parse", f"{tip}^{{tree}}")
    return Applied(tip, tree, len(patches), changed)


def move(layout: Layout, pin: Pin, commit: str) -> None:
    """Check the overlay branch out at `commit`, unless untracked files stand there."""
    refuse_elsewhere(layout, pin)
    try:
        # Without the flag, git takes a file that .gitignore names for worthless.
        options = ("--quiet", "--no-overwrite-ignore")
        Git(layout.clone).raw("checkout", *options, "-B", pin.branch, commit)
    except GitError as error:
        files = re.findall(r"^\t(.+)$", error.stderr, re.MULTILINE)
        if not files:
            raise
        clone = layout.shown(layout.clone)
        raise OverlayError(
            f"files in {clone} that git does not track are in the way: {', '.join(files)}",
            hint=f"nothing was changed; move them out of {clone}, then make apply",
        ) from error


def refuse_unexported(layout: Layout, pin: Pin, now: State, patches: tuple[Patch, ...]) -> None:
    """Raise where the overlay branch has commits of a person's that no patch file holds."""
    kept = {patch.raw for patch in patches}
    pairs = zip(now.commits, known(layout, now, patches).values(), strict=True)
    lost = [c.subject for c, raw in pairs if not c.ours and raw not in kept]
    if lost:
        clone = layout.shown(layout.clone)
        raise OverlayError(
            f"{pin.branch} has commits that {layout.shown(layout.patches)}/ has not:"
            f" {'; '.join(lost)}",
            hint="make export to keep them, or put them aside:"
            f" git -C {clone} branch -m {pin.branch} my-work"
            f" && git -C {clone} switch --detach {now.base[:12]}",
        )


def _tip_of(layout: Layout, git: Git, base: str, patches: tuple[Patch, ...]) -> str:
    """Apply in a temporary worktree, so that no failure and no kill touches the clone."""
    with worktree(layout, git, base, "--no-checkout") as tree:
        tree.raw("read-tree", base)  # `am` takes from there what it patches; the rest costs seconds
        return am(layout, tree, base, patches)


@contextmanager
def worktree(layout: Layout, git: Git, commit: str, *options: str) -> Iterator[Git]:
    """A temporary worktree of the clone `git` at `commit`."""
    _forget_killed(git)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=layout.build) as folder:
        tree = Path(folder) / "vllm"
        git.raw("worktree", "add", "--quiet", "--detach", *options, str(tree), commit)
        try:
            yield Git(tree)
        finally:
            git.raw("worktree", "remove", "--force", str(tree))


def _forget_killed(git: Git) -> None:
    """Take killed runs off git's list of worktrees; `prune` takes absent ones of the user's too."""
    for line in git.lines("worktree", "list", "--porcelain"):
        path = Path(line.removeprefix("worktree "))
        if path.parent.name.startswith(SCRATCH) and not path.exists():
            git.raw("worktree", "remove", "--force", "--force", str(path))


def am(
    layout: Layout, git: Git, base: str, patches: tuple[Patch, ...], *, resolve: bool = False
) -> str:
    """Apply all patches on `base`, where `git` stands, in one session; returns the new HEAD."""
    if not patches:
        return base
    files = [str(layout.patches / patch.name) for patch in patches]
    try:
        git.raw("am", "--quiet", *_AM, "--", *files)
    except GitError as error:
        done = len(git.lines("rev-list", f"{base}..HEAD"))
        raise _stopped(layout, patches[done], error, resolve=resolve) from error
    # `am` splits a file that holds two mails, and can end well without a commit for each.
    made = len(git.lines("rev-list", f"{base}..HEAD"))
    if made != len(patches):
        raise OverlayError(f"{len(patches)} patch files became {made} commits", hint="make lint")
    return git.out("rev-parse", "HEAD")


_FAILED = re.compile(r"^error: patch failed: (.*):(\d+)$", re.MULTILINE)
_MISSING = re.compile(r"^error: (.*: (?:does not exist|already exists).*)$", re.MULTILINE)


def _stopped(layout: Layout, patch: Patch, error: GitError, *, resolve: bool) -> OverlayError:
    places = [_hunk(patch, path, int(line)) for path, line in _FAILED.findall(error.stderr)]
    places += _MISSING.findall(error.stderr)
    where = "; ".join(places) or error.stderr.strip().split("\n")[0]
    message = f"{patch.name} does not apply: {where}"
    if not resolve:
        return OverlayError(message, hint="nothing was changed; to mend it: make apply RESOLVE=1")
    git = f"git -C {layout.shown(layout.clone)}"
    file = shlex.quote(str(layout.patches / patch.name))
    new = shlex.join(diff.path for diff in patch.diffs if diff.new)
    return Conflict(
        message,
        hint=f"{git} apply --reject {file}; mend what the .rej files hold;"
        f" {git} add --update;{f' {git} add {new};' if new else ''}"
        f" {git} am --continue; make export",
    )


def _hunk(patch: Patch, path: str, line: int) -> str:
    hunks = [h for diff in patch.diffs if diff.path == path for h in diff.hunks]
    header = next((h.header for h in hunks if h.old.start == line), f"at line {line}")
    return f"{path}, hunk {header}"


@dataclass(frozen=True)
class Exported:
    """What `export` did (or would do, with `check`): file names, each sorted."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    total: int


def export(layout: Layout, pin: Pin, *, check: bool) -> Exported:
    """Write the commits of the overlay branch as the series. With `check`, only compare."""
    now = state(layout, pin)
    refuse_unsafe(layout, pin, now)
    if not now.tip or not now.on_branch:
        raise OverlayError(f"branch {pin.branch} is not checked out", hint="make apply")
    new = exported(Git(layout.clone), now.base, now.tip)
    _refuse_unmended(layout, now, new)
    old = {n: (layout.patches / n).read_bytes() for n in mails.names(layout.patches)}
    if old and not new:  # as after `fetch`: nobody means to drop the whole series
        raise OverlayError(
            f"{pin.branch} has no commits; export would remove all {len(old)} patches",
            hint=f"make apply; or, to begin anew: rm {layout.shown(layout.patches)}/*.patch",
        )
    written = tuple(sorted(n for n in new if old.get(n) != new[n]))
    removed = tuple(sorted(set(old) - set(new)))
    if not check:
        _write(layout.patches, {name: new[name] for name in written})
        kept = layout.removed
        for name in removed:  # last: an old file goes only when every new one exists
            # Not for good: it may be a patch that somebody put there and never applied.
            kept.mkdir(exist_ok=True)
            shutil.move(layout.patches / name, kept / name)
        remember(layout, now.base, now.tip, new)
    return Exported(written, removed, len(new))


def _refuse_unmended(layout: Layout, now: State, new: Mapping[str, bytes]) -> None:
    """Raise where a merge or `git apply --reject` left what nobody mended."""
    clone = layout.shown(layout.clone)
    if now.rejects:
        raise OverlayError(
            f"{clone} has rejected hunks: {', '.join(now.rejects)}",
            hint="mend what they hold, commit it, then"
            f" rm {' '.join(layout.shown(layout.clone / path) for path in now.rejects)}",
        )
    found = [f"{name[:4]} {place}" for name, raw in sorted(new.items())
             for place in mails.unfinished(mails.parse(name, raw))]  # fmt: skip
    if found:
        raise OverlayError(
            f"commits hold what was not mended: {'; '.join(found)}",
            hint="mend these places, then see `Edit a patch` in README.md",
        )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put `files` into `folder`, none before all are on the disk."""
    for left in folder.glob(".*.part"):  # by an export that was killed
        left.unlink()
    for name, raw in files.items():
        (folder / f".{name}.part").write_bytes(raw)
    for name in files:
        os.replace(folder / f".{name}.part", folder / name)
