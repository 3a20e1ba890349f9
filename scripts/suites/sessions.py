"""Run suites as pytest sessions, several at once, each with a log; resume what was interrupted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from scripts.core.layout import Layout
from scripts.environment import build, hub, machine, worktree
from scripts.series import mails
from scripts.suites import concern
from scripts.suites.areas import Suite
from scripts.suites.outcomes import Outcome, read_log

Say = Callable[[str], None]
_MEMORY = 5 << 30  # bytes a session may take: torch, vLLM and a small model
_TEST_SECONDS = "600"
_ENDED = (0, 1, 5)  # pytest's own codes: passed, failed, nothing collected


@dataclass(frozen=True)
class Session:
    """A suite, or one of the parts into which upstream cuts it; `patches` are those it runs for."""

    suite: Suite
    part: int = 0
    patches: str = ""

    @property
    def name(self) -> str:
        parts = f" ({self.part + 1} of {self.suite.shards})" if self.suite.shards > 1 else ""
        return self.suite.name + parts

    @property
    def slug(self) -> str:
        """A file name that no other session has."""
        words = re.sub(r"\W+", "-", self.suite.name).strip("-")[:60]
        return f"{words}-{zlib.crc32(self.suite.name.encode()):08x}-{self.part + 1}"

    def command(self, python: Path, log: Path) -> list[str]:
        command = [*pytest(python), f"--report-log={log}", f"--junitxml={log.with_suffix('.xml')}"]
        if self.suite.shards > 1:
            command += [f"--num-shards={self.suite.shards}", f"--shard-id={self.part}"]
        return [*command, *self.suite.args]


@dataclass(frozen=True)
class Ended:
    """What a session's tests did. `fault` is set where pytest itself did not end well."""

    outcomes: Mapping[str, Outcome]
    fault: str = ""


def pytest(python: Path) -> list[str]:
    """What starts it in a tree of upstream's."""
    # -P: the tree's folders `config`, `parser`, … are no modules; it is found by PYTHONPATH.
    return [str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "--continue-on-collection-errors", f"--timeout={_TEST_SECONDS}",
            *collector(os.environ)]  # fmt: skip


def collector(env: Mapping[str, str]) -> list[str]:
    """What keeps Buildkite's collector out where it has no token, of which it would complain."""
    return [] if env.get("BUILDKITE_ANALYTICS_TOKEN") else ["-p", "no:buildkite-test-collector"]


def jobs(device: str) -> int:
    """How many sessions at once: one on a GPU, else as cores and memory allow, four at most."""
    fit = machine.memory() // _MEMORY
    return 1 if device != "cpu" else max(1, min(os.cpu_count() or 1, fit, 4))


def environment(layout: Layout, device: str) -> dict[str, str]:
    """On a GPU with the guard of upstream's own test image: a step that waits for it fails."""
    guard = {} if device == "cpu" else {"VLLM_GPU_SYNC_CHECK": "error"}
    return guard | dict(os.environ) | build.run_environment(layout, device)


def run(
    layout: Layout, tree: Path, device: str, suites: list[Suite], folder: Path, say: Say,
    *, inspected: bool = False,
) -> dict[Session, Ended]:  # fmt: skip
    """Run `suites` in `tree`, logs in `folder`; what ended well there before is only read.

    `inspected`: another run in this tree went before, see `around`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    env = around(layout, tree, device, say, inspected=inspected)
    patches = mails.read(layout.patches)
    wanted = [
        Session(suite, part, concern.shown(concern.of_suite(suite, patches)))
        for suite in suites
        for part in range(suite.shards)
    ]
    pool = _pool(tree, layout.venv / "bin" / "python", wanted, env, jobs(device), folder)
    ended = {}
    with closing(pool):
        for number, (session, code) in enumerate(pool, start=1):
            ended[session] = _ended(folder / f"{session.slug}.jsonl", code)
            say(f"[{number}/{len(wanted)}] {session.name}: {_said(ended[session])}")
    return ended


def around(
    layout: Layout, tree: Path, device: str, say: Say, *, inspected: bool = False
) -> dict[str, str]:
    """The environment of every session in `tree`. `inspected`: its models' classes have been."""
    env = environment(layout, device) | hub.environment(layout)
    cache = {"VLLM_CACHE_ROOT": str(layout.build / "cache" / tree.name)}
    if not inspected:
        _inspect(layout, tree, env | cache, say)
    plugins = ["whose", *["no_global_cleanup"] * (device == "cpu")]
    paths = (str(tree), str(layout.root / "tests" / "upstream"))
    return env | cache | hub.closed(layout, *paths) | {"PYTEST_PLUGINS": ",".join(plugins)}


