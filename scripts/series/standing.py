"""Where the series and the work clone stand, and how they differ. Nothing is changed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.release.pin import Pin
from scripts.series.clone import state
from scripts.series.mails import Patch
from scripts.series.written import known


@dataclass(frozen=True)
class Report:
    """What `status` shows: each patch with where it stands, and every difference as a sentence."""

    tip: str
    tree: str
    patches: tuple[tuple[str, str], ...]
    drift: tuple[str, ...]


def report(layout: Layout, pin: Pin, patches: tuple[Patch, ...]) -> Report:
    """Compare series and work clone without changing either."""
    now = state(layout, pin)
    git = Git(layout.clone)
    commits = dict(zip(known(layout, now, patches).items(), now.commits, strict=True))
    keys = [(patch.name, patch.raw) for patch in patches]
    rows = [(k[0], commits[k].id[:12] if k in commits else "not applied") for k in keys]
    drift = []
    if now.lock:
        drift.append(f"git's index is locked: {shlex.quote(now.lock)}")
    if now.session:
        git_says = f"git {now.session}"
        ways = (
            "git bisect reset" if now.session == "bisect" else f"{git_says} --continue or --abort"
        )
        drift.append(f"an unfinished {git_says} is open: {ways}")
    extra = [commit.subject for key, commit in commits.items() if key not in keys]
    drift += [f"edited: {path}" for path in now.edits]
    drift += [f"in conflict: {path}" for path in now.conflicts]
    drift += [f"untracked: {path}" for path in now.strangers]
    drift += [f"rejected hunk: {path}" for path in now.rejects if path not in now.strangers]
    drift += [f"commit without a patch file: {subject}" for subject in extra]
    if now.tip and not now.on_branch:
        drift.append(f"HEAD is at {now.head[:12]}, not on {pin.branch}")
    tree = git.out("rev-parse", f"{now.tip}^{{tree}}") if now.tip else ""
    return Report(now.tip or "", tree, tuple(rows), tuple(drift))
