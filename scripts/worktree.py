"""A second tree of the work clone, at another commit, with the kernels of the first."""

from __future__ import annotations

import os
from pathlib import Path

from scripts import build
from scripts.git import Git
from scripts.layout import Layout


def add(layout: Layout, commit: str, tree: Path) -> Path:
    """Have `commit` checked out in the folder `tree`, with what the install made in the clone."""
    git = Git(layout.clone)
    git.raw("worktree", "prune")
    if not tree.exists():
        git.raw("worktree", "add", "--quiet", "--detach", str(tree), commit)
    # What git ignores there: kernels and, with those of the CUDA wheel, their Python files.
    for name in git.lines("ls-files", "--others", "--ignored", "--exclude-standard", "vllm"):
        if not name.endswith(".pyc"):
            link = tree / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(layout.clone / name)
    return tree


def remove(layout: Layout, tree: Path) -> None:
    Git(layout.clone).raw("worktree", "remove", "--force", str(tree))


def environment(layout: Layout, tree: Path, device: str) -> dict[str, str]:
    """What a process needs to import vLLM from `tree`; start its Python with `-P`."""
    # Both go before the installed tree; ours first, for a tree of vLLM has `tests` as well.
    paths = f"{layout.root}{os.pathsep}{tree}"
    run = build.run_environment(device)
    return dict(os.environ) | run | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
