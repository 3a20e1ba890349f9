"""A server with adapters on the tower of Gemma 4, asked for more soft tokens than at its start."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine.test_server import TEXT, image, refused, tokens
from tests.support.checkpoints import make_checkpoint
from tests.support.lora_probe import RANK, make_adapters
from tests.support.server import Server, serve

MORE, TOO_MANY = {"max_soft_tokens": 560}, {"max_soft_tokens": 1120}
"""Twice what an image has at the start, and more than the encoder cache has room for."""
ADAPTERS = {"first": ("vision_tower", 0.5), "second": ("vision_tower", 1.0)}


@pytest.fixture(scope="module")
def gemma4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("gemma4")
    checkpoint = make_checkpoint("gemma4", folder / "gemma4", weights=True)
    paths = make_adapters(folder, checkpoint, ADAPTERS)
    lora = ("--enable-lora", "--enable-tower-connector-lora", "--max-lora-rank", str(RANK))
    modules = ("--max-loras", "3", "--lora-modules", *(f"{n}={p}" for n, p in paths.items()))
    limits = ("--limit-mm-per-prompt", '{"video": 0, "audio": 0}')
    budget = ("--max-num-batched-tokens", "600")
    with serve(checkpoint, folder / "log", *lora, *modules, *limits, *budget) as running:
        yield running


def test_more_soft_tokens_are_answered_as_without_others_around(gemma4: Server) -> None:
    asked = [(model, n) for n in (1, 2) for model in ("tiny", *ADAPTERS)]

    def ask(one: tuple[str, int]) -> tuple[int, list[int]]:
        model, number = one
        return tokens(gemma4, image(number), TEXT, model=model, mm_processor_kwargs=MORE)

    alone = [ask(one) for one in asked]
    assert all(length > tokens(gemma4, image(1), TEXT)[0] for length, _ in alone)
    with ThreadPoolExecutor(len(asked)) as pool:
        assert list(pool.map(ask, asked)) == alone
    assert alone[0] != alone[2]


@pytest.mark.parametrize("model", ["tiny", "first"])
def test_what_the_cache_has_no_room_for_is_refused_in_a_line(gemma4: Server, model: str) -> None:
    said = refused(gemma4, image(3), TEXT, model=model, mm_processor_kwargs=TOO_MANY)
    assert "exceeds" in said
    assert "\n" not in said
