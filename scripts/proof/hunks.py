"""Each hunk of a series taken away by itself: from the whole tree, or from its own patch's where a
later patch stands on the same lines.
"""

from __future__ import annotations

import ast
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from scripts.core.git import Git, GitError
from scripts.series.mails import FileDiff, Hunk, Patch

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Cut:
    """One hunk, and the file without it.

    `key` names the hunk whatever its number and its lines' numbers; `commit` is the tree that it is
    taken from, `there` what the file holds in it, `line` the first that changes, `text` what the
    file holds without the hunk, None where it is gone. `functions` are those around the changed
    lines by qualified name, none where one of the lines is outside of them.
    """

    key: str
    patch: Patch
    path: str
    line: int
    commit: str
    there: bytes
    text: bytes | None
    functions: tuple[str, ...]

    @property
    def shown(self) -> str:
        return f"{self.patch.name[:4]} {self.path}:{self.line}"

    @property
    def inert(self) -> bool:
        """Whether what runs is the same with and without: no test can tell them apart."""
        both = self.path.endswith(".py") and self.text is not None
        return both and _what_runs(self.there) == _what_runs(self.text or b"")


def cuts(
    git: Git, base: str, commits: tuple[str, ...], patches: tuple[Patch, ...], below: str
) -> list[Cut]:
    """Every hunk of `patches` under the folder `below`; `commits` are theirs, from `base` on."""
    seen: Counter[str] = Counter()
    wanted = [
        (patch, diff, (before, commit, commits[-1]))
        for before, commit, patch in zip((base, *commits), commits, patches, strict=False)
        for diff in patch.diffs
        if diff.path.startswith(f"{below}/") and not diff.binary
    ]
    names = {f"{tree}:{diff.path}" for _, diff, trees in wanted for tree in trees}
    texts = _blobs(git, sorted(names))
    found: list[Cut] = []
    for patch, diff, trees in wanted:
        found += _of_file(git, texts, trees, patch, diff, seen)
    return found


def keys(patches: Iterable[Patch], below: str) -> dict[str, Patch]:
    """Key of each hunk that `cuts` finds → its patch, by the patches alone."""
    seen: Counter[str] = Counter()
    found: dict[str, Patch] = {}
    for patch in patches:
        for diff in patch.diffs:
            if diff.path.startswith(f"{below}/") and not diff.binary:
                found |= {_numbered(_key(diff.path, hunk), seen): patch for hunk in diff.hunks}
    return found


def _numbered(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}-{seen[name]}"


def _of_file(
    git: Git, texts: Mapping[str, bytes], trees: tuple[str, str, str], patch: Patch,
    diff: FileDiff, seen: Counter[str],
) -> Iterator[Cut]:  # fmt: skip
    """`trees` are the commits before the patch, of the patch and of the whole series."""
    before, after, whole = (texts.get(f"{tree}:{diff.path}") for tree in trees)
    for hunk in diff.hunks:
        without = None if diff.new else _without(before or b"", after or b"", hunk)
        commit, text, there = trees[1], without, after or b""
        if whole == after:
            commit = trees[2]
        elif without is not None and whole is not None and after is not None:
            merged = _merged(git, whole, after, without)
            if merged is not None and merged != whole:
                commit, text, there = trees[2], merged, whole
        first, last = _changed(there, text or b"")
        key = _numbered(_key(diff.path, hunk), seen)
        around = functions(there, first, last) if diff.path.endswith(".py") else ()
        yield Cut(key, patch, diff.path, first, commit, there, text, around)


def _blobs(git: Git, names: list[str]) -> dict[str, bytes]:
    """The content of each `commit:path` that there is."""
    said = git.raw("cat-file", "--batch", stdin="".join(f"{n}\n" for n in names).encode())
    found = {}
    at = 0
    for name in names:
        head = said[at : said.index(b"\n", at)]
        at += len(head) + 1
        if not head.endswith(b" missing"):
            size = int(head.split()[-1])
            found[name] = said[at : at + size]
            at += size + 1
    return found


def _key(path: str, hunk: Hunk) -> str:
    changed = b"\n".join(line for line in hunk.lines if line[:1] in b"+-")
    return f"{path}#{hashlib.sha256(changed).hexdigest()[:12]}"


def _without(before: bytes, after: bytes, hunk: Hunk) -> bytes:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    # A range without lines is numbered by the line before it.
    start, end = hunk.new.start - 1 + (not hunk.new), hunk.new.stop - 1 + (not hunk.new)
    was = old[hunk.old.start - 1 : hunk.old.stop - 1] if hunk.old else []
    return b"".join([*new[:start], *was, *new[end:]])


def _merged(git: Git, whole: bytes, after: bytes, without: bytes) -> bytes | None:
    """`whole` with what leads from `after` to `without`; None where later changes are there."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("whole", "after", "without")]
        for path, text in zip(paths, (whole, after, without), strict=True):
            path.write_bytes(text)
        try:
            return git.raw("merge-file", "--stdout", *(str(path) for path in paths))
        except GitError:
            return None


def _changed(there: bytes, text: bytes) -> tuple[int, int]:
    """First and last line of `there`, from 1, that are not in `text`; with nothing but lines
    missing there, the two around the gap.
    """
    old, new = there.splitlines(), text.splitlines()
    short = min(len(old), len(new))
    head = next((n for n in range(short) if old[n] != new[n]), short)
    rest = short - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    first, last = head + 1, len(old) - tail
    return (first, last) if first <= last else (max(1, last), first)


def functions(source: bytes, first: int, last: int) -> tuple[str, ...]:
    """Functions that the lines `first` to `last` stand in, as `__qualname__` has it, sorted."""
    lines = source.splitlines()
    left = {n for n in range(first, last + 1) if n <= len(lines) and lines[n - 1].strip()}
    found: set[str] = set()
    for name, top, end in _spans(source):
        if first <= end and top <= last:
            found.add(name)
            left -= set(range(top, end + 1))
    return () if left else tuple(sorted(found))


@lru_cache(maxsize=8)  # the hunks of a file come one after another
def _spans(source: bytes) -> tuple[tuple[str, int, int], ...]:
    spans = []
    for name, node in named_functions(ast.parse(source)):
        top = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        spans.append((name, top, node.end_lineno or node.lineno))
    return tuple(spans)


def _what_runs(source: bytes) -> str:
    """The module without comments, docstrings and the annotations of functions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            del node.body[0]
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, Function):
            node.returns = None
    return ast.dump(tree)


def named_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function below `tree` by its `__qualname__`."""
    for child in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(child, Function):
            yield prefix + child.name, child
            inner = f"{prefix}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from named_functions(child, inner)
