"""Record the baseline: the suites on the unpatched pin, beside the work clone, resumable."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from scripts.core.errors import CheckFailed
from scripts.core.layout import Layout
from scripts.environment import hub, worktree
from scripts.release import index, source
from scripts.release.pin import Pin
from scripts.suites import baseline, sessions
from scripts.suites.areas import Suite
from scripts.suites.baseline import Baseline, Recorded
from scripts.suites.outcomes import Outcome, resource
from scripts.suites.sessions import Ended, Say, Session

_PACKAGES = ("huggingface-hub", "numpy", "pytest", "tokenizers", "torch", "torchvision",
             "transformers", "vllm")  # fmt: skip
_VERSIONS = (
    "import importlib.metadata as m, json, platform, sys;"
    "here = {'python': platform.python_version(), 'machine': platform.machine()};"
    "print(json.dumps(here | {name: m.version(name) for name in sys.argv[1:]}))"
)


def environment(layout: Layout) -> dict[str, str]:
    """The versions that outcomes depend on, of `build/venv`."""
    command = [str(layout.venv / "bin" / "python"), "-I", "-c", _VERSIONS, *_PACKAGES]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = json.loads(said)
    return found


def record(
    layout: Layout, pin: Pin, device: str, suites: list[Suite], old: Baseline | None, say: Say
) -> list[Path]:
    """Run `suites` on the pin and write the tier's baseline; what other suites have stays.

    Raises `CheckFailed`, and keeps what is recorded, where a suite did not run to its end, or where
    a test fails now that passed in the old baseline of this pin: the failures may only shrink.
    """
    ended = unpatched(layout, pin, device, suites, say)
    folder = _folder(layout, device)
    tier = Baseline(hub.tier(device), pin.tag)
    same = old if old and old.pin == pin.tag else tier
    ran = sessions.by_suite(ended)
    faults = [f"{session.name}: {one.fault}" for session, one in ended.items() if one.fault]
    faults += [f"{test} passed before" for test in lost(same, ran)]
    if faults:
        raise CheckFailed(
            "\n  ".join(["the baseline stays as it was:", *faults[:20]]),
            hint=f"see the logs in {layout.shown(folder)}; make baseline goes on from there",
        )
    written = baseline.write(layout, merged(replace(same, environment=environment(layout)), ran))
    shutil.rmtree(folder)
    return written


def unpatched(
    layout: Layout, pin: Pin, device: str, suites: list[Suite], say: Say
) -> dict[Session, Ended]:
    """What `suites` do on the pin, in a tree beside the work clone; what ran before is only read.

    The logs stay in `build/baseline`, until they are recorded or anything changes.
    """
    commit, folder = source.base(layout, pin), _folder(layout, device)
    _begin(folder, {"commit": commit, **environment(layout)})
    index.require_space(layout.build, 2 << 30, "a run of the unpatched tree")
    tree = worktree.add(layout, commit, layout.build / "base")
    try:
        return sessions.run(layout, tree, device, suites, folder, say)
    finally:
        worktree.remove(layout, tree)


def _folder(layout: Layout, device: str) -> Path:
    return layout.build / "baseline" / hub.tier(device)


def _begin(folder: Path, made_with: Mapping[str, str]) -> None:
    """Keep what an interrupted recording of the same things left there, nothing else."""
    stamp = folder / "made-with.json"
    text = json.dumps(made_with, indent=1, sort_keys=True)
    if not stamp.is_file() or stamp.read_text() != text:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stamp.write_text(text)


def lost(old: Baseline, ran: Mapping[str, Mapping[str, Outcome]]) -> list[str]:
    """The tests that passed in `old` and do not now, sorted."""
    return sorted(
        test
        for suite, outcomes in ran.items()
        for test in (old.suites[suite].passed if suite in old.suites else ())
        if test not in outcomes or outcomes[test].result != "passed"
    )


def merged(old: Baseline, ran: Mapping[str, Mapping[str, Outcome]]) -> Baseline:
    """`old` with the suites that ran. Only a suite that is new brings failures of its own.

    What a failure lacks stays as it is written down where its message does not tell.
    """
    suites, known = dict(old.suites), dict(old.known)
    for suite, outcomes in ran.items():
        names: dict[str, set[str]] = {"passed": set(), "skipped": set(), "failed": set()}
        for test, outcome in outcomes.items():
            names[outcome.result].add(test)
            if outcome.result != "failed":
                known.pop(test, None)
            elif suite not in old.suites or test in known:
                known[test] = resource(outcome.reason) or known.get(test, "other")
        seconds = sum(outcome.seconds for outcome in outcomes.values())
        suites[suite] = Recorded(seconds, frozenset(names["passed"]), frozenset(names["skipped"]))
    return replace(old, suites=suites, known=known)