def _inspect(layout: Layout, tree: Path, env: Mapping[str, str], say: Say) -> None:
    """Fill a cache of vLLM's, with what each model class of `tree` supports, in one process.

    Where ours fails vLLM fills it as tests go on, with a process for each class. Each tree has its
    own: in the user's one the patched and the unpatched tree would drive each other out.
    """
    command = [str(layout.venv / "bin" / "python"), "-P", "-m", "tests.support.model_infos"]
    done = subprocess.run(
        command, env={**env, "PYTHONPATH": worktree.python_path(layout, tree)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        say(f"model classes are inspected one by one, which takes long: {said[0]}")


def by_suite(ended: Mapping[Session, Ended]) -> dict[str, dict[str, Outcome]]:
    """Name of a suite → outcomes of all its sessions."""
    found: dict[str, dict[str, Outcome]] = {}
    for session, one in ended.items():
        found.setdefault(session.suite.name, {}).update(one.outcomes)
    return found


def _pool(
    tree: Path, python: Path, wanted: list[Session], env: Mapping[str, str], at_once: int,
    folder: Path,
) -> Generator[tuple[Session, int], None, None]:  # fmt: skip
    """Yield each session with its exit code as it ends; stop all where the caller stops."""
    running: dict[Session, subprocess.Popen[bytes]] = {}
    waiting = list(wanted)
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                session = waiting.pop(0)
                code = folder / f"{session.slug}.code"
                if code.is_file():
                    yield session, int(code.read_text())
                    continue
                running[session] = _start(tree, python, session, env, at_once, folder)
            for session, process in list(running.items()):
                if process.poll() is not None:
                    del running[session]
                    if process.returncode in _ENDED:
                        (folder / f"{session.slug}.code").write_text(str(process.returncode))
                    yield session, process.returncode
            time.sleep(0.2)
    finally:
        stop(list(running.values()))


def _start(
    tree: Path, python: Path, session: Session, env: Mapping[str, str], at_once: int, folder: Path
) -> subprocess.Popen[bytes]:
    log = folder / f"{session.slug}.jsonl"
    log.unlink(missing_ok=True)
    own = dict(item.partition("=")[::2] for item in session.suite.env)
    own["SERIES_PATCHES"] = session.patches
    threads = max(1, (os.cpu_count() or 1) // at_once)
    whole = {**env, "OMP_NUM_THREADS": str(threads), **own}
    # Checkpoints' own code is copied there and imported: no two sessions may share it.
    whole["HF_MODULES_CACHE"] = str(folder / f"{session.slug}.modules")
    command = session.command(python, log)
    with log.with_suffix(".log").open("wb") as out:
        out.write(f"$ {shlex.join(command)}\n".encode())
        out.flush()
        return subprocess.Popen(
            command, cwd=tree / session.suite.cwd, env=whole, stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """End these runs of pytest, if they have not: first by an interrupt."""
    for process in processes:
        process.send_signal(signal.SIGINT)  # pytest then takes down what its tests started
    for process in processes:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def _ended(log: Path, code: int) -> Ended:
    outcomes = read_log(log)
    if code in _ENDED:
        return Ended(outcomes)
    lines = log.with_suffix(".log").read_text(errors="replace").strip().splitlines()
    tail = next((line for line in reversed(lines) if line.strip()), "no output")
    return Ended(outcomes, f"pytest ended with {code} after {len(outcomes)} tests: {tail[:200]}")


def _said(ended: Ended) -> str:
    results = [outcome.result for outcome in ended.outcomes.values()]
    seconds = sum(outcome.seconds for outcome in ended.outcomes.values())
    counts = ", ".join(
        f"{results.count(kind)} {kind}"
        for kind in ("passed", "failed", "skipped")
        if kind in results
    )
    return ended.fault or f"{counts or 'no tests'} in {seconds:.0f} s"
