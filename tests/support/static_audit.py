"""The placement audit by reading: for families that cannot be built here.

Follows a module's field values by name inside each function of its model classes. It sees less
than a run does: values that leave the module are lost, and helpers are not entered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.placement.fields import fields_of_source

WAITING_METHODS = frozenset({"item", "tolist", "cpu", "nonzero", "numpy"})
WAITING_CALLS = frozenset({"int", "float", "bool", "range"})


@dataclass(frozen=True)
class Suspect:
    """A place that waits, or mixes devices, if the field is where its flag says."""

    line: str
    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.line}: {self.field}: {self.what}"


def field_modules(root: Path) -> dict[str, Path]:
    """Modules below `root` (`vllm/model_executor/models`) that configure fields, by dotted name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "MultiModalFieldConfig." in text:
            found[".".join(path.relative_to(root).with_suffix("").parts)] = path
    return found


def _text(node: ast.AST | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def suspects(path: Path, root: Path) -> list[Suspect]:
    """What the module at `path` does with its fields that a run would report; sorted by line."""
    source, file = path.read_text(encoding="utf-8"), str(path.relative_to(root))
    flags = {f.name: f.on_cpu for f in sorted(fields_of_source(source, file))}
    found: set[Suspect] = set()
    for owner in ast.walk(ast.parse(source)):
        if isinstance(owner, ast.ClassDef) and not _prepares(owner.name):
            for function in owner.body:
                if isinstance(function, ast.FunctionDef):
                    reader = _Reader(flags, file)
                    reader.read(function)
                    found |= set(reader.found)
    return sorted(found, key=lambda s: (int(s.line.rsplit(":", 1)[1]), s.field, s.what))


def _prepares(class_name: str) -> bool:
    """Classes that run before the engine, where nothing is on the device."""
    return class_name.endswith(("Processor", "Info", "Builder", "Parser", "Items", "Inputs"))


class _Reader(ast.NodeVisitor):
    """One function: which names hold which fields, and what is done with them."""

    def __init__(self, flags: dict[str, bool], path: str) -> None:
        self._flags, self._path = flags, path
        self._holds: dict[str, str] = {}
        self._allowed = 0
        self.found: list[Suspect] = []

    def read(self, function: ast.FunctionDef) -> None:
        arguments = [*function.args.args, *function.args.kwonlyargs]
        # Items that are not batched yet are on the host: positions, pruning, LoRA counts.
        if {a.arg for a in arguments} & {"mm_features", "mm_feature", "feature", "mm_item"}:
            return
        for argument in arguments:
            if argument.arg in self._flags:
                self._holds[argument.arg] = argument.arg
        for statement in function.body:
            self.visit(statement)

    def visit_With(self, node: ast.With) -> None:
        allowed = any("gpu_sync_allowed" in ast.unparse(i.context_expr) for i in node.items)
        self._allowed += allowed
        self.generic_visit(node)
        self._allowed -= allowed

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        field = self._field(node.value)
        for target in node.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    self._holds.pop(name.id, None)
                    if field is not None:
                        self._holds[name.id] = field
            self.visit(target)

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        holder = node.func.value if isinstance(node.func, ast.Attribute) else None
        field = self._field(holder) if holder is not None else None
        if field is not None and method in WAITING_METHODS:
            self._note(node, field, f".{method}() of a field on the device", on_cpu=False)
        if field is not None and method == "to" and _moves_blocking(node):
            self._note(node, field, ".to() waits", on_cpu=True)
        if isinstance(node.func, ast.Name) and node.func.id in WAITING_CALLS and node.args:
            field = self._field(node.args[0])
            if field is not None:
                self._note(node, field, f"{node.func.id}() of a field on the device", on_cpu=False)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        field = self._field(node.slice)
        if field is not None:
            self._note(node, field, "a field on the host is an index", on_cpu=True)
        self.generic_visit(node)

    def _note(self, node: ast.expr, field: str, what: str, *, on_cpu: bool) -> None:
        if self._flags[field] == on_cpu and not self._allowed:
            self.found.append(Suspect(f"{self._path}:{node.lineno}", field, what))

    def _field(self, node: ast.AST) -> str | None:
        """The field that an expression's value comes from, shapes and lengths left aside."""
        if isinstance(node, ast.Name):
            return self._holds.get(node.id)
        if isinstance(node, ast.Subscript):
            return self._key(node.slice) or self._field(node.value)
        if isinstance(node, ast.Attribute):
            return (
                None
                if node.attr in ("shape", "device", "dtype", "ndim")
                else self._field(node.value)
            )
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp):
            return self._first(ast.iter_child_nodes(node))
        return None

    def _of_call(self, node: ast.Call) -> str | None:
        if not isinstance(node.func, ast.Attribute):
            return None
        method = node.func.attr
        if method in ("pop", "get") and node.args:
            return self._key(node.args[0])
        if method in ("size", "dim", "numel", *WAITING_METHODS):
            return None  # a number or a list, or on the host from here on
        return self._field(node.func.value)

    def _first(self, nodes: Iterator[ast.AST] | Sequence[ast.AST]) -> str | None:
        return next((f for f in map(self._field, nodes) if f is not None), None)

    def _key(self, node: ast.AST) -> str | None:
        text = _text(node)
        return text if text in self._flags else None


def _moves_blocking(call: ast.Call) -> bool:
    options = {k.arg: ast.unparse(k.value) for k in call.keywords}
    if options.get("non_blocking") == "True":
        return False
    return "device" in options or any("device" in ast.unparse(a) for a in call.args)
