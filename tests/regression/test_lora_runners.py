"""Both model runners map the rows of a tower to the adapters of the items, call by call."""

# ruff: noqa: ANN401 (models and their stand-ins)

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.support import lora


class Model:
    """Has hooks; its encoder answers two embeddings an item."""

    def __init__(self, *, connector: bool = True, connector_rows: bool = True) -> None:
        self.asked: list[tuple[str, int]] = []
        self._connector = connector
        self._connector_rows = connector_rows

    def get_mm_mapping(self) -> Any:
        from vllm.model_executor.models.module_mapping import MultiModelKeys

        connector = "projector" if self._connector else None
        return MultiModelKeys.from_string_field("language_model", connector, "tower")

    def get_mm_lora_token_counts(
        self, *, modality: str, mm_kwargs: Any, num_mm_embeds: int
    ) -> tuple[int, int | None]:
        assert mm_kwargs is not None
        if modality not in ("image", "video"):
            raise ValueError(f"Unsupported modality: {modality!r}")
        self.asked.append((modality, num_mm_embeds))
        return 3 * num_mm_embeds, num_mm_embeds if self._connector_rows else None

    def embed_multimodal(self, **kwargs: Any) -> list[Any]:
        return [item.float() for item in kwargs["pixels"]]


def feature(modality: str, index: int, length: int = 2) -> Any:
    import torch
    from vllm.multimodal.inputs import (
        MultiModalFeatureSpec,
        MultiModalFieldConfig,
        MultiModalKwargsItems,
        PlaceholderRange,
    )

    key = "embedding" if modality == "prompt_embeds" else "pixels"
    items = MultiModalKwargsItems.from_hf_inputs(
        {key: torch.zeros(1, length, 4)}, {key: MultiModalFieldConfig.batched(modality)}
    )
    return MultiModalFeatureSpec(
        data=items[modality][0],
        modality=modality,
        identifier=f"{modality}-{index}",
        mm_position=PlaceholderRange(offset=index * length, length=length),
    )


def run_v1(
    model: Model,
    features: dict[str, list[Any]],
    supports: bool = True,
    sequential: bool = False,
) -> list[Any]:
    """Encode `features` by request as v1 does; the LoRA mappings that it sets."""
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = GPUModelRunner.__new__(GPUModelRunner)
    runner.model = model  # type: ignore[assignment]
    runner.device = torch.device("cpu")
    runner.lora_config = lora.tower_lora()
    runner.lora_manager = _lora_manager(supports)
    runner.observability_config = None  # type: ignore[assignment]
    runner.is_multimodal_pruning_enabled = False
    runner.requires_sequential_video_encoding = sequential
    runner.encoder_cudagraph_manager = None
    runner.encoder_cache = {}
    runner.requests = {r: SimpleNamespace(mm_features=f) for r, f in features.items()}  # type: ignore[misc]
    index = {request: i for i, request in enumerate(features)}
    runner.input_batch = SimpleNamespace(  # type: ignore[assignment]
        req_id_to_index=index,
        request_lora_mapping=[i + 1 for i in index.values()],
        lora_id_to_lora_request={i + 1: f"adapter {i + 1}" for i in index.values()},
    )
    scheduled = {request: list(range(len(f))) for request, f in features.items()}
    runner._execute_mm_encoder(
        SimpleNamespace(
            scheduled_encoder_inputs=scheduled, ec_manager_metadata=None, free_encoder_mm_hashes=[]
        )  # type: ignore[arg-type]
    )
    assert runner.encoder_cache.keys() == {f.identifier for fs in features.values() for f in fs}
    return _mappings(runner.lora_manager)


def run_v2(model: Model, features: dict[str, list[Any]], supports: bool = True) -> list[Any]:
    """The LoRA mappings that v2 sets while it encodes `features` by request."""
    from vllm.lora.request import LoRARequest
    from vllm.v1.worker.gpu.lora_utils import LoraState
    from vllm.v1.worker.gpu.mm.encoder_cache import EncoderCache
    from vllm.v1.worker.gpu.mm.lora import set_active_mm_loras, split_encoder_inputs

    cache = EncoderCache()
    state = LoraState(max_num_reqs=4)
    for index, (request, items) in enumerate(features.items()):
        cache.add_request(request, items)
        state.add_request(request, index, LoRARequest(f"a{index}", index + 1, "/none"))
    manager = _lora_manager(supports)
    scheduled = {r: list(range(len(f))) for r, f in features.items()}
    if not supports:  # the runner asks no further
        return []
    step = {
        "model": model,
        "lora_manager": manager,
        "encoder_cache": cache,
        "req_id_to_index": {request: index for index, request in enumerate(features)},
        "lora_state": state,
    }
    for batch in split_encoder_inputs(**step, scheduled_encoder_inputs=scheduled):
        set_active_mm_loras(**step, scheduled_encoder_inputs=batch)
    return _mappings(manager)


