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
    """A server that makes videos small."""
    kwargs = json.dumps({"videos_kwargs": {"size": SIZE}})
    with serve(
        "qwen3_vl", "--mm-processor-kwargs", kwargs, "--mm-processor-cache-gb", "0.125"
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


ASKED: dict[str, tuple[Any, dict[str, Any], int]] = {
    "more frames than there are": (
        video(media.mp4(1)),
        {"num_frames": 16, "do_sample_frames": True},
        0,
    ),
    "an edge below the least": (image(1, 800, 600), {"max_pixels": 50176}, 48),
    "null": (image(1), {"images_kwargs": {"max_pixels": None}}, 64),
    "a mapping that is no scope": (image(1), {"tokenizer_kwargs": {"a": 1}}, 64),
}


def prompt_tokens(server: Server, parts: list[Any], kwargs: dict[str, Any]) -> int:
    """Ask with the OpenAI client."""
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    done = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": [*parts, TEXT]}],  # type: ignore[list-item,misc]
        max_tokens=2,
        extra_body={"mm_processor_kwargs": kwargs},
    )
    assert done.usage is not None
    return done.usage.prompt_tokens


@pytest.mark.parametrize("rule", ASKED)
def test_what_users_set_is_answered(scoped: Server, rule: str) -> None:
    part, kwargs, item = ASKED[rule]
    asked = prompt_tokens(scoped, [part], kwargs)
    if item:
        assert asked == tokens(scoped, TEXT)[0] + item + 2
    assert prompt_tokens(scoped, [part], kwargs) == asked


def test_a_video_has_the_rate_of_its_place(scoped: Server) -> None:
    first, second = video(media.mp4(1, frames=16)), video(media.mp4(2, frames=8))
    kwargs = {"fps": [1.0, 2.0], "do_sample_frames": True}
    asked = [
        prompt_tokens(scoped, parts, kwargs)
        for parts in ([first, second], [second, first], [first, second])
    ]
    assert asked[0] == asked[2] != asked[1]


@pytest.fixture(scope="module")
def omni(serve: Serve) -> Iterator[Server]:
    """Started with options that hold for one modality, or for a request only."""
    kwargs = json.dumps({"use_audio_in_video": True, "max_pixels": 200704})
    with serve("qwen2_5_omni", "--mm-processor-kwargs", kwargs) as running:
        yield running


def test_a_video_is_heard_that_was_asked_for_at_start(omni: Server) -> None:
    clip = video(media.mp4(1, sound=True))
    heard = prompt_tokens(omni, [clip], {})
    assert heard == prompt_tokens(omni, [clip], {"videos_kwargs": {"use_audio_in_video": True}})
    assert heard > prompt_tokens(omni, [clip], {"use_audio_in_video": False})


def test_options_of_a_video_leave_the_image_beside_it_alone(omni: Server) -> None:
    shown, clip = image(1, 800, 600), video(media.mp4(1, sound=True))
    small = {"use_audio_in_video": False, "videos_kwargs": {"max_pixels": 12544}}
    alone = prompt_tokens(omni, [shown], small)
    of_clip = prompt_tokens(omni, [clip], small)
    rest = tokens(omni, TEXT)[0]
    assert prompt_tokens(omni, [shown, clip], small) - rest == alone - rest + of_clip - rest
    assert alone - rest >= 234
