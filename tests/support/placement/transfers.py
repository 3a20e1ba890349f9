"""What moves between host and device, or waits for it, in models that the audit cannot run.

One line a place, as its source says it, without line numbers: what is new, gone or written
otherwise is seen as a difference of the table, and is to be read by a person then.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

TRANSFERS = Path(__file__).parents[2] / "regression" / "transfers.txt"
_HEAD = "# file, function: what moves between host and device or waits there, where no model is run"
_CALLS = {"async_tensor_h2d", "pack_valid_rows", "gpu_sync_allowed", "item", "tolist", "cpu",
          "numpy", "nonzero", "torch.all", "torch.any", "torch.argsort", "torch.as_tensor",
          "torch.from_numpy", "torch.isin", "torch.tensor"}  # fmt: skip
_INDEX = re.compile(r"(?:^|_)(?:indices|mask|order|idx|index|ids|valid)$")

_ONCE = {"__init__", "load_weights"}
# Classes that run before the engine does, where nothing is on the device.
_BEFORE = ("Processor", "Info", "Builder", "Parser", "Items", "Inputs")


def transfers(root: Path, modules: Iterable[str]) -> str:
    """The table of `modules`, dotted names below the folder `root` of the package `vllm`."""
    lines = [_HEAD]
    for module in sorted(modules):
        tree = ast.parse((root / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        lines += [f"{module.rpartition('.')[2]} {line}" for line in _of_body(tree, "")]
    return "\n".join(lines) + "\n"


def _of_body(body: ast.AST, owner: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if node.name not in _ONCE and not node.name.endswith(_BEFORE):
                yield from _of_body(node, f"{owner}.{node.name}".lstrip("."))
            continue
        if _moves_or_waits(node):
            yield f"{owner}: {ast.unparse(node)}"
        yield from _of_body(node, owner)


def _moves_or_waits(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.List) or bool(_INDEX.search(ast.unparse(node.slice)))
    if not isinstance(node, ast.Call):
        return False
    called, said = ast.unparse(node.func), ast.unparse(node)
    if called in _CALLS or called.rpartition(".")[2] in _CALLS:
        return True
    makes = called.startswith("torch.") or called.endswith(".to")
    return called.endswith(".new_zeros") or (makes and "device" in said[len(called) :])
