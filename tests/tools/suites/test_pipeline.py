"""The Buildkite pipeline: valid, complete, and the team's own in what it may choose."""

from __future__ import annotations

import importlib.resources
import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.core.errors import OverlayError
from scripts.suites import pipeline
from tests.tools import mini, server
from tests.tools.product import REPO, Product

Steps = dict[str, dict[str, Any]]


def _validate(made: dict[str, Any]) -> None:
    """By Buildkite's own rules, as its SDK ships them."""
    rules = importlib.resources.files("buildkite_sdk").joinpath("schema.json")
    jsonschema.validate(made, json.loads(rules.read_text()))


def _generated(product: Product, **env: str) -> Steps:
    done = product.run("pipeline", **env)
    assert done.code == 0, done
    made = json.loads(done.out)
    _validate(made)
    return {step["key"]: step for step in made["steps"]}


def test_the_bootstrap_step_is_valid_and_uploads_what_the_verb_prints() -> None:
    bootstrap = yaml.safe_load((REPO / "ci" / "bootstrap.yml").read_text())

    _validate(bootstrap)
    (step,) = bootstrap["steps"]
    assert (
        step["command"]
        == "make apply >&2 && python3 -m scripts pipeline | buildkite-agent pipeline upload"
    )


def test_each_step_waits_for_what_it_needs(applied: Product) -> None:
    steps = _generated(applied)

    assert list(steps) == ["lint", "series", "cpu", "build-9-0", "gpu-9-0", "upstream-9-0"]
    assert steps["series"]["depends_on"] == "lint"
    assert steps["cpu"]["depends_on"] == "series"
    assert steps["build-9-0"]["depends_on"] == "series"
    for key in ("gpu-9-0", "upstream-9-0"):
        assert steps[key]["depends_on"] == ["cpu", "build-9-0"]


def test_a_team_names_its_agents_architectures_and_shards(applied: Product) -> None:
    env = {"CI_CPU_QUEUE": "small", "CI_GPU_QUEUE": "h200", "CI_TWO_GPU_QUEUE": "h200x2"}
    steps = _generated(applied, CI_CUDA_ARCHS="8.0 9.0a", CI_GPU_SHARDS="7", **env)

    queues = {key: step["agents"]["queue"] for key, step in steps.items()}
    assert {queues[key] for key in ("lint", "series", "cpu")} == {"small"}
    for name, arch in (("8-0", "8.0"), ("9-0a", "9.0a")):
        assert queues[f"build-{name}"] == queues[f"upstream-{name}"] == "h200"
        assert queues[f"two-gpu-{name}"] == "h200x2"
        assert steps[f"upstream-{name}"]["parallelism"] == 7
        assert steps[f"upstream-{name}"]["env"]["TORCH_CUDA_ARCH_LIST"] == arch


def test_only_a_lost_agent_is_tried_again_and_every_step_ends(applied: Product) -> None:
    for step in _generated(applied, CI_TWO_GPU_QUEUE="two").values():
        assert step["retry"]["automatic"] == [
            {"exit_status": -1, "limit": 2},
            {"exit_status": -10, "limit": 2},
        ]
        assert step["timeout_in_minutes"] <= 240
        assert step["artifact_paths"] == ["build/reports/**/*"]


def test_one_build_an_architecture_at_a_time(applied: Product) -> None:
    build = _generated(applied)["build-9-0"]

    assert build["concurrency"] == 1
    assert build["concurrency_group"] == "$BUILDKITE_PIPELINE_SLUG/build/9-0"


def test_every_command_is_one_that_this_repository_has(applied: Product) -> None:
    targets = (REPO / "Makefile").read_text()
    verbs = subprocess.run(
        [sys.executable, "-m", "scripts", "--help"], cwd=REPO, capture_output=True, text=True
    ).stdout
    steps = _generated(applied) | _generated(applied, CI_NIGHTLY="1")
    for step in steps.values():
        for line in re.split(r"&&|\|\|?|;|\n", step["command"]):
            words = line.split() or [""]
            if words[0] == "make":
                assert all(f"\n{word}:" in targets for word in words[1:] if "=" not in word), line
            if words[:2] == ["python3", "-m"]:
                assert f"    {words[3]} " in verbs, line


def test_nothing_may_fail_softly_today() -> None:
    """Whoever adds a step to ci/soft_fail.json changes this line, and says why in both."""
    assert json.loads((REPO / "ci" / "soft_fail.json").read_text()) == {}


