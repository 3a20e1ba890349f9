"""Internal forks to pick into: each a clone of upstream, as a company's people have made it."""

from __future__ import annotations

from pathlib import Path

from tests.tools import mini

OWN = ("a colleague", "colleague@example.invalid")
ONTO = "trunk"
FIX = "return 22\n"


def make(upstream: mini.Upstream, folder: Path, *options: str) -> Path:
    """A full clone of upstream, with `trunk` checked out at the pinned release."""
    repo = folder / "the f\u00f6rk"
    mini.git(folder, "clone", "--quiet", *options, upstream.repo.as_uri(), str(repo))
    mini.git(repo, "checkout", "--quiet", "-b", ONTO, mini.TAG)
    return repo


def imported(upstream: mini.Upstream, folder: Path) -> Path:
    """A fork that began with the archive of the release: other history, no commit of upstream's."""
    repo = folder / "imported"
    mini.git(folder, "init", "--quiet", f"--initial-branch={ONTO}", str(repo))
    mini.git(upstream.repo, "archive", "--output", str(folder / "tree.tar"), mini.TAG)
    mini.git(folder, "-C", str(repo), "-c", "alias.x=!tar xf ../tree.tar", "x")
    mini.git(repo, "add", "--all", "--force")
    mini.commit(repo, "Import vLLM 0.28.0", {}, who=OWN)
    return repo


def commit(repo: Path, message: str, path: str, *changes: tuple[str, str]) -> str:
    """A commit of a colleague's that replaces texts in one file."""
    return mini.commit(repo, message, {path: mini.edited((repo / path).read_bytes(), *changes)},
                       who=OWN, date="2026-09-20T12:00:00Z")  # fmt: skip


def unrelated(repo: Path, count: int) -> None:
    for number in range(count):
        mini.commit(repo, f"Work {number}", {f"ours/file_{number}.py": b"x = 1\n"}, who=OWN)
