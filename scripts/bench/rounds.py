"""Measure base against patched: interleaved runs, one environment, one process layout."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from scripts.bench import probes, samples
from scripts.bench.measures import Measurement
from scripts.bench.probes import NotHere, ProbeFailed, Probes
from scripts.bench.samples import Measured, Run
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import SCRATCH, Layout
from scripts.environment import machine
from scripts.release import source
from scripts.release.pin import Pin
from scripts.suites import record

Say = Callable[[str], None]
_Values = dict[str, dict[str, dict[str, list[float]]]]


def path(layout: Layout) -> Path:
    """Every sample of the last run."""
    return layout.reports / "bench.json"


def chosen(known: Mapping[str, Measurement], names: Sequence[str]) -> dict[str, Measurement]:
    """The measurements of these names, or all."""
    wrong = [name for name in names if name not in known]
    if wrong:
        raise OverlayError(
            f"no measurement is named {', '.join(wrong)}", hint=f"BENCH={','.join(known)}"
        )
    return {name: one for name, one in known.items() if not names or name in names}


def made_with(
    layout: Layout, pin: Pin, device: str, releases: Sequence[str] = ()
) -> dict[str, str]:
    """What two runs must share for their figures to stand in one report."""
    git, here = Git(layout.clone), machine.look(layout, machine.here())
    gpus = ", ".join(gpu.name for gpu in here.gpus)
    return {
        **record.environment(layout),
        "base": f"{pin.project} {pin.tag}",
        "patched": f"tree {git.out('rev-parse', 'HEAD^{tree}')[:12]}",
        "device": f"{device}: {gpus}" if gpus else device,
        "processor": _processor(),
        "cores": str(here.cores),
        "memory": f"{here.memory / 2**30:.0f} GiB",
        **({"against": ", ".join(releases)} if releases else {}),
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def trees(layout: Layout, pin: Pin) -> dict[str, str]:
    """Name → commit, empty for the work clone as it is."""
    base = source.base(layout, pin)
    log = Git(layout.clone).lines(
        "log", "--reverse", "--grep=/pull/55448$", "--format=%H", f"{base}..HEAD"
    )
    if not log:
        raise OverlayError("no applied patch names pull request 55448", hint="make apply")
    return {"base": base, "warmup budget": log[0], "patched": ""}


def run(
    layout: Layout,
    device: str,
    commits: Mapping[str, str],
    wanted: Mapping[str, Measurement],
    last: Run,
    *,
    rounds: int,
    say: Say,
    releases: Mapping[str, Layout] | None = None,
) -> Iterator[Run]:
    """Measure what is `wanted`; yields `last` with each measurement in it as it ends.

    `releases` are later ones by tag, in environments of their own.
    """
    with probes.started(layout, device, commits, releases or {}) as started:
        for name, one in wanted.items():
            last = last.with_one(name, _measure(layout, started, name, one, rounds, say))
            yield last


def _measure(
    layout: Layout, started: Probes, name: str, one: Measurement, rounds: int, say: Say
) -> Measured:
    values: _Values = {}
    failed: dict[str, str] = {}
    absent: dict[str, str] = {}
    said: dict[str, str] = {}
    logs = layout.reports / "bench"
    rounds = 1 if one.once else rounds
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=layout.build) as scratch:
        for turn in range(rounds):
            for case, contender in _order(one, turn):
                what = f"{case}, {contender}"
                if what in failed or what in absent:
                    continue
                say(f"{name}, round {turn + 1} of {rounds}: {what}")
                log = logs / f"{re.sub('[^a-z0-9]+', '-', f'{name} {what}')}.log"
                try:
                    _sample(started, one, case, contender, Path(scratch), log, values, said)
                except (ProbeFailed, ValueError) as error:
                    # What a later release has not, or has by another name, is no fault of ours.
                    (absent if contender in started.releases else failed)[what] = str(error)
                    say(f"  failed: {error}")
                except NotHere as error:
                    absent[what] = str(error)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Measured(today, rounds, values, failed, absent, said)


def _order(one: Measurement, turn: int) -> Iterator[tuple[str, str]]:
    """Every case with one contender after the other, the other way round in every second turn."""
    names = list(one.contenders)
    for case in one.cases:
        for contender in names if turn % 2 == 0 else reversed(names):
            if one.contends(case, contender):
                yield case, contender


def _sample(
    started: Probes, one: Measurement, case: str, contender: str, scratch: Path, log: Path,
    values: _Values, said: dict[str, str],
) -> None:  # fmt: skip
    """Run the probe once and add what it told to `values`, its words to `said`."""
    tree = one.contenders[contender]
    # Verbs on the series keep what they work on; an engine makes its checkpoint anew.
    folder = scratch / tree
    arguments = [word.format(folder=folder) for word in one.arguments(case, contender)]
    told = started.ask(tree, one.probe, arguments, log)
    said |= {f"{row}, {contender}": text for row, text in one.said(told).items()}
    for row, figures in one.read(case, told):
        for figure, value in figures.items():
            values.setdefault(row, {}).setdefault(figure, {}).setdefault(contender, []).append(
                value
            )


def kept(layout: Layout, made: Mapping[str, str]) -> Run:
    """The last run, as far as it was made with the same things; else an empty one."""
    last = samples.read(path(layout))
    return last if last and last.made_with == made else Run(made)


def failures(run: Run) -> list[str]:
    return [
        f"{name}: {what}: {line}"
        for name, one in run.measured.items()
        for what, line in one.failed.items()
    ]
