"""This repository itself: its series is sound, its files name no machine and no package index."""

from __future__ import annotations

import re
import subprocess

import pytest

from scripts.release import pin
from scripts.series import lint, mails
from tests.tools.product import REPO

# Put together here, so that this file passes, too.
HOSTS = re.compile(
    "|".join((r"py" + r"pi\.org", "python" + r"hosted\.org", "download" + r"\.pytorch"))
)
FOLDERS = re.compile(
    r"(?<![\w.}~-])/(?:" + "|".join(("work", "root", "home", "tmp/w")) + r")(?:/|\b)"
)


def texts() -> dict[str, str]:
    """Every file that is or may be committed, by name."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    files = {name: REPO / name for name in listed if name and (REPO / name).is_file()}
    return {name: path.read_text(errors="replace") for name, path in sorted(files.items())}


def test_our_series_lints_clean() -> None:
    faults = [one for one in lint.lint(REPO / "patches", REPO) if not one.note]
    assert faults == []


def test_our_pin_and_series_load() -> None:
    release = pin.read(REPO / "patches" / "upstream.json")
    assert release.tag == f"v{release.version}"
    assert [p.number for p in mails.load(REPO / "patches")] == list(
        range(1, len(mails.names(REPO / "patches")) + 1)
    )


@pytest.mark.parametrize("pattern", [HOSTS, FOLDERS], ids=["package index", "local path"])
def test_no_file_names(pattern: re.Pattern[str]) -> None:
    hits = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in texts().items()
        for number, line in enumerate(text.split("\n"), 1)
        if pattern.search(line)
    ]
    assert hits == []
