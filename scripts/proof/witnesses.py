"""Which test noticed each hunk when it was last recorded, so that it is asked first: a hint, never
a proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from scripts.core.layout import Layout, write_whole
from scripts.proof.hunks import Cut
from scripts.proof.verdicts import TESTS, Verdict

_HEAD = "# a hunk under vllm/, the test that notices that it is gone; by make prove RECORD=1\n"


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
