"""Take each hunk away by itself and let the tests of its patch run: who notices that it is gone?"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.proof import hunks, page, verdicts
from scripts.proof.hunks import Cut
from scripts.proof.imports import Imports
from scripts.proof.memory import Memory, Recorded
from scripts.proof.verdicts import Verdict
from scripts.proof.witnesses import Witnesses, may_notice
from scripts.proof.worker import Level, Worker
from scripts.release.pin import Pin
from scripts.series import mails, stack
from scripts.series.mails import Patch
from scripts.suites import sessions

Say = Callable[[str], None]
Piece = tuple[list[Cut], list[Level]]
"""Hunks of one file, and what a process may have loaded before that file, level upon level."""

BELOW = "vllm"
_OURS = {"vllm", "tests", "scripts", "transformers_modules", "__main__"}
_APART = "vllm.v1.worker.cpu"  # its import replaces functions of torch


@dataclass(frozen=True)
class Proof:
    """A table of the hunks that were asked for, what fails the proof, a line each, and the files
    that tell of every hunk, for programs and for people.
    """

    table: list[str]
    findings: list[str]
    report: Path
    page: Path


def prove(
    layout: Layout, pin: Pin, patches: tuple[Patch, ...], numbers: str, device: str, say: Say,
    *, record: bool = False,
) -> Proof:  # fmt: skip
    """Work clone and environment must be there, and stay as they are. What an earlier run found
    out stays true as long as the hunk, its file and the tests are the same. With `record`, who
    noticed is written down, to be asked first where nothing is known.

    Raises `OverlayError` where a test fails on the whole tree, or a module passes none.
    """
    reasons = verdicts.excuses(layout)
    asked = mails.chosen(patches, numbers)
    base, commits = stack.commits(layout, pin, patches)
    every = hunks.cuts(Git(layout.clone), base, commits, patches, BELOW)
    cuts = [cut for cut in every if cut.patch.name in asked]
    memory, witnesses = Memory(layout), Witnesses(layout)
    known = {cut.key: verdict for cut in cuts if (verdict := memory.recall(cut))}
    say(f"{len(cuts)} hunks, {len(known)} of them known from before")
    pending = [cut for cut in cuts if cut.key not in known]
    if pending:
        run = _Run(layout, memory, witnesses, commits[-1], every, device, say)
        known |= run.judge(pending)
    found, keys = tuple(known[cut.key] for cut in cuts), {cut.key for cut in every}
    findings = verdicts.findings(found, reasons, keys)
    if record:
        witnesses.write(found, keys)
    report = verdicts.write(layout, found, reasons, findings)
    shown = page.write(layout, found, reasons, findings)
    return Proof(verdicts.table(found, reasons), findings, report, shown)


class _Run:
    """The work of a few workers, each with a tree of its own."""

    def __init__(
        self, layout: Layout, memory: Memory, witnesses: Witnesses, tip: str, every: list[Cut],
        device: str, say: Say,
    ) -> None:  # fmt: skip
        self._memory, self._witnesses, self._tip, self._say = memory, witnesses, tip, say
        self._paths = sorted({cut.path for cut in every if cut.path.endswith(".py")})
        self._workers = [
            Worker(layout, layout.build / "prove" / f"worker-{n}", device)
            for n in range(1, sessions.jobs(device) + 1)
        ]
        self._lock = threading.Lock()
        self._records = {name: threading.Lock() for cut in every for name in verdicts.modules(cut)}
        self._imports = Imports(layout.clone, lazily=False)
        self._found: dict[str, Verdict] = {}

    def judge(self, cuts: list[Cut]) -> dict[str, Verdict]:
        """The verdict on each, by its key."""
        self._began, self._total = time.monotonic(), len(cuts)
        try:
            for commit in dict.fromkeys(cut.commit for cut in reversed(cuts)):
                self._judge_at(commit, [cut for cut in cuts if cut.commit == commit])
        finally:
            for worker in self._workers:
                worker.remove()
        return self._found

    def _judge_at(self, commit: str, cuts: list[Cut]) -> None:
        files: dict[str, list[Cut]] = {}
        for cut in cuts:
            files.setdefault(cut.path, []).append(cut)
        first = self._workers[0]
        first.stand_at(commit)
        every = self._memory.loaded()
        if not every:
            folders = {(first.tree / path).parent for path in self._paths}
            beside = (path for folder in folders for path in folder.glob("*.py"))
            names = sorted(_module(str(path.relative_to(first.tree))) for path in beside)
            first.have([("all", [name for name in names if not name.startswith(_APART)])])
            every = list(first.loaded)
            self._memory.keep_loaded(every)
        loaded = [name for name in every if name.split(".")[0] not in _OURS]
        self._tree = tree = [name for name in every if name.split(".")[0] == BELOW]
        users = {path: self._imports.dependents(tree, [_module(path)]) for path in files}

        def level(group: tuple[str, ...]) -> Level:
            gone = set().union(*(users[path] for path in group))
            return " ".join(group), [module for module in tree if module not in gone]

        # Files that much of the tree stands on share few levels with the others.
        order = tuple(sorted(files, key=lambda path: (-len(users[path]), path)))
        waiting = deque(
            (files[path], [("others", loaded), *map(level, groups)])
            for path, groups in _halved(order)
        )
        self._share(commit, waiting)

    def _share(self, commit: str, waiting: deque[Piece]) -> None:
        """Let the workers take pieces until none is left, or one fails. They come from both ends,
        for neighbours share what a process has loaded.
        """
        faults: list[Exception] = []

        def take(worker: Worker, next_piece: Callable[[], Piece]) -> None:
            while not faults:
                with self._lock:
                    piece = next_piece() if waiting else None
                if piece is None:
                    return
                try:
                    worker.stand_at(commit)
                    self._judge_file(worker, *piece)
                except Exception as error:
                    faults.append(error)

        ends = cycle((waiting.popleft, waiting.pop))
        threads = [
            threading.Thread(target=take, args=(worker, end), daemon=True)
            for worker, end in zip(self._workers, ends, strict=False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

    def _judge_file(self, worker: Worker, cuts: list[Cut], levels: list[Level]) -> None:
        worker.have(levels)
        if _module(cuts[0].path) in worker.loaded:
            worker.have(levels[:1])  # it is loaded by a way that its text does not show
        trusted: dict[str, bool] = {}
        first = dict.fromkeys(test for cut in cuts for test in self._witnesses.of(cut)[:1])
        self._trust(worker, trusted, list(first))
        for cut in cuts:
            found = self._judge(worker, cut, trusted)
            self._memory.keep(found)
            self._witnesses.saw(found)
            with self._lock:
                self._found[cut.key] = found
                self._tell(found)

    def _judge(self, worker: Worker, cut: Cut, trusted: dict[str, bool]) -> Verdict:
        """What noticed it before, or a hunk of its file, is asked first, all others then."""
        began, ran = time.monotonic(), set[str]()
        for tests in (self._witnesses.of, lambda cut: self._candidates(worker, cut)):
            order = [test for test in tests(cut) if test not in ran]
            while order := [test for test in order if _is_trusted(test, trusted)]:
                answer = worker.run({"modules": _modules(order), "order": order}, cut)
                found = verdicts.verdict(cut, answer, time.monotonic() - began)
                if found.how == "unnoticed":
                    break
                self._trust(worker, trusted, [found.test])
                if trusted[found.test]:
                    return found
            if cut.inert:
                break
            ran.update(order)
        said = "what runs is the same" if cut.inert else f"{len(ran)} tests pass"
        return verdicts.unnoticed(cut, f"{said} without it", time.monotonic() - began)

    def _trust(self, worker: Worker, trusted: dict[str, bool], tests: list[str]) -> None:
        """Find out whether these tests pass in the same place with the hunk there."""
        tests = [test for test in tests if test not in trusted]
        while tests:
            modules = _modules(tests)
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

    def _candidates(self, worker: Worker, cut: Cut) -> list[str]:
        records = [self._record(worker, module) for module in verdicts.modules(cut)]
        return may_notice(cut, records)

    def _record(self, worker: Worker, module: str) -> Recorded:
        """What its tests do on the whole tree."""
        with self._records[module]:
            record = self._memory.record_of(module)
            if record.missing:
                self._say(f"{module}: what {len(record.missing)} of its tests call …")
                commit, levels = worker.commit, worker.levels
                worker.stand_at(self._tip)
                worker.have(levels[:1])
                named = [f"{module}::{function}" for function in record.missing]
                work = {"modules": named, "tree": str(worker.tree), "paths": self._paths,
                        "load": self._tree}  # fmt: skip
                answer = worker.run(work)
                if "died" in answer:
                    raise _unfit(f"{module}: its process ended with {answer['died']}", module)
                failed = [t for t, how in answer["tests"].items() if how["outcome"] == "failed"]
                if failed:
                    raise _unfit(f"{len(failed)} tests fail on the whole tree: {failed[0]}", module)
                self._memory.keep_record(module, record.missing, answer)
                worker.stand_at(commit)
                worker.have(levels)
                record = self._memory.record_of(module)
        if not record.passed:
            raise _unfit(f"{module} passes no test on the whole tree", module)
        return record

    def _tell(self, verdict: Verdict) -> None:
        done = len(self._found)
        if verdict.how == "unnoticed" or done % 10 == 0 or done == self._total:
            left = (time.monotonic() - self._began) / done * (self._total - done) / 60
            line = f"[{done}/{self._total}] {verdict.shown}"
            self._say(f"{line}; about {left:.0f} min left" if left else line)


def _unfit(said: str, module: str) -> OverlayError:
    return OverlayError(said, hint=f"build/venv/bin/python -m pytest {module}")


def _halved(
    paths: tuple[str, ...], above: tuple[tuple[str, ...], ...] = ()
) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    """Each with the groups that it is in: of all, of half of them, and so on to itself alone."""
    within, half = (*above, paths), len(paths) // 2
    if half:
        yield from _halved(paths[:half], within)
        yield from _halved(paths[half:], within)
    else:
        yield paths[0], within


def _modules(tests: Iterable[str]) -> list[str]:
    return sorted({test.partition("::")[0] for test in tests})


def _is_trusted(test: str, trusted: Mapping[str, bool]) -> bool:
    """Not known to fail anyway; nor is its module."""
    return trusted.get(test, True) and trusted.get(test.partition("::")[0], True)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
