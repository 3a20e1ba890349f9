"""Time the verbs of this product on its series, or what git or quilt does in place of each.

Prints one JSON line: verb → seconds, or `why_not` where there is no such tool. Run it as
`python -m tests.support.series_probe FOLDER BY` in a checkout of this repository after `make
apply`; trees are made in FOLDER, once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent.parent
_PICKED = "picked"
# What would send the verbs elsewhere, and a committer for git where nobody is configured.
_ELSEWHERE = ("PYTHONPATH", "VLLM_DIR", "FORK", "ONTO", "BRANCH", "PATCHES", "CHECK", "DIST")
_COMMITTER = {"GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@example.invalid"}


class Trees:
    """A copy of the product with a work clone, a fork, and plain files, each at the release."""

    def __init__(self, folder: Path, clone: Path, tag: str) -> None:
        self.product, self.fork, self.plain = folder / "product", folder / "fork", folder / "plain"
        self.clone = self.product / "build" / "vllm"
        self.tag, self.branch = tag, f"overlay/{tag}"
        self.patches = sorted(map(str, (ROOT / "patches").glob("0*.patch")))
        if not folder.exists():
            for name in ("scripts", "patches", "tests/regression"):
                shutil.copytree(ROOT / name, self.product / name)
            for tree in (self.clone, self.fork, self.plain):
                self.git(ROOT, "clone", "--quiet", str(clone), str(tree))
                self.git(tree, "checkout", "--quiet", "-B", "main", tag)
            shutil.rmtree(self.plain / ".git")

    def run(self, where: Path, *command: str) -> float:
        """Seconds that a command takes; what it says goes to the log."""
        env = {k: v for k, v in os.environ.items() if k not in _ELSEWHERE} | _COMMITTER
        start = time.perf_counter()
        subprocess.run(
            command, cwd=where, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True
        )
        return time.perf_counter() - start

    def git(self, tree: Path, *arguments: str) -> float:
        return self.run(tree, "git", *arguments)

    def at_the_release(self, tree: Path, branch: str) -> None:
        self.git(tree, "checkout", "--quiet", "--force", "-B", branch, self.tag)


def product(trees: Trees) -> dict[str, float]:
    def verb(*arguments: str) -> float:
        return trees.run(trees.product, sys.executable, "-m", "scripts", *arguments)

    trees.at_the_release(trees.clone, trees.branch)
    seconds = {"apply": verb("apply"), "apply again": verb("apply")}
    seconds |= {name: verb(name) for name in ("status", "lint", "export")}
    trees.at_the_release(trees.fork, "main")
    target = ("--fork", str(trees.fork), "--onto", "main", "--branch", _PICKED)
    seconds["pick"] = verb("pick", *target)
    trees.git(trees.fork, "branch", "--quiet", "-D", _PICKED)
    return seconds


def git(trees: Trees) -> dict[str, float]:
    """The plain command for each: `am`, `status` where that has nothing to do, `log --check` for
    lint, `format-patch`, `am` on a branch of the fork.
    """
    trees.at_the_release(trees.clone, trees.branch)
    seconds = {
        "apply": trees.git(trees.clone, "am", "--quiet", *trees.patches),
        "apply again": trees.git(trees.clone, "status"),
        "status": trees.git(trees.clone, "status"),
        "lint": trees.git(trees.clone, "log", "--check", "--format=%s", f"{trees.tag}.."),
        "export": trees.git(
            trees.clone, "format-patch", "--quiet", "--output-directory",
            str(trees.product / "build" / "formatted"), trees.tag,
        ),
    }  # fmt: skip
    trees.at_the_release(trees.fork, _PICKED)
    seconds["pick"] = trees.git(trees.fork, "am", "--quiet", *trees.patches)
    trees.git(trees.fork, "checkout", "--quiet", "-B", "main", trees.tag)
    trees.git(trees.fork, "branch", "--quiet", "-D", _PICKED)
    return seconds


def quilt(trees: Trees) -> dict[str, float]:
    """`push -a`, on the release's plain files; it has nothing for the other verbs."""
    series = trees.plain / "patches"
    shutil.copytree(ROOT / "patches", series, dirs_exist_ok=True)
    (series / "series").write_text("".join(f"{Path(name).name}\n" for name in trees.patches))
    seconds = trees.run(trees.plain, "quilt", "--quiltrc", "-", "push", "-a", "-q")
    trees.run(trees.plain, "quilt", "--quiltrc", "-", "pop", "-a", "-q")
    return {"apply": seconds}


BY: dict[str, Callable[[Trees], dict[str, float]]] = {
    "product": product, "git": git, "quilt": quilt,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Parse the command line and print the seconds as one line."""
    parser = argparse.ArgumentParser(prog="series_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("by", choices=list(BY), metavar="BY")
    options = parser.parse_args(arguments)

    if options.by == "quilt" and shutil.which("quilt") is None:
        sys.stdout.write(json.dumps({"why_not": "not installed: apt-get install quilt"}) + "\n")
        return 0
    clone = Path(os.environ.get("VLLM_DIR") or ROOT / "build" / "vllm")
    tag = json.loads((ROOT / "patches" / "upstream.json").read_text())["tag"]
    seconds = BY[options.by](Trees(options.folder, clone, tag))
    sys.stdout.write(json.dumps(seconds, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
