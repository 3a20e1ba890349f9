"""A model hub on disk that stands in for the real one: generated, offline, the same every time.

It has the layout of the hub's cache. Its models have upstream's names and the configuration,
tokenizer and processor files of their family, no weights; its adapters have the modules of those
that upstream's tests load; its assets have upstream's names and sizes.
`python -m tests.support.hub FOLDER` makes it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from tests.support import checkpoints
from tests.support.checkpoints.base import MAX_POSITIONS
from tests.support.hub import adapters, assets
from tests.support.hub.models import MODELS, REVISIONS

_POSITIONS = 8192
"""`max_position_embeddings` of the hub's models, in tokens: upstream's tests make inputs of it."""


def make_hub(folder: Path) -> Path:
    """Make the hub in `folder`, replaced unless it is there already, and return the folder."""
    stamp = folder / "made-from.sha256"
    if stamp.is_file() and stamp.read_text() == _digest():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for name in sorted(MODELS):
        _make_model(_repository(folder / "hub", name), name)
    for name, adapter in sorted(adapters.ADAPTERS.items()):
        adapters.write(adapter, _repository(folder / "hub", name))
    assets.make(folder / "assets")
    stamp.write_text(_digest())
    return folder


def _digest() -> str:
    """Of all the code that makes it."""
    whole = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def _repository(cache: Path, name: str) -> Path:
    """The references of a repository in the layout of the hub's cache; returns their snapshot."""
    repository = cache / f"models--{name.replace('/', '--')}"
    commit = hashlib.sha1(name.encode()).hexdigest()
    for reference in ("main", *REVISIONS.get(name, ())):
        path = repository / "refs" / reference
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)
    return repository / "snapshots" / commit


def _make_model(folder: Path, name: str) -> None:
    checkpoints.write(MODELS[name], folder)
    for path in (folder / "config.json", folder / "tokenizer_config.json"):
        content = _shortened(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _shortened(content: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(content, dict):
        return {key: _shortened(value) for key, value in content.items()}
    return _POSITIONS if content == MAX_POSITIONS else content