def _lora_manager(supports: bool, rows: tuple[int, int] = (40, 14)) -> Any:
    """Holds so many rows of tower and connector."""
    from vllm.lora.model_manager import LoRAModelManager

    manager = MagicMock()
    manager.supports_tower_connector_lora.return_value = supports
    held: Any = SimpleNamespace(max_mm_lora_tokens=rows)
    manager.split_mm_items.side_effect = partial(LoRAModelManager.split_mm_items, held)
    return manager


def _mappings(manager: Any) -> list[Any]:
    return [call.args[1] for call in manager.set_active_adapters.call_args_list]


RUNNERS = pytest.mark.parametrize("run", [run_v1, run_v2], ids=["v1", "v2"])


@RUNNERS
def test_runners_map_the_rows_of_each_item_to_its_adapter(run: Callable[..., Any]) -> None:
    model = Model()
    mappings = run(
        model,
        {"a": [feature("image", 0), feature("image", 1)], "b": [feature("image", 2, length=4)]},
    )
    assert set(model.asked) == {("image", 2), ("image", 4)}
    assert rows(mappings) == [(1,) * 12, (1,) * 4, (2,) * 12, (2,) * 4]


@RUNNERS
def test_runners_ask_no_model_that_does_not_support_it(run: Callable[..., Any]) -> None:
    model = Model()
    assert run(model, {"a": [feature("image", 0)]}, supports=False) == []
    assert model.asked == []


@RUNNERS
@pytest.mark.parametrize("lacking", ["connector", "connector_rows"])
def test_runners_map_the_tower_alone_without_a_connector(
    run: Callable[..., Any], lacking: str
) -> None:
    from vllm.lora.layers import LoRAMappingType

    (tower,) = run(Model(**{lacking: False}), {"a": [feature("image", 0)]})
    assert tower.type is LoRAMappingType.TOWER
    assert tower.index_mapping == (1,) * 6


@RUNNERS
def test_prompt_embeds_never_reach_the_hook(run: Callable[..., Any]) -> None:
    model = Model()
    tower, connector = run(
        model,
        {
            "a": [feature("prompt_embeds", 0)],
            "b": [feature("prompt_embeds", 1), feature("image", 2)],
        },
    )
    assert set(model.asked) == {("image", 2)}
    assert tower.index_mapping == (2,) * 6
    assert connector.index_mapping == (2,) * 2


@RUNNERS
def test_prompt_embeds_alone_set_no_adapter(run: Callable[..., Any]) -> None:
    model = Model()
    assert run(model, {"a": [feature("prompt_embeds", 0)]}) == []
    assert model.asked == []


@RUNNERS
def test_runners_pass_on_that_a_modality_is_unknown(run: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="'smell'"):
        run(Model(), {"a": [feature("smell", 0)]})


def rows(mappings: list[Any]) -> list[tuple[int, ...]]:
    return [mapping.index_mapping for mapping in mappings]


@RUNNERS
def test_runners_encode_the_items_of_one_adapter_at_a_time(run: Callable[..., Any]) -> None:
    features = {
        "a": [feature("image", 0), feature("video", 1)],
        "b": [feature("video", 2, length=4), feature("image", 3)],
    }
    assert rows(run(Model(), features)) == [(1,) * 12, (1,) * 4, (2,) * 18, (2,) * 6]


@RUNNERS
@pytest.mark.parametrize("connector", [True, False])
def test_runners_encode_no_more_rows_at_a_time_than_are_held(
    run: Callable[..., Any], connector: bool
) -> None:
    features = {"a": [feature("image", index, length=4) for index in range(5)]}
    tower = [(1,) * 36, (1,) * 24]
    both = [(1,) * 36, (1,) * 12, (1,) * 24, (1,) * 8]
    assert rows(run(Model(connector=connector), features)) == (both if connector else tower)
    # Ten of the tower alone fit, of the connector seven do
    features = {"a": [feature("image", index, length=2) for index in range(7)]}
    assert len(run(Model(connector_rows=False), features)) == 2


