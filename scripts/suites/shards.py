"""Share upstream's suites among agents, by the minutes that each took on base."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scripts.core.errors import OverlayError
from scripts.suites.budget import minutes
from scripts.suites.upstream import Choice


def asked(shard: str, env: Mapping[str, str]) -> tuple[int, int]:
    """`k/n` as (k, n), k from 1: what was asked for, else this job of Buildkite's parallel ones."""
    if not shard:
        job, count = env.get("BUILDKITE_PARALLEL_JOB"), env.get("BUILDKITE_PARALLEL_JOB_COUNT")
        return (int(job) + 1, int(count)) if job and count else (1, 1)
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard)
    if not match or int(match[1]) > int(match[2]):
        raise OverlayError(f"SHARD={shard} is no share", hint="such as SHARD=1/4, up to SHARD=4/4")
    return int(match[1]), int(match[2])


def share(choices: Sequence[Choice], shard: int, count: int) -> list[Choice]:
    """Every choice; those that run on another agent say so."""
    agents = _spread(choices, count)
    owner = {choice.suite: n for n, its in enumerate(agents, 1) for choice in its if n != shard}
    return [
        replace(choice, why_not=f"runs on agent {owner[choice.suite]} of {count}")
        if choice.suite in owner
        else choice
        for choice in choices
    ]


def loads(choices: Iterable[Choice], count: int) -> list[float]:
    """Minutes of each of `count` agents."""
    return [sum(map(minutes, its)) for its in _spread(choices, count)]


def shown(choices: Sequence[Choice], count: int) -> str:
    """The last line of a plan: hours in all, and on the agent that has most of them."""
    each = loads(choices, count)
    most = f"{max(each) / 60:.1f} on one of {count} agents"
    return f"at most {sum(each) / 60:.1f} hours in all, {most}"


def _spread(choices: Iterable[Choice], count: int) -> list[list[Choice]]:
    """What runs, an agent at a time: longest first, to the idlest."""
    agents: list[list[Choice]] = [[] for _ in range(count)]
    runs = [choice for choice in choices if not choice.why_not]
    for choice in sorted(runs, key=lambda c: (-minutes(c), c.suite.name)):
        min(agents, key=lambda its: sum(map(minutes, its))).append(choice)
    return agents
