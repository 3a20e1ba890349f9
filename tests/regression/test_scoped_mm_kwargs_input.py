"""Bad `mm_processor_kwargs` get one line that names them, at start and in a request."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.regression.conftest import MakeRenderer
from tests.support.mm_requests import ask, budgets, image, video

REJECTED: dict[str, tuple[Any, str]] = {
    "no mapping": (
        {"videos_kwargs": 5},
        "`mm_processor_kwargs['videos_kwargs']` must be a mapping of options, got 5.",
    ),
    "a list": (
        {"images_kwargs": [{"max_pixels": 5}]},
        "`mm_processor_kwargs['images_kwargs']` must be a mapping of options, "
        "got [{'max_pixels': 5}].",
    ),
    "near miss": (
        {"video_kwargs": {"size": {"longest_edge": 5}}},
        "Unknown scope 'video_kwargs' in `mm_processor_kwargs`: did you mean 'videos_kwargs'?",
    ),
    "near miss without options": (
        {"image_kwargs": None},
        "Unknown scope 'image_kwargs' in `mm_processor_kwargs`: did you mean 'images_kwargs'?",
    ),
    "scope in a scope": (
        {"videos_kwargs": {"images_kwargs": {}}},
        "`mm_processor_kwargs['videos_kwargs']` must not hold another scope, got 'images_kwargs'.",
    ),
    "misspelt": (
        {"vidoes_kwargs": {}},
        "Unknown scope 'vidoes_kwargs' in `mm_processor_kwargs`: did you mean 'videos_kwargs'?",
    ),
    "reversed between flat and scoped": (
        {"min_pixels": 131072, "images_kwargs": {"max_pixels": 65536}},
        "The size in `mm_processor_kwargs` has shortest_edge (min_pixels) 131072 above "
        "longest_edge (max_pixels) 65536; swap or correct them.",
    ),
    "negative edge": (
        {"size": {"shortest_edge": -1}},
        "`mm_processor_kwargs['size']['shortest_edge']` must be a positive integer, got -1.",
    ),
    "string edge": (
        {"videos_kwargs": {"size": {"longest_edge": "4096"}}},
        "`mm_processor_kwargs['videos_kwargs']['size']['longest_edge']` "
        "must be a positive integer, got '4096'.",
    ),
    "fractional edge": (
        {"size": {"longest_edge": 1048576.5}},
        "`mm_processor_kwargs['size']['longest_edge']` must be a positive integer, got 1048576.5.",
    ),
    "reversed edges": (
        {"images_kwargs": {"size": {"shortest_edge": 9, "longest_edge": 5}}},
        "The size in `mm_processor_kwargs` has shortest_edge (min_pixels) 9 above "
        "longest_edge (max_pixels) 5; swap or correct them.",
    ),
    "reversed pixels": (
        {"min_pixels": 9, "max_pixels": 5},
        "The size in `mm_processor_kwargs` has shortest_edge (min_pixels) 9 above "
        "longest_edge (max_pixels) 5; swap or correct them.",
    ),
    "string size": (
        {"size": "large"},
        "`mm_processor_kwargs['size']` must be a positive integer, got 'large'.",
    ),
    "negative size": (
        {"size": -4},
        "`mm_processor_kwargs['size']` must be a positive integer, got -4.",
    ),
    "string pixels": (
        {"images_kwargs": {"max_pixels": "1M"}},
        "`mm_processor_kwargs['images_kwargs']['max_pixels']` "
        "must be a positive integer, got '1M'.",
    ),
    "no pixels": (
        {"common_kwargs": {"max_pixels": 0}},
        "`mm_processor_kwargs['common_kwargs']['max_pixels']` must be a positive integer, got 0.",
    ),
    "string rate": (
        {"videos_kwargs": {"fps": "2"}},
        "`mm_processor_kwargs['videos_kwargs']['fps']` must be a number, got '2'.",
    ),
    "string in a list": (
        {"num_frames": [4, "8"]},
        "`mm_processor_kwargs['num_frames']` must be a number, got [4, '8'].",
    ),
}
ACCEPTED: dict[str, Any] = {
    "nothing": None,
    "empty": {},
    "null scope": {"videos_kwargs": None, "images_kwargs": {}},
    "null options": {"size": None, "images_kwargs": {"size": {"longest_edge": None}}},
    "rates": {"fps": 2, "videos_kwargs": {"num_frames": None}},
    "rates of each item": {"fps": [2.0, 0.5], "videos_kwargs": {"num_frames": [4, 8]}},
    "options of other processors": {
        "num_crops": 4,
        "crop_size": {"height": "any"},
        "per_image_kwargs": [{"max_pixels": 5}],
        "text_kwargs": {"padding": "longest"},
        "audio_kwargs": {"sampling_rate": 16000},
        "tokenizer_kwargs": {"padding": True},
        "x_kwargs": {},
    },
    "other forms of size": {"size": 224, "images_kwargs": {"size": [224, 224]}},
    "one edge each": {"size": {"height": 7, "width": 5}, "min_pixels": 5},
}


def check_start(checkpoint: Callable[[str], Path], kwargs: Any) -> None:
    """As far as an engine starts before it makes anything."""
    from vllm.engine.arg_utils import EngineArgs

    EngineArgs(model=str(checkpoint("qwen3_vl")), mm_processor_kwargs=kwargs).create_model_config()


@pytest.mark.parametrize("fault", REJECTED)
def test_start_and_request_fail_with_the_same_line(
    make_renderer: MakeRenderer, checkpoint: Callable[[str], Path], fault: str
) -> None:
    """It names the parameter, and is a 400 to the client."""
    from vllm.exceptions import VLLMValidationError

    kwargs, line = REJECTED[fault]
    renderer = make_renderer("qwen3_vl")

    with pytest.raises(VLLMValidationError) as at_start:
        check_start(checkpoint, kwargs)
    with pytest.raises(VLLMValidationError) as in_request:
        ask(renderer, {"image": image(64, 64)}, kwargs)

    for caught in (at_start, in_request):
        assert caught.value.args == (line,)
        assert caught.value.parameter == "mm_processor_kwargs"
    assert ask(renderer, {"image": image(64, 64)}).tokens == {"image": 64}


@pytest.mark.parametrize("given", ACCEPTED)
def test_what_a_processor_may_know_is_left_to_it(
    checkpoint: Callable[[str], Path], given: str
) -> None:
    check_start(checkpoint, ACCEPTED[given])


@pytest.mark.parametrize("given", ["nothing", "empty", "null scope", "null options", "rates"])
def test_absent_options_change_nothing(make_renderer: MakeRenderer, given: str) -> None:
    kwargs = ACCEPTED[given]
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=kwargs, mm_processor_cache_gb=0)
    items = {"image": image(800, 600), "video": video(16, 640, 480)}

    assert budgets(renderer) == {"image": 16384, "video": 12288}
    assert ask(renderer, items, kwargs).tokens == {"image": 475, "video": 2400}


@pytest.mark.parametrize(
    ("kwargs", "modality", "size", "budget", "tokens"),
    [
        ({"max_pixels": 50176}, "image", (800, 600), 49, 48),
        ({"images_kwargs": {"max_pixels": 50176}}, "image", (800, 600), 49, 48),
        ({"size": {"longest_edge": 50176}}, "image", (64, 64), 49, 49),
        ({"videos_kwargs": {"min_pixels": 33554432}}, "video", (64, 64), 16384, 16384),
    ],
)
def test_an_edge_that_is_not_given_follows_the_given_one(
    make_renderer: MakeRenderer,
    kwargs: Any,
    modality: str,
    size: tuple[int, int],
    budget: int,
    tokens: int,
) -> None:
    """The processor's own would be on the wrong side of it."""
    item = image(*size) if modality == "image" else video(2, *size)
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=kwargs)

    assert budgets(renderer)[modality] == budget
    assert ask(renderer, {modality: item}).tokens == {modality: tokens}
    assert ask(make_renderer("qwen3_vl"), {modality: item}, kwargs).tokens == {modality: tokens}


