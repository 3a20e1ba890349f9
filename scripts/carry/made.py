"""Commits and trees that git makes without a checkout: merged, cut, named by their source."""

from __future__ import annotations

import re

from scripts.core.git import Git, GitError


def said(git: Git, commit: str) -> tuple[dict[str, str], str]:
    """Author and author's date of a commit, as git takes them from the environment; its message."""
    form = "--format=%an%x00%ae%x00%ad%x00%B"
    name, email, date, message = git.out("show", "--no-patch", "--date=raw", form, commit).split(
        "\0", 3
    )
    # The author's date for the committer, too: the same series gives the same ids anywhere.
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
    return who | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}, message


def commit(git: Git, tree: str, parent: str, like: str, note: str = "") -> str:
    """A commit of `tree` on `parent` with author and message of `like`, and `note` as last line."""
    who, message = said(git, like)
    message = message.rstrip("\n")
    if note and note not in message:
        message += ("\n" if _ends_in_trailers(message) else "\n\n") + note
    dated = Git(git.root, {**git.env, **who})
    made = dated.raw("commit-tree", tree, "-p", parent, stdin=f"{message}\n".encode())
    return made.decode().strip()


def _ends_in_trailers(message: str) -> bool:
    """Where git itself would add a line to the last paragraph."""
    body, _, last = message.rpartition("\n\n")
    trailer = re.compile(r"[A-Za-z][A-Za-z0-9-]*: .*|\(cherry picked from commit [0-9a-f]+\)")
    return bool(body) and all(trailer.fullmatch(line) for line in last.split("\n"))


def tree(git: Git, commit: str) -> str:
    return git.out("rev-parse", f"{commit}^{{tree}}")


def merged(git: Git, onto: str, verb: str, commit: str) -> str:
    """The tree of `onto` after `cherry-pick` or `revert` of `commit`, empty where these conflict.

    HEAD is where it was before.
    """
    before = git.out("rev-parse", "HEAD")
    git.raw("reset", "--quiet", "--hard", onto)
    try:
        git.raw(verb, "--no-commit", commit)
        return git.out("write-tree")
    except GitError:
        if not git.lines("ls-files", "--unmerged"):
            raise
        return ""
    finally:
        git.raw("reset", "--quiet", "--hard", before)
