"""Renderer warmup asks the dummy builder for one prefill step, profiling for all."""

# ruff: noqa: ANN401 (wrappers take what vLLM's builders take)

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from tests.regression.conftest import MakeRenderer

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

SMALL_ITEMS = {
    "image": {"count": 1, "width": 64, "height": 64},
    "video": {"count": 1, "width": 64, "height": 64, "num_frames": 2},
}
"""Keeps the tests fast: what they ask for is `seq_len`, not the size of an item."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseRenderer[Any]], list[Any]]:
    """Record what a renderer's dummy builders are asked for."""

    def record(renderer: BaseRenderer[Any]) -> list[Any]:
        calls: list[Any] = []
        for processor in (renderer.mm_processor, renderer._readonly_mm_processor):
            assert processor is not None
            _record_calls(processor.dummy_inputs, calls)
        return calls

    def _record_calls(builder: Any, calls: list[Any]) -> None:
        build = builder.get_dummy_processor_inputs

        def recording(seq_len: int, mm_counts: Any, mm_options: Any) -> Any:
            calls.append((seq_len, dict(mm_counts)))
            return build(seq_len=seq_len, mm_counts=mm_counts, mm_options=mm_options)

        monkeypatch.setattr(builder, "get_dummy_processor_inputs", recording)

    return record


def warm_up(renderer: BaseRenderer[Any]) -> None:
    from vllm.renderers.params import ChatParams

    renderer.warmup(ChatParams())


@pytest.mark.parametrize(
    ("max_model_len", "max_num_batched_tokens", "chunked_prefill", "seq_len"),
    [
        (491520, 8192, True, 8192),
        (491520, 8192, False, 491520),
        (128, 8192, True, 128),
    ],
)
def test_warmup_asks_for_what_one_step_can_prefill(
    make_renderer: MakeRenderer,
    asked: Callable[[BaseRenderer[Any]], list[Any]],
    max_model_len: int,
    max_num_batched_tokens: int,
    chunked_prefill: bool,
    seq_len: int,
) -> None:
    renderer = make_renderer(
        "qwen3_vl",
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        chunked_prefill=chunked_prefill,
        limit_mm_per_prompt=SMALL_ITEMS,
    )
    calls = asked(renderer)
    warm_up(renderer)
    assert calls == [(seq_len, {"image": 1, "video": 1})] * 2


def test_a_modality_with_limit_zero_is_not_warmed_up(
    make_renderer: MakeRenderer, asked: Callable[[BaseRenderer[Any]], list[Any]]
) -> None:
    limits = {**SMALL_ITEMS, "image": 0}
    renderer = make_renderer("qwen3_vl", limit_mm_per_prompt=limits)
    calls = asked(renderer)
    warm_up(renderer)
    assert calls == [(8192, {"video": 1})] * 2


def test_warmup_goes_through_the_registry(
    make_renderer: MakeRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.renderers import base

    renderer = make_renderer("llava", mm_processor_cache_gb=0)
    get_dummy_mm_inputs = MagicMock()
    monkeypatch.setattr(base.mm_registry, "get_dummy_mm_inputs", get_dummy_mm_inputs)
    warm_up(renderer)
    get_dummy_mm_inputs.assert_called_once()
    (call,) = get_dummy_mm_inputs.call_args_list
    assert call.args == (renderer.model_config, {"image": 1})
    assert call.kwargs["processor"] is renderer.mm_processor
    assert call.kwargs["scheduler_config"] is renderer.config.scheduler_config


@pytest.mark.parametrize(("scheduled", "seq_len"), [(True, 2048), (False, 262144)])
def test_only_a_scheduler_config_bounds_the_prompt(
    make_renderer: MakeRenderer,
    asked: Callable[[BaseRenderer[Any]], list[Any]],
    scheduled: bool,
    seq_len: int,
) -> None:
    from vllm.multimodal import MULTIMODAL_REGISTRY

    renderer = make_renderer("qwen3_vl", limit_mm_per_prompt=SMALL_ITEMS)
    config = renderer.config.scheduler_config
    config.max_num_batched_tokens = 2048
    calls = asked(renderer)
    inputs = MULTIMODAL_REGISTRY.get_dummy_mm_inputs(
        renderer.model_config,
        {"image": 1},
        processor=renderer.mm_processor,
        **({"scheduler_config": config} if scheduled else {}),
    )
    assert calls == [(seq_len, {"image": 1})]
    assert len(inputs["prompt_token_ids"]) == seq_len


def test_profiling_still_asks_for_the_full_length(
    make_renderer: MakeRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import (
        MultiModalBudget,
        get_dummy_encoder_profile_inputs,
    )
    from vllm.multimodal.processing import BaseDummyInputsBuilder

    lengths: list[int] = []
    build = BaseDummyInputsBuilder.get_dummy_processor_inputs

    def recording(builder: Any, seq_len: int, *args: Any, **kwargs: Any) -> Any:
        lengths.append(seq_len)
        return build(builder, seq_len, *args, **kwargs)

    renderer = make_renderer("qwen3_vl", limit_mm_per_prompt=SMALL_ITEMS)
    monkeypatch.setattr(BaseDummyInputsBuilder, "get_dummy_processor_inputs", recording)
    budget = MultiModalBudget(renderer.config, MULTIMODAL_REGISTRY)
    get_dummy_encoder_profile_inputs(MULTIMODAL_REGISTRY, budget)
    assert set(lengths) == {262144}


@pytest.mark.parametrize(
    "config",
    [
        MagicMock(),  # as the release's own tests/renderers/test_warmup.py has
        MagicMock(enable_chunked_prefill=True),
        SimpleNamespace(enable_chunked_prefill=True, max_num_batched_tokens=None),
    ],
)
def test_a_size_that_is_no_integer_bounds_nothing(make_renderer: MakeRenderer, config: Any) -> None:
    from vllm.multimodal import MULTIMODAL_REGISTRY

    renderer = make_renderer("llava", max_model_len=4096)
    inputs = MULTIMODAL_REGISTRY.get_dummy_mm_inputs(
        renderer.model_config,
        {"image": 1},
        processor=renderer.mm_processor,
        scheduler_config=config,
    )
    assert len(inputs["prompt_token_ids"]) == 4096


def test_the_annotations_of_the_registry_resolve() -> None:
    from vllm.config import SchedulerConfig
    from vllm.multimodal import registry

    annotations = inspect.get_annotations(
        registry.MultiModalRegistry.get_dummy_mm_inputs,
        eval_str=True,
        locals=_imports_for_type_checking(registry),
    )
    assert annotations["scheduler_config"] == SchedulerConfig | None


def _imports_for_type_checking(module: Any) -> Mapping[str, Any]:
    names: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.module
                imported = importlib.import_module(line.module)
                names |= {alias.name: getattr(imported, alias.name) for alias in line.names}
    return names
