"""Upstream's own test areas: the pytest commands of `.buildkite/test_areas/*.yaml` in the tree."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

FOLDER = ".buildkite/test_areas"
_WORKSPACE = "/vllm-workspace"  # where upstream's image has the tree
_DROPPED = ("-s", "-v", "-x", "-sv", "-vs")  # what is shown, and where to stop, is ours to say


@dataclass(frozen=True)
class Suite:
    """One pytest command of one step.

    `args` start in `cwd`, a folder of the tree; `device` is upstream's word for the machine;
    `minutes` is the time limit of the whole step, 0 where it has none; `why` is set where the suite
    is a choice of ours.
    """

    step: str
    device: str
    sources: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[str, ...] = ()
    cwd: str = "tests"
    devices: int = 1
    shards: int = 1
    minutes: int = 0
    optional: bool = False
    why: str = ""

    @property
    def name(self) -> str:
        """The command without what all of them share."""
        return shlex.join((*self.env, *self.args))

    @property
    def needs_gpu(self) -> bool:
        return not self.device.startswith("cpu")

    def touched(self, files: Iterable[str]) -> str:
        """The first of `files` that this suite covers, "" for none; `!` takes a prefix out."""
        out = tuple(s.removeprefix("!") for s in self.sources if s.startswith("!"))
        within = tuple(s for s in self.sources if not s.startswith("!"))
        return next((f for f in files if f.startswith(within) and not f.startswith(out)), "")


def read(layout: Layout) -> list[Suite]:
    """Every pytest command of every step, in the order of file and step.

    What a step runs besides pytest (examples, installs, shell scripts) is no suite of ours. Raises
    `OverlayError` where the tree has no areas, or one that cannot be read.
    """
    tools.make_importable(layout)
    import yaml

    files = sorted((layout.clone / FOLDER).glob("*.yaml"))
    if not files:
        raise OverlayError(f"{layout.shown(layout.clone / FOLDER)} has no test areas")
    suites: list[Suite] = []
    for file in files:
        try:
            steps = yaml.safe_load(file.read_text(encoding="utf-8"))["steps"]
            for step in steps:
                suites += _suites(step)
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise OverlayError(f"cannot read {layout.shown(file)}: {reason}") from error
    return list({(suite.step, suite.name): suite for suite in suites}.values())


def _suites(step: dict[str, Any]) -> Iterator[Suite]:
    cwd = step.get("working_dir", f"{_WORKSPACE}/tests").removeprefix(_WORKSPACE).strip("/")
    exported: tuple[str, ...] = ()
    for line in step.get("commands", ()):
        folder = cwd
        for words in _commands(line):
            if words[0] == "export":
                exported += tuple(words[1:])
            elif words[0] == "cd":
                folder = "" if words[1:] == [".."] and folder == "tests" else f"{folder}/{words[1]}"
            else:
                yield from _pytest(step, words, exported, folder)


def _commands(line: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in [*shlex.split(line, comments=True), "&&"]:
        if word != "&&":
            words.append(word)
        elif words:
            yield words
            words = []


def _pytest(
    step: dict[str, Any], words: list[str], env: tuple[str, ...], cwd: str
) -> Iterator[Suite]:
    while words and "=" in words[0]:
        env, words = (*env, words[0]), words[1:]
    if words[:1] != ["pytest"]:
        return
    args = [word.rstrip("/") for word in words[1:] if word not in _DROPPED]
    whole = [word for word in args if not word.startswith(("--num-shards=", "--shard-id="))]
    yield Suite(
        step=step.get("key") or step["label"],
        device=step.get("device", "gpu"),
        sources=tuple(step.get("source_file_dependencies", ("",))),
        args=tuple(whole),
        env=env,
        cwd=cwd,
        devices=step.get("num_devices", 1),
        shards=step.get("parallelism", 1) if whole != args else 1,
        minutes=step.get("timeout_in_minutes", 0),
        optional=step.get("optional", False),
    )
