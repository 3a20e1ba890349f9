"""Share upstream's suites among agents, by the minutes that each took on base."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


def share(choices: Iterable[Choice], shard: int, count: int) -> list[Choice]:
    """Every choice; those that run on another agent say so. Longest first, to the idlest agent."""
    given = list(choices)
    runs = [choice for choice in given if not choice.why_not]
    loads, owner = [0.0] * count, {}
    for choice in sorted(runs, key=lambda c: (-minutes(c), c.suite.name)):
        idlest = loads.index(min(loads))
        loads[idlest] += minutes(choice)
        owner[choice.suite] = idlest + 1
    elsewhere = {suite: agent for suite, agent in owner.items() if agent != shard}
    return [
        replace(choice, why_not=f"runs on agent {elsewhere[choice.suite]} of {count}")
        if choice.suite in elsewhere
        else choice
        for choice in given
    ]
