"""What holds for any nesting of flat and scoped options, at start and in a request."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.support import renderers
from tests.support.mm_requests import ask, budgets, hf_calls, image, process, video

Kwargs = dict[str, Any]
MODALITIES = ("image", "video")
SCOPES = {"image": "images_kwargs", "video": "videos_kwargs"}
UNIT = 32 * 32  # pixels of one token of an image

# Edges are apart by more than HF scales a small item past the lower one in whole tiles, and
# limits hold more tokens than the longest row of one tile that HF lets pass uncut.
LOWER = st.integers(1, 64).map(lambda tokens: tokens * UNIT)
UPPER = st.integers(512, 4096).map(lambda tokens: tokens * UNIT)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.fixed_dictionaries({}, optional={"shortest_edge": LOWER, "longest_edge": UPPER}),
        "min_pixels": LOWER,
        "max_pixels": UPPER,
        "do_convert_rgb": st.booleans(),
    },
)
SCOPE = st.one_of(st.none(), OPTIONS)
KWARGS = st.builds(
    lambda flat, scopes: {**flat, **scopes},
    OPTIONS,
    st.fixed_dictionaries(
        {},
        optional={
            "images_kwargs": SCOPE,
            "videos_kwargs": SCOPE,
            "common_kwargs": SCOPE,
            "text_kwargs": st.fixed_dictionaries({}, optional={"padding": st.booleans()}),
        },
    ),
)
ITEMS = st.fixed_dictionaries(
    {
        "image": st.builds(image, st.integers(1, 3000), st.integers(16, 1500)),
        # Frames in pairs: HF fits one more frame than it counts into an odd number's size.
        "video": st.builds(
            video, st.sampled_from([2, 4, 6]), st.integers(32, 1200), st.integers(32, 800)
        ),
    }
)

several = settings(
    max_examples=40,
    deadline=None,
    # Any example of a failure will do: the smallest takes minutes, of each test where the
    # changes are not there, as in `make prove` and `make roll`.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def renderer(checkpoint: Callable[[str], Path]) -> Any:
    return renderers.make_renderer(checkpoint("qwen3_vl"), mm_processor_cache_gb=0)


@pytest.fixture(autouse=True)
def started_without(renderer: Any) -> Iterator[None]:
    yield
    renderer.model_config.multimodal_config.mm_processor_kwargs = None


def start(renderer: Any, kwargs: Kwargs | None) -> None:
    """As if the engine had been started with `kwargs`; a start takes a second."""
    from vllm.config.multimodal import MultiModalConfig

    config = renderer.model_config.multimodal_config
    config.mm_processor_kwargs = MultiModalConfig(mm_processor_kwargs=kwargs).mm_processor_kwargs


def without(kwargs: Kwargs, modality: str) -> Kwargs:
    return {k: v for k, v in kwargs.items() if k != SCOPES[modality]}


@several
@given(at_start=KWARGS, items=ITEMS)
def test_no_item_takes_more_than_its_budget(renderer: Any, at_start: Kwargs, items: Any) -> None:
    start(renderer, at_start)
    if max(items["image"].size) / min(items["image"].size) > 200:
        with pytest.raises(ValueError, match="Failed to apply"):
            ask(renderer, {"image": items["image"]})
        items = {"video": items["video"]}

    budget = budgets(renderer)

    for modality, tokens in ask(renderer, items).tokens.items():
        assert tokens <= budget[modality]


@several
@given(at_start=KWARGS, request_kwargs=KWARGS)
def test_hf_gets_no_key_twice_and_inputs_stay(
    renderer: Any, at_start: Kwargs, request_kwargs: Kwargs
) -> None:
    start(renderer, at_start)
    before = copy.deepcopy((at_start, request_kwargs))

    with hf_calls() as calls:
        ask(renderer, {"image": image(64, 64), "video": video(2, 64, 64)}, request_kwargs)

    assert len(calls) == 2
    for call in calls:
        scopes = [call[scope] for scope in call if scope.endswith("_kwargs")]
        assert not {key for scope in scopes for key in scope} & call.keys()
    assert (at_start, request_kwargs) == before
    assert renderer.model_config.multimodal_config.mm_processor_kwargs == before[0]


@several
@given(at_start=KWARGS, request_kwargs=KWARGS)
def test_resolving_twice_is_resolving_once(
    renderer: Any, at_start: Kwargs, request_kwargs: Kwargs
) -> None:
    from vllm.multimodal.processing.context import (
        HF_SCOPES,
        overlay_modality_mm_kwargs,
        resolve_hf_mm_kwargs,
    )

    start(renderer, at_start)
    info = renderer.get_mm_processor().info
    merged = info.ctx.get_merged_mm_kwargs(request_kwargs)
    data = {"images": [], "videos": []}
    resolved = resolve_hf_mm_kwargs(info.get_hf_processor(), data, merged)

    assert info.ctx.get_merged_mm_kwargs(merged) == merged
    assert resolve_hf_mm_kwargs(info.get_hf_processor(), data, resolved) == resolved
    for modality in (None, *MODALITIES):
        overlaid = overlay_modality_mm_kwargs(merged, modality)
        assert overlay_modality_mm_kwargs(overlaid, modality) == overlaid
        read = info.ctx.get_merged_mm_kwargs(request_kwargs, modality=modality)
        flat = {k: v for k, v in overlaid.items() if modality is None or k not in HF_SCOPES}
        assert read == flat


@several
@given(at_start=KWARGS, request_kwargs=KWARGS, items=ITEMS, modality=st.sampled_from(MODALITIES))
def test_a_scope_leaves_the_other_modality_alone(
    renderer: Any, at_start: Kwargs, request_kwargs: Kwargs, items: Any, modality: str
) -> None:
    other = next(m for m in MODALITIES if m != modality)
    item = {"image": image(300, 200), "video": items["video"]}[other]

    start(renderer, at_start)
    budget = budgets(renderer)[other]
    answer = ask(renderer, {other: item}, request_kwargs)
    start(renderer, without(at_start, modality))
    alone = ask(renderer, {other: item}, without(request_kwargs, modality))

    assert budgets(renderer)[other] == budget
    assert alone.tokens == answer.tokens
    assert alone.hashes == answer.hashes


EQUAL = st.integers(1, 17000).map(
    lambda tokens: {"min_pixels": tokens * UNIT, "max_pixels": tokens * UNIT}
)


@settings(several, max_examples=6)
@given(at_start=st.one_of(EQUAL, EQUAL.map(lambda edges: {"images_kwargs": edges})))
@example(at_start={"min_pixels": 33554432})
def test_what_is_rounded_past_the_budget_is_refused_before_the_engine_has_it(
    renderer: Any, at_start: Kwargs
) -> None:
    """HF rounds an image up to whole tiles from its lower limit, though the upper one is as low."""
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.engine.input_processor import InputProcessor

    start(renderer, at_start)
    engine = InputProcessor(renderer.config, renderer)
    result = process(renderer, {"image": [image(64, 64)]})
    tokens = result["mm_placeholders"]["image"][0].get_num_embeds()

    assert engine.mm_encoder_cache_size >= budgets(renderer)["image"]
    if tokens <= engine.mm_encoder_cache_size:
        engine._validate_model_input(result, "decoder")
    else:
        line = f"^The .* with {tokens} embedding tokens, which exceeds the .*startup.$"
        with pytest.raises(VLLMValidationError, match=line):
            engine._validate_model_input(result, "decoder")
