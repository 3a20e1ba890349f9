"""What decides how many tokens an item has is decided once, wherever and however it is given."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.regression.conftest import MakeRenderer
from tests.support.mm_requests import ask, ask_all, budgets, dummy_tokens, image, video

Kwargs = dict[str, Any]


def forms(options: Kwargs) -> Iterator[tuple[Kwargs, Kwargs]]:
    """Start and request: flat and in the scope of videos, in the one and in the other."""
    scoped = {"videos_kwargs": options}
    yield from [(options, {}), (scoped, {}), ({}, options), ({}, scoped)]


def raw(frames: int) -> Any:
    """A video of 64x64 pixels whose loader leaves the sampling to the processor."""
    array, metadata = video(frames, 64, 64)
    return array, {**metadata, "do_sample_frames": True}


SAMPLING: dict[str, tuple[Kwargs, Any, int]] = {
    "more frames than there are": ({"num_frames": 16, "do_sample_frames": True}, 8, 8),
    "one pair": ({"num_frames": 2, "do_sample_frames": True}, 20, 1),
    "more than the video has": ({"num_frames": 32, "do_sample_frames": True}, 20, 16),
    "a limit that HF reads from its processor": (
        {"fps": 2, "max_frames": 16, "do_sample_frames": True},
        60,
        8,
    ),
    "and a lower one": ({"fps": 0.5, "min_frames": 12, "do_sample_frames": True}, 20, 6),
}


@pytest.mark.parametrize("rule", SAMPLING)
def test_frames_are_those_of_hf_in_each_form(make_renderer: MakeRenderer, rule: str) -> None:
    options, frames, pairs = SAMPLING[rule]
    for start, request in forms(options):
        renderer = make_renderer("qwen3_vl", mm_processor_kwargs=start, mm_processor_cache_gb=0)

        answer = ask(renderer, {"video": video(frames, 64, 64)}, request)

        data = answer.data["video"]
        found = (int(data["video_grid_thw"][0]), len(data["timestamps"]), answer.tokens["video"])
        assert (start, request, found) == (start, request, (pairs, pairs, 4 * pairs))
        assert dummy_tokens(renderer, "video") <= budgets(renderer)["video"]


def test_a_loader_may_leave_the_sampling_to_the_processor(make_renderer: MakeRenderer) -> None:
    renderer = make_renderer("qwen3_vl", mm_processor_cache_gb=0)
    answer = ask(renderer, {"video": raw(20)})
    assert answer.tokens == {"video": 40}


def test_a_video_that_its_loader_has_sampled_is_not_sampled_again(
    make_renderer: MakeRenderer,
) -> None:
    """The processor would take frames that are not there."""
    array, metadata = video(8, 64, 64)
    sampled = array, {**metadata, "total_num_frames": 80, "frames_indices": list(range(0, 80, 10))}
    for name in ("qwen3_vl", "glm4_1v"):
        renderer = make_renderer(name, mm_processor_cache_gb=0)
        plain = ask(renderer, {"video": sampled}).tokens
        for _, request in list(forms({"do_sample_frames": True}))[2:]:
            assert ask(renderer, {"video": sampled}, request).tokens == plain


def test_what_cannot_be_sampled_is_the_clients_fault(make_renderer: MakeRenderer) -> None:
    from vllm.exceptions import VLLMValidationError

    renderer = make_renderer("qwen3_vl", mm_processor_cache_gb=0)
    with pytest.raises(VLLMValidationError, match="Cannot sample 8 frames") as caught:
        ask(renderer, {"video": raw(8)}, {"num_frames": -4})
    assert caught.value.parameter == "mm_processor_kwargs"


@pytest.mark.parametrize(
    "request_kwargs",
    [
        {"num_frames": 8},
        {"common_kwargs": {"num_frames": 8}},
        {"videos_kwargs": {"num_frames": 8}},
        {"fps": 4.0, "videos_kwargs": {"num_frames": 8}},
    ],
)
@pytest.mark.parametrize("start", [{"fps": 2.0}, {"videos_kwargs": {"fps": 2.0}}])
def test_one_rate_replaces_the_other(
    make_renderer: MakeRenderer, start: Kwargs, request_kwargs: Kwargs
) -> None:
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=start, mm_processor_cache_gb=0)
    assert ask(renderer, {"video": raw(20)}, request_kwargs).tokens == {"video": 16}


RATES = [1.0, 0.5]


@pytest.mark.parametrize("cache", [0, 1])
@pytest.mark.parametrize("form", range(4))
def test_each_video_has_its_entry_by_its_place(
    make_renderer: MakeRenderer, cache: int, form: int
) -> None:
    start, request = list(forms({"fps": RATES}))[form]
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs=start, mm_processor_cache_gb=cache)
    long, short = raw(60), raw(48)

    asked = [
        ask_all(renderer, {"video": items}, request)["video"]
        for items in ([long, short], [short, long], [long, short])
    ]

    assert [[tokens for tokens, _ in items] for items in asked] == [[60, 24], [48, 32], [60, 24]]
    hashes = {h for items in asked for _, h in items}
    assert len(hashes) == 4
    assert ask(renderer, {"video": long}, request).tokens == {"video": 60}


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen2_5_vl"])
def test_profiling_takes_the_first_entry(make_renderer: MakeRenderer, name: str) -> None:
    for start, _ in list(forms({"fps": [2.0, 4.0]}))[:2]:
        renderer = make_renderer(name, mm_processor_kwargs=start, mm_processor_cache_gb=0)
        assert dummy_tokens(renderer, "video") <= budgets(renderer)["video"]
        assert ask(renderer, {"image": image(64, 64)}).tokens


def test_a_video_without_an_entry_is_refused(make_renderer: MakeRenderer) -> None:
    from vllm.exceptions import VLLMValidationError

    renderer = make_renderer("qwen3_vl")
    with pytest.raises(VLLMValidationError, match=r"`fps` .* has 1 entries"):
        ask_all(renderer, {"video": [raw(8), raw(8)]}, {"fps": [2.0]})


@pytest.mark.parametrize(
    "nothing",
    [
        {"images_kwargs": {"max_pixels": None}},
        {"max_pixels": None},
        {"images_kwargs": None},
        {"images_kwargs": {"size": {"longest_edge": None}}},
        {"common_kwargs": {"size": None}},
    ],
)
def test_null_is_absent(make_renderer: MakeRenderer, nothing: Kwargs) -> None:
    renderer = make_renderer("qwen3_vl", mm_processor_kwargs={"max_pixels": 200704})
    item = {"image": image(2000, 1600)}
    plain, asked = ask(renderer, item), ask(renderer, item, nothing)
    assert (asked.tokens, asked.hashes) == (plain.tokens, plain.hashes)
    assert asked.tokens["image"] <= 196


def test_a_mapping_that_is_no_scope_is_the_processors(make_renderer: MakeRenderer) -> None:
    kwargs = {"tokenizer_kwargs": {"padding": True}}
    for start, request in ((kwargs, {}), ({}, kwargs)):
        renderer = make_renderer("qwen3_vl", mm_processor_kwargs=start)
        assert ask(renderer, {"image": image(64, 64)}, request).tokens == {"image": 64}


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni"])
def test_audio_in_video_may_be_asked_for_at_start(make_renderer: MakeRenderer, name: str) -> None:
    import numpy as np

    items = {"video": video(4, 64, 64), "audio": np.zeros(32000, np.float32)}
    answers = []
    for start, request in forms({"use_audio_in_video": True}):
        renderer = make_renderer(name, mm_processor_kwargs=start, mm_processor_cache_gb=0)
        answers.append(ask(renderer, items, request, in_prompt=["video"]).tokens)
        for modality in items:
            assert 0 < dummy_tokens(renderer, modality) <= budgets(renderer)[modality]
    assert answers == [answers[0]] * 4


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni"])
def test_a_video_is_heard_with_other_options_than_before(
    make_renderer: MakeRenderer, name: str
) -> None:
    """HF takes it with its audio or not at all, so the cache has both or none."""
    import numpy as np

    items = {"video": video(4, 64, 64), "audio": np.zeros(32000, np.float32)}
    renderer = make_renderer(name, mm_processor_kwargs={"use_audio_in_video": True})
    first = ask(renderer, items, in_prompt=["video"])
    for request in (
        {"videos_kwargs": {"use_audio_in_video": True}},
        {"videos_kwargs": {"max_pixels": 200704}},
        {"fps": [1.0]},
    ):
        again = ask(renderer, items, request, in_prompt=["video"])
        assert again.tokens["audio"] == first.tokens["audio"]
        assert again.hashes["video"] != first.hashes["video"]


@pytest.mark.parametrize(
    ("start", "request_kwargs", "tokens"),
    [
        ({}, {}, (609, 782)),
        ({"max_pixels": 200704}, {}, (234, 468)),
        ({}, {"max_pixels": 200704}, (234, 468)),
        ({"images_kwargs": {"max_pixels": 200704}}, {}, (234, 782)),
        ({}, {"images_kwargs": {"max_pixels": 200704}}, (234, 782)),
        ({"max_pixels": 200704}, {"videos_kwargs": {"max_pixels": 100352}}, (234, 234)),
    ],
)
def test_a_size_does_not_normalize_pixels_on_the_host(
    make_renderer: MakeRenderer, start: Kwargs, request_kwargs: Kwargs, tokens: tuple[int, int]
) -> None:
    """Transformers before 5.10.1 does not read that it need not, flat beside a scope."""
    import torch

    renderer = make_renderer("qwen2_5_vl", mm_processor_kwargs=start, mm_processor_cache_gb=0)
    items = {"image": image(800, 600), "video": video(4, 640, 480)}

    answer = ask(renderer, items, request_kwargs)

    assert (answer.tokens["image"], answer.tokens["video"]) == tokens
    assert answer.data["image"]["pixel_values"].dtype == torch.uint8
    assert answer.data["video"]["pixel_values_videos"].dtype == torch.uint8


def test_options_cost_nothing_where_none_are_given(make_renderer: MakeRenderer) -> None:
    """What is there goes on to HF as it is."""
    from vllm.multimodal.processing.context import resolve_hf_mm_kwargs

    info = make_renderer("qwen2_vl").get_mm_processor().info
    merged = info.ctx.get_merged_mm_kwargs({})
    assert resolve_hf_mm_kwargs(info.get_hf_processor(), {"images": []}, merged) is merged
    assert info.get_hf_processor() is info.get_hf_processor()


def test_a_model_of_one_modality_takes_all_options_for_it(make_renderer: MakeRenderer) -> None:
    """Cohere's reads them without a word of images."""
    start = {"max_patches": 2, "images_kwargs": {"max_patches": 4}}
    renderer = make_renderer("cohere2_vision", max_model_len=8192, mm_processor_kwargs=start)
    info = renderer.get_mm_processor().info
    assert info.ctx.get_merged_mm_kwargs({})["max_patches"] == 4
    assert info.get_image_processor().max_patches == 4


def test_a_size_may_be_had_by_the_options_of_another_modality(make_renderer: MakeRenderer) -> None:
    start = {"images_kwargs": {"max_pixels": 65536}, "videos_kwargs": {"max_pixels": 131072}}
    info = make_renderer("qwen3_vl", mm_processor_kwargs=start).get_mm_processor().info
    assert info.get_max_image_tokens() == 64
    assert info.for_modality("video").get_max_image_tokens() == 128
    assert info.get_max_image_tokens() == 64


def test_a_class_that_serves_one_modality_is_made_with_its_options(
    make_renderer: MakeRenderer,
) -> None:
    start = {"a": 1, "images_kwargs": {"b": 2}, "videos_kwargs": {"a": 3}}
    ctx = make_renderer("qwen3_vl", mm_processor_kwargs=start).get_mm_processor().info.ctx
    assert ctx.init_processor(dict, modality="image") == {"a": 1, "b": 2}
    assert ctx.init_processor(dict, modality="video", a=4) == {"a": 3}
