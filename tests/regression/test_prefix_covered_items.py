"""Data of items in the computed prefix stays with the scheduler, until it is needed.

Real schedulers, v1 and v2 form, on tiny checkpoints; no worker runs.
"""

# ruff: noqa: ANN401 (options of vLLM's configuration)

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, patch

import cloudpickle
import numpy as np
import pytest

from tests.support.names import unknown_names
from tests.support.placement import tree

if TYPE_CHECKING:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItem
    from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request

BLOCK = 16
MakeScheduler = Callable[..., "Scheduler"]


@pytest.fixture(scope="module", autouse=True)
def _hash_seed() -> None:
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import init_none_hash

    init_none_hash(sha256)


@pytest.fixture
def make_scheduler(checkpoint: Callable[[str], Path]) -> MakeScheduler:
    """A scheduler with prefix caching and blocks of 16 tokens, by checkpoint and runner.

    Its workers restore what it left out.
    """

    def make(
        name: str = "qwen3_vl", *, v2: bool = False, spec_tokens: int = 0, **options: Any
    ) -> Scheduler:
        import torch
        from vllm.config import (
            CacheConfig,
            DeviceConfig,
            ModelConfig,
            SchedulerConfig,
            SpeculativeConfig,
            VllmConfig,
        )
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        model_config = ModelConfig(
            model=str(checkpoint(name)), dtype="float32", max_model_len=32768
        )
        config = VllmConfig(
            model_config=model_config,
            scheduler_config=SchedulerConfig(
                max_model_len=32768,
                max_num_batched_tokens=32768,
                max_num_seqs=8,
                enable_chunked_prefill=True,
                is_encoder_decoder=model_config.is_encoder_decoder,
                watermark=0.0,
            ),
            cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=True),
            device_config=DeviceConfig(device="cpu"),
            speculative_config=SpeculativeConfig(
                model="ngram", num_speculative_tokens=spec_tokens, prompt_lookup_max=2
            )
            if spec_tokens
            else None,
            **options,
        )
        config.cache_config.num_gpu_blocks = 1000
        register_all_kvcache_specs(config)
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
        scheduler = Scheduler(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=1000,
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
            ),
            block_size=BLOCK,
            structured_output_manager=StructuredOutputManager(config),
            log_stats=True,
        )
        scheduler.use_v2_model_runner = v2
        scheduler.workers_restore_mm_data = True
        return scheduler

    return make


def _item(pixels: int = 64) -> MultiModalKwargsItem:
    """Bulk data of `pixels` floats and a grid that is kept on the CPU."""
    import torch
    from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItem

    config = {
        "pixel_values": MultiModalFieldConfig.batched("image"),
        "image_grid_thw": MultiModalFieldConfig.batched("image", keep_on_cpu=True),
    }
    data = {"pixel_values": torch.zeros(1, pixels), "image_grid_thw": torch.ones(1, 3)}
    return MultiModalKwargsItem({k: c.build_elems(k, data[k])[0] for k, c in config.items()})


def _feature(
    name: str, offset: int, length: int, item: MultiModalKwargsItem | None
) -> MultiModalFeatureSpec:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    return MultiModalFeatureSpec(
        data=item,
        modality="image",
        identifier=name,
        mm_hash=name,
        mm_position=PlaceholderRange(offset=offset, length=length),
    )


# 96 tokens are shared: the first image lies inside, the second straddles the end of the shared
# prefix, the third lies behind it.
SHARED = 96
WINDOWS = {"inside": (8, 40), "straddling": (90, 12), "outside": (110, 20)}
IMAGES = tuple(WINDOWS)


def _request(
    name: str,
    tail: int,
    items: dict[str, MultiModalKwargsItem | None] | None = None,
    *,
    streaming: bool = False,
) -> Request:
    """140 tokens, the last 38 of them of value `tail`."""
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher
    from vllm.v1.request import Request

    given = {image: _item() for image in IMAGES} if items is None else items
    sampling = SamplingParams(ignore_eos=True, max_tokens=8)
    sampling.update_from_generation_config({}, 0)
    return Request(
        request_id=name,
        prompt_token_ids=[7] * 102 + [tail] * 38,
        sampling_params=sampling,
        pooling_params=None,
        mm_features=[_feature(i, *WINDOWS[i], item) for i, item in given.items()],
        block_hasher=get_request_block_hasher(BLOCK, sha256),
        resumable=streaming,
    )


