"""The generated hub: the layout of the hub's cache, and tables that hold together."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support import checkpoints, hub
from tests.support.checkpoints.base import MAX_POSITIONS, Checkpoint
from tests.support.hub.adapters import ADAPTERS
from tests.support.hub.models import MODELS, REVISIONS


class Numbers(defaultdict[str, int]):
    """An id for any token."""

    def __init__(self) -> None:
        super().__init__(lambda: len(self) + 256)


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokenizer, weights or pictures: they need libraries that our tools do not have."""

    def write(_checkpoint: Checkpoint, folder: Path) -> None:
        folder.mkdir(parents=True)
        config = {"text_config": {"max_position_embeddings": MAX_POSITIONS}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer_config.json").write_text("{}")

    monkeypatch.setattr(checkpoints, "write", write)
    monkeypatch.setattr(hub.adapters, "write", lambda _, folder: folder.mkdir(parents=True))
    monkeypatch.setattr(hub.assets, "make", lambda folder: folder.mkdir())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_says_what_it_is(name: str) -> None:
    config = MODELS[name].config(Numbers())
    assert config["model_type"]
    assert len(config["architectures"]) == 1
    assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_has_every_token_that_it_speaks_of(name: str) -> None:
    asked = Numbers()
    MODELS[name].config(asked)
    assert set(asked) <= set(MODELS[name].tokens)
    assert set(MODELS[name].tokenizer.values()) <= set(MODELS[name].tokens)


@pytest.mark.usefixtures("light")
def test_a_model_is_found_by_its_name_and_revision(tmp_path: Path) -> None:
    made = hub.make_hub(tmp_path / "hub")
    for name in MODELS:
        repository = made / "hub" / f"models--{name.replace('/', '--')}"
        for reference in ("main", *REVISIONS.get(name, ())):
            commit = (repository / "refs" / reference).read_text()
            config = json.loads((repository / "snapshots" / commit / "config.json").read_text())
            assert config["text_config"]["max_position_embeddings"] < MAX_POSITIONS


@pytest.mark.usefixtures("light")
def test_an_adapter_is_found_by_its_name(tmp_path: Path) -> None:
    made = hub.make_hub(tmp_path / "hub")
    for name in ADAPTERS:
        repository = made / "hub" / f"models--{name.replace('/', '--')}"
        assert (repository / "snapshots" / (repository / "refs" / "main").read_text()).is_dir()


@pytest.mark.usefixtures("light")
def test_a_hub_is_made_once_and_replaced_when_its_tables_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hub.make_hub(tmp_path / "hub")
    (made / "mine").touch()
    hub.make_hub(made)
    assert (made / "mine").exists()
    monkeypatch.setattr(hub, "_digest", lambda: "other tables")
    hub.make_hub(made)
    assert not (made / "mine").exists()
