"""A process that has loaded what takes long, and forks for each piece of work.

One JSON object a line comes in, one goes out:
{"load": [modules]}   fork; the child loads them and answers from then on    → {"loaded": [modules]}
{"leave": true}       the last such child ends, the one before it answers    → {"left": status}
{"run": {...}}        pytest in a child of its own, see `session`            → its answer
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, TextIO

from tests.support.proof import session


class Server:
    """Answers one message after the other, in whichever process the last `load` made."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers

    def serve(self) -> None:
        while line := _line():
            message = json.loads(line)
            if "load" in message:
                self._load(message["load"])
            elif "run" in message:
                self._say(_in_child(message["run"]))
            else:
                return

    def _load(self, modules: list[str]) -> None:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            self._say({"left": os.waitstatus_to_exitcode(status)})
            return
        try:
            self._say({"loaded": _loaded(modules)})
            self.serve()
        finally:
            os._exit(0)

    def _say(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()


def _line() -> bytes:
    """The next line of standard input; nothing of what follows is taken, for a child to read."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return b""
        line += part
    return line


def _loaded(modules: list[str]) -> list[str]:
    session.load(modules)
    gc.collect()
    gc.freeze()  # so that the children share the pages
    return list(sys.modules)


def _in_child(work: dict[str, Any]) -> dict[str, Any]:
    """The answer of `session.run`; {"died": exit code, "test": the one that ran} without one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as file:
                session.run(work, lambda said: print(json.dumps(said), file=file, flush=True))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said: list[dict[str, Any]] = [json.loads(line) for line in file]
    _, status = os.waitpid(child, 0)
    last = said[-1] if said else {"now": ""}
    return (
        {"died": os.waitstatus_to_exitcode(status), "test": last["now"]} if "now" in last else last
    )


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM and pytest print is for the log
    Server(answers).serve()


if __name__ == "__main__":
    main()