def _answer(scheduler: Scheduler, output: SchedulerOutput) -> None:
    """As if the workers had run `output` and sampled token 1."""
    from vllm.v1.outputs import ModelRunnerOutput

    names = list(output.num_scheduled_tokens)
    scheduler.update_from_output(
        output,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[[1] for _ in names],
        ),
    )


def _fill_prefix_cache(scheduler: Scheduler) -> None:
    """Run a first request to its end, then forget its encoder outputs."""
    scheduler.add_request(_request("first", tail=1))
    while scheduler.has_unfinished_requests():
        _answer(scheduler, scheduler.schedule())
    scheduler.reset_encoder_cache()


def _send(scheduler: Scheduler, request: Request) -> NewRequestData:
    scheduler.add_request(request)
    output = scheduler.schedule()
    (sent,) = output.scheduled_new_reqs
    _answer(scheduler, output)
    return sent


def _fields(sent: NewRequestData) -> list[list[str] | None]:
    return [None if f.data is None else sorted(f.data) for f in sent.mm_features]


WHOLE = ["image_grid_thw", "pixel_values"]
RUNNERS = pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])


@RUNNERS
@pytest.mark.parametrize(
    ("name", "kept"), [("qwen3_vl", ["image_grid_thw"]), ("llava", None)], ids=["mrope", "plain"]
)
@pytest.mark.parametrize("spec_tokens", [0, 2])
def test_only_an_item_wholly_inside_the_prefix_loses_its_tensors(
    make_scheduler: MakeScheduler, name: str, kept: list[str] | None, v2: bool, spec_tokens: int
) -> None:
    scheduler = make_scheduler(name, v2=v2, spec_tokens=spec_tokens)
    _fill_prefix_cache(scheduler)

    sent = _send(scheduler, _request("second", tail=2))

    assert sent.num_computed_tokens == SHARED
    assert _fields(sent) == [kept, WHOLE, WHOLE]