def test_v1_returns_outputs_in_the_order_of_the_step() -> None:
    """Encoder-decoder models get them so."""
    from vllm.v1.worker import gpu_model_runner

    cls = gpu_model_runner.GPUModelRunner
    runner = MagicMock(spec=cls, lora_config=object(), lora_manager=_lora_manager(True))
    runner.model = Model()
    runner.input_batch = MagicMock(
        req_id_to_index={"a": 0, "b": 1, "c": 2}, request_lora_mapping=[2, 1, 2]
    )
    features = [feature("image", index) for index in range(3)]
    runner._batch_mm_inputs_from_scheduler.return_value = (
        [f.identifier for f in features],
        [("image", f.data) for f in features],
        [(request, f.mm_position) for request, f in zip("abc", features, strict=True)],
    )
    runner._execute_mm_encoder_batch.side_effect = lambda hashes, *_: list(hashes)
    told = cls._execute_mm_encoder(runner, MagicMock())
    assert told == ["image-0", "image-1", "image-2"]
    assert [c.args[0] for c in runner._execute_mm_encoder_batch.call_args_list] == [
        ["image-1"],
        ["image-0", "image-2"],
    ]


def test_v1_runs_videos_alone_under_the_adapter_of_all() -> None:
    features = {"a": [feature("video", 0), feature("video", 1)]}
    assert rows(run_v1(Model(), features, sequential=True)) == [(1,) * 12, (1,) * 4]


def test_v2_leaves_out_what_is_encoded_gone_or_has_no_data() -> None:
    from vllm.v1.worker.gpu.lora_utils import LoraState
    from vllm.v1.worker.gpu.mm.encoder_cache import EncoderCache
    from vllm.v1.worker.gpu.mm.lora import split_encoder_inputs

    cache = EncoderCache()
    items = [feature("image", index) for index in range(4)]
    items[1].data = None
    cache.encoder_outputs[items[2].identifier] = MagicMock()
    cache.add_request("a", items)
    cache.add_request("gone", items)
    state = LoraState(max_num_reqs=4)
    state.add_request("a", 0, None)

    def split(scheduled: dict[str, list[int]]) -> list[dict[str, list[int]]]:
        manager = _lora_manager(supports=True)
        return list(split_encoder_inputs(Model(), manager, cache, {"a": 0}, state, scheduled))

    assert split({"a": [0, 1, 2, 3], "gone": [0]}) == [{"a": [0, 3]}]
    assert split({"a": [1, 2]}) == []


def test_v2_sets_the_adapters_of_one_batch_before_the_encoder_runs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in of the runner that only encodes, and takes this step of the real one."""
    from vllm.v1.worker.gpu import model_runner
    from vllm.v1.worker.gpu.mm.encoder_cache import EncoderCache

    done: list[tuple[str, Any]] = []
    around = ("get_num_active_loras_for_dispatch", "build_slot_mappings_by_layer",
              "make_empty_encoder_model_runner_output", "ModelRunnerOutput")  # fmt: skip
    for name in around:
        monkeypatch.setattr(model_runner, name, MagicMock())
    monkeypatch.setattr(model_runner, "dispatch_cg_and_sync_dp", lambda *_, **__: (MagicMock(), 1))
    cls = model_runner.GPUModelRunner
    runner = MagicMock(is_encoder_decoder=False, encoder_cache=EncoderCache(), model=Model())
    for index, request in enumerate("ab"):
        runner.encoder_cache.add_request(request, [feature("image", index)])
    runner.lora_state = MagicMock(lora_ids=[1, 2], lora_requests={})
    runner.req_states.req_id_to_index = {"a": 0, "b": 1}
    runner.lora_state.make_lora_inputs.return_value = ((), (), set())
    runner.lora_manager = _lora_manager(supports=True)
    runner.lora_manager.set_active_adapters.side_effect = lambda _, mapping: done.append(
        ("set", mapping.index_mapping)
    )
    encode: Any = partial(cls._execute_mm_encoder_with_loras, runner)
    runner._execute_mm_encoder_with_loras = encode
    runner.gather_batch_req_state.return_value = (MagicMock(), None)
    runner.prepare_attn.return_value = (MagicMock(), MagicMock())
    runner.model_state.execute_mm_encoder.side_effect = lambda x: done.append(("run", x))
    step = MagicMock(num_scheduled_tokens={"a": 4, "b": 4})
    step.scheduled_encoder_inputs = {"a": [0], "b": [0]}

    cls.execute_model(runner, step)

    assert done[:6] == [
        ("set", (1,) * 6), ("set", (1,) * 2), ("run", {"a": [0]}),
        ("set", (2,) * 6), ("set", (2,) * 2), ("run", {"b": [0]}),
    ]  # fmt: skip
