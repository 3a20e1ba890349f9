"""A server that hears, and servers that lose a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.engine.conftest import Serve
from tests.engine.test_server import TEXT, refused, tokens, wait_until_busy
from tests.support import media
from tests.support.server import Server


@pytest.fixture(scope="module")
def hearing(serve: Serve) -> Iterator[Server]:
    with serve("qwen2_audio") as running:
        yield running


def audio(data: bytes) -> Mapping[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": media.data_url("audio/wav", data)}}


def test_it_answers_audio(hearing: Server) -> None:
    text, _ = tokens(hearing, TEXT)
    one, answer = tokens(hearing, audio(media.wav(1)), TEXT)
    two, _ = tokens(hearing, audio(media.wav(1)), audio(media.wav(2)), TEXT)
    assert one - text == two - one == 25 + 12, "25 tokens a second, the rest is `Audio 1: …`"
    assert tokens(hearing, audio(media.wav(1)), TEXT) == (one, answer)


def test_broken_audio_is_refused_by_name(hearing: Server) -> None:
    assert "audio" in refused(hearing, audio(b"RIFF"), TEXT).lower()


def lose(server: Server, name: str, *parts: Mapping[str, Any]) -> None:
    """Kill the processes of `server` that have `name`, while it answers `parts`."""
    footprint = server.footprint()
    lost, (engine,) = footprint.named(name), footprint.named("EngineCore")
    with ThreadPoolExecutor(1) as pool:
        asked = wait_until_busy(engine, lambda: pool.submit(server.chat, *parts, max_tokens=3900))
        for one in lost:
            one.kill()
        reply: requests.Response = asked.result()
    assert reply.status_code == 500
    assert "engine" in reply.json()["error"]["message"].lower()
    assert server.process.wait(60) >= 0, "it ends by itself"
    assert footprint.left() == []


def test_a_killed_engine_fails_its_requests_and_ends_the_server(hearing: Server) -> None:
    """The last test of this server."""
    lose(hearing, "EngineCore", audio(media.wav(3)), TEXT)


def test_a_killed_worker_fails_its_requests_and_ends_the_server(serve: Serve) -> None:
    with serve("llama", "--distributed-executor-backend", "mp") as server:
        assert tokens(server, TEXT)
        lose(server, "Worker", TEXT)
