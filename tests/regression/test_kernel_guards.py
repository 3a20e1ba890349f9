"""Ops of the native tree are declared wherever they are bound, for each choice of architectures.

CMakeLists.txt defines a guard where the source of an op is compiled, so the guards of a binding are
those of a choice of architectures. A name that is bound under one guard and declared under another
stops the compile for a part of the choices, which upstream's CI may not have: its GPUs are Hopper
and newer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import vllm

CSRC = Path(vllm.__file__).parents[1] / "csrc"
BINDINGS = ("torch_bindings.cpp", "libtorch_stable/torch_bindings.cpp",
            "libtorch_stable/moe/torch_bindings.cpp")  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)")

Line = tuple[str, frozenset[str]]
"""A line of code, and the conditions of the preprocessor under which a compiler sees it."""


def guarded(text: str) -> Iterator[Line]:
    conditions: list[str] = []
    for line in _COMMENT.sub("", text).replace("\\\n", " ").splitlines():
        directive = _DIRECTIVE.match(line)
        if not directive:
            yield line, frozenset(conditions)
            continue
        word, said = directive[1], directive[2].strip()
        if word in ("else", "elif", "endif"):
            ended = conditions.pop()
            said = f"not ({ended}) {said}".strip()
        if word == "ifdef":
            said = f"defined({said})"
        elif word == "ifndef":
            said = f"not (defined({said}))"
        if word != "endif":
            conditions.append(said)


def headers(source: Path) -> list[Path]:
    """What `source` includes of its own folder and of csrc, and what that includes."""
    found = [source]
    for file in found:
        for name in re.findall(r'#include "([^"]+)"', file.read_text()):
            for folder in (file.parent, CSRC):
                path = (folder / name).resolve()
                if path.is_file() and path not in found:
                    found.append(path)
    return found[1:]


def undeclared(source: Path) -> list[str]:
    """A line for each name that `source` binds under conditions that no declaration of it has."""
    declared = [line for header in headers(source) for line in guarded(header.read_text())]
    faults = []
    for text, conditions in guarded(source.read_text()):
        for name in re.findall(r"&(\w+)\)", text):
            places = [there for line, there in declared if re.search(rf"\b{name}\(", line)]
            if not any(there <= conditions for there in places):
                faults.append(f"{name}: bound under {set(conditions)}, declared under {places}")
    return faults


@pytest.mark.parametrize("source", BINDINGS)
def test_an_op_is_declared_wherever_it_is_bound(source: str) -> None:
    assert re.search(r"&\w+\)", (CSRC / source).read_text())
    assert undeclared(CSRC / source) == []


@pytest.mark.parametrize(
    ("header", "declared"),
    [
        ("void op();", True),
        ("#ifdef A\nvoid op();\n#endif", True),
        ("#if defined(A)\nvoid op();\n#endif", True),
        ("#ifdef B\n#else\nvoid op();\n#endif", False),
        ("#ifdef B\nvoid op();\n#endif", False),
        ("#ifndef A\nvoid op();\n#endif", False),
        ("#ifdef A\n#ifdef B\nvoid op();\n#endif\n#endif", False),
        ("#ifdef A\n#ifdef B\n#endif\nvoid op();\n#endif", True),
        ("// void op();", False),
    ],
)
def test_a_declaration_counts_where_every_binding_sees_it(
    tmp_path: Path, header: str, declared: bool
) -> None:
    (tmp_path / "ops.h").write_text(header)
    source = tmp_path / "bindings.cpp"
    source.write_text('#include "ops.h"\n#ifdef A\n  impl("op", TORCH_BOX(&op));\n#endif\n')

    assert (undeclared(source) == []) == declared