def test_positions_of_xdrope_models_keep_their_fields_too(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.config import ModelConfig

    monkeypatch.setattr(ModelConfig, "uses_xdrope_dim", property(lambda _: 4))
    scheduler = make_scheduler("llava")
    _fill_prefix_cache(scheduler)

    assert _fields(_send(scheduler, _request("second", tail=2)))[0] == ["image_grid_thw"]


@RUNNERS
def test_the_engine_keeps_the_request_as_it_was(make_scheduler: MakeScheduler, v2: bool) -> None:
    scheduler = make_scheduler(v2=v2)
    _fill_prefix_cache(scheduler)
    request = _request("second", tail=2)
    features = list(request.mm_features)
    before = [dict(feature.data or {}) for feature in features]

    sent = _send(scheduler, request)

    assert [f is g for f, g in zip(request.mm_features, features, strict=True)] == [True] * 3
    assert [dict(feature.data or {}) for feature in features] == before
    inside = sent.mm_features[0]
    assert inside is not features[0]
    assert (inside.identifier, inside.mm_hash) == (features[0].identifier, features[0].mm_hash)
    assert inside.mm_position is features[0].mm_position
    assert sent.mm_features[1:] == features[1:]


@RUNNERS
def test_a_first_request_is_sent_whole(make_scheduler: MakeScheduler, v2: bool) -> None:
    sent = _send(make_scheduler(v2=v2), _request("first", tail=1))

    assert _fields(sent) == [WHOLE] * 3


def test_the_bytes_of_a_covered_item_are_not_sent(make_scheduler: MakeScheduler) -> None:
    def sent_bytes(pixels: int) -> int:
        scheduler = make_scheduler()
        _fill_prefix_cache(scheduler)
        request = _request("second", tail=2, items={"inside": _item(pixels)})
        return len(pickle.dumps(_send(scheduler, request)))

    assert sent_bytes(1_000_000) == sent_bytes(1)


def test_data_that_is_no_tensor_goes_as_it_is(make_scheduler: MakeScheduler) -> None:
    """A shared-memory address must reach its reader; absent data (disaggregated) stays absent."""
    from vllm.multimodal.cache import ShmObjectStoreSenderCache

    # The method reads nothing of its object.
    address = ShmObjectStoreSenderCache.address_as_item(None, 4096, 1)  # type: ignore[arg-type]
    for item in (address, None):
        scheduler = make_scheduler("llava")
        _fill_prefix_cache(scheduler)
        request = _request("second", tail=2, items={"inside": item})

        sent = _send(scheduler, request)

        assert sent.num_computed_tokens >= sum(WINDOWS["inside"])
        assert sent.mm_features[0] is request.mm_features[0]


def test_the_shared_memory_reader_takes_a_stripped_item(make_scheduler: MakeScheduler) -> None:
    from vllm.multimodal.cache import ShmObjectStoreReceiverCache
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    scheduler = make_scheduler("llava")
    _fill_prefix_cache(scheduler)
    sent = _send(scheduler, _request("second", tail=2))
    output = SchedulerOutput.make_empty()
    output.scheduled_new_reqs.append(sent)
    wrapper = WorkerWrapperBase()
    # Without shared memory to touch.
    wrapper.mm_receiver_cache = object.__new__(ShmObjectStoreReceiverCache)

    wrapper._apply_mm_cache(output)

    assert _fields(sent) == [None, WHOLE, WHOLE]


def test_a_worker_that_sees_every_item_each_step_gets_them_whole(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.config import ModelConfig

    monkeypatch.setattr(ModelConfig, "is_multimodal_raw_input_only_model", property(lambda _: True))
    scheduler = make_scheduler()
    _fill_prefix_cache(scheduler)

    assert _fields(_send(scheduler, _request("second", tail=2))) == [WHOLE] * 3


# -- who may be sent less -------------------------------------------------------------------------


def test_workers_that_cannot_restore_get_all_items_whole(make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler()
    del scheduler.workers_restore_mm_data  # as before the engine core asked them
    _fill_prefix_cache(scheduler)
    request = _request("second", tail=2)

    assert _send(scheduler, request).mm_features is request.mm_features


def test_a_plug_in_switches_it_off_by_name(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes when the scheduler is imported already."""
    scheduler = make_scheduler()
    _fill_prefix_cache(scheduler)
    monkeypatch.setattr(
        "vllm.multimodal.utils.strip_covered_mm_data", lambda features, *_, **__: features
    )

    assert _fields(_send(scheduler, _request("second", tail=2))) == [WHOLE] * 3


@pytest.mark.parametrize(
    ("computed", "keep", "left"),
    [
        (0, False, [WHOLE] * 3),
        (47, False, [WHOLE] * 3),
        (48, False, [None, WHOLE, WHOLE]),
        (48, True, [["image_grid_thw"], WHOLE, WHOLE]),
        (140, False, [None] * 3),
    ],
)
def test_the_seam_leaves_out_what_the_computed_tokens_cover(
    computed: int, keep: bool, left: list[list[str] | None]
) -> None:
    from vllm.multimodal.utils import strip_covered_mm_data

    features = [_feature(image, *WINDOWS[image], _item()) for image in IMAGES]
    sent = strip_covered_mm_data(features, computed, keep_cpu_fields=keep)
    assert [None if f.data is None else sorted(f.data) for f in sent] == left
    assert [f.identifier for f in sent] == list(IMAGES)
    assert all(feature.data is not None for feature in features)


def test_an_item_without_fields_for_positions_is_kept_whole_for_them() -> None:
    """A model from elsewhere may compute positions from fields that it does not flag."""
    from vllm.multimodal.inputs import MultiModalKwargsItem
    from vllm.multimodal.utils import strip_covered_mm_data

    item = MultiModalKwargsItem({"pixel_values": _item()["pixel_values"]})
    (sent,) = strip_covered_mm_data([_feature("inside", 0, 4, item)], 4, keep_cpu_fields=True)
    assert sent.data is item


def _runner_class(version: str) -> Any:
    module = {"v1": "gpu_model_runner", "v1, cpu": "cpu_model_runner", "v2": "gpu.model_runner"}
    found = importlib.import_module(f"vllm.v1.worker.{module[version]}")
    return found.CPUModelRunner if "cpu" in version else found.GPUModelRunner


def _executor_class(name: str) -> Any:
    module, cls = {
        "ray": ("ray_executor", "RayDistributedExecutor"),
        "ray, v2": ("ray_executor_v2", "RayExecutorV2"),
        "mp": ("multiproc_executor", "MultiprocExecutor"),
        "uni": ("uniproc_executor", "UniProcExecutor"),
        "external_launcher": ("uniproc_executor", "ExecutorWithExternalLauncher"),
        "one of a plug-in": ("abstract", "Executor"),
    }[name]
    found = getattr(importlib.import_module(f"vllm.v1.executor.{module}"), cls)
    return type("Concrete", (found,), dict.fromkeys(found.__abstractmethods__))


def _executor(name: str, *runners: Any) -> Any:
    """An executor with a worker for each runner, in this process."""
    from vllm.v1.serial_utils import run_method
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    def collective_rpc(method: Any) -> list[Any]:
        wrappers = [WorkerWrapperBase() for _ in runners]
        for wrapper, runner in zip(wrappers, runners, strict=True):
            wrapper.worker = SimpleNamespace(**({"model_runner": runner} if runner else {}))
        return [run_method(wrapper, cloudpickle.dumps(method), (), {}) for wrapper in wrappers]

    executor = object.__new__(_executor_class(name))
    executor.collective_rpc = collective_rpc
    return executor


def _with_its_own(runner_class: Any, method: str) -> Any:
    """As a platform plug-in overrides it."""
    return type("PlugInRunner", (runner_class,), {method: lambda *_: None})


RESTORING = {"v1": "_update_states", "v1, cpu": "_update_states", "v2": "update_requests"}


@pytest.mark.parametrize("version", RESTORING)
@pytest.mark.parametrize("executor", ["mp", "ray", "ray, v2"])
def test_worker_processes_restore_if_their_runners_do(executor: str, version: str) -> None:
    cls = _runner_class(version)
    own = object.__new__(cls)
    plug_in = object.__new__(_with_its_own(cls, RESTORING[version]))
    harmless = object.__new__(_with_its_own(cls, "load_model"))

    assert _executor(executor, own, harmless).restores_mm_data()
    assert not _executor(executor, plug_in).restores_mm_data()
    assert not _executor(executor, own, plug_in).restores_mm_data()
    assert not _executor(executor, own, None).restores_mm_data()
    assert not _executor(executor, own, object()).restores_mm_data()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_runner_whose_method_is_replaced_from_outside_restores_nothing(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = _runner_class(version)
    monkeypatch.setattr(cls, RESTORING[version], lambda *_: None)

    assert not _executor("mp", object.__new__(cls)).restores_mm_data()


@pytest.mark.parametrize("executor", ["uni", "external_launcher", "one of a plug-in"])
def test_nothing_is_left_out_for_an_executor_that_is_not_known_to_send(executor: str) -> None:
    """In this process nothing is serialized; of others nothing is known."""
    assert not _executor(executor, object.__new__(_runner_class("v1"))).restores_mm_data()


@pytest.mark.parametrize("restores", [False, True])
def test_the_engine_core_asks_its_executor(restores: bool) -> None:
    from vllm.v1.engine import core

    class SchedulerReached(Exception):
        pass

    class Scheduler(SimpleNamespace):
        @property
        def connector(self) -> None:
            raise SchedulerReached(self.workers_restore_mm_data)

    executor = MagicMock(restores_mm_data=lambda: restores)
    config = MagicMock(speculative_config=None)
    config.scheduler_config.get_scheduler_cls.return_value = Scheduler
    with (
        patch.object(core, "StructuredOutputManager"),
        patch.object(core, "resolve_kv_cache_block_sizes", return_value=(16, 16)),
        patch.object(core.EngineCore, "_initialize_kv_caches"),
        pytest.raises(SchedulerReached) as reached,
    ):
        core.EngineCore(config, lambda _: executor, log_stats=False)

    assert reached.value.args == (restores,)


# -- needed after all ------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def running(
    make_scheduler: MakeScheduler, request: pytest.FixtureRequest
) -> tuple[Scheduler, Request]:
    """A scheduler and a running request whose first image was not sent."""
    scheduler = make_scheduler(v2=request.param)
    _fill_prefix_cache(scheduler)
    covered = _request("second", tail=2)
    assert _fields(_send(scheduler, covered))[0] == ["image_grid_thw"]
    return scheduler, covered


def _received(output: SchedulerOutput) -> dict[int, list[str]]:
    """Item → fields that the workers get for the request `second` in this step."""
    for sent in output.scheduled_new_reqs:
        return {i: sorted(f.data or {}) for i, f in enumerate(sent.mm_features)}
    items = output.scheduled_cached_reqs.mm_items.get("second", {})
    return {i: sorted(item) for i, item in items.items()}


def test_a_request_that_lost_its_prefix_gets_the_tensors(
    running: tuple[Scheduler, Request],
) -> None:
    """Preempted, the prefix cache reset, and resumed in the same step."""
    scheduler, _ = running
    scheduler.reset_prefix_cache(reset_running_requests=True)
    scheduler.reset_encoder_cache()

    output = scheduler.schedule()

    assert output.scheduled_encoder_inputs == {"second": [0, 1, 2]}
    assert _received(output)[0] == WHOLE


def test_a_request_that_resumes_on_its_prefix_gets_nothing_again(
    running: tuple[Scheduler, Request],
) -> None:
    scheduler, request = running
    scheduler.running.remove(request)
    scheduler._preempt_request(request, 0.0)

    output = scheduler.schedule()

    assert output.num_scheduled_tokens["second"] < BLOCK
    assert not output.scheduled_encoder_inputs
    assert _received(output).get(0) in (None, ["image_grid_thw"])


def _fail_to_load(scheduler: Scheduler, request: Request) -> None:
    """As if the connector reported the first block invalid; no encoder output is at hand."""
    scheduler.reset_encoder_cache()
    (blocks,) = scheduler.kv_cache_manager.get_block_ids(request.request_id)
    scheduler._update_requests_with_invalid_blocks([request], {blocks[0]}, {})


def test_a_failed_load_of_the_prefix_brings_the_tensors(
    running: tuple[Scheduler, Request],
) -> None:
    """The connector reports a block invalid: the request runs on, with fewer computed tokens."""
    scheduler, request = running
    _fail_to_load(scheduler, request)
    assert request.num_computed_tokens == 0

    output = scheduler.schedule()

    assert output.scheduled_encoder_inputs["second"][0] == 0
    assert output.scheduled_cached_reqs.mm_items.keys() == {"second"}
    assert _received(output) == {0: WHOLE}


def test_tensors_are_sent_once(running: tuple[Scheduler, Request]) -> None:
    scheduler, request = running
    for expected in ({0: WHOLE}, {}):
        _fail_to_load(scheduler, request)
        output = scheduler.schedule()
        assert _received(output) == expected
        _answer(scheduler, output)


def test_a_log_line_names_the_items_not_their_tensors(
    running: tuple[Scheduler, Request],
) -> None:
    scheduler, request = running
    _fail_to_load(scheduler, request)

    assert "mm_items={'second': [0]}" in repr(scheduler.schedule().scheduled_cached_reqs)


# -- streaming sessions ---------------------------------------------------------------------------


def _stream(scheduler: Scheduler, number: int) -> SchedulerOutput:
    """One more update of the session `second`, of one image in 3 tokens, and its step."""
    update = _request("second", tail=2, items={"inside": _item()}, streaming=True)
    update.prompt_token_ids = [7, 7, number]
    update.mm_features = [_feature(f"image {number}", 0, 2, _item())]
    scheduler.add_request(update)
    return scheduler.schedule()


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def session(make_scheduler: MakeScheduler, request: pytest.FixtureRequest) -> Scheduler:
    """A scheduler with the session `second`, which waits for its first update."""
    scheduler = make_scheduler(v2=request.param)
    first = _request("second", tail=2, items={"inside": _item()}, streaming=True)
    first.max_tokens = 1
    assert _fields(_send(scheduler, first)) == [WHOLE]
    return scheduler


def test_a_streaming_session_sends_only_what_its_next_input_brings(session: Scheduler) -> None:
    for number in range(1, 5):
        output = _stream(session, number)
        (sent,) = output.scheduled_new_reqs
        assert _fields(sent) == [*[["image_grid_thw"]] * number, WHOLE]
        assert output.scheduled_encoder_inputs == {"second": [number]}
        assert not output.scheduled_cached_reqs.mm_items
        _answer(session, output)


def test_an_update_costs_what_it_adds_not_what_the_session_holds(session: Scheduler) -> None:
    """Counted, not timed: calls of Python functions in an update and its step."""

    def calls(number: int) -> int:
        counted = 0

        def count(_: Any, event: str, __: Any) -> None:
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count)
        try:
            output = _stream(session, number)
            _answer(session, output)
        finally:
            sys.setprofile(None)
        return counted

    # Over 16 updates, since each fills three tokens of a block of 16.
    early = [calls(number) for number in range(1, 49)][-16:]
    for number in range(49, 1985):
        calls(number)
    late = [calls(number) for number in range(1985, 2001)]
    # What remains is bisection.
    assert sum(late) < sum(early) * 1.5


def test_a_session_that_loses_its_prefix_gets_the_tensors_once(session: Scheduler) -> None:
    """Then it is sent as little as before."""
    session.requests["second"].max_tokens = 2
    _answer(session, _stream(session, 1))
    _fail_to_load(session, session.requests["second"])
    output = session.schedule()
    assert _received(output) == {0: WHOLE}
    _answer(session, output)

    (sent,) = _stream(session, 2).scheduled_new_reqs
    assert _fields(sent) == [["image_grid_thw"], ["image_grid_thw"], WHOLE]


# -- the workers' side -----------------------------------------------------------------------------


def test_the_v2_runner_stores_items_that_arrive_late() -> None:
    from vllm.v1.core.sched.output import CachedRequestData
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    features = [_feature(image, *WINDOWS[image], None) for image in IMAGES]
    cached = CachedRequestData.make_empty()
    cached.mm_items = {"second": {1: _item()}}
    zeros = np.zeros(1, dtype=np.int32)
    runner = SimpleNamespace(
        encoder_cache=SimpleNamespace(mm_features={"second": features}),
        req_states=SimpleNamespace(
            num_computed_tokens_np=zeros,
            prefill_len=SimpleNamespace(np=zeros),
            num_computed_prefill_tokens=zeros.copy(),
        ),
    )
    output = SimpleNamespace(
        scheduled_cached_reqs=cached, new_block_ids_to_zero=None, kv_cache_block_copies=None
    )

    GPUModelRunner.update_requests(runner, output)  # type: ignore[arg-type]

    assert [None if f.data is None else sorted(f.data) for f in features] == [None, WHOLE, None]


def test_the_v1_runner_stores_items_that_arrive_late() -> None:
    from vllm.v1.core.sched.output import CachedRequestData
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    class BatchReached(Exception):
        pass

    features = [_feature(image, *WINDOWS[image], None) for image in IMAGES]
    cached = CachedRequestData.make_empty()
    cached.req_ids, cached.num_computed_tokens = ["second"], [0]
    cached.new_block_ids, cached.num_output_tokens = [None], [0]
    cached.mm_items = {"second": {1: _item()}}
    output = MagicMock(scheduled_cached_reqs=cached, scheduled_new_reqs=[], finished_req_ids=set())
    output.num_scheduled_tokens = {"second": 1}
    runner = MagicMock(requests={"second": SimpleNamespace(mm_features=features)})
    runner.speculative_config = None
    runner.input_batch.req_id_to_index.get.side_effect = BatchReached

    with (
        patch("vllm.v1.worker.gpu_model_runner.get_pp_group"),
        pytest.raises(BatchReached),
    ):
        GPUModelRunner._update_states(runner, output)

    assert [None if f.data is None else sorted(f.data) for f in features] == [None, WHOLE, None]


def test_the_v2_runner_names_the_item_that_it_lacks() -> None:
    """Should one ever be needed that was never sent: an error, and no answer without the image."""
    from vllm.v1.worker.gpu.mm.encoder_runner import EncoderRunner

    runner = object.__new__(EncoderRunner)
    runner.is_realtime = False
    runner.encoder_cache = MagicMock(
        mm_features={"second": [_feature("inside", *WINDOWS["inside"], None)]}, encoder_outputs={}
    )
    step = {"num_scheduled_tokens": np.array([140]), "query_start_loc": np.array([0, 140]),
            "prefill_lens": np.array([140]), "num_computed_tokens": np.array([0])}  # fmt: skip

    assert runner.prepare_mm_inputs({"second": [0]}) == ([], [])
    with pytest.raises(RuntimeError, match="Encoder cache miss for inside"):
        runner.gather_mm_embeddings(["second"], 140, **step)


def test_the_v1_runner_names_the_item_that_it_lacks() -> None:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    request = SimpleNamespace(
        num_computed_tokens=0, mm_features=[_feature("inside", *WINDOWS["inside"], None)]
    )
    runner = MagicMock(requests={"second": request}, encoder_cache={})
    runner.input_batch.req_ids = ["second"]
    runner._get_encoder_output_from_cache = {}.get
    step = MagicMock(
        scheduled_encoder_inputs={"second": [0]},
        num_scheduled_tokens={"second": 140},
        total_num_scheduled_tokens=140,
    )

    assert GPUModelRunner._batch_mm_inputs_from_scheduler(runner, step) == ([], [], [])
    with pytest.raises(RuntimeError, match="Encoder cache miss for inside"):
        GPUModelRunner._gather_mm_embeddings(runner, step)


def test_a_model_that_gets_only_the_fields_for_positions_makes_no_embedding() -> None:
    """Which is an error as well: one is wanted for each item."""
    from vllm.model_executor.models.qwen3_vl import Qwen3VLForConditionalGeneration
    from vllm.v1.worker.utils import sanity_check_mm_encoder_outputs

    model = object.__new__(Qwen3VLForConditionalGeneration)
    grid = _item()["image_grid_thw"].data

    with pytest.raises(AssertionError, match="input items: 1, but got"):
        sanity_check_mm_encoder_outputs(model.embed_multimodal(image_grid_thw=grid) or [], 1)


def test_ray_sends_no_items_to_the_later_pipeline_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They get no features, so an item that arrives late would have no place there."""
    wrapper = _ray_worker_wrapper(monkeypatch)
    output = SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(mm_features=["image"])],
        scheduled_cached_reqs=SimpleNamespace(mm_items={"second": {0: "item"}}),
    )
    worker = object.__new__(wrapper)
    worker.worker = MagicMock()
    monkeypatch.setattr(wrapper, "setup_device_if_necessary", lambda _: None)
    monkeypatch.setattr(wrapper, "_is_intermediate_tensors", lambda *_: True)

    sent, _, _ = worker.execute_model_ray((output, None))

    assert sent.scheduled_new_reqs[0].mm_features == []
    assert sent.scheduled_cached_reqs.mm_items == {}


def test_a_step_without_late_items_has_an_empty_table_of_them() -> None:
    """Also where somebody else than the scheduler makes it."""
    from vllm.v1.core.sched.output import CachedRequestData

    assert CachedRequestData.make_empty().mm_items == {}


def test_no_name_is_missing_where_only_a_type_checker_would_look() -> None:
    assert unknown_names(tree() / "v1") == []


def _ray_worker_wrapper(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`RayWorkerWrapper` without ray: the class exists only where ray can be imported."""
    import vllm.v1.executor.ray_utils as installed

    for name in ("ray", "ray.util", "ray.util.placement_group", "ray._private"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setitem(sys.modules, "ray._private.state", MagicMock())
    assert installed.__file__ is not None
    spec = spec_from_file_location("ray_utils_with_ray", installed.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "get_pp_group", lambda: SimpleNamespace(is_first_rank=True))
    return module.RayWorkerWrapper
