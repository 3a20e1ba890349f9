"""Of upstream's suites as many as fit the time of one GPU, what reaches the series most first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.release import source
from scripts.release.pin import Pin
from scripts.suites import baseline, upstream
from scripts.suites.baseline import Baseline
from scripts.suites.upstream import Choice, Wanted

MINUTES = 120.0
"""Of one GPU, by upstream's own limits, unless everything is asked for."""
UNKNOWN = 10.0
"""Minutes of a suite that has neither a record nor a limit."""
# Folders of upstream's tests: multimodal, LoRA, scheduler, runner.
_FIRST = re.compile(r"(^|/)(multimodal|lora|core|worker)\b")


def plan(
    layout: Layout, pin: Pin, device: str, asked: Wanted, base: Baseline | None
) -> list[Choice]:
    """What `upstream.choose` takes, with limits; on a GPU as much of it as fits `MINUTES`."""
    choices = with_limits(
        upstream.choose(layout, pin, device, asked, base), baseline.read(layout, "cpu")
    )
    if device == "cpu" or asked.everything or asked.steps:
        return choices
    files = Git(layout.clone).lines("diff", "--name-only", source.base(layout, pin))
    return fit(layout.clone, choices, files)


def fit(tree: Path, choices: Iterable[Choice], files: Iterable[str]) -> list[Choice]:
    """Every choice; those beyond `MINUTES` say so. `files` are those that the series touches.

    First what is about the series' own ground; of it, and of the rest, the suites whose test
    modules name the most changed modules for their minutes.
    """
    given, changed = list(choices), _changed(files)
    runs = [c for c in given if not c.why_not]
    weights = {c.suite: _weight(tree, c, changed) for c in runs}
    left, out = MINUTES, set()
    for choice in sorted(runs, key=lambda c: (*weights[c.suite], c.suite.name)):
        if minutes(choice) <= left and (choice.suite.why or weights[choice.suite][1] < 0):
            left -= minutes(choice)
        else:
            out.add(choice.suite)
    why = f"beyond {MINUTES:.0f} minutes of one GPU; upstream-all runs it"
    return [replace(c, why_not=why) if c.suite in out else c for c in given]


def with_limits(choices: Iterable[Choice], elsewhere: Baseline | None) -> list[Choice]:
    """Each with its part of its step's limit, all shards together; for want of one, with the
    minutes that it took `elsewhere`."""
    given = list(choices)
    commands = Counter(c.suite.step for c in given)
    known = elsewhere.suites if elsewhere else {}
    return [
        replace(c, limit=c.suite.minutes * c.suite.shards / commands[c.suite.step])
        if c.suite.minutes
        else replace(c, limit=known[c.suite.name].seconds / 60 if c.suite.name in known else 0.0)
        for c in given
    ]


def minutes(choice: Choice) -> float:
    """As recorded on base, else the limit, else `UNKNOWN`."""
    return choice.limit or UNKNOWN if choice.minutes is None else choice.minutes


def _changed(files: Iterable[str]) -> re.Pattern[str]:
    """The changed modules as a test names them: `vllm.a.b`, or `from vllm.a import b`."""
    names = sorted({name(f) for f in files if re.match(r"vllm/.*\.py$", f)})
    ways = [re.escape(one) for one in names]
    for package, _, module in (one.rpartition(".") for one in names):
        ways.append(rf"from {re.escape(package)} import [^\n]*\b{re.escape(module)}")
    return re.compile(rf"\b(?:{'|'.join(ways)})\b" if ways else r"(?!)")


def name(file: str) -> str:
    """`vllm/a/b.py` as the module `vllm.a.b`."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _weight(tree: Path, choice: Choice, changed: re.Pattern[str]) -> tuple[int, float]:
    """Lower goes first: what `suites.json` has a reason for, the series' own ground, the rest."""
    texts = (f.read_text(encoding="utf-8") for f in upstream.test_files(tree, choice.suite))
    reach = sum(bool(changed.search(text)) for text in texts)
    own = any(_FIRST.search(word) for word in choice.suite.args if "=" not in word)
    return 0 if choice.suite.why else 1 if own else 2, -reach / max(1.0, minutes(choice))
