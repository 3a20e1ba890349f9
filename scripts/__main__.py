"""`python3 -m scripts VERB`: the table of verbs, and what an error ends with.

An older Python reads this file, too: nothing newer than Python 3.6 stands in it.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - these lines are what an older Python gets to see
    sys.stderr.write("error: Python 3.11 or newer is needed\nhint: make PYTHON=python3.12 VERB\n")
    sys.exit(2)


def _leave(*_: object) -> None:
    """At an interrupt while modules load: nothing is begun, so nothing is to be taken back."""
    os.write(2, b"interrupted\n")
    os._exit(130)


try:
    import signal
except KeyboardInterrupt:
    _leave()
# Not by an exception, which the machinery of imports may swallow. Who ignores it still does.
_WAITING = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if __name__ == "__main__" and _WAITING:
    signal.signal(signal.SIGINT, _leave)

import argparse
import errno
from importlib import import_module
from pathlib import Path

from scripts import options
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.core.terminal import Discreet

ROOT = Path(__file__).absolute().parent.parent
# Verb: module and function in verbs/, which is loaded for it alone; what it does.
VERBS = {
    "fetch": ("series.fetch", "get the pinned source into the work clone"),
    "verify": ("series.verify", "prove the source's hash; compare the sources at hand"),
    "apply": ("series.apply", "put the series on the pinned source"),
    "export": ("series.export", "write the commits of the work clone as the series"),
    "lint": ("series.lint_series", "rules over the series"),
    "status": ("series.status", "pin, series, what is applied, drift"),
    "doctor": ("environment.examine", "is this machine fit for the device and kernel mode"),
    "build": ("environment.make", "make the environment with kernels for this machine"),
    "test": ("tests.test", "run the suites for this machine"),
    "baseline": ("tests.record_baseline", "record what upstream's tests do without the series"),
    "check": ("tests.check", "style, types, lint, apply, export --check"),
    "pick": ("carry.pick_series", "put the series on a new branch of a fork"),
    "roll": ("carry.roll_pin", "move the pin to a new release"),
    "pipeline": ("tests.emit_pipeline", "the pipeline, for `buildkite-agent pipeline upload`"),
    "clean": ("environment.clean", "remove the environment, the tools and the reports"),
    "bench": ("evidence.measure", "measure base against patched"),
    "prove": ("evidence.prove_hunks", "take each hunk away: does a test notice"),
}


def _told(error: OSError, where: Layout) -> OverlayError:
    """What the system refuses, in terms of what a person can do about it."""
    place = error.filename or where.shown(where.build)
    if error.errno == errno.ENOSPC:
        return OverlayError(f"no disk space left at {place}", hint="free some, then run this again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return OverlayError(
            f"cannot write {place}: {error.strerror}",
            hint=f"make {where.shown(Path(place).parent)} writable for this user",
        )
    raise error


def _run(args: argparse.Namespace, where: Layout) -> None:
    module, _, name = VERBS[args.verb][0].partition(".")
    verb = getattr(import_module(f"scripts.verbs.{module}"), name)
    if _WAITING:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        verb(args, where)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _told(error, where) from error


def main() -> int:
    """Do what the command line says; the exit code."""
    sys.stdout, sys.stderr = Discreet(sys.stdout), Discreet(sys.stderr)
    args = options.parser({name: text for name, (_, text) in VERBS.items()}, __doc__).parse_args()
    try:
        _run(args, Layout.of(ROOT, args.vllm_dir))
    except OverlayError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one has nothing left to stop
    if code == 130:
        print("interrupted", file=sys.stderr)
    sys.exit(code)
