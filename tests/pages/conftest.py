"""Pages made by the real writers, of a run with everything that a run can have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench import headline, measures, samples
from scripts.bench import page as bench_page
from scripts.core.layout import Layout
from scripts.proof import hunks, witnesses
from scripts.proof import page as proof_page
from scripts.proof.hunks import Cut
from scripts.proof.verdicts import Verdict
from scripts.release import pin
from scripts.series import mails
from scripts.suites import cases, record, report
from scripts.suites.areas import Suite as Area
from scripts.suites.baseline import Comparison, Share
from scripts.suites.runner import Result, Suite
from scripts.suites.upstream import Choice

REPO = Layout.of(Path(__file__).resolve().parents[2], None)
LONG = "tests/regression/test_scoped_mm_kwargs_info_models.py::test_the_limit[at start-x/y<z>-"
LETTERS = "0123456789abcdef" * 9
TRACE = "\n".join(f"    line {n} = [{'0123456789, ' * 20}]" for n in range(20))


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, as `build/reports` has them."""
    folder = tmp_path_factory.mktemp("root")
    there = Layout.of(folder, None)
    there.reports.mkdir(parents=True)
    for name in ("build/tools", "ci", "patches", "tests"):
        (folder / name).symlink_to(REPO.root / name)
    run = samples.read(headline.recorded(there))
    assert run
    bench_page.write(there, measures.MEASUREMENTS, run)
    proof_page.write(there, _verdicts(there), {}, [f"{LONG * 3}: no test notices that it is gone"])
    with pytest.MonkeyPatch.context() as patch:
        versions = {"torch": "2.13.0", "vllm": "0.28.0+cpu"}
        patch.setattr(record, "environment", lambda _: versions)  # of an environment that is there
        report.write(there, pin.read(there.pin_file), _run(there))
    return there.reports


def _verdicts(there: Layout) -> list[Verdict]:
    keys = hunks.keys(mails.load(there.patches), "vllm")
    cuts = [Cut(k, p, k.partition("#")[0], 1, "", b"", None, ()) for k, p in keys.items()]
    return [Verdict(cut, "test" if n % 3 else "unnoticed", LONG, "E " * 200, 0.1)
            for n, cut in enumerate(cuts)]  # fmt: skip


def _run(there: Layout) -> report.Run:
    """Failures with long names, long words and long lines; more of them than are shown whole."""
    patches = mails.load(there.patches)
    log = there.reports / "regression.log"
    for file in (log, *(log.with_name(f"{name}.xml") for name in ("regression", "upstream"))):
        file.touch()
    failed = [
        replace(cases.told(f"{LONG}{n}]", f"assert {LETTERS}\nand", log, trace=TRACE),
                patch="0001, 0002", seconds=n)
        for n in range(70)
    ]  # fmt: skip
    area = Area("Step of a long name", "cpu", ("vllm/",), (LONG,))
    kinds = {kind: {f"{LONG}{kind}]": "OSError: a/very/long/path" * 9} for kind in (
        "broken", "failing", "stale", "gained", "unsteady", "known")}  # fmt: skip
    found = Comparison({"passed": 1}, {area.name: Share(3, 2, 2)}, **kinds, asked={LONG: "all"})
    choices = (Choice(area, "the series touches it", minutes=3.0),
               Choice(replace(area, step="other"), why_not="needs a GPU"))  # fmt: skip
    chosen = [
        Suite("regression", "why", "venv", (), there.root),
        Suite("engine", "why", "venv", (), there.root, why_not="not asked for (SUITES)"),
        Suite("upstream", "why", "venv", (), there.root, choices=choices),
    ]
    results = [
        Result("regression", False, "70 tests, 70 failed", tuple(failed), tuple(failed), 301.0),
        Result("upstream", True, "1 passed", (), (), 90.0, found),
    ]
    proven = witnesses.proven(there, hunks.keys(patches, "vllm"))
    return report.Run("cpu", chosen, results, patches, proven, headline.by_patch(there, patches))
