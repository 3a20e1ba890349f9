"""Windows of images that are sent again each turn: answers, and what reaches the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.engine.conftest import SideBySide, Told
from tests.engine.test_answers import same

WINDOWS, TURNS, MOVING = (1, 5, 25), 10, 4
IMAGE, METADATA = 1_500_000, 1024
"""Bytes: at least those of the tensors of one image, at most those of its place in the prompt.

It has 64 tokens, two hashes and a grid.
"""
Rows = Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def told(side_by_side: SideBySide) -> Mapping[str, Told]:
    """What `support.window_probe` says of both trees, which one engine each answers."""
    images = map(str, WINDOWS)
    return side_by_side(
        "window_probe", "--images", *images, "--turns", str(TURNS), "--moving", str(MOVING)
    )


def resent(told: Told, images: int) -> Rows:
    """The turns of one window."""
    rows = [row for row in told["turns"] if row["images"] == images]
    assert len(rows) == TURNS
    return rows


@pytest.mark.parametrize("kind", ["turns", "moved"])
def test_each_turn_is_answered_as_base_does(told: Mapping[str, Told], kind: str) -> None:
    pairs = list(zip(told["base"][kind], told["patched"][kind], strict=True))
    assert len(pairs) == TURNS * (len(WINDOWS) if kind == "turns" else 1)
    for number, (before, after) in enumerate(pairs):
        assert same(before, after), number
        assert before["cached"] == after["cached"], number


@pytest.mark.parametrize("images", WINDOWS)
def test_a_window_is_covered_from_its_second_turn_on(told: Mapping[str, Told], images: int) -> None:
    for tree in told.values():
        assert [row["covered"] for row in resent(tree, images)] == [0, *[images] * (TURNS - 1)]


def test_what_a_turn_broadcasts_is_flat_in_the_number_of_covered_images(
    told: Mapping[str, Told],
) -> None:
    """On base each image goes to the workers again, each turn."""
    for before, after in (WINDOWS[:2], WINDOWS[1:]):
        for tree, least, most in (("patched", 0, METADATA), ("base", IMAGE, float("inf"))):
            few, many = resent(told[tree], before), resent(told[tree], after)
            for turn in range(1, TURNS):
                grown = many[turn]["broadcast_bytes"] - few[turn]["broadcast_bytes"]
                assert least < grown / (after - before) <= most, (tree, turn)


def test_a_first_turn_sends_its_images_whole(told: Mapping[str, Told]) -> None:
    for images in WINDOWS:
        before, after = (resent(told[tree], images)[0] for tree in ("base", "patched"))
        assert after["broadcast_bytes"] == pytest.approx(before["broadcast_bytes"], abs=METADATA)
        assert after["broadcast_bytes"] > images * IMAGE


def test_of_a_window_that_moves_only_the_covered_image_stays_behind(
    told: Mapping[str, Told],
) -> None:
    """The next one straddles the end of the prefix, and is encoded anew from what is sent."""
    for before, after in zip(told["base"]["moved"][1:], told["patched"]["moved"][1:], strict=True):
        assert (after["covered"], after["straddling"], after["images"]) == (1, 1, MOVING + 2)
        saved = before["broadcast_bytes"] - after["broadcast_bytes"]
        assert IMAGE < saved < 2 * IMAGE
