"""The Buildkite pipeline as data: which steps, on which agents, after what."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import hub
from scripts.release import pin
from scripts.suites import baseline, budget, shards, upstream
from scripts.suites.upstream import Choice

Step = dict[str, Any]
_UPSTREAM = 120  # minutes that the step of upstream's suites may take
_SET_UP = 15  # minutes of an agent that has no cache yet
_REPORTS = ["build/reports/**/*"]
# An agent that was lost (-1) or stopped (-10) says nothing about the code; all else does.
_LOST_AGENT = [{"exit_status": -1, "limit": 2}, {"exit_status": -10, "limit": 2}]


@dataclass(frozen=True)
class Settings:
    """What a team chooses, from variables of the environment.

    `architectures` are compute capabilities as in TORCH_CUDA_ARCH_LIST, one build each;
    `shards` is how many GPU agents share the upstream suites.
    """

    cpu_queue: str
    gpu_queue: str
    two_gpu_queue: str
    architectures: tuple[str, ...]
    shards: int
    nightly: bool


def settings(env: Mapping[str, str]) -> Settings:
    """Raises `OverlayError` that names the variable where a value does not fit."""
    archs = tuple(re.split(r"[\s,;]+", env.get("CI_CUDA_ARCHS", "").strip() or "9.0"))
    for arch in archs:
        if not re.fullmatch(r"\d+\.\d[af]?", arch):
            raise OverlayError(f"CI_CUDA_ARCHS: {arch!r} is no architecture", hint="such as 9.0")
    shards = env.get("CI_GPU_SHARDS") or "4"
    if not shards.isdigit() or int(shards) == 0:
        raise OverlayError(f"CI_GPU_SHARDS: {shards!r} is no count of agents", hint="such as 4")
    return Settings(
        cpu_queue=env.get("CI_CPU_QUEUE") or "default",
        gpu_queue=env.get("CI_GPU_QUEUE") or "gpu",
        two_gpu_queue=env.get("CI_TWO_GPU_QUEUE", ""),
        architectures=archs,
        shards=int(shards),
        nightly=env.get("CI_NIGHTLY", "") not in ("", "0"),
    )


def generate(layout: Layout, chosen: Settings) -> str:
    """The pipeline for `buildkite-agent pipeline upload`, as JSON, which is YAML as well.

    Raises `OverlayError` where the series is not applied, for then nothing tells how long
    upstream's suites take, or where an agent's share of them is longer than its step may be.
    """
    steps = _all(chosen)
    soft = soft_fails(layout.root / "ci" / "soft_fail.json", {step["key"] for step in steps})
    for step in steps:
        if step["key"] in soft:
            step["soft_fail"] = True
    if chosen.nightly:
        steps = [_nightly(chosen)]
    else:
        base, wanted = baseline.read(layout, hub.tier("cuda")), upstream.Wanted()
        plan = budget.plan(layout, pin.read(layout.pin_file), "cuda", wanted, base)
        _require_time([c for c in plan if not c.why_not], chosen.shards)
    return json.dumps({"steps": steps}, indent=1) + "\n"


def _require_time(runs: list[Choice], agents: int) -> None:
    def longest(count: int) -> float:
        return max(shards.loads(runs, count)) + _SET_UP

    if longest(agents) > _UPSTREAM:
        enough = next((n for n in range(agents + 1, len(runs) + 1) if longest(n) <= _UPSTREAM), 0)
        alone = max(runs, key=budget.minutes).suite.name
        raise OverlayError(
            f"CI_GPU_SHARDS: {sum(shards.loads(runs, 1)):.0f} minutes of upstream's suites on"
            f" {agents} agents are {longest(agents):.0f} on one of them, {_SET_UP} of these for its"
            f" set-up, and the step has {_UPSTREAM}",
            hint=f"more agents: CI_GPU_SHARDS={enough}"
            if enough
            else f'alone too long, so "leave" it in tests/upstream/suites.json: {alone}',
        )


def soft_fails(path: Path, keys: set[str]) -> set[str]:
    """Which of `keys` may fail, by a file of key and reason; raises for one that is stale."""
    listed = json.loads(path.read_text())
    stale = sorted(key for key, reason in listed.items() if key not in keys or not reason.strip())
    if stale:
        raise OverlayError(
            f"{path.name}: {', '.join(stale)} is no step of this pipeline, or has no reason",
            hint="drop the line, or name a step and say why it may fail",
        )
    return set(listed)


def _step(key: str, label: str, command: str, queue: str, minutes: int, **more: Any) -> Step:  # noqa: ANN401
    return {
        "key": key,
        "label": label,
        "command": command,
        "agents": {"queue": queue},
        "timeout_in_minutes": minutes,
        "artifact_paths": _REPORTS,
        "retry": {"automatic": _LOST_AGENT},
        **more,
    }


def _all(chosen: Settings) -> list[Step]:
    cpu = chosen.cpu_queue
    steps = [
        _step("lint", ":mag: lint", "make lint", cpu, 10),
        _step(
            "series",
            ":package: apply, export",
            "make apply && make export CHECK=1",
            cpu,
            15,
            depends_on="lint",
        ),
        _step(
            "cpu",
            ":computer: CPU",
            _tested("make apply test DEVICE=cpu"),
            cpu,
            90,
            depends_on="series",
        ),
    ]
    for arch in chosen.architectures:
        steps += _of(arch, chosen)
    return steps


def _of(arch: str, chosen: Settings) -> list[Step]:
    """Build for one architecture, then its GPU suites; one build at a time fills the cache."""
    name = arch.replace(".", "-")
    env = {"DEVICE": "cuda", "TORCH_CUDA_ARCH_LIST": arch}
    build = _step(
        f"build-{name}",
        f":hammer: build for {arch}",
        "make apply build",
        chosen.gpu_queue,
        240,
        env=env,
        depends_on="series",
        concurrency=1,
        # Groups are the organisation's, so the pipeline is part of the name.
        concurrency_group=f"$BUILDKITE_PIPELINE_SLUG/build/{name}",
    )
    own = _step(
        f"gpu-{name}",
        f":zap: own suites on {arch}",
        _tested("make apply test SUITES=regression,engine"),
        chosen.gpu_queue,
        60,
        env=env,
        depends_on=["cpu", build["key"]],
    )
    upstream = _step(
        f"upstream-{name}",
        f":zap: upstream suites on {arch}, %n",
        _tested("make apply test SUITES=upstream"),
        chosen.gpu_queue,
        _UPSTREAM,
        env=env,
        depends_on=["cpu", build["key"]],
        parallelism=chosen.shards,
    )
    steps = [build, own, upstream]
    if chosen.two_gpu_queue:
        two = {**own, "key": f"two-gpu-{name}", "label": f":zap: two GPUs of {arch}"}
        steps.append({**two, "agents": {"queue": chosen.two_gpu_queue}})
    return steps


def _tested(command: str) -> str:
    """Run a suite; what failed goes to the one annotation of the build."""
    return (
        f"{command} || failed=1\n"
        "if [ -s build/reports/annotation.md ]; then buildkite-agent annotate --append"
        " --context series --style error < build/reports/annotation.md; fi\n"
        '[ -z "$${failed:-}" ]'
    )


def _nightly(chosen: Settings) -> Step:
    """Replay on the newest release; a reminder only where there is one that the pin is behind.

    The reminder says the same each night until something changes, and `--context` keeps it one.
    """
    report = "build/reports/next-release.txt"
    command = (
        "make apply && mkdir -p build/reports\n"
        # 3: a conflict, which is what the reminder is for
        f"python3 -m scripts roll --tag latest --dry-run > {report} 2>&1 || code=$$?\n"
        f"cat {report}\n"
        '[ "$${code:-0}" = 0 ] || [ "$$code" = 3 ]\n'
        f"grep -q 'is the newest release' {report} ||"
        f" buildkite-agent annotate --context next-release --style info < {report}"
    )
    return _step("next-release", ":calendar: next release", command, chosen.cpu_queue, 90)
