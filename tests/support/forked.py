"""A process that has vLLM loaded and forks for each probe, which starts fresh and at once.

`python -m tests.support.forked [MODULE…]` loads these, too, and says where its vLLM is. Then one
JSON object a line comes in, one exit status goes out: {"module", "arguments", "seconds", "out",
"log"}; output goes to these two files.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from tests.support.telling import telling


def _become(asked: dict[str, Any]) -> NoReturn:
    """Run `main` of the module that is asked for, and end."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.setpgid(0, 0)
        signal.alarm(asked["seconds"])
        for number, path in ((1, asked["out"]), (2, asked["log"])):
            with open(path, "wb") as file:
                os.dup2(file.fileno(), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = importlib.import_module(asked["module"]).main(asked["arguments"])
    except SystemExit as end:  # of a parser of arguments
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int) -> int:
    """The exit status of a probe; what it left running ends, and so does it where this must end."""
    with suppress(OSError):  # it may have done so first
        os.setpgid(child, child)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its number stays its own
    finally:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main(modules: list[str]) -> int:
    """Answer until the input ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with telling() as tell:
        import vllm

        for module in modules:
            importlib.import_module(module)
        tell({"vllm": vllm.__file__})
        for line in sys.stdin:
            # Until someone looks after the child.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            child = os.fork()
            if child == 0:
                _become(json.loads(line))
            tell(_wait(child))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
