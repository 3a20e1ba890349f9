"""Modules of the tree with other source, for tests that must see a fault come back."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _tag() -> str:
    pin = json.loads((ROOT / "patches" / "upstream.json").read_text(encoding="utf-8"))
    return str(pin["tag"])


def pinned_source(module: str) -> str:
    """The text of `module` at the pinned release, asked of the work clone that is installed."""
    import vllm

    path = f"{module.replace('.', '/')}.py"
    return subprocess.run(
        ["git", "show", f"{_tag()}:{path}"],
        cwd=Path(vllm.__file__).parents[1],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout


def pinned_tree(folder: Path) -> Path:
    """The pinned release's package in `folder`, with the kernels of the installed one."""
    import vllm

    installed = Path(vllm.__file__).parent
    command = ["git", "archive", "--format=zip", _tag(), "vllm"]
    archive = subprocess.run(command, cwd=installed.parent, capture_output=True, check=True)
    with zipfile.ZipFile(io.BytesIO(archive.stdout)) as tree:
        tree.extractall(folder)
    for path in installed.rglob("*"):
        copy = folder / path.relative_to(installed.parent)
        if path.suffix == ".so" or path.name == "_version.py":
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(path)
    return folder


@contextmanager
def replaced(sources: Mapping[str, str]) -> Iterator[None]:
    """Run each module's new source in its place; lines keep the path of its file.

    Other modules that took names from it before keep the old ones; the caches of model classes
    forget them.
    """
    from vllm.model_executor.model_loader import utils as loader
    from vllm.model_executor.models.registry import _try_load_model_cls

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "_MODEL_ARCH_BY_HASH", {})
        for name, source in sources.items():
            module = importlib.import_module(name)
            _execute(module, source, patch)
        _try_load_model_cls.cache_clear()
        yield
    _try_load_model_cls.cache_clear()


def _execute(module: ModuleType, source: str, patch: pytest.MonkeyPatch) -> None:
    for name, value in list(vars(module).items()):
        patch.setattr(module, name, value)  # put back at the end
    exec(compile(source, str(module.__file__), "exec"), vars(module))


def edited(source: str, *edits: tuple[str, str]) -> str:
    """`source` with each text, which it must hold once, replaced by another."""
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} is there {source.count(old)} times, not once")
        source = source.replace(old, new)
    return source
