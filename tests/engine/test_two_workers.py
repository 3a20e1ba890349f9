"""One engine of two workers, each with half of the model: on two GPUs, or on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.conftest import DEVICE, SideBySide
from tests.engine.test_answers import same

RUN = "windows, two workers"


@pytest.fixture(scope="module")
def answers(side_by_side: SideBySide) -> Mapping[str, Any]:
    """Those of each tree."""
    if DEVICE == "cuda":
        import torch

        found = torch.cuda.device_count()
        if found < 2:
            pytest.skip(f"needs 2 CUDA GPUs, this host has {found}")
    told = side_by_side("engine_probe", RUN)
    return {tree: one["runs"][RUN]["answers"] for tree, one in told.items()}


def test_they_answer_as_base_does(answers: Mapping[str, Any]) -> None:
    for request, answer in answers["patched"].items():
        before = answers["base"][request]
        assert same(answer, before), request
        assert answer["cached"] == before["cached"]


def test_items_that_the_prefix_covers_are_not_sent_to_them(answers: Mapping[str, Any]) -> None:
    before, after = answers["base"], answers["patched"]
    assert after["short"]["sent"] == before["short"]["sent"]
    for request in ("longer", "short again"):
        assert after[request]["sent"] < before[request]["sent"], request
