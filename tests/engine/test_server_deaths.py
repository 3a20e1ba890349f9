"""A server that hears, a client that leaves it, and servers that lose a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.conftest import Serve
from tests.engine.test_server import TEXT, refused, tokens
from tests.support import media
from tests.support.server import PATIENCE, Gate, Server, wait_until

if TYPE_CHECKING:
    from requests import Response


@pytest.fixture(scope="module")
def hearing(serve: Serve) -> Iterator[Server]:
    with serve("qwen2_audio", "--enable-log-requests", *Gate.OPTIONS) as running:
        yield running


def audio(data: bytes) -> Mapping[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": media.data_url("audio/wav", data)}}


@contextmanager
def held(server: Server, ask: Callable[[], Response]) -> Iterator[Future[Response]]:
    """While `server` works on what `ask` wants of it, and cannot end before this does."""
    with ThreadPoolExecutor(1) as pool, server.gate.shut():
        before = server.gate.steps()
        asked = pool.submit(ask)
        wait_until(lambda: server.gate.steps() > before)
        yield asked


def test_it_answers_audio(hearing: Server) -> None:
    text, _ = tokens(hearing, TEXT)
    one, answer = tokens(hearing, audio(media.wav(1)), TEXT)
    two, _ = tokens(hearing, audio(media.wav(1)), audio(media.wav(2)), TEXT)
    assert one - text == two - one == 25 + 12, "25 tokens a second, the rest is `Audio 1: …`"
    assert tokens(hearing, audio(media.wav(1)), TEXT) == (one, answer)


def test_broken_audio_is_refused_by_name(hearing: Server) -> None:
    assert "audio" in refused(hearing, audio(b"RIFF"), TEXT).lower()


def test_a_client_that_leaves_takes_its_request_along(hearing: Server) -> None:
    def idle() -> bool:
        assert tokens(hearing, TEXT)
        return hearing.metric("vllm:num_requests_running") == 0

    message = {"role": "user", "content": [audio(media.wav(4)), TEXT]}
    fields = {"messages": [message], "stream": True, "max_tokens": 3900}
    before = hearing.metric("vllm:generation_tokens_total")
    with held(hearing, lambda: hearing.post("/v1/chat/completions", fields, stream=True)) as asked:
        asked.result().close()
        wait_until(lambda: " aborted." in hearing.log.read_text(errors="replace"))
    wait_until(idle)
    assert hearing.metric("vllm:generation_tokens_total") - before < 3900


def lose(server: Server, name: str, *parts: Mapping[str, Any]) -> None:
    """Kill the processes of `server` that have `name`, while it answers `parts`."""
    footprint = server.footprint()
    with held(server, lambda: server.chat(*parts)) as asked:
        for one in footprint.named(name):
            one.kill()
        reply = asked.result()
    assert reply.status_code == 500
    assert "engine" in reply.json()["error"]["message"].lower()
    assert server.process.wait(PATIENCE) >= 0, "it ends by itself"
    assert footprint.left() == []


def test_a_killed_engine_fails_its_requests_and_ends_the_server(hearing: Server) -> None:
    """The last test of this server."""
    lose(hearing, "EngineCore", audio(media.wav(3)), TEXT)


def test_a_killed_worker_fails_its_requests_and_ends_the_server(serve: Serve) -> None:
    with serve("llama", "--distributed-executor-backend", "mp", *Gate.OPTIONS) as server:
        assert tokens(server, TEXT)
        lose(server, "Worker", TEXT)
