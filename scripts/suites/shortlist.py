"""What of the suites runs: the plan in lines, and less of it where only some tests are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scripts.suites.runner import Suite


def narrowed(chosen: list[Suite], tests: Mapping[str, tuple[str, ...]], why: str) -> list[Suite]:
    """Of each suite of ours only these `tests`, by its name; those that have none stay out.

    The last word of a command is the folder of its tests.
    """
    return [
        replace(s, why=why, command=(*s.command[:-1], *tests[s.name]), notes=tests[s.name])
        if s.name in tests and not s.why_not
        else replace(s, why_not=s.why_not or "nothing of it changed (CHANGED)")
        for s in chosen
    ]


def shown(chosen: list[Suite], *, whole: bool = False) -> list[str]:
    """The plan, a line a suite: what runs and why, what does not and why; `whole` has the parts."""
    lines = []
    for suite in chosen:
        head, why = ("skip", suite.why_not) if suite.why_not else ("run ", suite.why)
        lines.append(f"{head}  {suite.name}: {why}")
        if suite.choices and not whole:
            runs = sum(not choice.why_not for choice in suite.choices)
            left = len(suite.choices) - runs
            lines[-1] += f": {runs} suites, {left} left out (SUITES=list names them)"
        elif not suite.why_not:
            lines += [f"      {note}" for note in suite.notes]
    return lines
