"""Greedy answers of real engines: base against patched, and one way of running against another."""

# ruff: noqa: ANN401 (what JSON holds)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import LAYOUT, Answers, Probe
from tests.support.engine_probe import FAMILIES, RUNS

NEW = {"sizes, scoped"}
"""Runs whose options the base does not take at their word, see the test of the encoder cache."""
WAYS = [name for name in RUNS if name.startswith("windows, ")]


def same(left: Any, right: Any) -> bool:
    """Token for token, and as probable: what sums in another order differs by rounding."""
    if "error" in left or "error" in right:
        return bool(left == right)
    close = left["logprob"] == pytest.approx(right["logprob"], abs=1e-3)
    return bool(left["tokens"] == right["tokens"] and close)


@pytest.mark.parametrize("run", [name for name in RUNS if name not in NEW])
def test_the_patched_tree_answers_as_base_does(base: Answers, patched: Answers, run: str) -> None:
    before, after = base[run]["answers"], patched[run]["answers"]
    assert before.keys() == after.keys()
    for request, answer in before.items():
        assert same(answer, after[request]), request
        if "error" not in answer:
            assert answer["prompt"] == after[request]["prompt"]
            assert answer["items"] == after[request]["items"]
            assert answer["cached"] <= after[request]["cached"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_depends_on_what_is_shown(patched: Answers, family: str) -> None:
    """Otherwise no comparison of answers could find a fault."""
    answers = patched[family]["answers"]
    kinds = [name.removesuffix(" 1") for name in answers if name.endswith(" 1")]
    assert kinds or family == "llama"
    for kind in kinds:
        one, other = answers[f"{kind} 1"], answers[f"{kind} 2"]
        assert answers["text"]["prompt"] < one["prompt"] == other["prompt"]
        assert not same(one, other), kind
        if both := answers.get(f"{kind} 1 2"):
            assert one["prompt"] < both["prompt"]
            assert not same(one, both), kind


@pytest.mark.parametrize("way", WAYS)
def test_caches_and_chunks_change_no_answer(patched: Answers, way: str) -> None:
    plain, answers = patched["windows, plain"]["answers"], patched[way]["answers"]
    for request, answer in answers.items():
        assert same(answer, plain[request]), request
    assert same(answers["short"], answers["short again"])
    assert not same(answers["short"], answers["longer"])


@pytest.mark.parametrize("way", WAYS)
def test_a_resent_window_comes_from_the_prefix_cache(patched: Answers, way: str) -> None:
    answers = patched[way]["answers"]
    cached = [answers[request]["cached"] for request in ("short", "longer", "short again")]
    shown = answers["short"]["items"]
    if way == "windows, plain":
        assert cached == [0, 0, 0]
    else:
        assert cached[0] == 0
        assert min(cached[1:]) >= shown - 32, "all whole blocks of the window"


def test_a_modality_with_limit_0_is_refused_by_name(patched: Answers) -> None:
    answers = patched["no images"]["answers"]
    assert "image" in answers["image"]["error"]
    assert "0" in answers["image"]["error"]
    assert answers["text"]["tokens"]
    assert answers["video"]["items"]


def test_embeddings_of_an_image_are_as_good_as_the_image(patched: Answers) -> None:
    answers = patched["embeddings"]["answers"]
    assert same(answers["pixels"], answers["embeddings"])
    assert answers["pixels"]["prompt"] == answers["embeddings"]["prompt"]


def test_embeddings_of_a_prompt_are_as_good_as_its_text(patched: Answers) -> None:
    answers = patched["prompt embeddings"]["answers"]
    assert same(answers["text"], answers["embeddings"])


def test_a_request_may_size_one_modality_or_all(patched: Answers) -> None:
    answers = patched["sizes"]["answers"]
    items = {name: answer["items"] for name, answer in answers.items()}
    assert items["image, flat"] < items["image, stock"]
    assert items["video, flat"] < items["video, stock"]
    assert items["image, image scope"] == items["image, flat"]
    assert items["image, video scope"] == items["image, stock"]
    assert items["video, video scope"] == items["video, flat"]
    assert items["video, image scope"] == items["video, stock"]


def test_the_scope_of_another_modality_keeps_an_item_in_the_caches(
    base: Answers, patched: Answers
) -> None:
    cached = [told["sizes"]["answers"]["image, video scope"]["cached"] for told in (base, patched)]
    assert cached == [0, 64], "base computes the image again"


@pytest.mark.parametrize("run", ["sizes", "sizes, scoped"])
def test_an_item_reserves_its_tokens_of_the_encoder_cache(patched: Answers, run: str) -> None:
    answers = patched[run]["answers"]
    taken = [one for one in answers.values() if "error" not in one]
    assert len(taken) == (8 if run == "sizes" else 4)
    for one in taken:
        # An item that was seen before, at the same size, is still there.
        assert one["reserved"] in (0, one["items"])
    assert any(one["reserved"] for one in taken)


def test_the_encoder_cache_holds_the_largest_item_of_its_scope(
    base: Answers, patched: Answers
) -> None:
    """1024 x 1024 pixels in all, two frames a token: 512 tokens."""
    assert patched["sizes, scoped"]["encoder_cache"] == 512
    assert base["sizes, scoped"]["encoder_cache"] == 12288, "base does not read the scope"


def test_a_size_of_the_engine_and_one_of_a_request_are_resolved_alike_offline(
    patched: Answers,
) -> None:
    answers = patched["sizes, scoped"]["answers"]
    items = {name: answer.get("items") for name, answer in answers.items()}
    assert items["video, flat"] == items["video, image scope"] == items["video, stock"]
    assert items["video, video scope"] < items["video, stock"]


def test_an_engine_for_long_videos_keeps_room_for_them_and_answers_usual_ones(
    base: Answers, patched: Answers
) -> None:
    """The model card's recipe; base does not read the scope when it sizes its cache."""
    told = patched["long video"]
    assert (told["encoder_cache"], base["long video"]["encoder_cache"]) == (229376, 16384)
    assert {kind: answer["items"] for kind, answer in told["answers"].items()} == {
        "video": 2400,
        "image": 475,
    }


def test_an_engine_that_fails_is_told_and_the_next_one_starts(tmp_path: Path) -> None:
    """As `test_on_gpu` starts many in one process."""
    arguments = ("--each", str(tmp_path), "no such run", "llama")
    told = Probe.start(LAYOUT.clone, tmp_path, "engine_probe", *arguments).told()["runs"]

    assert told["no such run"] == {"error": "KeyError: 'no such run'"}
    assert told["llama"]["answers"]
