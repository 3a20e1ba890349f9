"""Which of upstream's suites run and why; what they did against what they did on base."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.environment import build, worktree
from scripts.release import pin
from scripts.suites import baseline, record, runner, sessions, shortlist, upstream
from scripts.suites.areas import Suite
from scripts.suites.baseline import Baseline, Comparison, Recorded
from scripts.suites.outcomes import Outcome, resource
from scripts.suites.upstream import Choice, Wanted
from tests.tools.product import REPO, Product

SMALL, LARGE = "tests/sums/test_small.py", "tests/sums/test_large.py"
DIES = "import os\nos.kill(os.getpid(), 9)\n"


@pytest.fixture
def layout(applied: Product, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """An applied checkout, with our own tools as its environment: they have pytest."""
    (applied.root / "build" / "venv").symlink_to(REPO / "build" / "tools")
    monkeypatch.setenv("HUB", "real")  # no stand-in for the hub is made
    return Layout.of(applied.root, None)


@pytest.fixture
def small(layout: Layout) -> list[Choice]:
    """The suites that run on a CPU without being asked for by name."""
    return [choice for choice in choose(layout) if not choice.why_not]


def choose(layout: Layout, device: str = "cpu", wanted: Wanted = Wanted()) -> list[Choice]:  # noqa: B008
    return upstream.choose(layout, pin.read(layout.pin_file), device, wanted, None)


def declare(layout: Layout, also: object = (), leave: object = None) -> None:
    path = layout.root / "tests" / "upstream" / "suites.json"
    path.write_text(json.dumps({"also": also, "leave": leave or {}}))


def reasons(choices: list[Choice]) -> dict[str, str]:
    """Step → why its first suite stays out."""
    return {choice.suite.step: choice.why_not for choice in reversed(choices)}


def test_a_suite_runs_because_the_series_touches_its_sources(layout: Layout) -> None:
    runs = [choice for choice in choose(layout) if not choice.why_not]
    assert [choice.suite.name for choice in runs] == [
        "MINI_MODE=exported MINI_SPEED=fast sums/test_small.py -m 'not slow'",
        "MINI_MODE=exported tests/sums/test_large.py",
    ]
    assert {choice.why for choice in runs} == {"the series touches vllm/a.py"}
    assert [(choice.suite.shards, choice.suite.cwd) for choice in runs] == [(1, "tests"), (2, "")]


def test_what_stays_out_says_why(layout: Layout) -> None:
    assert reasons(choose(layout)) == {
        "sums": "",
        "elsewhere": "the series touches nothing of its sources",
        "kernels": "needs a GPU",
        "many": "needs a GPU",
        "optional": "optional for upstream too",
    }
    on_cuda = reasons(choose(layout, "cuda"))
    assert (on_cuda["kernels"], on_cuda["many"]) == ("", "needs more than one GPU")


def test_on_a_gpu_the_suites_run_guarded_as_upstream_does(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = "VLLM_GPU_SYNC_CHECK"
    assert guard not in sessions.environment(layout, "cpu")
    assert sessions.environment(layout, "cuda")[guard] == "error"
    monkeypatch.setenv(guard, "warn")
    assert sessions.environment(layout, "cuda")[guard] == "warn"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_engines_run_unasked_and_on_a_gpu_what_only_it_decides(layout: Layout, device: str) -> None:
    chosen = runner.choose(layout, pin.read(layout.pin_file), device, [])
    (engine,) = [suite for suite in chosen if suite.name == "engine"]
    assert not engine.why_not
    assert ("test_on_gpu" in "".join(shortlist.shown([engine]))) == (device == "cuda")


def test_a_suite_that_imports_nothing_of_it_stays_out(layout: Layout) -> None:
    name = "MINI_MODE=exported sums/test_apart.py"
    found = {choice.suite.name: choice.why_not for choice in choose(layout)}
    assert found[name] == "none of its tests imports a package that the series touches"
    found = {c.suite.name: c.why_not for c in choose(layout, wanted=Wanted(everything=True))}
    assert found[name] == ""


def test_a_prefix_with_a_mark_takes_files_out() -> None:
    suite = Suite("s", "cpu", ("vllm/", "!vllm/sub/"), ())
    assert suite.touched(["vllm/sub/x.py"]) == ""
    assert suite.touched(["vllm/sub/x.py", "vllm/b.py"]) == "vllm/b.py"


def test_everything_takes_what_the_series_does_not_touch(layout: Layout) -> None:
    found = reasons(choose(layout, wanted=Wanted(everything=True)))
    assert (found["elsewhere"], found["optional"], found["kernels"]) == ("", "", "needs a GPU")


def test_a_step_can_be_asked_for_by_its_key(layout: Layout) -> None:
    found = reasons(choose(layout, wanted=Wanted(steps=("elsewhere",))))
    assert found["elsewhere"] == ""
    assert found["sums"] == "not asked for (SUITES)"


def test_a_suite_of_ours_takes_the_place_of_a_narrower_one(layout: Layout) -> None:
    small, large = (choice.suite.name for choice in choose(layout) if not choice.why_not)
    one = {
        "pytest": "sums/test_small.py",
        "device": "cpu",
        "sources": ["vllm/"],
        "why": "all of it",
    }
    declare(layout, also=[one | {"replaces": [small]}], leave={large: "takes long"})
    found = {choice.suite.name: choice for choice in choose(layout)}
    assert found["sums/test_small.py"].why == "the series touches vllm/a.py; all of it"
    assert found[small].why_not == "a wider suite runs its tests"
    assert found[large].why_not == "takes long"


def test_a_suite_of_ours_that_the_tree_lacks_is_refused(layout: Layout) -> None:
    declare(
        layout, also=[{"pytest": "sums/test_gone.py", "device": "cpu", "sources": [], "why": ""}]
    )
    with pytest.raises(
        OverlayError, match=r"names sums/test_gone.py, which the tree does not have"
    ):
        choose(layout)


def test_an_area_that_cannot_be_read_is_named(layout: Layout) -> None:
    (layout.clone / ".buildkite/test_areas/mini.yaml").write_text("steps: [: :")
    with pytest.raises(
        OverlayError, match=r"cannot read build/vllm/.buildkite/test_areas/mini.yaml"
    ):
        choose(layout)


def test_the_plan_names_suite_device_time_and_reason(applied: Product) -> None:
    said = applied.succeed("test", SUITES="list", DEVICE="cpu", KERNELS="source")
    assert (
        "      run   MINI_MODE=exported tests/sums/test_large.py: cpu-small, at most 13 min;"
        " the series touches vllm/a.py\n"
    ) in said
    assert "      skip  1 suites of kernels: needs a GPU\n" in said or "of kernels, many" in said
    assert "      skip  1 suites of optional: optional for upstream too\n" in said


def run(layout: Layout, choices: list[Choice]) -> tuple[Comparison, list[str]]:
    layout.reports.mkdir(parents=True, exist_ok=True)
    return upstream.run(layout, "cpu", choices, lambda _: None)


def record_base(layout: Layout, choices: list[Choice]) -> list[Path]:
    chosen = [choice.suite for choice in choices]
    old = baseline.read(layout, "cpu-hub")
    return record.record(layout, pin.read(layout.pin_file), "cpu", chosen, old, lambda _: None)


@pytest.fixture
def recorded(layout: Layout, small: list[Choice], monkeypatch: pytest.MonkeyPatch) -> Layout:
    """After `make baseline`."""
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    record_base(layout, small)
    return layout


def test_without_a_baseline_the_unpatched_tree_is_asked_and_a_difference_is_a_finding(
    layout: Layout, small: list[Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    found, faults = run(layout, small)
    assert faults == []
    assert found.counts == {"passed": 8, "failed": 2, "skipped": 1}
    assert list(found.broken) == [f"{SMALL}::test_two"]
    assert list(found.known) == [f"{SMALL}::test_hub"]
    assert found.asked == {small[0].suite.name: "all of it"}
    assert (layout.reports / "upstream.xml").read_text().count("<testcase") >= 11
    assert not (layout.build / "base").exists()


def test_what_the_unpatched_tree_said_is_taken_by_make_baseline(
    layout: Layout, small: list[Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    run(layout, small)
    kept = sorted((layout.build / "baseline" / "cpu-hub").glob("*.jsonl"))
    assert len(kept) == 1  # the other suite had no failure: nothing was asked of it
    ghost = {"$report_type": "TestReport", "nodeid": f"{SMALL}::ghost", "outcome": "passed"}
    with kept[0].open("a") as file:
        file.write(json.dumps(ghost) + "\n")
    record_base(layout, small)
    base = baseline.read(layout, "cpu-hub")
    assert base is not None
    assert f"{SMALL}::ghost" in base.suites[small[0].suite.name].passed
    assert list(base.known) == [f"{SMALL}::test_hub"]


def test_a_test_that_the_baseline_does_not_have_is_asked_alone(
    recorded: Layout, small: list[Choice]
) -> None:
    base = baseline.read(recorded, "cpu-hub")
    assert base is not None
    baseline.write(recorded, replace(base, known={}))
    found, faults = run(recorded, small)
    assert found.asked == {small[0].suite.name: "1 tests"}
    assert (list(found.broken), list(found.known)) == (
        [f"{SMALL}::test_two"],
        [f"{SMALL}::test_hub"],
    )
    assert faults == []


def test_a_session_that_dies_on_both_trees_is_no_finding(
    layout: Layout, small: list[Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    unpatched = worktree.add

    def add(layout: Layout, commit: str, tree: Path) -> Path:
        made = unpatched(layout, commit, tree)
        (made / LARGE).write_text(DIES)
        return made

    monkeypatch.setattr(worktree, "add", add)
    (layout.clone / LARGE).write_text(DIES)
    found, faults = run(layout, small)
    assert faults == []
    assert found.asked[small[1].suite.name] == "all of it"


def test_a_test_that_passed_on_base_and_fails_now_is_a_finding(
    recorded: Layout, small: list[Choice]
) -> None:
    """The series lets line_2 return 22."""
    found, _ = run(recorded, small)
    assert list(found.broken) == [f"{SMALL}::test_two"]
    assert found.findings[0].startswith(f"{SMALL}::test_two: passed on base; now ")
    assert list(found.known) == [f"{SMALL}::test_hub"]
    assert {*found.failing, *found.stale, *found.gained} == set()


def test_the_baseline_says_what_each_failure_lacks(recorded: Layout) -> None:
    base = baseline.read(recorded, "cpu-hub")
    assert base is not None
    assert base.known == {f"{SMALL}::test_hub": "files of the model hub"}
    name = "MINI_MODE=exported tests/sums/test_large.py"
    assert base.suites[name].passed == {f"{LARGE}::test_number[{n}]" for n in range(6)}
    assert set(base.environment) == {"pytest", "python", "machine"}
    assert not (recorded.build / "base").exists()


def test_recording_again_goes_on_where_it_was_interrupted(
    layout: Layout, small: list[Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        if line.startswith("[1/"):
            raise KeyboardInterrupt

    release = pin.read(layout.pin_file)
    chosen = [choice.suite for choice in small]
    with pytest.raises(KeyboardInterrupt):
        record.record(layout, release, "cpu", chosen, None, interrupt)
    kept = list((layout.build / "baseline" / "cpu-hub").glob("*.code"))
    assert kept
    before = {path: path.with_suffix(".log").read_bytes() for path in kept}
    for path in kept:
        path.with_suffix(".log").write_bytes(before[path] + b"kept\n")
    monkeypatch.setattr(shutil, "rmtree", lambda _: None)
    record.record(layout, release, "cpu", chosen, None, said.append)
    assert all(path.with_suffix(".log").read_bytes().endswith(b"kept\n") for path in kept)
    assert said[-1].startswith("[3/3] ")


def test_a_baseline_may_only_shrink_its_failures(recorded: Layout, small: list[Choice]) -> None:
    base = baseline.read(recorded, "cpu-hub")
    assert base is not None
    name = small[0].suite.name
    grown = base.suites[name].passed | {f"{SMALL}::test_hub"}
    changed = {**base.suites, name: replace(base.suites[name], passed=grown)}
    baseline.write(recorded, replace(base, suites=changed, known={}))
    with pytest.raises(CheckFailed, match="test_hub passed before"):
        record_base(recorded, small)
    again = baseline.read(recorded, "cpu-hub")
    assert again is not None
    assert again.known == {}


def test_a_known_failure_that_passes_must_go(recorded: Layout, small: list[Choice]) -> None:
    path = recorded.clone / SMALL
    path.write_text(path.read_text().replace("raise OSError", "str"))
    found, _ = run(recorded, small)
    assert list(found.stale) == [f"{SMALL}::test_hub"]
    assert "take it out of the known failures" in "".join(found.findings)


def test_a_test_that_passes_the_second_time_is_named_but_no_finding(
    recorded: Layout, small: list[Choice]
) -> None:
    path = recorded.clone / SMALL
    chance = (
        "import pathlib\n    seen = pathlib.Path(__file__).with_suffix('.seen')\n"
        "    if not seen.exists():\n        seen.touch()\n        raise AssertionError\n"
    )
    path.write_text(
        path.read_text()
        .replace("    assert a.line_2() == 2", f"    {chance}")
        .replace("== 3", "== 3")
    )
    found, _ = run(recorded, small)
    assert list(found.unsteady) == [f"{SMALL}::test_two"]
    assert found.findings == []


def test_a_session_that_dies_is_a_finding_and_its_tests_are_missed(
    recorded: Layout, small: list[Choice]
) -> None:
    (recorded.clone / LARGE).write_text(DIES)
    found, faults = run(recorded, small)
    assert len(faults) == 2
    assert "pytest ended with -9 after 0 tests" in faults[0]
    assert found.broken[f"{LARGE}::test_number[0]"] == "it did not run"


def outcomes(**results: str) -> Mapping[str, Outcome]:
    return {name: Outcome(result, 1.0, "why") for name, result in results.items()}  # type: ignore[arg-type]


def test_a_new_pass_is_named_and_a_new_failure_is_a_finding() -> None:
    base = Baseline("cpu", "v1", {}, {"s": Recorded(1, frozenset({"a"}), frozenset())}, {})
    found = baseline.compare(base, {"s": outcomes(b="passed", c="failed", d="skipped")})
    assert (list(found.broken), list(found.gained), list(found.failing)) == (["a"], ["b"], ["c"])
    assert baseline.compare(base, {"s": outcomes(a="skipped")}).broken == {"a": "why"}


def test_the_share_that_passes_is_told_for_a_run_and_for_base() -> None:
    base = Baseline("cpu", "v1", {}, {"s": Recorded(1, frozenset("ab"), frozenset())}, {})
    ran = {
        "s": outcomes(a="passed", b="failed", c="failed", d="skipped"),
        "t": outcomes(e="passed"),
    }
    found = baseline.compare(base, ran)
    assert found.shares["s"].shown == "25 % of 4 tests pass, 50 % on base"
    assert found.shares["t"].shown == "100 % of 1 tests pass"
    assert baseline.total(found.shares.values()).shown == "40 % of 5 tests pass"


def test_only_a_new_suite_brings_known_failures() -> None:
    old = Baseline("cpu", "v1", {}, {"s": Recorded(1, frozenset(), frozenset())}, {"s1": "x"})
    new = record.merged(old, {"s": outcomes(s1="passed", s2="failed"), "t": outcomes(t="failed")})
    assert new.known == {"t": "other"}
    told = record.merged(replace(new, known={"t": "sleep"}), {"t": outcomes(t="failed")})
    assert told.known == {"t": "sleep"}


@pytest.mark.parametrize(
    ("reason", "lacked"),
    [
        ("ModuleNotFoundError: No module named 'scipy.signal'", "package scipy"),
        ("ImportError: Phi requires the backoff library", "package backoff"),
        (
            "The repository x contains custom code which must be executed",
            "remote code of a checkpoint",
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", "a GPU"),
        ("OSError: Can't load tokenizer for 'org/model'", "files of the model hub"),
        ("socket.gaierror: Temporary failure in name resolution", "the network"),
        ("assert 1 == 2", ""),
    ],
)
def test_what_a_failure_lacks_is_read_from_its_message(reason: str, lacked: str) -> None:
    assert resource(reason) == lacked


def test_a_damaged_baseline_says_what_to_do(recorded: Layout) -> None:
    baseline.path(recorded, "cpu-hub").write_text("{")
    with pytest.raises(OverlayError, match="cannot read the baseline") as error:
        baseline.read(recorded, "cpu-hub")
    assert error.value.hint.endswith("make baseline")


def test_sessions_have_names_of_their_own() -> None:
    long = "-k " + "x" * 200
    pair = [Suite("s", "cpu", (), (f"{long}{end}",)) for end in ("a", "b")]
    assert len({sessions.Session(suite).slug for suite in pair}) == 2


def test_no_two_trees_share_what_vllm_remembers_of_models(layout: Layout) -> None:
    said: list[str] = []
    trees = (layout.clone, layout.build / "base")
    found = [sessions.around(layout, tree, "cpu", said.append) for tree in trees]
    assert len({env["VLLM_CACHE_ROOT"] for env in found}) == len(trees)
    assert len(said) == len(trees)  # the small upstream has no model classes
    assert all("one by one" in line for line in said)
    assert sessions.around(layout, trees[0], "cpu", said.append, inspected=True) == found[0]
    assert len(said) == len(trees)  # a second pass does not inspect again


def test_another_vllm_in_the_way_is_told(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other" / "vllm").mkdir(parents=True)
    other = tmp_path / "other" / "vllm" / "__init__.py"
    other.touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    with pytest.raises(OverlayError, match=f"tests would import vllm from {other}") as error:
        build.require_own_tree(layout)
    assert error.value.hint.startswith("unset PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", str(layout.clone))
    build.require_own_tree(layout)
