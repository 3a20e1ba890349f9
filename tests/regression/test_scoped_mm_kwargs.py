"""Options nested for one modality hold for its budget, dummies, items and hashes alike."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from tests.regression.conftest import MakeRenderer
from tests.support.mm_requests import ask, budgets, dummy_tokens, hf_calls, image, video

Kwargs = dict[str, Any]

LONG_VIDEO = {"longest_edge": 469762048, "shortest_edge": 4096}
SHORT_VIDEO = {"longest_edge": 1048576, "shortest_edge": 4096}
RECIPES: dict[str, Kwargs] = {
    "none": {},
    "long video": {"videos_kwargs": {"size": LONG_VIDEO}},
    "flat": {"size": LONG_VIDEO},
    "image pixels": {"images_kwargs": {"max_pixels": 1048576}},
    "short video": {"videos_kwargs": {"size": SHORT_VIDEO}},
}
QWEN2 = {"image": 609, "video": 3128}
QWEN3 = {"image": 475, "video": 2400}
TABLE: list[tuple[str, str, dict[str, int], dict[str, int]]] = [
    ("qwen3_vl", "none", {"image": 16384, "video": 12288}, QWEN3),
    ("qwen3_vl", "long video", {"image": 16384, "video": 229376}, QWEN3),
    ("qwen3_vl", "flat", {"image": 458752, "video": 229376}, QWEN3),
    ("qwen3_vl", "image pixels", {"image": 1024, "video": 12288}, QWEN3),
    ("qwen3_vl", "short video", {"image": 16384, "video": 512}, {**QWEN3, "video": 432}),
    # Here sizes are those of one frame; the budget is of 14 frames the size of an image.
    ("qwen2_vl", "none", {"image": 16384, "video": 147 * 768}, QWEN2),
    ("qwen2_vl", "long video", {"image": 16384, "video": 599186}, QWEN2),
    ("qwen2_vl", "flat", {"image": 599186, "video": 599186}, QWEN2),
    ("qwen2_vl", "image pixels", {"image": 1337, "video": 147 * 768}, QWEN2),
    ("qwen2_vl", "short video", {"image": 16384, "video": 147 * 1337}, QWEN2),
    ("qwen2_5_vl", "none", {"image": 16384, "video": 7 * 16384}, QWEN2),
    ("qwen2_5_vl", "long video", {"image": 16384, "video": 599186}, QWEN2),
    ("qwen2_5_vl", "flat", {"image": 599186, "video": 599186}, QWEN2),
    ("qwen2_5_vl", "image pixels", {"image": 1337, "video": 7 * 16384}, QWEN2),
    ("qwen2_5_vl", "short video", {"image": 16384, "video": 7 * 1337}, QWEN2),
]
"""Checkpoint, recipe, budgets, and tokens of an 800x600 image and 16 640x480 frames."""


def pixels(tokens: int) -> dict[str, int]:
    """A size that gives a large square image `tokens`, which is a square number."""
    return {"shortest_edge": 1024, "longest_edge": tokens * 1024}


def images(**options: Any) -> Kwargs:
    return {"images_kwargs": options}


def videos(**options: Any) -> Kwargs:
    return {"videos_kwargs": options}


@pytest.mark.parametrize(("name", "recipe", "budget", "tokens"), TABLE)
@pytest.mark.parametrize("given", ["at start", "with the request"])
def test_budgets_and_tokens_follow_the_scopes(
    make_renderer: MakeRenderer,
    name: str,
    recipe: str,
    budget: dict[str, int],
    tokens: dict[str, int],
    given: str,
) -> None:
    kwargs = RECIPES[recipe]
    at_start, request = (kwargs, None) if given == "at start" else (None, kwargs)
    renderer = make_renderer(name, mm_processor_kwargs=at_start, mm_processor_cache_gb=0)
    items = {"image": image(800, 600), "video": video(16, 640, 480)}

    if given == "at start":
        assert budgets(renderer) == budget
    assert ask(renderer, items, request).tokens == tokens
    for modality, item in items.items():
        alone = ask(renderer, {modality: item}, request).tokens
        assert alone == {modality: tokens[modality]}


PRECEDENCE: dict[str, tuple[Kwargs, Kwargs, int, int]] = {
    "flat is shared": ({"size": pixels(256)}, {}, 256, 121),
    "request over start, flat": ({"size": pixels(64)}, {"size": pixels(256)}, 256, 121),
    "request over start, scoped": (images(size=pixels(64)), images(size=pixels(256)), 256, 2025),
    "scoped over flat at start": ({"size": pixels(256), **images(size=pixels(64))}, {}, 64, 121),
    "scoped over flat in a request": (
        {},
        {"size": pixels(256), **videos(size=pixels(32))},
        256,
        16,
    ),
    "scoped at start over a flat request": (
        videos(size=pixels(32)),
        {"size": pixels(256)},
        256,
        16,
    ),
    "a scoped request over flat at start": (
        {"size": pixels(256)},
        images(size=pixels(64)),
        64,
        121,
    ),
    "scopes merge key by key": (
        images(size=pixels(64)),
        {**images(do_convert_rgb=True), **videos(do_convert_rgb=True)},
        64,
        2025,
    ),
    "an empty scope is none": (images(size=pixels(64)), images(), 64, 2025),
    "a null scope is none": (images(size=pixels(64)), {"images_kwargs": None}, 64, 2025),
    "pixels are edges of one modality": (
        {"size": pixels(256)},
        images(max_pixels=65536),
        64,
        121,
    ),
    "scoped pixels over flat ones": (
        {"min_pixels": 4096, "max_pixels": 262144},
        videos(max_pixels=65536),
        256,
        25,
    ),
    "a partial size is completed": (images(size={"longest_edge": 65536}), {}, 64, 2025),
    "a partial size in a request": ({}, {"size": {"longest_edge": 262144}}, 256, 121),
    "common is another word for flat": ({"common_kwargs": {"size": pixels(64)}}, {}, 64, 25),
    "flat over common": (
        {},
        {"common_kwargs": {"size": pixels(64)}, "size": pixels(256)},
        256,
        121,
    ),
}


@pytest.mark.parametrize("rule", PRECEDENCE)
def test_a_request_meets_the_start(make_renderer: MakeRenderer, rule: str) -> None:
    at_start, request, image_tokens, video_tokens = PRECEDENCE[rule]
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=at_start, mm_processor_cache_gb=0)
    given = copy.deepcopy((at_start, request))
    items = {"image": image(2048, 2048), "video": video(2, 1448, 1448)}

    with hf_calls() as calls:
        answer = ask(renderer, items, request)

    assert answer.tokens == {"image": image_tokens, "video": video_tokens}
    assert calls
    for call in calls:
        scoped = {k for scope in call if scope.endswith("_kwargs") for k in call[scope]}
        assert not scoped & call.keys()
    assert (at_start, request) == given
    assert renderer.model_config.multimodal_config.mm_processor_kwargs == given[0]


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen3_vl"])
def test_a_scope_does_not_say_what_vllm_gets_back(make_renderer: MakeRenderer, name: str) -> None:
    renderer = make_renderer(name, mm_processor_cache_gb=0)
    kwargs = {**images(return_tensors="np"), "text_kwargs": {"return_tensors": "np"}}

    assert ask(renderer, {"image": image(64, 64)}, kwargs).data["image"]["pixel_values"].is_cpu


@pytest.mark.parametrize("kwargs", [{}, {"max_pixels": 200704}, images(max_pixels=200704)])
def test_what_a_processor_adds_is_a_tensor_with_options_too(
    make_renderer: MakeRenderer, kwargs: dict[str, object]
) -> None:
    """HF makes tensors of what it adds only if it is told apart from its sub-processors."""
    renderer = make_renderer("qwen2_5_omni", mm_processor_cache_gb=0)
    data = ask(renderer, {"video": video(4, 64, 64)}, kwargs).data["video"]

    assert data["second_per_grid_ts"].item() == 1.0


def test_a_limit_below_one_tile_is_one_tile(make_renderer: MakeRenderer) -> None:
    kwargs = {"size": {"shortest_edge": 16, "longest_edge": 512}}
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=kwargs, mm_processor_cache_gb=0)
    items = {"image": image(64, 64), "video": video(2, 64, 64)}

    assert ask(renderer, items).tokens == budgets(renderer) == {"image": 1, "video": 1}


@pytest.mark.parametrize(
    ("name", "kwargs", "modality"),
    [
        ("qwen3_vl", images(size=pixels(64)), "image"),
        ("qwen3_vl", videos(size=pixels(64)), "video"),
        ("qwen3_vl", videos(max_pixels=65536), "video"),
        ("qwen2_vl", images(max_pixels=100352), "image"),
        ("qwen2_5_vl", videos(size={"longest_edge": 12544}), "video"),
        ("qwen2_5_omni", videos(size={"longest_edge": 12544}), "video"),
    ],
)
def test_the_dummy_item_fills_the_budget(
    make_renderer: MakeRenderer, name: str, kwargs: Kwargs, modality: str
) -> None:
    """Memory profiling runs what the encoder cache is sized for."""
    renderer = make_renderer(name, mm_processor_kwargs=kwargs, mm_processor_cache_gb=0)
    plain = make_renderer(name, mm_processor_cache_gb=0)

    budget = budgets(renderer, **{modality: 1})[modality]

    assert budget < budgets(plain, **{modality: 1})[modality]
    assert dummy_tokens(renderer, modality) == budget


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_omni", "qwen3_omni"])
def test_the_dummy_video_is_larger_than_an_image_where_its_limit_is(
    make_renderer: MakeRenderer, name: str
) -> None:
    small, large = ({"shortest_edge": 3136, "longest_edge": n} for n in (12544, 50176))
    kwargs = {**images(size=small), **videos(size=large)}
    renderer = make_renderer(name, mm_processor_kwargs=kwargs, mm_processor_cache_gb=0)

    assert dummy_tokens(renderer, "video") == budgets(renderer, video=1)["video"]


def test_warmup_runs_the_recipe(
    make_renderer: MakeRenderer, vllm_log: pytest.LogCaptureFixture
) -> None:
    """Upstream's recipe makes it fail, with one line in the log."""
    from vllm.renderers.params import ChatParams

    kwargs = {"size": pixels(64), **videos(size=pixels(32))}
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=kwargs)

    renderer.warmup(ChatParams())

    assert "Multi-modal warmup completed" in vllm_log.text
    assert not [r for r in vllm_log.records if r.levelno >= logging.WARNING and "warmup" in r.msg]


