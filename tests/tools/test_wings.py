"""The wings of scripts/: who may import whom, how long a thing may be, where its tests are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import combinations
from pathlib import Path

from tests.tools.product import REPO

SCRIPTS, TESTS = REPO / "scripts", REPO / "tests" / "tools"
ORDER = ("core", "release", "series", "environment", "carry", "suites", "bench", "proof", "verbs")
"""From the ground up: a wing imports those before it; what stands in none, all of them."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")


PATHS = {_name(path): path for path in sorted(SCRIPTS.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of ours that one names in an import, also inside its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in TREES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{one.name}" for one in node.names]
            yield from (name for name in (node.module, *inside) if name in TREES)


def height(module: str) -> int:
    wing = module.split(".")[1] if "." in module else ""
    return ORDER.index(wing) if wing in ORDER else -1 if module == "scripts" else len(ORDER)


def test_every_folder_is_a_wing() -> None:
    assert {path.parent.name for path in SCRIPTS.glob("*/*.py")} == set(ORDER)
    assert {path.name for path in SCRIPTS.glob("*.py")} == {
        "__init__.py", "__main__.py", "options.py",
    }  # fmt: skip


def test_a_wing_imports_no_wing_above_it() -> None:
    climbs = [
        f"{module} imports {other}"
        for module, tree in TREES.items()
        for other in imported(tree)
        if height(other) > height(module)
    ]
    assert climbs == []


def test_no_import_goes_in_a_circle() -> None:
    graph = {module: set(imported(tree)) for module, tree in TREES.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises, and names the circle
    assert set(order) == set(TREES)


def test_a_folder_itself_imports_nothing() -> None:
    """Or one module of a wing would load them all."""
    heads = [name for name, path in PATHS.items() if path.name == "__init__.py"]
    assert len(heads) == len(ORDER) + 1
    assert [name for name in heads if list(imported(TREES[name]))] == []


def test_modules_and_functions_are_short() -> None:
    lines = {name: path.read_text().count("\n") for name, path in PATHS.items()}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = f"{module}.{node.name}, line {node.lineno}"
                lines[own] = (node.end_lineno or 0) - node.lineno + 1
    limits = {name: 300 if name in PATHS else 40 for name in lines}
    assert {name: n for name, n in lines.items() if n > limits[name]} == {}


def _alike(a: str, b: str) -> bool:
    """Whether one letter is another, or is missing."""
    a, b = sorted((a, b), key=len)
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    return any(a == b[:i] + b[i + 1 :] for i in range(len(b)))


def test_no_two_names_differ_in_one_letter() -> None:
    names = sorted({word for module in PATHS for word in module.split(".")})
    assert [pair for pair in combinations(names, 2) if _alike(*pair)] == []


def test_the_tests_of_a_module_are_found_from_its_path() -> None:
    """Those of scripts/WING/NAME.py: tests/tools/WING/test_NAME.py, and test_NAME_TOPIC.py."""
    strays = [
        str(path.relative_to(TESTS))
        for path in TESTS.glob("*/test_*.py")
        for names in [{module.stem for module in (SCRIPTS / path.parent.name).glob("[!_]*.py")}]
        if not any(f"{path.stem}_".startswith(f"test_{name}_") for name in names)
    ]
    assert strays == []


def test_the_pages_show_every_wing_in_its_order() -> None:
    for page in (REPO / "README.md", SCRIPTS / "__init__.py"):
        heads = [line.split()[0] for line in page.read_text().split("\n") if "  " in line]
        assert [head for head in heads if head in ORDER] == list(ORDER), page
