"""Get the pinned source into the work clone as one base commit, and prove where it came from.

What only a fetch or a proof needs is loaded there: most verbs ask for the base alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout
from scripts.release.pin import Pin

# What `python -m build --sdist` adds to the tree. The last three go after unpacking: the egg-info
# shadows the installed version and flips the platform to "unspecified" inside the tree.
VERSION_FILE = "vllm/_version.py"
_GENERATED = ("PKG-INFO", "setup.cfg", "vllm.egg-info")

# Where the sdist and the git tree must be equal; elsewhere a difference is only listed.
_AGREE = ("vllm/", "tests/", "csrc/", "cmake/", "requirements/", ".buildkite/",
          "CMakeLists.txt", "MANIFEST.in", "pyproject.toml", "setup.py")  # fmt: skip

_CLONE_BYTES = 1 << 29  # a clone with its objects, and the tree once more while patches apply


def fetch(layout: Layout, pin: Pin, kind: str, url: str) -> bool:
    """Have the pinned source in the work clone. False where it already was there.

    `kind` is `sdist` or `git`; `url` is any clone or mirror for the latter. The clone appears under
    its name only when it is whole.
    """
    if layout.adopted or layout.clone.exists():
        if base(layout, pin) != pin.commit and kind == "git":
            shown = layout.shown(layout.clone)
            raise OverlayError(
                f"{shown} was made from the sdist, not from git",
                hint=f"move it away: mv {shown} {shown}.sdist",
            )
        return False
    from scripts.release import index

    with _scratch(layout, pin) as new:
        if kind == "git":
            _fetch_commit(Git(new), pin, url or pin.repository)
        else:
            _commit_sdist(new, index.obtain(layout, pin.sdist), pin)
        # The name that a person rebases onto; upstream's own, as a full clone has it.
        Git(new).raw("tag", pin.tag)
        os.rename(new, layout.clone)
    return True


@contextmanager
def _scratch(layout: Layout, pin: Pin) -> Iterator[Path]:
    from scripts.release import index

    layout.build.mkdir(parents=True, exist_ok=True)
    index.require_space(layout.build, _CLONE_BYTES, "the work clone")
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=layout.build) as folder:
        new = Path(folder) / "vllm"
        new.mkdir()
        Git(new).raw("init", "--quiet", f"--initial-branch={pin.branch}")
        # Each verb reads many; adding the release, and each diff, takes half the time or less.
        Git(new).raw("config", "core.looseCompression", "0")
        yield new


def _fetch_commit(git: Git, pin: Pin, url: str) -> None:
    folder = Path(url).expanduser().absolute()  # git starts elsewhere
    url = str(folder) if folder.exists() else url
    try:
        git.fetch(url, pin.commit)
    except GitError as by_commit:
        try:
            # Old servers serve refs only; the full commit id below proves the tag either way.
            git.fetch(url, f"refs/tags/{pin.tag}")
        except GitError:
            raise OverlayError(
                f"could not fetch {pin.commit} from {url}: {by_commit.stderr.strip()}",
                hint="name a clone or mirror that has it: make apply SOURCE=git GIT_URL=…",
            ) from by_commit
    found = git.out("rev-parse", "FETCH_HEAD^{commit}")
    if found != pin.commit:
        raise OverlayError(
            f"{url} has {pin.tag} at {found}, the pin says {pin.commit}",
            hint="use the upstream repository or a faithful mirror of it",
        )
    git.raw("checkout", "--quiet", "-B", pin.branch, pin.commit)


def _commit_sdist(clone: Path, path: Path, pin: Pin) -> None:
    from scripts.release import archive

    with tempfile.TemporaryDirectory(dir=clone.parent) as folder:
        tree = archive.unpack(path, Path(folder))
        for name in _GENERATED:
            unwanted = tree / name
            shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink(missing_ok=True)
        os.rename(clone / ".git", tree / ".git")
        clone.rmdir()
        os.rename(tree, clone)
    date = f"{pin.released}T00:00:00+0000"
    git = Git(clone, {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})
    # `--force`: the release tracks files that its own .gitignore names.
    git.raw("add", "--all", "--force", "--", ".", f":(exclude){VERSION_FILE}")
    git.raw("commit", "--quiet", "--no-verify", "--message", _sdist_message(pin))


def is_generated(path: str) -> bool:
    """Whether `path` is a file that packaging makes and upstream does not track."""
    return path == VERSION_FILE or path.split("/")[0] in _GENERATED


def _sdist_message(pin: Pin) -> str:
    trailers = f"Upstream-Commit: {pin.commit}\nSdist-SHA256: {pin.sdist.sha256}"
    return f"{pin.project} {pin.tag}\n\nThe tree of {pin.sdist.file}.\n\n{trailers}"


def base(layout: Layout, pin: Pin) -> str:
    """The commit in the clone that holds the pinned tree. An error says why there is none."""
    clone = layout.clone
    git = Git(clone)
    shown = layout.shown(clone)
    if not layout.adopted and not clone.exists():
        raise OverlayError(f"{shown} is not there yet", hint="make apply")
    aside = f"move it away: mv {shown} {shown}.old; make apply"
    if not (clone / "vllm" / "__init__.py").is_file():
        hint = "name the top folder of a checkout" if layout.adopted else aside
        raise OverlayError(f"{shown} is not a vLLM tree", hint=hint)
    if not _is_top(git):
        reason = git.why_not("rev-parse", "--verify", "HEAD^{commit}")
        raise OverlayError(
            f"{shown} is not a git checkout of its own{f': {reason}' if reason else ''}",
            hint=f"clone it: git clone {pin.repository}" if layout.adopted else aside,
        )
    if git.ok("cat-file", "-e", f"{pin.commit}^{{commit}}"):
        return pin.commit
    # Of every branch: `roll` leaves the clone on one that stands on another release.
    roots = git.out("log", "--max-parents=0", "--format=%H %B%x00", "HEAD", "--branches")
    for root in roots.split("\0"):
        commit, _, message = root.strip().partition(" ")
        if message.strip() == _sdist_message(pin):
            return commit
    hint = f"git -C {shown} fetch --depth=1 {pin.repository} {pin.commit}"
    if not layout.adopted:
        hint = f"it belongs to another pin; move it away: mv {shown} {shown}.old"
    raise OverlayError(f"{shown} is not at the pin: it has no commit {pin.commit}", hint=hint)


def _is_top(git: Git) -> bool:
    """Whether a checkout with a commit begins there."""
    try:
        top = git.out("rev-parse", "--show-toplevel", "HEAD")
    except GitError:
        return False
    return Path(top.rpartition("\n")[0]) == git.root.resolve()


@dataclass(frozen=True)
class Comparison:
    """Two trees, file by file: `faults` where they must agree, `others` elsewhere."""

    left: str
    right: str
    equal: int
    faults: tuple[str, ...]
    others: tuple[str, ...]


def verify(layout: Layout, pin: Pin, url: str) -> list[Comparison]:
    """Prove the sdist's hash, and compare its tree with every other source at hand.

    These are the base commit of the work clone, and the git repository at `url` where one is given.
    """
    from scripts.release import archive, index

    blobs = archive.blobs(index.obtain(layout, pin.sdist))
    sdist = {path: blob for path, blob in blobs.items() if not is_generated(path)}
    found = []
    if layout.clone.exists():
        tree = _git_blobs(Git(layout.clone), base(layout, pin))
        found.append(_compare(pin.sdist.file, sdist, layout.shown(layout.clone), tree))
    if url:
        with _scratch(layout, pin) as folder:
            _fetch_commit(Git(folder), pin, url)
            found.append(_compare(pin.sdist.file, sdist, url, _git_blobs(Git(folder), "HEAD")))
    return found


def _git_blobs(git: Git, commit: str) -> dict[str, tuple[str, str]]:
    entries = git.out("ls-tree", "-r", "-z", commit).split("\0")
    split = [entry.partition("\t") for entry in entries if entry]
    return {path: (head.split()[0], head.split()[2]) for head, _, path in split}


def _compare(
    left: str, a: dict[str, tuple[str, str]], right: str, b: dict[str, tuple[str, str]]
) -> Comparison:
    faults: list[str] = []
    others: list[str] = []
    for path in sorted(set(a) | set(b)):
        if a.get(path) == b.get(path):
            continue
        if path not in a or path not in b:
            said = f"only in {left if path in a else right}"
        elif a[path][1] == b[path][1]:
            said = f"mode {a[path][0]} in {left}, {b[path][0]} in {right}"
        else:
            said = "differs"
        (faults if path.startswith(_AGREE) else others).append(f"{path}: {said}")
    equal = sum(a[path] == b.get(path) for path in a)
    return Comparison(left, right, equal, tuple(faults), tuple(others))
