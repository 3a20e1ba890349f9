"""Bad `mm_processor_kwargs` get one line that names them, at start and in a request."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

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
    "unknown scope": (
        {"x_kwargs": {}},
        "Unknown scope 'x_kwargs' in `mm_processor_kwargs`: the scopes are 'images_kwargs', "
        "'videos_kwargs', 'audio_kwargs', 'text_kwargs', 'common_kwargs'.",
    ),
    "scope in a scope": (
        {"videos_kwargs": {"images_kwargs": {}}},
        "`mm_processor_kwargs['videos_kwargs']` must not hold another scope, got 'images_kwargs'.",
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
        "`mm_processor_kwargs['images_kwargs']['size']` has shortest_edge 9 above "
        "longest_edge 5; swap or correct them.",
    ),
    "reversed pixels": (
        {"min_pixels": 9, "max_pixels": 5},
        "`mm_processor_kwargs` has min_pixels 9 above max_pixels 5; swap or correct them.",
    ),
    "string size": (
        {"size": "large"},
        "`mm_processor_kwargs['size']` must be a mapping of edges, got 'large'.",
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
    },
    "other forms of size": {"size": 224, "images_kwargs": {"size": [224, 224]}},
    "one edge each": {"size": {"height": 7, "width": 5}, "min_pixels": 5},
}


@pytest.mark.parametrize("fault", REJECTED)
def test_start_fails_with_one_line(make_renderer: MakeRenderer, fault: str) -> None:
    kwargs, line = REJECTED[fault]

    with pytest.raises(ValueError, match="mm_processor_kwargs") as caught:
        make_renderer("qwen3_vl", mm_processor_kwargs=kwargs)

    # Between pydantic's own lines, which name the configuration and its field
    assert sum(line in text for text in str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("fault", REJECTED)
def test_a_request_fails_with_the_same_line(make_renderer: MakeRenderer, fault: str) -> None:
    """A ValueError is a 400 to the client."""
    kwargs, line = REJECTED[fault]
    renderer = make_renderer("qwen3_vl")

    with pytest.raises(ValueError, match="mm_processor_kwargs") as caught:
        ask(renderer, {"image": image(64, 64)}, kwargs)

    assert str(caught.value) == line
    assert ask(renderer, {"image": image(64, 64)}).tokens == {"image": 64}


@pytest.mark.parametrize("given", ACCEPTED)
def test_what_a_processor_may_know_is_left_to_it(given: str) -> None:
    from vllm.config.mm_processor_kwargs import validate_mm_kwargs
    from vllm.config.multimodal import MultiModalConfig

    validate_mm_kwargs(ACCEPTED[given])
    kept = MultiModalConfig(mm_processor_kwargs=ACCEPTED[given]).mm_processor_kwargs
    assert kept == ACCEPTED[given]


@pytest.mark.parametrize("given", ["nothing", "empty", "null scope", "null options", "rates"])
def test_absent_options_change_nothing(make_renderer: MakeRenderer, given: str) -> None:
    kwargs = ACCEPTED[given]
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=kwargs, mm_processor_cache_gb=0)
    items = {"image": image(800, 600), "video": video(16, 640, 480)}

    assert budgets(renderer) == {"image": 16384, "video": 12288}
    assert ask(renderer, items, kwargs).tokens == {"image": 475, "video": 2400}


@pytest.mark.parametrize(
    ("kwargs", "modality", "edges"),
    [
        ({"size": {"longest_edge": 4096}}, "image", "shortest_edge 65536 above longest_edge 4096"),
        (
            {"videos_kwargs": {"min_pixels": 33554432}},
            "video",
            "shortest_edge 33554432 above longest_edge 25165824",
        ),
        (
            {"min_pixels": 131072, "images_kwargs": {"max_pixels": 65536}},
            "image",
            "shortest_edge 131072 above longest_edge 65536",
        ),
    ],
)
def test_edges_that_the_processor_reverses_are_rejected(
    make_renderer: MakeRenderer, kwargs: Any, modality: str, edges: str
) -> None:
    """HF would scale small items up beyond the budget."""
    item = {"image": image(64, 64), "video": video(2, 64, 64)}[modality]

    with pytest.raises(ValueError, match=edges):
        budgets(make_renderer("qwen3_vl", mm_processor_kwargs=kwargs))
    with pytest.raises(ValueError, match=edges):
        ask(make_renderer("qwen3_vl"), {modality: item}, kwargs)


@pytest.mark.parametrize("size", [1048576, [1024, 1024]])
def test_a_size_that_is_no_mapping_is_rejected_where_edges_are_needed(
    make_renderer: MakeRenderer, size: Any
) -> None:
    line = "must be a mapping of 'longest_edge', 'shortest_edge', got"

    with pytest.raises(ValueError, match=line):
        budgets(make_renderer("qwen3_vl", mm_processor_kwargs={"size": size}))
    with pytest.raises(ValueError, match=line):
        ask(make_renderer("qwen3_vl"), {"image": image(64, 64)}, {"size": size})


@pytest.mark.parametrize("scope", ["images_kwargs", "videos_kwargs"])
def test_a_device_is_checked_in_a_scope_too(scope: str) -> None:
    from vllm.config.multimodal import MultiModalConfig

    def device(kwargs: Any) -> str | None:
        return MultiModalConfig(mm_processor_kwargs=kwargs).get_mm_processor_device_type()

    assert device({scope: {"device": "cuda:1"}}) == "cuda"
    assert device({"device": "cpu", scope: {"device": "cuda"}}) == "cuda"
    assert device({scope: {"device": "cpu"}}) == "cpu"
    assert device({scope: {}}) is None
    with pytest.raises(ValueError, match='Invalid "device" in mm_processor_kwargs'):
        device({scope: {"device": "nowhere"}})


def test_the_help_of_the_option_names_the_scopes() -> None:
    from vllm.config.multimodal import MultiModalConfig
    from vllm.config.utils import get_attr_docs

    said = get_attr_docs(MultiModalConfig)["mm_processor_kwargs"]
    for scope in ("images_kwargs", "videos_kwargs", "audio_kwargs"):
        assert f"`{scope}`" in said
