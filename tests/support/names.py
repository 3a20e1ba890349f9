"""Names that a module uses and does not have, or imports and does not use, read from its text: of
what no test here runs.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_WORD = re.compile(r"\w+")
_GIVEN = {*dir(builtins), "__file__", "__name__", "__path__", "__doc__", "__class__"}
_FUTURE = "__future__"


class _Names(NamedTuple):
    bound: set[str]
    """In any scope."""
    used: set[str]
    """Annotations included, which `from __future__ import annotations` never looks for."""
    imported: dict[str, int]
    """Name → line; of those that are there for others, none."""
    words: set[str]
    """Of strings: annotations may be such."""


def unknown_names(root: Path) -> list[str]:
    """`module.py: name` for every name that a module below `root` uses and nowhere binds, sorted.

    Star imports hide what they bring.
    """
    return sorted(
        f"{path}: {name}"
        for path, source in _modules(root)
        if "import *" not in source
        for name in _names(source).used - _names(source).bound - _GIVEN
    )


def unused_imports(root: Path) -> list[str]:
    """`module.py: name` for every import of a module below `root` that it never uses, sorted.

    A package's own module, `__all__` and lines with `noqa` bring names for others.
    """
    return sorted(
        f"{path}: {name}"
        for path, source in _modules(root)
        if not path.endswith("__init__.py")
        for name, line in _names(source).imported.items()
        if name not in _names(source).used | _names(source).words
        and "noqa" not in source.splitlines()[line - 1]
    )


def _modules(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


@cache
def _names(source: str) -> _Names:
    found = _Names(set(), set(), {}, set())
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (found.used if isinstance(node.ctx, ast.Load) else found.bound).add(node.id)
        elif isinstance(node, ast.arg):
            found.bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or (
            isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name
        ):
            found.bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found.bound.add(name)
                if getattr(node, "module", "") != _FUTURE and alias.asname != alias.name:
                    found.imported[name] = alias.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.words.update(_WORD.findall(node.value))
    return found
