"""vLLM's executor of worker processes, which counts what it broadcasts to them."""

# ruff: noqa: ANN401, ARG005 (what vLLM sends, and how it calls)

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vllm.distributed.device_communicators.shm_broadcast import MessageQueue
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

TELL = "tell_broadcast"
"""For `collective_rpc`: so far broadcast bytes, and CPU seconds of the engine-core process."""
_POLL = 0.0005
"""Seconds between two looks for an answer of the workers."""


class CountingExecutor(MultiprocExecutor):
    """Sends what `MultiprocExecutor` does, and counts it where it leaves the process."""

    def _init_executor(self) -> None:
        super()._init_executor()
        self._broadcast_bytes = 0
        assert self.rpc_broadcast_mq is not None
        self._count(self.rpc_broadcast_mq)
        for queue in self.response_mqs:
            # In place of a busy loop, which takes as much CPU time as the workers take to answer.
            queue._spin_condition.wait = lambda timeout_ms=None: time.sleep(_POLL)

    def _count(self, queue: MessageQueue) -> None:
        """Small messages go through shared memory, those above the size of a chunk by socket."""
        chunk, socket = queue.acquire_write, queue.local_socket

        @contextmanager
        def acquire_write(timeout: float | None = None) -> Iterator[memoryview]:
            with chunk(timeout) as buffer:
                yield buffer
                self._broadcast_bytes += _written(buffer)

        class CountedSocket:
            @staticmethod
            def send_multipart(parts: Sequence[Any], **options: Any) -> Any:
                self._broadcast_bytes += sum(map(len, parts))
                return socket.send_multipart(parts, **options)

        queue.acquire_write = acquire_write
        queue.local_socket = CountedSocket

    def execute_model(self, scheduler_output: SchedulerOutput, non_block: bool = False) -> Any:
        before = self._broadcast_bytes
        told = super().execute_model(scheduler_output, non_block)
        if not scheduler_output.total_num_scheduled_tokens:
            # That a request has ended is sent when nothing else is: sooner or later than `TELL`.
            self._broadcast_bytes = before
        return told

    def collective_rpc(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        if method == TELL:
            return [{"bytes": self._broadcast_bytes, "cpu_seconds": time.process_time()}]
        return super().collective_rpc(method, *args, **kwargs)


def _written(chunk: memoryview) -> int:
    """Bytes of a message in the ring buffer, as `MessageQueue.enqueue` lays it out."""
    overflow, parts, end = chunk[0], int.from_bytes(chunk[1:3], "big"), 3
    if overflow:
        return 1
    for _ in range(parts):
        end += 4 + int.from_bytes(chunk[end : end + 4], "big")
    return end
