"""`mm_processor_kwargs` with scopes: at engine start, in a request, and wrong ones."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.conftest import Serve
from tests.engine.test_server import TEXT, image, refused, tokens, video
from tests.support import media
from tests.support.server import Failed, Server

SIZE = {"shortest_edge": 4096, "longest_edge": 32768}
SMALLER = {"shortest_edge": 4096, "longest_edge": 16384}


@pytest.fixture(scope="module")
def scoped(serve: Serve) -> Iterator[Server]:
    """A server that makes videos small, and caches no processed items."""
    kwargs = json.dumps({"videos_kwargs": {"size": SIZE}})
    with serve(
        "qwen3_vl", "--mm-processor-kwargs", kwargs, "--mm-processor-cache-gb", "0"
    ) as running:
        yield running


def length(server: Server, part: Any, **kwargs: Any) -> int:
    """Of the prompt with `part` and request kwargs, in tokens."""
    return tokens(server, part, TEXT, mm_processor_kwargs=kwargs)[0]


def test_the_scope_of_the_engine_sizes_its_videos_only(scoped: Server) -> None:
    clip = video(media.mp4(1))
    stock = length(scoped, clip)
    assert stock == length(scoped, clip, videos_kwargs={"size": SIZE})
    assert length(scoped, clip, videos_kwargs={"size": {**SIZE, "longest_edge": 1 << 20}}) > stock
    assert length(scoped, image(1)) == tokens(scoped, TEXT)[0] + 66, "the image's own 64 tokens"


def test_a_request_beats_the_engine_and_a_scope_beats_a_flat_key(scoped: Server) -> None:
    clip = video(media.mp4(1))
    stock = length(scoped, clip)
    assert length(scoped, clip, size=SMALLER) == stock
    assert length(scoped, clip, videos_kwargs={"size": SMALLER}) < stock
    assert length(scoped, clip, size=SIZE, videos_kwargs={"size": SMALLER}) < stock
    assert length(scoped, image(1), size=SMALLER) == length(
        scoped, image(1), size=SIZE, images_kwargs={"size": SMALLER}
    )
    assert length(scoped, image(1), videos_kwargs={"size": SMALLER}) == length(scoped, image(1))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no mapping": ({"videos_kwargs": 7}, "videos_kwargs"),
    "near miss": ({"video_kwargs": {"size": SIZE}}, "videos_kwargs"),
    "negative": ({"videos_kwargs": {"size": {**SIZE, "longest_edge": -1}}}, "longest_edge"),
    "reversed": (
        {"videos_kwargs": {"size": {"shortest_edge": 9, "longest_edge": 8}}},
        "shortest_edge",
    ),
    "text": ({"images_kwargs": {"max_pixels": "many"}}, "max_pixels"),
}


@pytest.mark.parametrize(("kwargs", "word"), WRONG.values(), ids=WRONG)
def test_a_wrong_scope_is_refused_by_name(
    scoped: Server, kwargs: dict[str, Any], word: str
) -> None:
    said = refused(scoped, image(1), TEXT, mm_processor_kwargs=kwargs)
    assert word in said
    assert "\n" not in said


def test_an_engine_with_a_wrong_scope_does_not_start_and_says_the_same(
    scoped: Server, serve: Serve
) -> None:
    kwargs, _ = WRONG["near miss"]
    said = refused(scoped, image(1), TEXT, mm_processor_kwargs=kwargs)
    wrong = serve("qwen3_vl", "--mm-processor-kwargs", json.dumps(kwargs))
    with pytest.raises(Failed) as failed, wrong:
        pass
    assert said in str(failed.value)
