"""The options of the verbs: each from the command line, or from a variable of its name."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping


def _one_of(*names: str) -> Callable[[str], str]:
    """An argument's type. `choices` would let a wrong value of the environment pass."""

    def parse(value: str) -> str:
        if value not in names:
            raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(names)}")
        return value

    return parse


def _switch(value: str) -> bool:
    return _one_of("0", "1")(value) == "1"


def _words(value: str) -> list[str]:
    return re.split(r"[\s,]+", value) if value else []


_KERNELS = _one_of("auto", "cpu", "precompiled", "source")
_Kind = Callable[[str], object]
# Option, what it is unless given, its kind, the verbs that take it. Its variable is its name in
# capitals, so that make and the environment set it, too.
_OPTIONS: tuple[tuple[str, str, _Kind, str], ...] = (
    ("source", "sdist", _one_of("sdist", "git"), "fetch apply pick roll"),
    ("git-url", "", str, "fetch apply verify pick roll"),
    ("resolve", "0", _switch, "apply"),
    ("check", "0", _switch, "export"),
    ("dist", "", str, "export"),
    ("device", "auto", str, "doctor build test bench baseline prove"),
    ("kernels", "auto", _KERNELS, "doctor build test bench baseline prove"),
    ("targets", "", str, "build test bench baseline prove"),
    ("dry-run", "0", _switch, "build pick roll"),
    ("json", "0", _switch, "doctor"),
    ("fork", "", str, "pick"),
    ("onto", "", str, "pick"),
    ("branch", "", str, "pick"),
    ("patches", "", str, "check pick prove"),
    ("tag", "", str, "roll"),
    ("sha256", "", str, "roll"),
    ("commit", "", str, "roll"),
    ("each", "0", _switch, "check"),
    ("suites", "", _words, "test baseline"),
    ("shard", "", str, "test"),
    ("only", "", str, "test"),
    ("changed", "", str, "test"),
    ("transformers", "", str, "test"),
    ("bench", "", _words, "bench"),
    ("rounds", "3", int, "bench"),
    ("against", "", _words, "bench"),
    ("record", "0", _switch, "bench prove"),
)
NAMES = tuple(option for option, *_ in _OPTIONS)
"""Of all options; in capitals they are variables."""


def parser(verbs: Mapping[str, str], description: str | None) -> argparse.ArgumentParser:
    """The command line with these verbs, each with a line that says what it does."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="python3 -m scripts", description=description)
    parser.add_argument("--vllm-dir", default=env("VLLM_DIR"), help="a checkout of yours to use")
    parsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in verbs.items():
        verb = parsers.add_parser(name, help=text, description=text)
        for option, default, kind, takers in _OPTIONS:
            if name in takers.split():
                given = env(option.upper().replace("-", "_")) or default
                # A switch is on by itself, too; in a variable it is 1 or 0.
                alone: dict[str, str] = {"nargs": "?", "const": "1"} if kind is _switch else {}
                verb.add_argument(f"--{option}", type=kind, default=given, **alone)  # type: ignore[arg-type]
    return parser
