"""What `prove` found out before, as long as it holds: verdicts on hunks, records of tests."""

from __future__ import annotations

import ast
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scripts.core.layout import Layout, write_whole
from scripts.proof.hunks import Cut
from scripts.proof.imports import Imports
from scripts.proof.verdicts import EXCUSES, TESTS, Verdict, modules

_AROUND = f"{TESTS}/conftest.py"


@dataclass(frozen=True)
class Recorded:
    """Tests of a module on the whole tree.

    `passed`: test → its seconds, and the functions that it called; `missing`: test
    functions that are new, or stand on something else than when they were run.
    """

    passed: Mapping[str, Any]
    missing: tuple[str, ...]


class Memory:
    """Below `build/prove`: verdicts, a line each, the last of a hunk counts; a record a module."""

    def __init__(self, layout: Layout) -> None:
        self._root, self._folder = layout.root, layout.build / "prove"
        self._imports = Imports(layout.root, lazily=True)
        self._lock = threading.Lock()
        self._stamps = cache(self._stamps_of)
        self._entries: dict[str, dict[str, Any]] = {}
        if self._verdicts.is_file():
            for line in self._verdicts.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:  # cut off where a run was killed
                    continue
                self._entries[entry["key"]] = entry

    @property
    def _verdicts(self) -> Path:
        return self._folder / "verdicts.jsonl"

    def recall(self, cut: Cut) -> Verdict | None:
        entry = self._entries.get(cut.key)
        if entry is None or entry["stamp"] != self._stamp(cut, entry["test"]):
            return None
        return Verdict(cut, *(entry[name] for name in ("how", "test", "said", "seconds")))

    def keep(self, found: Verdict) -> None:
        entry = {"key": found.cut.key, "how": found.how, "test": found.test, "said": found.said,
                 "seconds": found.seconds}  # fmt: skip
        entry["stamp"] = self._stamp(found.cut, found.test)
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._verdicts.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(entry)}\n")

    def _stamp(self, cut: Cut, test: str) -> str:
        """Of the file without the hunk, and of the test that noticed, or of all that might."""
        module, _, function = test.partition("::")
        function = function.partition("[")[0]
        text = cut.path.encode() + b"\0" + (b"gone" if cut.text is None else cut.text)
        parts = [hashlib.sha256(text).hexdigest()]
        if module in modules(cut) and function:
            parts.append(self._stamps(module).get(function, "gone"))
        else:
            parts += [str(sorted(self._stamps(name).items())) for name in modules(cut)]
        return _digest(parts)

    def _stamps_of(self, module: str) -> dict[str, str]:
        """Test function → digest of all that it stands on: itself, what of the module is no other
        test, what of ours that imports, and the tables that these name.
        """
        path = self._root / module
        source = path.read_text(encoding="utf-8")
        rest, functions = _parts(source)
        names = [name.removesuffix(".py").replace("/", ".") for name in (module, _AROUND)]
        files = {self._imports.path(name) for name in self._imports.reach(names)} - {None, path}
        texts = {file: file.read_bytes() for file in files if file}
        whole = b"".join([source.encode(), *texts.values()])
        for file in (self._root / "tests").rglob("*"):
            named = file.suffix in (".json", ".txt") and file.name.encode() in whole
            if named and file != self._root / EXCUSES:
                texts[file] = file.read_bytes()
        under = _digest([rest, *(f"{file.relative_to(self._root)} {_digest([text.hex()])}"
                                 for file, text in sorted(texts.items()))])  # fmt: skip
        return {name: _digest([under, text]) for name, text in functions.items()}

    def record_of(self, module: str) -> Recorded:
        path, stamps = self._record_path(module), self._stamps(module)
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        same = {f for f, stamp in kept.get("stamps", {}).items() if stamps.get(f) == stamp}
        passed = {test: how for test, how in kept.get("tests", {}).items()
                  if _function(test) in same and how["outcome"] == "passed"}  # fmt: skip
        missing = tuple(name for name in stamps if name not in same)
        return Recorded(passed, missing)

    def keep_record(self, module: str, functions: Iterable[str], answer: Mapping[str, Any]) -> None:
        """Keep what a run of these test functions said, beside what holds of others."""
        path, stamps, ran = self._record_path(module), self._stamps(module), set(functions)
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        tests = {test: how for test, how in kept.get("tests", {}).items()
                 if _function(test) in stamps.keys() - ran}  # fmt: skip
        before = kept.get("stamps", {})
        whole = {
            "tests": tests | dict(answer["tests"]),
            "stamps": {name: stamps[name] if name in ran else before.get(name, "")
                       for name in stamps},
        }  # fmt: skip
        write_whole(path, json.dumps(whole))

    def loaded(self) -> list[str]:
        """What loading the patched part of some tree loaded, in order: much the same in another."""
        path = self._folder / "loaded.json"
        found: list[str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        return found

    def keep_loaded(self, modules: Sequence[str]) -> None:
        write_whole(self._folder / "loaded.json", json.dumps(modules))

    def _record_path(self, module: str) -> Path:
        return self._folder / f"{Path(module).stem}.json"


def _function(test: str) -> str:
    return test.partition("::")[2].partition("[")[0]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _parts(source: str) -> tuple[str, dict[str, str]]:
    """The text of a test module without its test functions, and theirs by name."""
    lines = source.splitlines()
    functions = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            top = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1
            functions[node.name] = "\n".join(lines[top : node.end_lineno])
            lines[top : node.end_lineno] = [""] * ((node.end_lineno or top) - top)
    return "\n".join(line for line in lines if line), functions