def test_frames_for_the_encoder_do_not_depend_on_images(make_renderer: MakeRenderer) -> None:
    """CUDA graphs of the encoder are captured for this number of frames."""
    renderers = [
        make_renderer("qwen3_vl", mm_processor_kwargs=kwargs)
        for kwargs in ({}, images(size=pixels(64)), videos(size=SHORT_VIDEO))
    ]

    frames = [
        r.get_mm_processor().info.get_num_frames_with_most_features(49152, {"video": 1})
        for r in renderers
    ]

    assert frames == [8, 8, 192]  # two frames take up to 12288 tokens, or 512


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen2_5_vl"])
def test_a_hash_knows_only_its_own_scope(make_renderer: MakeRenderer, name: str) -> None:
    renderer = make_renderer(name, mm_processor_cache_gb=0)
    items = {"image": image(64, 64), "video": video(2, 64, 64)}

    def hashes(request: Kwargs | None) -> tuple[str, str]:
        answer = ask(renderer, items, request)
        return answer.hashes["image"], answer.hashes["video"]

    plain = hashes(None)
    own = {**images(size=pixels(16)), **videos(size=pixels(16))}
    both = hashes(own)

    assert hashes(images(size=pixels(16))) == (both[0], plain[1])
    assert hashes(videos(size=pixels(16))) == (plain[0], both[1])
    assert not set(plain) & set(both)
    for nothing in ({}, {**images(), **videos()}, dict.fromkeys(own)):
        assert hashes(nothing) == plain
    # An operator's scope beats a flat option but not a nested one: not the same item.
    assert not {*hashes({"size": pixels(16)})} & {*plain, *both}


