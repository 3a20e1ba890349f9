"""Each of our tests says whose it is, by the trailers of the patches."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from tests.upstream import whose

ROOT = Path(__file__).resolve().parents[1]

pytest_configure = whose.pytest_configure


@pytest.hookimpl(tryfirst=True)  # before the collector looks for tags
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Numbers of the patches that name the module, else the folder: `engine`, `tools`."""
    named: dict[str, list[str]] = {}
    for patch in sorted((ROOT / "patches").glob("*.patch")):
        text = patch.read_text(encoding="utf-8", errors="replace")
        for module in re.findall(r"^Regression-Test: (\S+)$", text, re.MULTILINE):
            named.setdefault(module, []).append(patch.name[:4])
    for path, tests in groupby(items, key=lambda item: item.path):
        module = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        whose.mark(tests, ", ".join(named.get(module, [path.parent.name])))
