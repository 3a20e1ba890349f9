"""Which of the pinned release's own suites a series calls for, on the device at hand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import hub
from scripts.release import pin, source
from scripts.release.pin import Pin
from scripts.suites import areas, asked, baseline, sessions
from scripts.suites.areas import Suite
from scripts.suites.baseline import Baseline, Comparison, compare
from scripts.suites.outcomes import Outcome
from scripts.suites.sessions import Say

# A whole GPU of any kind, or upstream's slices of one; other words name a kind that a test needs.
_ANY_GPU = ("gpu", "h200_18gb", "h200_35gb")
_APART = "none of its tests imports a package that the series touches"
_UNSTEADY = "passes the second time, alone"
_MANY = 100  # tests that differ: no matter of chance


@dataclass(frozen=True)
class Choice:
    """A suite, and why it runs, or in `why_not` why it stays out. `minutes` as recorded on base,
    `limit` by upstream, 0 where it has none."""

    suite: Suite
    why: str = ""
    why_not: str = ""
    minutes: float | None = None
    limit: float = 0.0

    @property
    def shown(self) -> str:
        """A line for the plan."""
        if self.minutes is not None:
            time = f"{self.minutes:.1f} min"
        else:
            limit = self.limit or self.suite.minutes
            time = f"at most {max(1, limit):.0f} min" if limit else "time unknown"
        return f"run   {self.suite.name}: {self.suite.device}, {time}; {self.why}"


@dataclass(frozen=True)
class Wanted:
    """What was asked for: `steps` of upstream by key, none for those that the series touches.

    `everything` takes what the series does not touch, what upstream calls optional and what we
    leave out for time.
    """

    everything: bool = False
    steps: tuple[str, ...] = ()


def choose(
    layout: Layout, pin: Pin, device: str, wanted: Wanted, base: Baseline | None
) -> list[Choice]:
    """Every suite of the tree and of `suites.json`, each with the reason for or against it."""
    files = Git(layout.clone).lines("diff", "--name-only", source.base(layout, pin))
    found = areas.read(layout)
    ours, replaced, left = _declared(layout)
    unknown = sorted(set(wanted.steps) - {suite.step for suite in found})
    if unknown:
        raise OverlayError(
            f"no such suite: {', '.join(unknown)}",
            hint="suites are tools, regression, engine, upstream, upstream-all, floor,"
            " and the steps of upstream that SUITES=list names",
        )
    choices = []
    packages = _packages(files)
    for suite in [*found, *ours]:
        touched = suite.touched(files)
        why_not = _why_not(suite, device, wanted, touched)
        if not why_not and not (wanted.everything or wanted.steps):
            why_not = "" if _imports(layout.clone, suite, packages) else _APART
        if not why_not and suite in found and suite.name in replaced and not wanted.steps:
            why_not = "a wider suite runs its tests"
        if not why_not and suite.name in left and not (wanted.everything or wanted.steps):
            why_not = left[suite.name]
        why = f"the series touches {touched}" if touched else "asked for"
        why += f"; {suite.why}" * bool(suite.why)
        recorded = base.suites.get(suite.name) if base else None
        choices.append(Choice(suite, why, why_not, recorded.seconds / 60 if recorded else None))
    return choices


def _why_not(suite: Suite, device: str, wanted: Wanted, touched: str) -> str:
    if wanted.steps and suite.step not in wanted.steps:
        return "not asked for (SUITES)"
    if suite.needs_gpu and device == "cpu":
        return "needs a GPU"
    if suite.needs_gpu and suite.device not in _ANY_GPU:
        return f"needs a GPU of its kind: {suite.device}"
    if suite.devices > 1:
        return "needs more than one GPU"
    if "$" in suite.name:
        return "is a part that only upstream's pipeline can number"
    if wanted.everything or wanted.steps:
        return ""
    if suite.optional:
        return "optional for upstream too"
    return "" if touched else "the series touches nothing of its sources"


def _packages(files: list[str]) -> str:
    """A pattern of the packages below vllm that hold `files`; of the module, right below it."""
    modules = [f.removesuffix(".py").split("/") for f in files if re.match(r"vllm/.*\.py$", f)]
    names = sorted({".".join(parts[: max(2, len(parts) - 1)]) for parts in modules})
    return rf"\b({'|'.join(map(re.escape, names))})\b" if names else r"(?!)"


def _imports(tree: Path, suite: Suite, packages: str) -> bool:
    """Whether a test module of `suite` names one of `packages`.

    Upstream's sources are wide: a step of fourteen commands runs for each file of `vllm/utils/`.
    """
    return any(re.search(packages, f.read_text(encoding="utf-8")) for f in test_files(tree, suite))


def test_files(tree: Path, suite: Suite) -> list[Path]:
    """The test modules that `suite` names, by file or by folder."""
    found: list[Path] = []
    for word in suite.args:
        path = tree / suite.cwd / word.partition("::")[0]
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [file for file in found if file.is_file()]


def _declared(layout: Layout) -> tuple[list[Suite], set[str], dict[str, str]]:
    """Suites that are ours to choose, names that they replace, name → why it is left out."""
    path = layout.root / "tests" / "upstream" / "suites.json"
    declared = json.loads(path.read_text(encoding="utf-8"))
    ours, replaced = [], set()
    for one in declared["also"]:
        _require(layout.clone, one["pytest"])
        suite = Suite("ours", one["device"], tuple(one["sources"]),
                      tuple(shlex.split(one["pytest"])), why=one["why"])  # fmt: skip
        ours.append(replace(suite, shards=one.get("shards", 1)))
        replaced.update(one.get("replaces", ()))
    return ours, replaced, declared["leave"]


def _require(tree: Path, args: str) -> None:
    for word in shlex.split(args):
        path = tree / "tests" / word.partition("::")[0]
        if "/" in word and not word.startswith("-") and not path.exists():
            raise OverlayError(
                f"tests/upstream/suites.json names {word}, which the tree does not have",
                hint="after a move of the pin, name the suite that took its place",
            )


def shown(choices: list[Choice], jobs: int) -> list[str]:
    """The plan: a line a suite that runs, a line a reason for those that do not."""
    runs = [choice for choice in choices if not choice.why_not]
    known = sum(choice.minutes or 0 for choice in runs) / jobs
    lines = [choice.shown for choice in runs]
    if runs:
        lines.append(f"about {known:.0f} minutes for those with a recorded time, {jobs} at once")
    for reason, count in sorted(Counter(c.why_not for c in choices if c.why_not).items()):
        steps = sorted({c.suite.step for c in choices if c.why_not == reason})
        names = ", ".join(steps[:3]) + (f" and {len(steps) - 3} more" if len(steps) > 3 else "")
        lines.append(f"skip  {count} suites of {names}: {reason}")
    return lines


def run(
    layout: Layout, device: str, choices: list[Choice], say: Say
) -> tuple[Comparison, list[str]]:
    """Run what was chosen; how it differs from base, and what went wrong with pytest itself.

    What the baseline does not tell is asked of the unpatched tree.

    What differs is run a second time, alone: a test that then passes is no finding, but is named.
    """
    suites = [choice.suite for choice in choices if not choice.why_not]
    folder = layout.reports / "upstream"
    shutil.rmtree(folder, ignore_errors=True)
    ended = sessions.run(layout, layout.clone, device, suites, folder, say)
    ran = sessions.by_suite(ended)
    recorded, release = baseline.read(layout, hub.tier(device)), pin.read(layout.pin_file)
    answer = asked.of_unpatched(layout, release, device, recorded, ended, say)
    base = answer.base
    first = compare(base, ran)
    again = _again(suites, ran, {*first.broken, *first.failing})
    if again:
        say(f"once more, what differs from base: {sum(len(s.args) for s in again)} tests")
        tree = layout.clone
        second = sessions.run(layout, tree, device, again, folder, say, inspected=True)
        for session, one in second.items():
            for test, outcome in one.outcomes.items():
                if outcome.result == "passed":
                    ran[session.suite.step][test] = replace(outcome, reason=_UNSTEADY)
    _merge_junit(folder, layout.reports / "upstream.xml")
    faults = [
        f"{session.name}: {one.fault}"
        for session, one in ended.items()
        # Where no session runs any test, here and there, it is not the tree that is at fault.
        if one.fault and (session.name not in answer.faults or not any(ran.values()))
    ]
    return replace(compare(base, ran), asked=answer.asked), faults


def _again(
    suites: list[Suite], ran: Mapping[str, Mapping[str, Outcome]], tests: set[str]
) -> list[Suite]:
    """For each of `suites` one of only those of `tests` that it ran; none if they are many."""
    if len(tests) > _MANY:
        return []
    found = []
    for suite in suites:
        args = tuple(sorted(tests & ran[suite.name].keys()))
        if args:
            found.append(replace(suite, step=suite.name, args=args, cwd="", shards=1))
    return found


def _merge_junit(folder: Path, path: Path) -> None:
    """One JUnit file of those that the sessions wrote."""
    whole = ET.Element("testsuites")
    for file in sorted(folder.glob("*.xml")):
        whole.extend(ET.parse(file).getroot().iter("testsuite"))
    ET.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)
