"""Which tests are for what changed: hunks by who noticed them, scripts by their mirror."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.proof import hunks
from scripts.proof.witnesses import Witnesses
from scripts.series import mails
from scripts.series.mails import Patch

_SUITES = ("tools", "pages", "regression", "engine")
_EVERYTHING = ("conftest.py", "pyproject.toml")


@dataclass(frozen=True)
class Change:
    """`since` is the commit, for people; `files` changed after it, `tests` are for them, by suite:
    ids, modules, or the folder of all.
    """

    since: str
    files: tuple[str, ...]
    tests: Mapping[str, tuple[str, ...]]


def since(layout: Layout, asked: str, below: str) -> Change:
    """What changed after the commit `asked`; for `1` after the one that the branch and its remote
    have in common, or after the last commit where it has none. Not committed counts, too.
    """
    git = Git(layout.root)
    commit = _commit(git, asked)
    files = {*git.lines("diff", "--name-only", commit),
             *git.lines("ls-files", "--others", "--exclude-standard")}  # fmt: skip
    found: dict[str, set[str]] = {suite: set() for suite in _SUITES}
    before = _series(git, commit)
    for test in (*_of_hunks(layout, before, below), *_of_files(layout.root, sorted(files))):
        found[test.split("/")[1]].add(test)
    tests = {suite: _least(tests) for suite, tests in found.items() if tests}
    return Change(git.out("log", "-1", "--format=%h, %s", commit), tuple(sorted(files)), tests)


def _commit(git: Git, asked: str) -> str:
    if asked != "1":
        if git.ok("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}"):
            return git.out("rev-parse", f"{asked}^{{commit}}")
        raise OverlayError(f"CHANGED={asked} is no commit", hint="CHANGED=1, or a branch or commit")
    for name in ("@{upstream}", "origin/HEAD", "origin/main"):
        if git.ok("rev-parse", "--verify", "--quiet", name):
            return git.out("merge-base", "HEAD", name)
    return git.out("rev-parse", "HEAD")


def _series(git: Git, commit: str) -> list[Patch]:
    names = git.lines("ls-tree", "--name-only", commit, "patches/")
    return [
        mails.parse(name.removeprefix("patches/"), git.raw("show", f"{commit}:{name}"))
        for name in names
        if name.endswith(".patch")
    ]


def _of_hunks(layout: Layout, before: Sequence[Patch], below: str) -> Iterator[str]:
    """Who noticed one of these hunks or another of its file; where none is known, all of the
    patch's tests.
    """
    patches = mails.read(layout.patches)
    now, then = hunks.keys(patches, below), hunks.keys(before, below)
    known = Witnesses(layout)
    for key in now.keys() ^ then.keys():
        tests = known.of_file(key.partition("#")[0])
        patch = now.get(key) or then[key]
        modules = [m for m in patch.values("Regression-Test") if (layout.root / m).is_file()]
        mine = [test for test in tests if test.partition("::")[0] in modules]
        yield from mine or modules
    new = {module for patch in patches for module in patch.values("Regression-Test")}
    old = {module for patch in before for module in patch.values("Regression-Test")}
    yield from new - old


def _of_files(root: Path, files: Iterable[str]) -> Iterator[str]:
    for file in files:
        if Path(file).name in _EVERYTHING:
            folder = str(Path(file).parent)
            yield from (f"tests/{s}" for s in _SUITES if f"tests/{s}".startswith(folder.strip(".")))
        elif re.fullmatch(r"tests/(tools|pages|regression|engine)/(.*/)?test_\w+\.py", file):
            yield from [file] * (root / file).is_file()
        elif match := re.fullmatch(r"scripts/(?:(\w+)/)?(\w+)\.py", file):
            yield from _of_module(root, match[1] or "", match[2])
        elif match := re.fullmatch(r"tests/(?:support|tools|engine)/(?:.*/)?(\w+)\.py", file):
            yield from _naming(root, match[1])
        elif not file.startswith(("patches/0", "tests/regression/")):
            yield from _naming(root, Path(file).name)


def _of_module(root: Path, wing: str, name: str) -> Iterator[str]:
    """Its mirror; for want of one those of the modules that import it."""
    own = list(_mirror(root, wing, name))
    yield from own
    if not own:
        pattern = re.compile(rf"from scripts\.{wing}(\.{name} import| import .*\b{name}\b)")
        for path in sorted((root / "scripts").glob("*/*.py")):
            if pattern.search(path.read_text(encoding="utf-8")):
                yield from _mirror(root, path.parent.name, path.stem)
    yield "tests/tools/test_wings.py"


def _mirror(root: Path, wing: str, name: str) -> Iterator[str]:
    folder = root / "tests" / "tools" / wing
    for pattern in (f"test_{name}.py", f"test_{name}_*.py"):
        yield from (str(path.relative_to(root)) for path in folder.glob(pattern))


def _naming(root: Path, word: str) -> Iterator[str]:
    """The test modules that name a file or a module."""
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    for suite in _SUITES:
        for path in sorted((root / "tests" / suite).rglob("test_*.py")):
            if pattern.search(path.read_text(encoding="utf-8")):
                yield str(path.relative_to(root))


def _least(tests: Iterable[str]) -> tuple[str, ...]:
    """Without what a folder or a module among them has anyway."""
    found = set(tests)
    return tuple(sorted(t for t in found if not _above(t) & found))


def _above(test: str) -> set[str]:
    path = test.partition("::")[0]
    parents = {str(parent) for parent in Path(path).parents}
    return parents | ({path} if "::" in test else set())
