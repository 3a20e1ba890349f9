"""A second tree of the work clone, at another commit, with the kernels of the first."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import build, hub


def add(layout: Layout, commit: str, tree: Path) -> Path:
    """Have `commit` checked out in the folder `tree`, with what the install made in the clone."""
    git = Git(layout.clone)
    git.raw("worktree", "prune")
    if not tree.exists():
        git.raw("worktree", "add", "--quiet", "--detach", str(tree), commit)
    link(layout, tree)
    return tree


def link(layout: Layout, tree: Path) -> None:
    """Let a checkout in `tree` have what the install made in the clone."""
    # What git ignores there: kernels and, with those of the CUDA wheel, their Python files.
    ignored = ("--others", "--ignored", "--exclude-standard")
    for name in Git(layout.clone).lines("ls-files", *ignored, "vllm"):
        if not name.endswith(".pyc"):
            place = tree / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(layout.clone / name)


def remove(layout: Layout, tree: Path) -> None:
    Git(layout.clone).raw("worktree", "remove", "--force", str(tree))


def python_path(layout: Layout, tree: Path) -> str:
    """Both go before the installed tree; ours first, for a tree of vLLM has `tests` as well."""
    return f"{layout.root}{os.pathsep}{tree}"


def environment(layout: Layout, tree: Path, device: str) -> dict[str, str]:
    """What a process needs to import vLLM from `tree`; start its Python with `-P`."""
    closed = hub.closed(layout, python_path(layout, tree))
    return dict(os.environ) | build.run_environment(layout, device) | closed
