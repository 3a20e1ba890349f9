"""Write the series for others: mails, an mbox, a manifest, checksums. The same bytes each time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import SCRATCH, Layout
from scripts.release.pin import Pin
from scripts.series import mails, stack
from scripts.series.mails import Patch

SUMS = "SHA256SUMS"


def mbox_name(pin: Pin) -> str:
    """The file that `git am --keep --keep-cr` takes whole."""
    return f"{pin.project}-{pin.version}-patches.mbox"


def write(layout: Layout, pin: Pin, asked: str) -> tuple[Path, tuple[str, ...]]:
    """Make the folder `asked` hold the applied series, nothing else. Returns it and its files.

    What is there already must be an earlier one of these; it goes when the new one is whole.
    """
    folder = Path(asked).expanduser().absolute()
    old = _refuse_foreign(folder)
    files = _files(layout, pin, mails.load(layout.patches))
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    files[SUMS] = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    try:
        _replace(folder, files, old=old)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        hint = f"free some disk space under {folder.parent}, then run this again"
        raise OverlayError(f"no disk space left for {folder}", hint=hint) from error
    return folder, tuple(sorted(files))


def _replace(folder: Path, files: dict[str, bytes], *, old: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder.parent) as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        for name, data in files.items():
            (new / name).write_bytes(data)
        if old:
            os.rename(folder, Path(scratch) / "old")
        elif folder.exists():
            folder.rmdir()
        os.rename(new, folder)


def _refuse_foreign(folder: Path) -> bool:
    """Whether an earlier one is there. Raises where something else is."""
    if folder.exists() and not folder.is_dir():
        raise OverlayError(f"{folder} is no folder", hint="DIST names a new or empty folder")
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not found:
        return False
    sums = folder / SUMS
    listed = sums.read_text().split("\n")[:-1] if sums.is_file() else []
    foreign = found - {line.partition("  ")[2] for line in listed} - {SUMS}
    if foreign:
        raise OverlayError(
            f"{folder} holds what is no export: {', '.join(sorted(foreign))}",
            hint="DIST names a new or empty folder, or an earlier export",
        )
    return True


def _files(layout: Layout, pin: Pin, patches: tuple[Patch, ...]) -> dict[str, bytes]:
    git = Git(layout.clone)
    base, commits = stack.commits(layout, pin, patches)
    name = f"{pin.project}-{pin.version}-patches"
    mails = {patch.name: patch.raw for patch in patches}
    manifest = _manifest(git, pin, patches, base, commits)
    return {
        **mails,
        mbox_name(pin): b"".join(mails.values()),
        f"{name}.json": json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n",
    }


def _manifest(
    git: Git, pin: Pin, patches: tuple[Patch, ...], base: str, commits: tuple[str, ...]
) -> dict[str, Any]:
    needs = mails.needs(patches)
    trees = git.lines("log", "--no-walk=unsorted", "--format=%T", base, *commits)
    return {
        "pin": asdict(pin),
        # Trees, not commits: those of a clone made from the sdist have other ids than upstream's.
        "base": {"tree": trees[0]},
        "patches": [
            {
                "name": patch.name,
                "sha256": hashlib.sha256(patch.raw).hexdigest(),
                "subject": patch.subject,
                "tree": tree,
                "needs": list(needs[patch.name]),
                "trailers": [{"name": key, "value": value} for key, value in patch.trailers],
            }
            for patch, tree in zip(patches, trees[1:], strict=True)
        ],
    }
