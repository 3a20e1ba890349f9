"""What `prove` says of hunks: verdicts, the reasons that excuse some, findings and a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.proof.hunks import Cut

How = Literal["test", "import", "died", "unnoticed"]
TESTS = "tests/regression"
EXCUSES = f"{TESTS}/unprovable.json"


@dataclass(frozen=True)
class Verdict:
    """How a hunk was missed: by a failed test, by a name that could not be imported or found, by
    the end of the process, or not at all. `test` is the test or module that did, `said` its words,
    `seconds` how long it took to find out.
    """

    cut: Cut
    how: How
    test: str
    said: str
    seconds: float

    @property
    def shown(self) -> str:
        by = f" by {self.test.rpartition('/')[2]}" if self.test else ""
        said = "UNNOTICED" if self.how == "unnoticed" else f"noticed ({self.how}){by}"
        return f"{self.cut.shown} {said}"


def modules(cut: Cut) -> list[str]:
    """The test modules that answer for a hunk."""
    return sorted(cut.patch.values("Regression-Test"))


def verdict(cut: Cut, answer: Mapping[str, Any], seconds: float) -> Verdict:
    """What a session said, see `tests/support/proof/session.py`."""
    if "died" in answer:
        test = answer["test"] or modules(cut)[0]
        return Verdict(cut, "died", test, f"the process ended with {answer['died']}", seconds)
    for first in answer["failed"][:1]:
        return Verdict(cut, first["how"], first["test"], first["said"], seconds)
    return unnoticed(cut, f"{len(answer['ran'])} tests pass without it", seconds)


def unnoticed(cut: Cut, said: str, seconds: float) -> Verdict:
    return Verdict(cut, "unnoticed", "", said, seconds)


def excuses(layout: Layout) -> dict[str, str]:
    """Key of a hunk → why no test can tell that it is gone."""
    path = layout.root / EXCUSES
    if not path.is_file():
        return {}
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    whole = isinstance(found, dict) and all(isinstance(w, str) and w for w in found.values())
    if not whole:
        raise OverlayError(
            f"{EXCUSES} is no object of reasons", hint='{"the key of a hunk": "why"}'
        )
    return found


def findings(found: tuple[Verdict, ...], reasons: Mapping[str, str], keys: set[str]) -> list[str]:
    """What fails the proof: unnoticed hunks without a reason, reasons without an unnoticed hunk."""
    lines = [f"no hunk has this key any more, take it out of {EXCUSES}: {key}"
             for key in sorted(set(reasons) - keys)]  # fmt: skip
    for one in found:
        if one.how == "unnoticed" and one.cut.key not in reasons:
            lines.append(f"{one.cut.shown}: no test notices that it is gone; {one.cut.key}")
        elif one.how != "unnoticed" and one.cut.key in reasons:
            lines.append(f"{one.cut.shown}: noticed by {one.test or one.said}, take it out of "
                         f"{EXCUSES}: {one.cut.key}")  # fmt: skip
    return lines


def write(
    layout: Layout, found: tuple[Verdict, ...], reasons: Mapping[str, str], faults: list[str]
) -> Path:
    """Write `build/reports/prove.json`, every hunk in order, and return its path."""
    rows = [
        {"key": one.cut.key, "patch": one.cut.patch.name, "path": one.cut.path,
         "line": one.cut.line, "how": one.how, "by": one.test, "said": one.said,
         "seconds": round(one.seconds, 2), "reason": reasons.get(one.cut.key, "")}
        for one in found
    ]  # fmt: skip
    path = layout.reports / "prove.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hunks": rows, "findings": faults}, indent=1) + "\n")
    return path


def table(found: tuple[Verdict, ...], reasons: Mapping[str, str]) -> list[str]:
    """A line a patch: hunks, and how many were noticed how."""
    heads = ("hunks", "by test", "by import", "died", "excused", "unnoticed")
    counts: dict[str, Counter[str]] = {}
    for one in found:
        how = {"test": "by test", "import": "by import"}.get(one.how, one.how)
        how = "excused" if how == "unnoticed" and one.cut.key in reasons else how
        counts.setdefault(one.cut.patch.name, Counter()).update(("hunks", how))
    rows = [*counts.items(), ("all", sum(counts.values(), Counter()))]
    lines = ["".join(f"{head:>10}" for head in heads) + "  patch"]
    lines += ["".join(f"{n[h]:>10}" for h in heads) + f"  {name}" for name, n in rows]
    return lines
