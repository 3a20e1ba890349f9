"""One server that is asked for everything at once, and for things that it cannot do."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import media
from tests.support.server import Server

Part = Mapping[str, Any]
TEXT: Part = {"type": "text", "text": "what is shown?"}


def image(number: int, width: int = 224, height: int = 224) -> Part:
    url = media.data_url("image/png", media.png(number, width, height))
    return {"type": "image_url", "image_url": {"url": url}}


def video(data: bytes) -> Part:
    return {"type": "video_url", "video_url": {"url": media.data_url("video/mp4", data)}}


def tokens(server: Server, *parts: Part, **more: Any) -> tuple[int, list[int]]:
    """Length of the prompt and the greedy answer, in tokens."""
    reply = server.chat(*parts, **more)
    assert reply.status_code == 200, reply.text
    told = reply.json()
    return told["usage"]["prompt_tokens"], told["choices"][0]["token_ids"]


def refused(server: Server, *parts: Part, **more: Any) -> str:
    """The message of a 400, after which the server still answers."""
    reply = server.chat(*parts, **more)
    assert reply.status_code == 400, reply.text
    assert tokens(server, TEXT)
    return str(reply.json()["error"]["message"])


def test_it_answers_text_images_video_and_both(vision: Server) -> None:
    lengths = [
        tokens(vision, *parts, TEXT)[0]
        for parts in (
            [],
            [image(1)],
            [image(1), image(2)],
            [video(media.mp4(1))],
            [image(1), video(media.mp4(1))],
        )
    ]
    text, one, two, clip, mixed = lengths
    assert one - text == two - one == 66, "64 tokens, a start and an end"
    assert clip > text
    assert mixed - text == one - text + clip - text


def test_a_resent_item_is_answered_as_at_first(vision: Server) -> None:
    parts = [image(3), image(4), TEXT]
    first = tokens(vision, *parts)
    hits = vision.metric("vllm:mm_cache_hits_total")
    assert tokens(vision, *parts) == first
    assert vision.metric("vllm:mm_cache_hits_total") >= hits + 2


def test_a_request_may_have_its_own_size(vision: Server) -> None:
    small = {"size": {"shortest_edge": 4096, "longest_edge": 16384}}
    stock, _ = tokens(vision, image(1), TEXT)
    flat, _ = tokens(vision, image(1), TEXT, mm_processor_kwargs=small)
    assert stock - flat == 64 - 16
    assert tokens(vision, image(1), TEXT)[0] == stock


def test_more_items_than_the_limit_are_refused(vision: Server) -> None:
    assert "4" in refused(vision, *map(image, range(5)), TEXT)


def test_embeddings_stand_for_an_image(vision: Server) -> None:
    import torch

    def encoded(tensor: Any) -> str:
        file = io.BytesIO()
        torch.save(tensor, file)
        return base64.b64encode(file.getvalue()).decode()

    # 4 x 6 patches make 6 tokens: a vector for the input and one for the layer behind it.
    embeds = {"image_embeds": torch.ones(6, 128), "image_grid_thw": torch.tensor([1, 4, 6])}
    part = {"type": "image_embeds", "image_embeds": {k: encoded(v) for k, v in embeds.items()}}
    assert tokens(vision, part, TEXT)[0] == tokens(vision, TEXT)[0] + 6 + 2


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}, "image"),
        (
            {
                "type": "image_url",
                "image_url": {"url": media.data_url("image/png", media.png(1)[:400])},
            },
            "image",
        ),
        (video(media.mp4(1)[:2000]), "video"),
    ],
    ids=["no image", "truncated image", "truncated video"],
)
def test_broken_media_are_refused_by_name(vision: Server, part: Part, word: str) -> None:
    assert word in refused(vision, part, TEXT).lower()


def test_a_hundred_requests_at_once_are_answered_as_one_by_one(vision: Server) -> None:
    alone = [tokens(vision, image(number), TEXT) for number in range(10)]
    with ThreadPoolExecutor(100) as pool:
        asked = [pool.submit(tokens, vision, image(n % 10), TEXT) for n in range(100)]
        together = [one.result() for one in asked]
    assert together == alone * 10
    assert vision.metric("vllm:num_requests_running") == 0


def test_a_stopped_server_leaves_nothing_behind(vision: Server) -> None:
    """The last test of this server."""
    footprint = vision.footprint()
    assert len(footprint.processes) > 1
    assert footprint.segments, "the processor cache is in shared memory"
    assert vision.stop() == 0
    assert footprint.left() == []
