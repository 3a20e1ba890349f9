"""Take each hunk away by itself and let the tests of its patch run: who notices that it is gone?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import hunks, series, sessions, stack, verdicts
from scripts.errors import OverlayError
from scripts.forks import Level, Worker
from scripts.git import Git
from scripts.hunks import Cut
from scripts.imports import Imports
from scripts.layout import Layout
from scripts.memory import Memory, Recorded
from scripts.pin import Pin
from scripts.series import Patch
from scripts.verdicts import Verdict

Say = Callable[[str], None]
BELOW = "vllm"
_OURS = {"vllm", "tests", "scripts", "transformers_modules", "__main__"}


@dataclass(frozen=True)
class Proof:
    """A table of the hunks that were asked for, what fails the proof, a line each, and the file
    that tells of every hunk.
    """

    table: list[str]
    findings: list[str]
    report: Path


def prove(
    layout: Layout, pin: Pin, patches: tuple[Patch, ...], numbers: str, device: str, say: Say
) -> Proof:
    """Work clone and environment must be there, and stay as they are. What an earlier run found
    out stays true as long as the hunk, its file and the tests are the same.

    Raises `OverlayError` where a test module passes no test on the whole tree.
    """
    reasons = verdicts.excuses(layout)
    asked = series.chosen(patches, numbers)
    base, commits = stack.commits(layout, pin, patches)
    every = hunks.cuts(Git(layout.clone), base, commits, patches, BELOW)
    cuts = [cut for cut in every if cut.patch.name in asked]
    memory = Memory(layout)
    known = {cut.key: verdict for cut in cuts if (verdict := memory.recall(cut))}
    say(f"{len(cuts)} hunks, {len(known)} of them known from before")
    pending = [cut for cut in cuts if cut.key not in known]
    if pending:
        known |= _Run(layout, memory, commits[-1], every, device, say).judge(pending)
    found = tuple(known[cut.key] for cut in cuts)
    findings = verdicts.findings(found, reasons, {cut.key for cut in every})
    report = verdicts.write(layout, found, reasons, findings)
    return Proof(verdicts.table(found, reasons), findings, report)


class _Run:
    """The work of a few workers, each with a tree of its own."""

    def __init__(
        self, layout: Layout, memory: Memory, tip: str, every: list[Cut], device: str, say: Say
    ) -> None:
        self._layout, self._memory, self._tip, self._say = layout, memory, tip, say
        self._paths = sorted({cut.path for cut in every if cut.path.endswith(".py")})
        self._workers = [
            Worker(layout, layout.build / "prove" / f"worker-{n}", device)
            for n in range(1, sessions.jobs(device) + 1)
        ]
        self._lock = threading.Lock()
        self._records: dict[str, Recorded] = {}
        self._imports = Imports(layout.clone, lazily=False)
        self._found: dict[str, Verdict] = {}
        self._trusted: dict[tuple[str, ...], dict[str, bool]] = {}

    def judge(self, cuts: list[Cut]) -> dict[str, Verdict]:
        """The verdict on each, by its key."""
        try:
            for worker in self._workers:
                worker.stand_at(self._tip)
            wanted = sorted({module for cut in cuts for module in verdicts.modules(cut)})
            self._share(wanted, self._record)
            self._began, self._total = time.monotonic(), len(cuts)
            self._share(_batches(cuts), self._judge_batch)
        finally:
            for worker in self._workers:
                worker.remove()
        return self._found

    def _share(self, work: Iterable[Any], do: Callable[[Worker, Any], None]) -> None:
        """Let the workers take pieces of `work` until none is left, or one fails."""
        waiting = list(work)
        faults: list[Exception] = []

        def take(worker: Worker) -> None:
            while waiting and not faults:
                with self._lock:
                    piece = waiting.pop(0) if waiting else None
                try:
                    if piece is not None:
                        do(worker, piece)
                except Exception as error:
                    faults.append(error)

        threads = [threading.Thread(target=take, args=(w,), daemon=True) for w in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

    def _record(self, worker: Worker, module: str) -> None:
        record = self._memory.record_of(module)
        if record.missing:
            worker.have([])
            self._say(f"{module}: what {len(record.missing)} of its tests call …")
            named = [f"{module}::{function}" for function in record.missing]
            paths = {"tree": str(worker.tree), "paths": self._paths}
            answer = worker.run({"modules": named, **paths})
            self._memory.keep_record(module, record.missing, answer)
            record = self._memory.record_of(module)
        if not record.passed:
            raise OverlayError(
                f"{module} passes no test on the whole tree",
                hint=f"build/venv/bin/python -m pytest {module}",
            )
        with self._lock:
            self._records[module] = record

    def _judge_batch(self, worker: Worker, cuts: list[Cut]) -> None:
        """Hunks of one patch and one folder."""
        worker.stand_at(cuts[0].commit)
        levels = self._levels_for(cuts[0])
        if {_module(cut.path) for cut in cuts} & worker.have(levels):
            worker.leave()  # one is loaded by a way that its text does not show
            worker.have(levels[:1])
        layer = (cuts[0].commit, *(name for name, _ in levels))
        waiting = cuts
        while waiting:
            found = [self._judge(worker, cut, layer) for cut in waiting]
            self._trust(worker, found, layer)
            sure = [one for one in found if self._trusted[layer].get(one.test, True)]
            for verdict in sure:
                self._memory.keep(verdict)
                with self._lock:
                    self._found[verdict.cut.key] = verdict
                    self._tell(verdict)
            waiting = [one.cut for one in found if one not in sure]

    def _judge(self, worker: Worker, cut: Cut, layer: tuple[str, ...]) -> Verdict:
        trusted = self._trusted.setdefault(layer, {})
        names = [name for name in verdicts.modules(cut) if trusted.get(name, True)]
        records = [self._records[name] for name in names]
        order = [test for test in _order(cut, records) if trusted.get(test, True)]
        if not order:  # without a name, pytest would collect whatever there is
            return verdicts.verdict(cut, {"ran": [], "failed": []})
        return verdicts.verdict(cut, worker.run({"modules": names, "order": order}, cut))

    def _trust(self, worker: Worker, found: list[Verdict], layer: tuple[str, ...]) -> None:
        """Find out whether the tests that noticed pass in the same place with the hunk there."""
        trusted = self._trusted[layer]
        tests = sorted({one.test for one in found if one.test and one.test not in trusted})
        while tests:
            modules = sorted({test.partition("::")[0] for test in tests})
            answer = worker.run({"modules": modules, "order": tests, "all": True})
            if "died" in answer:
                ended = [test for test in tests if test == answer["test"]] or tests
                trusted |= dict.fromkeys(ended, False)
                tests = [test for test in tests if test not in ended]
                continue
            failed = {one["test"] for one in answer["failed"]}
            for test in tests:
                trusted[test] = test not in failed and test in (*answer["ran"], *modules)
            tests = []

    def _levels_for(self, cut: Cut) -> list[Level]:
        """What a process may have loaded before the file of the hunk: what is not of the tree; what
        the tests of the patch load of the tree and no patch changes; what does not use its folder.
        """
        folder = cut.path.rpartition("/")[0]
        beside = [path for path in self._paths if path.rpartition("/")[0] == folder]
        names = verdicts.modules(cut)
        tree = [name for name in self._loaded(names) if name.split(".")[0] == BELOW]
        others = [m for m in self._loaded(self._records) if m.split(".")[0] not in _OURS]
        levels: list[Level] = [("others", others)]
        for name, paths in ((cut.patch.name, self._paths), (folder, beside)):
            users = self._imports.dependents(tree, map(_module, paths))
            levels.append((name, [module for module in tree if module not in users]))
        return levels

    def _loaded(self, names: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(m for name in names for m in self._records[name].loaded))

    def _tell(self, verdict: Verdict) -> None:
        done = len(self._found)
        if verdict.how == "unnoticed" or done % 10 == 0 or done == self._total:
            left = (time.monotonic() - self._began) / done * (self._total - done) / 60
            line = f"[{done}/{self._total}] {verdict.shown}"
            self._say(f"{line}; about {left:.0f} min left" if left else line)


def _batches(cuts: list[Cut], most: int = 12) -> list[list[Cut]]:
    """Hunks that can share a process, few enough at once to keep both workers busy to the end."""
    groups: dict[tuple[str, str, str], list[Cut]] = {}
    for cut in cuts:
        place = (cut.commit, cut.patch.name, cut.path.rpartition("/")[0])
        groups.setdefault(place, []).append(cut)
    by_size = sorted(groups.values(), key=len, reverse=True)
    return [group[n : n + most] for group in by_size for n in range(0, len(group), most)]


def _order(cut: Cut, records: Iterable[Recorded]) -> list[str]:
    """The tests that may notice, quick ones first: those that call the functions of the hunk (or of
    its file, for a line outside of functions), and those that call nothing but may read the source.
    Where none calls them, any test may: by a copy of the file, by another process.
    """
    tests: Mapping[str, Any] = {t: how for record in records for t, how in record.passed.items()}
    names = {f"{cut.path}::{function}" for function in cut.functions}

    def calls(test: str) -> bool:
        called = tests[test]["calls"]
        return any(c in names if names else c.startswith(f"{cut.path}::") for c in called)

    callers = {test for test in tests if calls(test)}
    may = callers | {test for test in tests if not tests[test]["calls"]} if callers else {*tests}
    return sorted(may, key=lambda test: tests[test]["seconds"])


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