def test_edges_reversed_between_start_and_request_are_refused(make_renderer: MakeRenderer) -> None:
    from vllm.exceptions import VLLMValidationError

    renderer = make_renderer("qwen3_vl", mm_processor_kwargs={"min_pixels": 131072})
    with pytest.raises(VLLMValidationError, match=r"\(min_pixels\) 131072 above"):
        ask(renderer, {"image": image(64, 64)}, {"images_kwargs": {"max_pixels": 65536}})


@pytest.mark.parametrize("size", [1048576, [1024, 1024]])
def test_a_size_that_is_no_mapping_is_rejected_where_edges_are_needed(
    make_renderer: MakeRenderer, size: Any
) -> None:
    from vllm.exceptions import VLLMValidationError

    line = "must be a mapping of 'longest_edge', 'shortest_edge', got"

    with pytest.raises(VLLMValidationError, match=line):
        budgets(make_renderer("qwen3_vl", mm_processor_kwargs={"size": size}))
    with pytest.raises(VLLMValidationError, match=line):
        ask(make_renderer("qwen3_vl"), {"image": image(64, 64)}, {"size": size})


@pytest.mark.parametrize("scope", ["images_kwargs", "videos_kwargs"])
def test_a_device_is_checked_in_a_scope_too(
    checkpoint: Callable[[str], Path], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.platforms import current_platform

    check_start(checkpoint, {scope: {"device": "cpu"}})
    with pytest.raises(ValueError, match='Invalid "device" in mm_processor_kwargs'):
        check_start(checkpoint, {scope: {"device": "nowhere"}})
    monkeypatch.setattr(type(current_platform), "device_type", "cuda")
    with pytest.raises(ValueError, match="also runs the language model"):
        check_start(checkpoint, {"device": "cpu", scope: {"device": "cuda:1"}})
