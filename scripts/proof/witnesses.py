"""Which test noticed each hunk when it was last recorded, so that it is asked first: a hint, never
a proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.core.layout import Layout, write_whole
from scripts.proof import verdicts
from scripts.proof.hunks import Cut
from scripts.proof.memory import Recorded
from scripts.proof.verdicts import TESTS, Verdict
from scripts.series.mails import Patch

_HEAD = "# a hunk under vllm/, the test that notices that it is gone; by make prove RECORD=1\n"
_LONGEST = 120.0  # seconds; where only a longer test notices, a quicker one is wanted


class Witnesses:
    """A table in `tests/regression`: the key of a hunk, a test, sorted."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.root / TESTS / "witnesses.txt"
        self._of: dict[str, dict[str, str]] = {}
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else []
        for line in lines[1:]:
            key, _, test = line.partition(" ")
            self._keep(key, f"{TESTS}/{test}")

    def _keep(self, key: str, test: str) -> None:
        self._of.setdefault(key.partition("#")[0], {})[key] = test

    def __contains__(self, key: str) -> bool:
        """Whether a test is known to notice that the hunk of this key is gone."""
        return key in self._of.get(key.partition("#")[0], {})

    def of_file(self, path: str) -> list[str]:
        """Those of all hunks of a file."""
        return sorted({*self._of.get(path, {}).values()})

    def saw(self, found: Verdict) -> None:
        """Ask this test for other hunks of the file, too."""
        if found.test:
            self._keep(found.cut.key, found.test)

    def of(self, cut: Cut) -> list[str]:
        """That of the hunk, then those of others in its file, the commonest first."""
        here = self._of.get(cut.path, {})
        mine = [here[cut.key]] if cut.key in here else []
        others = [test for test, _ in Counter(here.values()).most_common()]
        modules = cut.patch.values("Regression-Test")
        tests = dict.fromkeys([*mine, *others])
        return [test for test in tests if test.partition("::")[0] in modules]

    def write(self, found: Iterable[Verdict], keys: Iterable[str]) -> Path:
        """Write the table anew with what these verdicts say, without hunks that have no key now."""
        for one in found:
            self.saw(one)
        tests = {key: test for here in self._of.values() for key, test in here.items()}
        lines = [f"{key} {tests[key].removeprefix(f'{TESTS}/')}\n" for key in sorted(keys)
                 if key in tests]  # fmt: skip
        write_whole(self._path, "".join([_HEAD, *lines]))
        return self._path


def proven(layout: Layout, keys: Mapping[str, Patch]) -> dict[str, str]:
    """Name of a patch → how many of its hunks have a test that notices, as recorded last.

    `keys` are those of all hunks, see `hunks.keys`.
    """
    known, excused = Witnesses(layout), verdicts.excuses(layout)
    found: dict[str, Counter[str]] = {}
    for key, patch in keys.items():
        how = "noticed" if key in known else "excused" if key in excused else "new"
        found.setdefault(patch.name, Counter()).update(("all", how))
    return {
        name: f"{n['noticed']} of {n['all']}" + f", {n['excused']} excused" * bool(n["excused"])
        for name, n in found.items()
    }


def may_notice(cut: Cut, records: Iterable[Recorded]) -> list[str]:
    """The tests that may notice, quick ones first: those that call the functions of the hunk, and
    those that call nothing but may read the source. Any test may where none calls them, or where
    a line is outside of functions; then those come first that call a function of its file.
    """
    tests: Mapping[str, Any] = {
        test: how for record in records for test, how in record.passed.items()
        if how["seconds"] < _LONGEST
    }  # fmt: skip
    names = {f"{cut.path}::{function}" for function in cut.functions}

    def calls(test: str) -> bool:
        called = tests[test]["calls"]
        return any(c in names if names else c.startswith(f"{cut.path}::") for c in called)

    callers = {test for test in tests if calls(test)}
    first = callers | {test for test in tests if not tests[test]["calls"]}
    # By a copy of the file or another process, where none calls them; by what the file defines.
    may = first if names and callers else {*tests}
    return sorted(may, key=lambda test: (test not in first, tests[test]["seconds"]))
