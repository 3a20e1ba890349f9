"""The multimodal fields that vLLM's source declares, and those that positions are computed from."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ANY = "*"
"""Stands for fields whose names are known at run time only, as in the Transformers back end."""

_MAKERS = {"batched", "flat", "flat_from_sizes", "shared"}
_FIELD_CLASSES = {"MultiModalBatchedField", "MultiModalFlatField", "MultiModalSharedField"}
_FIELD_MODULE = "multimodal/inputs.py"
_MODELS = ("model_executor/models/", "models/")
_Stack = tuple[ast.AST, ...]


@dataclass(frozen=True, order=True)
class Field:
    """One field that a model's processor hands to the model."""

    file: str
    """Relative to the package `vllm`."""
    owner: str
    """The class or function that declares it."""
    name: str
    on_cpu: bool
    """Whether `keep_on_cpu=True` is written at the field."""


def tree() -> Path:
    """The folder of the installed package `vllm`, which is not imported."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("no package vllm: run `make build`, then build/venv/bin/python")
    return Path(next(iter(spec.submodule_search_locations)))


def fields_of_tree(root: Path) -> list[Field]:
    """Every field below `root`, sorted, each once for its owner.

    Raises `ValueError` where the name of a field, or the value of its flag, cannot be read off.
    """
    found: set[Field] = set()
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        source = path.read_text(encoding="utf-8")
        if file != _FIELD_MODULE and "MultiModal" in source:
            found |= fields_of_source(source, file)
    return sorted(found)


def fields_of_source(source: str, file: str) -> set[Field]:
    """The fields that one module declares."""
    found: set[Field] = set()
    for stack in _walk(ast.parse(source), ()):
        call = stack[-1]
        if not isinstance(call, ast.Call):
            continue
        if (
            file.startswith(_MODELS)
            and isinstance(call.func, ast.Name)
            and call.func.id in _FIELD_CLASSES
        ):
            raise ValueError(f"{file}:{call.lineno}: a field made without MultiModalFieldConfig")
        if _makes_field(call):
            on_cpu = _flag(call, file)
            found |= {Field(file, _owner(stack), name, on_cpu) for name in _names(stack, file)}
    return found


def _makes_field(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in _MAKERS
        and isinstance(func.value, ast.Name)
        and func.value.id == "MultiModalFieldConfig"
    )


def _flag(call: ast.Call, file: str) -> bool:
    for keyword in call.keywords:
        if keyword.arg == "keep_on_cpu":
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool):
                return keyword.value.value
            raise ValueError(f"{file}:{call.lineno}: keep_on_cpu is not written out")
    return False


def _owner(stack: _Stack) -> str:
    """The outermost class, else the outermost function, else the variable of the module."""
    for kind in (ast.ClassDef, ast.FunctionDef):
        for node in stack:
            if isinstance(node, kind):
                return node.name
    return next(ast.unparse(node.targets[0]) for node in stack if isinstance(node, ast.Assign))


def _names(stack: _Stack, file: str) -> list[str]:
    """What the field that `stack` ends in is called."""
    for child, node in zip(stack[::-1], stack[-2::-1], strict=False):
        if isinstance(node, ast.keyword) and node.arg:
            return [node.arg]
        if isinstance(node, ast.Dict) and isinstance(child, ast.expr):
            return _constants(node.keys[node.values.index(child)], stack)
        if isinstance(node, ast.DictComp):
            return _constants(node.key, stack)
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                return _constants(target.slice, stack)
            if isinstance(target, ast.Name):
                return _keywords_with(target.id, stack, file)
    raise ValueError(f"{file}: cannot tell the name of {ast.unparse(stack[-1])}")


def _constants(key: ast.expr | None, stack: _Stack) -> list[str]:
    """A constant key, or the constants that a loop around it goes over, or `ANY`."""
    if isinstance(key, ast.Constant):
        return [str(key.value)]
    for node in stack:
        if (
            isinstance(node, ast.For)
            and isinstance(key, ast.Name)
            and ast.unparse(node.target) == key.id
            and isinstance(node.iter, ast.Tuple | ast.List)
        ):
            return [str(ast.literal_eval(name)) for name in node.iter.elts]
    return [ANY]


def _keywords_with(variable: str, stack: _Stack, file: str) -> list[str]:
    """The keywords that take `variable` in the function around it."""
    function = next(node for node in reversed(stack) if isinstance(node, ast.FunctionDef))
    names = {
        node.arg
        for node in ast.walk(function)
        if isinstance(node, ast.keyword) and node.arg and ast.unparse(node.value) == variable
    }
    if not names:
        raise ValueError(f"{file}:{function.lineno}: no keyword takes the field {variable}")
    return sorted(names)


def position_keys(root: Path) -> dict[str, set[str]]:
    """Each field that M-RoPE or XD-RoPE positions are computed from, and the files that do so.

    That is each key of `feature.data[…]` and `feature.data.get(…)`, whatever the feature is
    called, and of `gather_kwargs(features, {…})`, in the functions that take `mm_features`.
    """
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mm_features" not in source:
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef) and _takes_features(function):
                for key in _keys_read(function):
                    found.setdefault(key, set()).add(path.relative_to(root).as_posix())
    return found


def _takes_features(function: ast.FunctionDef) -> bool:
    arguments = function.args.args + function.args.kwonlyargs
    return any(argument.arg == "mm_features" for argument in arguments)


def _keys_read(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and _is_data(node.value):
            keys: list[ast.expr] = [node.slice]
        elif not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        elif node.func.attr == "get" and _is_data(node.func.value):
            keys = node.args[:1]
        elif node.func.attr == "gather_kwargs":
            keys = [
                e for argument in node.args if isinstance(argument, ast.Set) for e in argument.elts
            ]
        else:
            continue
        for key in keys:
            if not isinstance(key, ast.Constant):
                raise ValueError(f"{function.name}: the key {ast.unparse(key)} is not written out")
            yield str(key.value)


def _is_data(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data"


def _walk(node: ast.AST, above: _Stack) -> Iterator[_Stack]:
    stack = (*above, node)
    yield stack
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, stack)
