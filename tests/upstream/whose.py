"""Pytest plugin: each test says whose it is, in JUnit and to Buildkite's collector.

A property `patch` of JUnit, and a tag of that name, which the collector takes by its own mark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

SUITE = "SERIES_PATCHES"
"""The variable that has the numbers of the patches that a suite of upstream's is run for."""


def pytest_configure(config: pytest.Config) -> None:
    """The collector is not there without a token."""
    config.addinivalue_line("markers", "execution_tag(key, value): a tag of Buildkite's collector")


def mark(items: Iterable[pytest.Item], patch: str) -> None:
    """Say of `items` that they are of `patch`: numbers, or what else they are there for."""
    for item in items:
        item.user_properties.append(("patch", patch))
        item.add_marker(pytest.mark.execution_tag("patch", patch))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only where the variable is set: our own tests know it better."""
    if SUITE in os.environ:
        mark(items, os.environ[SUITE] or "none")
