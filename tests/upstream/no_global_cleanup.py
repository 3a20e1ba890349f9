"""Pytest plugin: on a CPU no test of upstream's cleans up for the next, half a second each.

The cleanup tears down process groups and GPU memory. `skip_global_cleanup` is upstream's own mark
(`tests/conftest.py` of the pin), "for non-GPU unit tests".
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test."""
    for item in items:
        item.add_marker("skip_global_cleanup")