def test_a_soft_fail_names_a_step_and_its_reason(tmp_path: Path) -> None:
    listed = tmp_path / "soft_fail.json"
    listed.write_text('{"upstream-9-0": "flaky on the hub"}')
    assert pipeline.soft_fails(listed, {"cpu", "upstream-9-0"}) == {"upstream-9-0"}
    for wrong in ('{"upstream-7-5": "gone"}', '{"upstream-9-0": " "}'):
        listed.write_text(wrong)
        with pytest.raises(OverlayError, match="upstream-"):
            pipeline.soft_fails(listed, {"cpu", "upstream-9-0"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CI_CUDA_ARCHS", "hopper"), ("CI_GPU_SHARDS", "0")],
)
def test_a_value_that_does_not_fit_is_named(product: Product, variable: str, value: str) -> None:
    done = product.run("pipeline", **{variable: value})

    assert done.code == 2
    assert variable in done.error
    assert value in done.error


@pytest.mark.parametrize(
    ("limit", "said", "hint"),
    [
        (
            300,
            "110 minutes of upstream's suites on 1 agents are 125",
            "more agents: CI_GPU_SHARDS=2",
        ),
        (330, "120 minutes of upstream's suites on 1 agents are 135", "alone too long, so"),
    ],
)
def test_a_share_that_its_step_has_no_time_for_is_refused_with_both_numbers(
    applied: Product, limit: int, said: str, hint: str
) -> None:
    area = applied.clone / ".buildkite/test_areas/mini.yaml"
    area.write_text(area.read_text().replace("minutes: 20", f"minutes: {limit}"))
    done = applied.run("pipeline", CI_GPU_SHARDS="1")

    assert f"{said} on one of them" in done.error
    assert "the step has 120" in done.error
    assert done.hint.startswith(hint)


def test_a_pipeline_of_a_series_that_is_not_applied_asks_for_it(product: Product) -> None:
    assert product.run("pipeline").hint == "make apply"
    assert product.run("pipeline", CI_NIGHTLY="1").code == 0


AGENT = """\
#!/bin/sh
echo "$@" >> "$0.said"
cat >> "$0.said"
"""


def _on_an_agent(product: Product, step: dict[str, Any], **env: str) -> tuple[int, str]:
    """Run a step as an agent does; its exit code, and what the page of the build then shows."""
    folder = product.root.parent / "bin"
    agent = folder / "buildkite-agent"
    if not folder.exists():
        folder.mkdir()
        (folder / "python3").symlink_to(sys.executable)
        agent.write_text(AGENT)
        agent.chmod(0o755)
    command = step["command"].replace("$$", "$")  # by the upload
    path = f"{folder}:{product.env()['PATH']}"
    done = product.shell(shlex.join(["bash", "-e", "-c", command]), **{"PATH": path, **env})
    said = Path(f"{agent}.said")
    shown = said.read_text() if said.exists() else ""
    said.unlink(missing_ok=True)
    return done.code, shown


def test_a_nightly_build_reminds_of_a_release_that_the_pin_is_behind_and_of_no_other(
    product: Product, tmp_path: Path
) -> None:
    steps = _generated(product, CI_NIGHTLY="1")
    assert list(steps) == ["next-release"]
    new = mini.release(product.upstream, tmp_path, "v0.29.0")
    gone = ("Go", {"vllm/a.py": b"all is new\n"})
    worse = mini.release(product.upstream, tmp_path, "v0.30.0", gone)
    with server.serving({"vllm": {mini.SDIST: product.upstream.sdist}}) as index:
        night = partial(_on_an_agent, product, steps["next-release"], PIP_INDEX_URL=index.url)
        assert night() == (0, "")

        index.projects["vllm"]["vllm-0.29.0.tar.gz"] = new.sdist
        code, shown = night()
        assert code == 0
        assert shown.startswith("annotate --context next-release --style info\nvllm v0.29.0, ")
        assert night() == (0, shown)

        index.projects["vllm"]["vllm-0.30.0.tar.gz"] = worse.sdist
        code, shown = night()
        assert code == 0
        assert "error: conflict in " in shown
    assert night() == (1, ""), "a night without an index is no reminder, but a failure"


def test_a_failed_suite_is_shown_and_fails_its_step(applied: Product) -> None:
    step = _generated(applied)["cpu"]
    path = applied.root / "build" / "reports" / "annotation.md"

    def ran(code: int, said: str) -> tuple[int, str]:
        mini.write(path.parent, {path.name: said.encode()})
        command = step["command"].replace("make apply test DEVICE=cpu", f"(exit {code})")
        return _on_an_agent(applied, {"command": command})

    assert ran(0, "") == (0, "")
    assert ran(1, "") == (1, "")
    assert ran(1, "### CPU") == (1, "annotate --append --context series --style error\n### CPU")


def test_the_container_file_passes_its_linter_and_has_no_default_base() -> None:
    file = REPO / "ci" / "Containerfile"
    hadolint = Path(sys.executable).with_name("hadolint")

    done = subprocess.run([hadolint, str(file)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nARG CUDA_IMAGE\nFROM ${CUDA_IMAGE}\n" in file.read_text()
