"""Commits as the patch files that they belong in."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.core.git import Git
from scripts.core.layout import Layout, write_whole
from scripts.series.clone import State
from scripts.series.mails import Patch

# What the configuration of a repository may change in a diff that is read by machine.
DIFF = (
    "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers",
    "--indent-heuristic", "--unified=3", "--inter-hunk-context=0", "-O/dev/null",
)  # fmt: skip
_FORMAT_PATCH = (
    "--zero-commit",  # the `From` line would change with every edit of an earlier patch
    "--full-index",  # abbreviated ids grow with the repository
    "--no-signature",  # it holds git's version
    "--no-stat",  # it repeats the diff and changes with terminal width
    "--keep-subject",  # no `[PATCH n/m]`
    "--no-renames",  # a rename's form depends on git's version and settings
    # What a checkout of the user's (VLLM_DIR) may set for itself: the file and its names, …
    "--suffix=.patch", "--filename-max-length=64", "--no-cover-letter",
    # … the mail, …
    "--no-from", "--no-add-header", "--no-attach", "--no-thread",
    "--no-signoff", "--no-base", "--no-notes", "--encode-email-headers",
    # … the diff.
    *DIFF,
)  # fmt: skip


def exported(git: Git, base: str, tip: str) -> dict[str, bytes]:
    """File name → bytes of each commit in `base..tip`, as the patch file it belongs in."""
    with tempfile.TemporaryDirectory() as folder:
        git.raw("format-patch", *_FORMAT_PATCH, "--output-directory", folder, f"{base}..{tip}")
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def known(layout: Layout, now: State, patches: tuple[Patch, ...]) -> dict[str, bytes]:
    """What `exported` gives of the overlay branch, without git where it is remembered as `patches`.

    Git takes as long for it as `status` and `apply` for all else that they ask.
    """
    files = {patch.name: patch.raw for patch in patches}
    if not now.tip:
        return {}
    place = _place(layout)
    if place.is_file() and place.read_text(encoding="utf-8") == _digest(now.base, now.tip, files):
        return files
    return exported(Git(layout.clone), now.base, now.tip)


def remember(layout: Layout, base: str, tip: str, files: Mapping[str, bytes]) -> None:
    """Note that the commits in `base..tip` are these files."""
    digest = _digest(base, tip, files)
    place = _place(layout)
    if not place.is_file() or place.read_text(encoding="utf-8") != digest:
        write_whole(place, digest)


def _place(layout: Layout) -> Path:
    return layout.build / "exported"


def _digest(base: str, tip: str, files: Mapping[str, bytes]) -> str:
    """Of everything that decides what git writes, and of what it wrote."""
    said = repr((base, tip, _FORMAT_PATCH, sorted(files.items())))
    return hashlib.sha256(said.encode()).hexdigest()
