"""`python3 -m scripts VERB`: parse arguments, print, map errors to exit codes."""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, cast

if sys.version_info < (3, 11):  # noqa: UP036 - this line is what an older Python gets to see
    print("error: Python 3.11 or newer is needed\nhint: make PYTHON=python3.12 …", file=sys.stderr)
    sys.exit(2)

from scripts import options
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.verbs import carry, environment, evidence, series, tests

ROOT = Path(__file__).absolute().parent.parent


Verb = Callable[[argparse.Namespace, Layout], None]
VERBS: dict[str, tuple[Verb, str]] = {
    "fetch": (series.fetch, "get the pinned source into the work clone"),
    "verify": (series.verify, "prove the source's hash; compare the sources at hand"),
    "apply": (series.apply, "put the series on the pinned source"),
    "export": (series.export, "write the commits of the work clone as the series"),
    "lint": (series.lint_series, "rules over the series"),
    "status": (series.status, "pin, series, what is applied, drift"),
    "doctor": (environment.examine, "is this machine fit for the device and kernel mode"),
    "build": (environment.build_environment, "make the environment with kernels for this machine"),
    "test": (tests.test, "run the suites for this machine"),
    "baseline": (tests.record_baseline, "record what upstream's tests do without the series"),
    "check": (tests.check, "style, types, lint, apply, export --check"),
    "pick": (carry.pick_series, "put the series on a new branch of a fork"),
    "roll": (carry.roll_pin, "move the pin to a new release"),
    "pipeline": (
        tests.emit_pipeline,
        "the Buildkite pipeline, for `buildkite-agent pipeline upload`",
    ),
    "clean": (environment.clean, "remove the environment, the tools and the reports"),
    "bench": (evidence.measure, "measure base against patched"),
    "prove": (evidence.prove_hunks, "take each hunk away: does a test notice"),
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


class _Discreet(io.TextIOWrapper):
    """A stream that keeps the user and the password of a URL out of terminals and logs.

    A file name may be no text, and a terminal no Unicode.
    """

    def __init__(self, stream: TextIO) -> None:
        encoding, eager = stream.encoding, bool(stream.line_buffering)
        raw = cast(io.TextIOWrapper, stream).detach()
        super().__init__(raw, encoding, "backslashreplace", line_buffering=eager)

    def write(self, text: str) -> int:
        return super().write(re.sub(r"://[^/\s]+@", "://", text))


def main() -> int:
    sys.stdout, sys.stderr = _Discreet(sys.stdout), _Discreet(sys.stderr)
    args = options.parser({name: text for name, (_, text) in VERBS.items()}, __doc__).parse_args()
    where = Layout.of(ROOT, args.vllm_dir)
    try:
        try:
            VERBS[args.verb][0](args, where)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _told(error, where) from error
    except OverlayError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
