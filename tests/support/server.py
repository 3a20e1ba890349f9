"""A real OpenAI-compatible server on loopback, and what it holds of the machine."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import psutil
    import requests

_OPTIONS = (
    *("--host", "127.0.0.1", "--served-model-name", "tiny", "--enforce-eager"),
    *("--max-model-len", "4096", "--max-num-batched-tokens", "2048", "--max-num-seqs", "16"),
    *("--block-size", "32", "--kv-cache-memory-bytes", "256M", "--skip-mm-profiling"),
    *("--gpu-memory-utilization", "0.3"),
)
ROOT = Path(__file__).absolute().parents[2]
PATIENCE = 900
"""Seconds after which something hangs, on a busy machine, too; on an idle one a start takes 40."""
GATE = "TESTS_GATE"
"""Environment: the file of a `Gate`."""


class Failed(Exception):
    """The server ended before it answered; the text is what it logged last."""


@dataclass(frozen=True)
class Footprint:
    """The processes of a server, itself first, and the shared memory that they have mapped."""

    processes: tuple[psutil.Process, ...]
    segments: frozenset[Path]

    def named(self, name: str) -> list[psutil.Process]:
        """The processes with `name` in theirs; at least one."""
        found = [one for one in self.processes if name in one.name()]
        assert found, f"no {name} in {self.processes}"
        return found

    def left(self) -> list[str]:
        """What is still there of it, when it has had the time to go."""
        import psutil

        _, alive = psutil.wait_procs(self.processes, timeout=PATIENCE / 10)
        # What nobody waits for stays as a zombie, which holds nothing.
        names = [str(one) for one in alive if "zombie" not in str(one)]
        return names + [str(path) for path in sorted(self.segments) if path.exists()]


@dataclass(frozen=True)
class Gate:
    """While it is shut, no step of a served model ends; `file` grows by a byte with each."""

    file: Path

    OPTIONS: ClassVar = ("--logits-processors", "tests.support.gate:Held")
    """Of `vllm serve`, so that its workers come to this gate."""

    @contextmanager
    def shut(self) -> Iterator[None]:
        with self.file.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def steps(self) -> int:
        """How many have come so far; the last one waits while the gate is shut."""
        return self.file.stat().st_size


def wait_until(happened: Callable[[], bool]) -> None:
    """Look again and again; fails when it must be hanging."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@dataclass(frozen=True)
class Server:
    """A running server; `log` has its output."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    gate: Gate

    def chat(self, *content: Mapping[str, Any], **more: Any) -> requests.Response:
        """One user message of `content` parts; keywords are further fields of the request."""
        message = {"role": "user", "content": list(content)}
        return self.post("/v1/chat/completions", {"messages": [message], **more})

    def post(self, path: str, fields: Mapping[str, Any], **options: Any) -> requests.Response:
        """POST `fields`, greedy and short unless they say otherwise; `options` are requests's."""
        import requests

        greedy = {"model": "tiny", "temperature": 0, "max_tokens": 8, "ignore_eos": True}
        body = {**greedy, "return_token_ids": True, **fields}
        return requests.post(f"{self.url}{path}", json=body, timeout=PATIENCE, **options)

    def healthy(self) -> bool:
        import requests

        try:
            return requests.get(f"{self.url}/health", timeout=PATIENCE).ok
        except requests.ConnectionError:
            return False

    def metric(self, name: str, **labels: str) -> float:
        """Sum over the samples of a metric that have `labels`."""
        import requests
        from prometheus_client.parser import text_string_to_metric_families

        page = requests.get(f"{self.url}/metrics", timeout=PATIENCE).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def footprint(self) -> Footprint:
        import psutil

        server = psutil.Process(self.process.pid)
        processes = (server, *server.children(recursive=True))
        maps = (Path(f"/proc/{one.pid}/maps").read_text() for one in processes)
        paths = {line.split(maxsplit=5)[-1] for text in maps for line in text.splitlines()}
        shared = {Path(path) for path in paths if path.startswith("/dev/shm/")}
        return Footprint(processes, frozenset(shared))

    def stop(self) -> int:
        """End it as an operator does, unless it has ended; its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


@contextmanager
def serve(checkpoint: Path, log: Path, *options: str) -> Iterator[Server]:
    """Start a server and wait until it is healthy; whatever is left of it ends afterwards.

    Raises `Failed` if it ends before.
    """
    gate = Gate(log.with_name("gate"))
    gate.file.touch()
    with socket.socket() as ours:
        # Held, so that nobody else gets the port before the server, which shares it, has it.
        for shared in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            ours.setsockopt(socket.SOL_SOCKET, shared, 1)
        ours.bind(("127.0.0.1", 0))
        with _serve_at(ours.getsockname()[1], gate, checkpoint, log, *options) as server:
            yield server


@contextmanager
def _serve_at(
    port: int, gate: Gate, checkpoint: Path, log: Path, *options: str
) -> Iterator[Server]:
    command = [sys.executable, "-P", "-m", "vllm.entrypoints.cli.main", "serve", str(checkpoint)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *_OPTIONS, *_dtype(), "--port", str(port), *options],
            env=engine_environment() | {GATE: str(gate.file), "PYTHONPATH": _path()},
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    server = Server(f"http://127.0.0.1:{port}", process, log, gate)
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.healthy():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(log.read_text(errors="replace"))
            time.sleep(0.5)
        yield server
        server.stop()
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group that `process` leads.

    Kindly first: who tracks shared memory outlives this signal and then cleans up.
    """
    with suppress(ProcessLookupError):
        for kind in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, kind)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                process.poll()  # a leader that ended counts until someone looks
                os.killpg(process.pid, 0)
                time.sleep(0.1)


def engine_environment() -> dict[str, str]:
    """For processes that run engines of tiny models: a thread each, nothing sent or fetched."""
    return dict(os.environ) | {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }


def _path() -> str:
    """Our tests, before what the session was given."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def _dtype() -> tuple[str, ...]:
    """As in `engine_probe`."""
    return ("--dtype", "float32") if os.environ.get("VLLM_TARGET_DEVICE") == "cpu" else ()
