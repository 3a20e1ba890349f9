"""A pytest plugin that records how each test ended, and which functions of the tree it called.

Functions note their own call: a tracer of the interpreter would make every other call ten times
slower.
"""

# ruff: noqa: ANN401 (what importlib hands over)

from __future__ import annotations

import ast
import builtins
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import signature
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from scripts.proof.hunks import named_functions

_NOTE = "__proof_called__"


@dataclass
class _Shared:
    """A fixture that outlives a test: what its making called, and what others did with it."""

    made: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    seconds: float = 0.0


class CallRecorder:
    """`tests`: id → outcome, seconds, calls (`vllm/path.py::qualified.name`).

    A test's are with those of the shared fixtures that it asks for.
    """

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self._shared: dict[str, _Shared] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before, began = set(self.called), time.monotonic()
        self.called.clear()
        try:
            return (yield)
        finally:
            made, seconds = set(self.called), time.monotonic() - began
            self.called |= before
            if fixturedef.scope != "function":
                below = [self._shared[name] for name in fixturedef.argnames if name in self._shared]
                for one in below:
                    one.used |= made
                    one.seconds += seconds
                made = made.union(*(one.made for one in below))
                self._shared[fixturedef.argname] = _Shared(made, set(), seconds)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.called.clear()
        try:
            return (yield)
        finally:
            entry, calls = self._entry(item.nodeid), set(self.called)
            for name in signature(item.function).parameters:  # type: ignore[attr-defined]
                shared = self._shared.get(name, _Shared())
                calls |= shared.made | shared.used
                entry["seconds"] = round(max(entry["seconds"], shared.seconds), 3)
            entry["calls"] = sorted(calls)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self._entry(report.nodeid)
        entry["seconds"] = round(entry["seconds"] + report.duration, 3)
        if report.outcome != "passed":
            entry["outcome"] = report.outcome

    def _entry(self, test: str) -> dict[str, Any]:
        return self.tests.setdefault(test, {"outcome": "passed", "seconds": 0.0, "calls": []})


@contextmanager
def noted(tree: Path, paths: Sequence[str], recorder: CallRecorder) -> Iterator[None]:
    """Let the functions of the files `paths` (below `tree`) tell `recorder` of their calls, as far
    as these files are not loaded yet.
    """
    finder = _Finder({str(tree / path): path for path in paths})
    setattr(builtins, _NOTE, recorder.called.add)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    def __init__(self, paths: dict[str, str]) -> None:
        self._paths = paths

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name.startswith("vllm") else None
        if spec is None or spec.origin not in self._paths:
            return None
        spec.loader = _Loader(name, spec.origin, self._paths[spec.origin])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, path: str) -> None:
        super().__init__(name, file)
        self._noted_as = path

    def path_stats(self, path: str) -> Any:
        raise OSError(f"the bytecode of {path} does not note calls")

    def source_to_code(self, data: Any, path: Any, **_: Any) -> CodeType:
        tree = ast.parse(data)
        for name, function in list(named_functions(tree)):
            at = 1 if ast.get_docstring(function, clean=False) is not None else 0
            note = ast.parse(f"{_NOTE}({self._noted_as + '::' + name!r})").body[0]
            for node in ast.walk(note):
                ast.copy_location(node, function.body[0])
            function.body.insert(at, note)
        return compile(tree, path, "exec", dont_inherit=True)
