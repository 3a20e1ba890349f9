"""What the modules below a folder import, read from their text; none is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


class Imports:
    """The modules below `root`. With `lazily`, what functions import when called counts, too."""

    def __init__(self, root: Path, *, lazily: bool) -> None:
        self._root, self._lazily = root, lazily
        self._direct: dict[str, frozenset[str]] = {}

    def path(self, module: str) -> Path | None:
        """The file of `module`, None where it has none below the root."""
        stem = self._root.joinpath(*module.split("."))
        places = (stem.with_suffix(".py"), stem / "__init__.py")
        return next((place for place in places if place.is_file()), None)

    def reach(self, modules: Iterable[str]) -> set[str]:
        """`modules`, and all that loading them loads."""
        found: set[str] = set()
        waiting = [module for module in modules if self.path(module)]
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting += self.direct(module)
        return found

    def dependents(self, modules: Iterable[str], on: Iterable[str]) -> set[str]:
        """Those of `modules` whose loading loads one of `on`, by way of `modules`; `on`, too."""
        users: dict[str, set[str]] = {}
        for module in modules:
            for used in self.direct(module):
                users.setdefault(used, set()).add(module)
        found: set[str] = set()
        waiting = list(on)
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting += users.get(module, ())
        return found

    def direct(self, module: str) -> frozenset[str]:
        if module not in self._direct:
            path = self.path(module)
            names = self._named(module, path) if path else ()
            self._direct[module] = frozenset(name for name in names if self.path(name))
        return self._direct[module]

    def _named(self, module: str, path: Path) -> Iterator[str]:
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        yield from _prefixes(module.rpartition(".")[0])
        for node in self._statements(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _prefixes(alias.name)
            elif isinstance(node, ast.ImportFrom):
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join(
                    [*(up if node.level else ()), *([node.module] if node.module else ())]
                )
                yield from _prefixes(base)
                yield from (f"{base}.{alias.name}" for alias in node.names)

    def _statements(self, node: ast.AST) -> Iterator[ast.AST]:
        """What runs when the module is loaded; with `lazily`, everything."""
        for child in ast.iter_child_nodes(node):
            yield child
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            if self._lazily or not (inside or typing):
                yield from self._statements(child)


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1) if parts[0])
