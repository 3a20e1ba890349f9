"""Where the tree reads `mm_processor_kwargs`, from its syntax trees alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MERGES = ("get_merged_mm_kwargs", "merge_mm_processor_kwargs")
SCOPING = ("overlay_modality_mm_kwargs",)
"""Functions that name the modality of what they are given."""
REQUESTS = ("mm_kwargs", "hf_processor_mm_kwargs")
"""Names that hold the options of a request in a model."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Read(NamedTuple):
    """A read of all options by an attribute or a merge, or of one by its name."""

    module: str
    function: str
    what: str


def unscoped_reads(tree: Path) -> Iterator[Read]:
    """Yield each read that names no modality, in models and processors.

    `tree` is the folder of the package `vllm`.
    """
    for folder in ("model_executor/models", "models", "multimodal", "transformers_utils"):
        requests = REQUESTS if "models" in folder else ()
        for file in sorted((tree / folder).rglob("*.py")):
            source = file.read_text(encoding="utf-8")
            if "mm_kwargs" in source or "mm_processor_kwargs" in source:
                yield from _of_body(ast.parse(source), Read(file.stem, "", ""), requests)


def _of_body(body: ast.AST, where: Read, requests: tuple[str, ...]) -> Iterator[Read]:
    scoped = {name for node in ast.walk(body) for name in _names_scoped_by(node)}
    unscoped = tuple(name for name in requests if name not in scoped)
    for node in _own_nodes(body):
        if isinstance(node, DEFINITIONS):
            yield from _of_body(node, where._replace(function=node.name), requests)
        elif what := _read(node, unscoped):
            yield where._replace(what=what)


def _own_nodes(body: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in `body`; of definitions and scoping calls only the node itself."""
    for child in ast.iter_child_nodes(body):
        yield child
        if not isinstance(child, DEFINITIONS) and not _calls(child, SCOPING):
            yield from _own_nodes(child)


def _names_scoped_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign) and _calls(node.value, (*MERGES, *SCOPING)):
        yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def _read(node: ast.AST, requests: tuple[str, ...]) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr == "mm_processor_kwargs":
        return node.attr
    if not isinstance(node, ast.Call):
        return None

    name, literals = _name(node.func), [a.value for a in node.args if isinstance(a, ast.Constant)]
    if name in MERGES:
        return None if any(k.arg == "modality" for k in node.keywords) else name
    if name == "getattr" and "mm_processor_kwargs" in literals:
        return "mm_processor_kwargs"
    if (
        name == "get"
        and isinstance(node.func, ast.Attribute)
        and _name(node.func.value) in requests
    ):
        option = node.args[0]
        return str(option.value) if isinstance(option, ast.Constant) else ast.unparse(option)
    return None


def _calls(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in names


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