def test_an_own_identifier_is_hashed_with_its_own_scope_only(make_renderer: MakeRenderer) -> None:
    renderer = make_renderer("qwen3_vl", mm_processor_cache_gb=0)

    def identifier(request: Kwargs | None) -> str:
        answer = ask(renderer, {"image": image(64, 64)}, request, uuids={"image": ["mine"]})
        return answer.hashes["image"]

    assert identifier(None) == identifier(videos(size=pixels(16))) == "mine"
    assert identifier(images(size=pixels(16))) != "mine"


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize("asked", [{}, images(do_normalize=True, do_rescale=True)])
def test_pixels_are_normalized_once(make_renderer: MakeRenderer, name: str, asked: Kwargs) -> None:
    """Qwen2-VL and Qwen2.5-VL do it on the device, so the processor must not."""
    renderer = make_renderer(name, mm_processor_kwargs=asked, mm_processor_cache_gb=0)

    for request in ({}, asked, {"do_normalize": True}):
        answer = ask(renderer, {"image": image(64, 64)}, request)
        value = float(answer.data["image"]["pixel_values"].flatten()[0])
        assert value == pytest.approx(127 / 127.5 - 1 if name == "qwen3_vl" else 127, abs=1e-3)


SAMPLING: list[tuple[Kwargs, Kwargs, int]] = [
    ({}, {}, 8),
    (videos(do_sample_frames=True, num_frames=4), {}, 4),
    ({}, videos(do_sample_frames=True, num_frames=4), 4),
    (videos(do_sample_frames=True, fps=1.0), {}, 4),
    ({"do_sample_frames": True, "fps": 2.0}, videos(fps=1.0), 4),
    (videos(do_sample_frames=True, fps=1.0), videos(num_frames=6), 6),
    (videos(do_sample_frames=True, num_frames=6), {"fps": 1.0}, 4),
    ({}, videos(do_sample_frames=True, fps=[1.0]), 4),
    ({}, videos(do_sample_frames=True, num_frames=[6]), 6),
    ({"do_sample_frames": False}, videos(do_sample_frames=True, num_frames=4), 4),
]


@pytest.mark.parametrize(("at_start", "request_kwargs", "frames"), SAMPLING)
def test_frames_are_sampled_by_the_video_scope(
    make_renderer: MakeRenderer, at_start: Kwargs, request_kwargs: Kwargs, frames: int
) -> None:
    """Timestamps are made beside HF, and both must count the same frames."""
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=at_start, mm_processor_cache_gb=0)

    answer = ask(renderer, {"video": video(8, 64, 64)}, request_kwargs)

    assert int(answer.data["video"]["video_grid_thw"][0]) == frames // 2
    assert len(answer.data["video"]["timestamps"]) == frames // 2
