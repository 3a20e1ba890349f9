"""What the placement audit tells of the pinned release, and of this tree beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.audit import Report
from tests.support.sources import ROOT, pinned_tree

GetReport = Callable[[str], Report]


def check_same_as_pinned(report: GetReport, families: Sequence[str], folder: Path) -> None:
    """Assert embeddings and positions of the pinned release, bit for bit, in no more copies.

    From the same weights and inputs, as model runner v1 has them; v2 is compared with that one.
    `folder` is empty, for a checkout of the release.
    """
    base = subprocess.run(
        [sys.executable, "-m", "tests.support.audit", "--runner-v1", *families],
        env=os.environ
        | {
            "PYTHONPATH": f"{pinned_tree(folder)}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",  # this tree is here but once
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in base.stdout.splitlines()]
    assert [before["family"] for before in told] == list(families)
    for before in told:
        expected = [(r["step"], r["case"], r["digest"]) for r in before["runs"]]
        runs = [r for r in report(before["family"]).runs if r.step in ("runner v1", "positions")]
        assert [(r.step, r.case, r.digest) for r in runs] == expected
        copies = [(r.step, r.case, r.h2d_copies) for r in runs]
        limits = [(r["step"], r["case"], r["h2d_copies"]) for r in before["runs"]]
        assert [c for c, most in zip(copies, limits, strict=True) if c > most] == []
