"""Upstream's suites shared among agents, and what a failed run tells a build's page."""

from __future__ import annotations

import pytest

from scripts.core.errors import OverlayError
from scripts.suites import shards
from scripts.suites.areas import Suite
from scripts.suites.upstream import Choice


def _choice(name: str, minutes: float | None, why_not: str = "") -> Choice:
    suite = Suite(step=name, device="gpu", sources=("vllm/a/",), args=(f"{name}/test_it.py",))
    return Choice(suite, "touched", why_not, minutes)


CHOICES = [
    *(_choice(name, minutes) for name, minutes in (("a", 30), ("b", 20), ("c", 11), ("d", None))),
    _choice("e", 5, why_not="for cpu"),
]


def _mine(shard: int, count: int) -> set[str]:
    return {c.suite.step for c in shards.share(CHOICES, shard, count) if not c.why_not}


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_each_suite_runs_on_exactly_one_agent(count: int) -> None:
    parts = [_mine(shard, count) for shard in range(1, count + 1)]

    assert sorted(step for part in parts for step in part) == ["a", "b", "c", "d"]


def test_the_agents_end_at_about_the_same_time() -> None:
    assert [_mine(shard, 2) for shard in (1, 2)] == [{"a", "d"}, {"b", "c"}]


def test_a_plan_ends_with_hours_in_all_and_on_the_agent_that_has_most() -> None:
    assert shards.shown(CHOICES, 1) == "at most 1.2 hours in all, 1.2 on one of 1 agents"
    assert shards.shown(CHOICES, 2) == "at most 1.2 hours in all, 0.7 on one of 2 agents"
    assert shards.shown(CHOICES, 9) == "at most 1.2 hours in all, 0.5 on one of 9 agents"


def test_what_runs_elsewhere_says_where() -> None:
    told = {c.suite.step: c.why_not for c in shards.share(CHOICES, 1, 2)}

    assert told == {"a": "", "b": "runs on agent 2 of 2", "c": "runs on agent 2 of 2", "d": "",
                    "e": "for cpu"}  # fmt: skip


def test_a_share_is_asked_for_or_is_the_parallel_job_of_the_build() -> None:
    job = {"BUILDKITE_PARALLEL_JOB": "2", "BUILDKITE_PARALLEL_JOB_COUNT": "4"}

    assert shards.asked("", {}) == (1, 1)
    assert shards.asked("", job) == (3, 4)
    assert shards.asked("2/5", job) == (2, 5)


@pytest.mark.parametrize("wrong", ["5/4", "0/4", "1", "a/b"])
def test_a_share_that_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(OverlayError, match=f"SHARD={wrong}"):
        shards.asked(wrong, {})
