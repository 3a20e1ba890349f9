"""Renderer warmup builds small items for every family, and profiling the largest."""

# ruff: noqa: ANN401 (wrappers take what vLLM's builders take)

from __future__ import annotations

import ast
import asyncio
import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.regression.conftest import MakeRenderer

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

Size = tuple[int, ...]
"""Image: (width, height). Video: (frames, width, height). Audio: (samples,)."""

WIDE, VIDEO, AUDIO = (756, 378), (2, 448, 448), (32000,)
WARMUP_SIZES: Mapping[str, Mapping[str, Size]] = {
    "gemma3": {"image": (378, 756)},
    "glm4_1v": {"image": WIDE, "video": VIDEO},
    "idefics3": {"image": (364, 182)},
    "internvl": {"image": WIDE, "video": VIDEO},
    "lfm2_vl": {"image": (512, 256)},
    "llava": {"image": (336, 168)},
    "llava_next": {"image": (672, 336)},
    "llava_onevision": {"image": WIDE, "video": VIDEO},
    "qwen2_5_omni": {"image": WIDE, "video": VIDEO, "audio": AUDIO},
    "qwen2_5_vl": {"image": WIDE, "video": VIDEO},
    "qwen2_audio": {"audio": AUDIO},
    "qwen2_vl": {"image": WIDE, "video": VIDEO},
    "qwen3_omni": {"image": WIDE, "video": VIDEO, "audio": AUDIO},
    "qwen3_vl": {"image": WIDE, "video": VIDEO},
    "transformers_backend": {"image": WIDE},
}
PROFILE_SIZES: Mapping[str, Mapping[str, Size]] = {
    "gemma3": {"image": (896, 3584)},
    "glm4_1v": {"image": (2184, 2184), "video": (2, 2184, 2184)},
    "idefics3": {"image": (364, 364)},
    "internvl": {"image": (5376, 448), "video": (19, 448, 448)},
    "lfm2_vl": {"image": (512, 512)},
    "llava": {"image": (336, 336)},
    "llava_next": {"image": (672, 672)},
    "llava_onevision": {"image": (1153, 944), "video": (16, 1153, 944)},
    "qwen2_5_omni": {"image": (3584, 3584), "video": (1, 3584, 3584), "audio": (480000,)},
    "qwen2_5_vl": {"image": (3584, 3584), "video": (1, 3584, 3584)},
    "qwen2_audio": {"audio": (480000,)},
    "qwen2_vl": {"image": (3584, 3584), "video": (20, 896, 672)},
    "qwen3_omni": {"image": (3584, 3584), "video": (1, 3584, 3584), "audio": (480000,)},
    "qwen3_vl": {"image": (4096, 4096), "video": (2, 4096, 3072)},
    "transformers_backend": {"image": (10000, 10000)},
}
"""What the unpatched release builds for 8192 tokens, but for the video of qwen2_vl, which is
sized by its video processor now and was by its image processor."""
MULTIMODAL = sorted(WARMUP_SIZES)

SMALLEST_ITEM = {
    ("gemma3", "image"): 260,  # always 896x896, with its newlines and marks
    ("idefics3", "image"): 2919,  # a square is cut into 4x4 tiles
    ("internvl", "image"): 258,  # one tile, with its marks
    ("internvl", "video"): 533,  # one tile a frame, with its marks
    ("llava", "image"): 576,  # always 336x336
    ("llava_next", "image"): 1752,  # two tiles and the thumbnail
    ("llava_onevision", "image"): 1485,  # one tile and the thumbnail
    ("llava_onevision", "video"): 393,  # 196 a frame
    # shortest_edge of the video processor, in pixels
    ("qwen2_5_omni", "video"): 144,
    ("qwen2_vl", "video"): 144,
    ("qwen3_omni", "video"): 144,
    ("transformers_backend", "image"): 175,  # one tile of 169
}
"""In tokens, where more than 128: the processor scales the image up to this."""


def item_size(modality: str, item: Any) -> Size:
    array = item[0] if isinstance(item, tuple) else item
    if modality == "image":
        return tuple(array.size)
    return tuple(array.shape[: 3 if modality == "video" else 1])


def sizes_of(mm_data: Mapping[str, Any]) -> dict[str, Size]:
    return {m: item_size(m, items[0]) for m, items in mm_data.items() if len(items)}


class Recorder:
    """What each processor of one renderer was given and what it made of it."""

    def __init__(self, renderer: BaseRenderer[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[dict[str, Size]] = []
        self.tokens: list[dict[str, int]] = []
        self.cleared = 0
        for processor in {
            id(p): p for p in (renderer.mm_processor, renderer._readonly_mm_processor) if p
        }.values():
            self._watch(processor, monkeypatch)

    def _watch(self, processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        build, apply = processor.dummy_inputs.get_dummy_mm_data, processor.apply

        def recording_build(*args: Any, **kwargs: Any) -> Any:
            data = build(*args, **kwargs)
            self.sizes.append(sizes_of(data))
            return data

        def recording_apply(*args: Any, **kwargs: Any) -> Any:
            inputs = apply(*args, **kwargs)
            placeholders = inputs["mm_placeholders"]
            self.tokens.append({m: ranges[0].length for m, ranges in placeholders.items()})
            return inputs

        monkeypatch.setattr(processor.dummy_inputs, "get_dummy_mm_data", recording_build)
        monkeypatch.setattr(processor, "apply", recording_apply)
        if processor.cache is not None:
            clear = processor.cache.clear_cache

            def recording_clear() -> None:
                self.cleared += 1
                clear()

            monkeypatch.setattr(processor.cache, "clear_cache", recording_clear)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseRenderer[Any]], Recorder]:
    return lambda renderer: Recorder(renderer, monkeypatch)


def warm_up(renderer: BaseRenderer[Any]) -> None:
    from vllm.renderers.params import ChatParams

    renderer.warmup(ChatParams())


def warnings_of(log: pytest.LogCaptureFixture) -> list[str]:
    return [
        r.getMessage()
        for r in log.records
        if r.levelno >= logging.WARNING and r.name.startswith("vllm")
    ]


# Sizes


@pytest.mark.parametrize("name", MULTIMODAL)
def test_warmup_items_are_small_and_silent(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    vllm_log: pytest.LogCaptureFixture,
    name: str,
) -> None:
    renderer = make_renderer(name)
    recorder = record(renderer)
    vllm_log.clear()
    warm_up(renderer)
    assert recorder.sizes == [WARMUP_SIZES[name]] * 2
    assert recorder.tokens[0].keys() == WARMUP_SIZES[name].keys()
    assert all(tokens <= 8192 for tokens in recorder.tokens[0].values())
    assert warnings_of(vllm_log) == []


@pytest.mark.parametrize("budget", [128, 600, 2048, 4096])
@pytest.mark.parametrize("name", MULTIMODAL)
def test_an_item_has_no_more_tokens_than_one_step(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    vllm_log: pytest.LogCaptureFixture,
    name: str,
    budget: int,
) -> None:
    renderer = make_renderer(name, max_num_batched_tokens=budget, mm_processor_cache_gb=0)
    recorder = record(renderer)
    vllm_log.clear()
    warm_up(renderer)
    assert recorder.tokens[0].keys() == WARMUP_SIZES[name].keys()
    for modality, tokens in recorder.tokens[0].items():
        smallest = SMALLEST_ITEM.get((name, modality), 0)
        assert tokens <= max(budget, smallest), modality
    assert warnings_of(vllm_log) == []


@pytest.mark.parametrize("name", MULTIMODAL)
def test_profiling_items_are_as_large_as_before(make_renderer: MakeRenderer, name: str) -> None:
    renderer = make_renderer(name, mm_processor_cache_gb=0)
    assert renderer.mm_processor is not None
    warm_up(renderer)
    mm_counts = dict.fromkeys(PROFILE_SIZES[name], 1)
    data = renderer.mm_processor.dummy_inputs.get_dummy_mm_data(8192, mm_counts, {})
    assert sizes_of(data) == PROFILE_SIZES[name]


def test_profiling_gets_the_options_as_they_are(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    from vllm.multimodal import MULTIMODAL_REGISTRY

    limits = {"image": {"count": 1, "width": 1000, "height": 900}, "video": 0}
    renderer = make_renderer("qwen2_vl", limit_mm_per_prompt=limits, mm_processor_cache_gb=0)
    recorder = record(renderer)
    warm_up(renderer)
    MULTIMODAL_REGISTRY.get_dummy_mm_inputs(
        renderer.model_config, {"image": 1}, processor=renderer.mm_processor
    )
    assert recorder.sizes == [{"image": WIDE}, {"image": (1000, 900)}]


def test_without_chunked_prefill_items_are_small_as_well(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    renderer = make_renderer("qwen3_vl", chunked_prefill=False, mm_processor_cache_gb=0)
    recorder = record(renderer)
    warm_up(renderer)
    assert recorder.sizes == [WARMUP_SIZES["qwen3_vl"]]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (
            {
                "image": {"count": 1, "width": 224, "height": 112},
                "video": {"count": 1, "width": 192, "height": 160},
            },
            {"image": (224, 112), "video": (2, 192, 160)},
        ),
        ({"image": {"count": 1, "width": 300}, "video": 0}, {"image": (300, 378)}),
        ({"image": {"count": 1, "width": 5000, "height": 5000}, "video": 0}, {"image": WIDE}),
        (
            {"image": 0, "video": {"count": 1, "num_frames": 300, "width": 5000}},
            {"video": VIDEO},
        ),
    ],
)
@pytest.mark.parametrize("name", ["glm4_1v", "qwen2_vl", "qwen3_vl"])
def test_limit_options_make_items_smaller_and_never_larger(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    vllm_log: pytest.LogCaptureFixture,
    name: str,
    limits: dict[str, Any],
    sizes: dict[str, Size],
) -> None:
    renderer = make_renderer(name, limit_mm_per_prompt=limits, mm_processor_cache_gb=0)
    recorder = record(renderer)
    vllm_log.clear()
    warm_up(renderer)
    assert recorder.sizes == [sizes]
    assert recorder.tokens, "the processor accepts it"
    assert warnings_of(vllm_log) == []


def test_a_single_frame_is_honoured_where_the_model_accepts_one(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    limits = {"image": 0, "video": {"count": 1, "num_frames": 1}}
    frames = {}
    for name in ("qwen2_vl", "glm4_1v"):
        renderer = make_renderer(name, limit_mm_per_prompt=limits, mm_processor_cache_gb=0)
        recorder = record(renderer)
        warm_up(renderer)
        frames[name] = recorder.sizes[0]["video"][0]
        assert recorder.tokens
    assert frames == {"qwen2_vl": 1, "glm4_1v": 2}


def test_audio_length_option_is_honoured(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    limits = {"audio": {"count": 1, "length": 20000}}
    renderer = make_renderer("qwen2_audio", limit_mm_per_prompt=limits, mm_processor_cache_gb=0)
    recorder = record(renderer)
    warm_up(renderer)
    assert recorder.sizes == [{"audio": (20000,)}]


def test_the_user_options_are_left_alone(make_renderer: MakeRenderer) -> None:
    limits = {"image": {"count": 1, "width": 5000}, "video": {"count": 1, "num_frames": 300}}
    renderer = make_renderer("qwen3_vl", limit_mm_per_prompt=limits)
    warm_up(renderer)
    options = renderer.model_config.get_multimodal_config().limit_per_prompt
    assert (options["image"].width, options["video"].num_frames) == (5000, 300)


# Families that this machine cannot build, and builders that go their own way


@pytest.fixture
def warmup_options() -> Iterator[Mapping[str, Any]]:
    """Warmup sizes of 8192 tokens for an image and a video, without user options."""
    from vllm.multimodal.processing.dummy_inputs import use_warmup_sizes

    with use_warmup_sizes(8192, {"image": 1, "video": 1}, {}) as options:
        yield options


def test_a_builder_without_options_is_limited(warmup_options: Mapping[str, Any]) -> None:
    from vllm.model_executor.models.kanana_v import KananaVDummyInputsBuilder

    builder = KananaVDummyInputsBuilder(SimpleNamespace())
    data = builder.get_dummy_mm_data(8192, {"image": 1}, warmup_options)
    assert sizes_of(data) == {"image": WIDE}


@pytest.mark.parametrize("video", [{}, {"width": 200}, {"num_frames": 64, "width": 200}])
def test_videos_made_of_images_have_few_frames(video: dict[str, int]) -> None:
    from vllm.config.multimodal import VideoDummyOptions
    from vllm.model_executor.models.minicpmv import MiniCPMVDummyInputsBuilder
    from vllm.multimodal.processing.dummy_inputs import use_warmup_sizes

    size = SimpleNamespace(width=4032, height=448)
    info = SimpleNamespace(
        get_image_size_with_most_features=lambda: iter((448, 4032)),
        get_video_frame_size_with_most_features=lambda: iter((size.width, size.height)),
        get_num_frames_with_most_features=lambda *_: 64,
    )
    builder = MiniCPMVDummyInputsBuilder(info)
    mm_counts = {"image": 1, "video": 1}
    mm_options = {"video": VideoDummyOptions(**video)} if video else {}
    with use_warmup_sizes(8192, mm_counts, mm_options) as options:
        data = builder.get_dummy_mm_data(8192, mm_counts, options)
    assert data["image"][0].size == (378, 756)
    assert [frame.size for frame in data["video"][0]] == [(video.get("width", 756), 378)] * 2


def test_vision_chunks_are_limited() -> None:
    from vllm.model_executor.models.kimi_k25 import KimiK25DummyInputsBuilder
    from vllm.multimodal.processing.dummy_inputs import use_warmup_sizes

    info = SimpleNamespace(
        image_processor=SimpleNamespace(num_frames_per_chunk=4),
        media_tokens_calculator=lambda item: len(item.get("video_chunk", [0])),
    )
    builder = KimiK25DummyInputsBuilder(info)
    with use_warmup_sizes(8192, {"vision_chunk": 1}, {}) as options:
        (item,) = builder.get_dummy_mm_data(8192, {"vision_chunk": 1}, options)["vision_chunk"]
    assert [frame.size for frame in item["video_chunk"]] == [WIDE] * 4


def test_video_metadata_describes_the_video_that_was_built() -> None:
    from vllm.config.multimodal import VideoDummyOptions
    from vllm.model_executor.models.molmo2 import Molmo2DummyInputsBuilder
    from vllm.multimodal.processing.dummy_inputs import use_warmup_sizes

    builder = Molmo2DummyInputsBuilder(SimpleNamespace())
    options = {"video": VideoDummyOptions(width=300, height=200)}
    with use_warmup_sizes(8192, {"video": 1}, options):
        ((video, metadata),) = builder._get_dummy_videos(
            width=378, height=378, num_frames=8, num_videos=1
        )
    expected = (metadata["total_num_frames"], metadata["height"], metadata["width"])
    assert video.shape[:3] == expected == (2, 300, 200)


HELPERS = {"_get_dummy_audios", "_get_dummy_images", "_get_dummy_videos"}
BUILDERS_WITHOUT_HELPERS = {
    "TerratorchInputBuilder": "tensors of the one size that its configuration names",
}
"""This list may only become shorter."""


def test_every_builder_uses_the_helpers_that_limit_sizes() -> None:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations
    (root,) = spec.submodule_search_locations
    offenders, builders = set(), 0
    for folder in ("model_executor/models", "models"):
        for path in sorted((Path(root) / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "def get_dummy_mm_data" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef) and _builds_items(node):
                    builders += 1
                    if not _uses_helpers(node):
                        offenders.add(node.name)
    assert builders >= 80
    assert offenders == set(BUILDERS_WITHOUT_HELPERS)


def _builds_items(node: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.FunctionDef) and n.name == "get_dummy_mm_data" for n in node.body)


def _uses_helpers(node: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in HELPERS for n in ast.walk(node))


def test_helpers_that_models_override_end_in_the_base_helper() -> None:
    """An override that made its own array would not be limited."""
    from vllm.multimodal.processing import BaseDummyInputsBuilder, dummy_inputs

    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations
    (root,) = spec.submodule_search_locations
    own = Path(dummy_inputs.__file__)
    seen = 0
    for path in sorted(Path(root).rglob("*.py")):
        if path == own or "def _get_dummy_" not in (source := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name in HELPERS:
                seen += 1
                assert f"super().{node.name}(" in ast.unparse(node), path
    assert seen >= 7
    assert all(hasattr(BaseDummyInputsBuilder, helper) for helper in HELPERS)


def test_sizes_are_in_force_only_inside_the_context() -> None:
    from vllm.multimodal.processing.dummy_inputs import use_warmup_sizes

    class Builder:
        from vllm.multimodal.processing import BaseDummyInputsBuilder as Base

        _get_dummy_images = Base._get_dummy_images

        def width(self) -> int:
            (image,) = self._get_dummy_images(width=4096, height=4096, num_images=1)
            return int(image.size[0])

    async def concurrently() -> list[int]:
        entered, done = asyncio.Event(), asyncio.Event()

        async def warming() -> int:
            with use_warmup_sizes(8192, {"image": 1}, {}):
                entered.set()
                await done.wait()
                return Builder().width()

        async def profiling() -> int:
            await entered.wait()
            width = Builder().width()
            done.set()
            return width

        return list(await asyncio.gather(warming(), profiling()))

    assert asyncio.run(concurrently()) == [756, 4096]

    with pytest.raises(ZeroDivisionError), use_warmup_sizes(8192, {"image": 1}, {}):
        raise ZeroDivisionError
    assert Builder().width() == 4096


# What warmup skips


@pytest.mark.parametrize(
    "options", [{"language_model_only": True}, {"limit_mm_per_prompt": {"image": 0, "video": 0}}]
)
def test_without_modalities_there_is_no_processor(
    make_renderer: MakeRenderer, vllm_log: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    renderer = make_renderer("qwen3_vl", **options)
    assert renderer.mm_processor is None
    vllm_log.clear()
    warm_up(renderer)
    assert warnings_of(vllm_log) == []


def test_with_embeddings_only_no_processor_runs(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    vllm_log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"image": 0, "video": 0}
    renderer = make_renderer("qwen3_vl", limit_mm_per_prompt=limits, enable_mm_embeds=True)
    recorder = record(renderer)
    builder = renderer.mm_processor.dummy_inputs
    monkeypatch.setattr(builder, "get_dummy_text", None)  # nothing calls it
    vllm_log.clear()
    warm_up(renderer)
    assert recorder.sizes == []
    assert recorder.tokens == []
    messages = [record.getMessage() for record in vllm_log.records]
    assert "Multi-modal warmup skipped: no modality is enabled" in messages
    assert not any("warmup completed" in message for message in messages if "modal" in message)
    assert warnings_of(vllm_log) == []


@pytest.mark.parametrize("bounded", [False, True])
def test_only_small_items_can_be_none(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    bounded: bool,
) -> None:
    """What bounds the length of the prompt says nothing about its items."""
    from vllm.multimodal import MULTIMODAL_REGISTRY

    renderer = make_renderer("llava", max_model_len=4096)
    recorder = record(renderer)
    config = renderer.config.scheduler_config if bounded else None
    build = partial(
        MULTIMODAL_REGISTRY.get_dummy_mm_inputs,
        renderer.model_config,
        processor=renderer.mm_processor,
        scheduler_config=config,
    )

    assert len(build({})["prompt_token_ids"]) == 4096
    assert (recorder.sizes, recorder.tokens) == ([{}], [{}])

    inputs = build({}, small_items=True)
    assert inputs["prompt_token_ids"] == []
    assert dict(inputs["mm_kwargs"]) == inputs["mm_hashes"] == inputs["mm_placeholders"] == {}
    assert (recorder.sizes, recorder.tokens) == ([{}], [{}])

    build({"image": 1})
    build({"image": 1}, small_items=True)
    assert recorder.sizes[1:] == [{"image": (336, 336)}, {"image": (336, 168)}]


def test_a_text_only_model_warms_up(
    make_renderer: MakeRenderer, vllm_log: pytest.LogCaptureFixture
) -> None:
    renderer = make_renderer("llama")
    assert renderer.mm_processor is None
    vllm_log.clear()
    warm_up(renderer)
    assert warnings_of(vllm_log) == []


def test_each_processor_runs_once_and_its_cache_is_cleared(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    renderer = make_renderer("llava")
    assert renderer._readonly_mm_processor is not None
    recorder = record(renderer)
    warm_up(renderer)
    assert (len(recorder.tokens), recorder.cleared) == (2, 2)


def test_a_shared_processor_runs_once(
    make_renderer: MakeRenderer, record: Callable[[BaseRenderer[Any]], Recorder]
) -> None:
    renderer = make_renderer("llava")
    renderer._readonly_mm_processor = renderer.mm_processor
    recorder = record(renderer)
    warm_up(renderer)
    assert (len(recorder.tokens), recorder.cleared) == (1, 1)


# What a failed warmup leaves


FAILURES = "vllm:mm_warmup_failures_total"


def failures(renderer: BaseRenderer[Any]) -> float | None:
    """The counter as an operator sees it on /metrics."""
    from prometheus_client import generate_latest
    from prometheus_client.parser import text_string_to_metric_families
    from vllm.v1.metrics.prometheus import get_prometheus_registry

    labels = {"model_name": renderer.model_config.served_model_name}
    page = generate_latest(get_prometheus_registry()).decode()
    values = [
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == FAILURES and sample.labels == labels
    ]
    return values[0] if values else None


def break_processors(renderer: BaseRenderer[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise LookupError("no such tile")

    for processor in (renderer.mm_processor, renderer._readonly_mm_processor):
        assert processor is not None
        monkeypatch.setattr(processor, "apply", fail)


def test_a_failed_warmup_is_logged_with_its_traceback_and_counted(
    make_renderer: MakeRenderer,
    record: Callable[[BaseRenderer[Any]], Recorder],
    monkeypatch: pytest.MonkeyPatch,
    vllm_log: pytest.LogCaptureFixture,
) -> None:
    from vllm.v1.metrics.prometheus import unregister_vllm_metrics

    renderer = make_renderer("llava", served_model_name="failing")
    warm_up(renderer)
    assert failures(renderer) == 0

    recorder = record(renderer)
    break_processors(renderer, monkeypatch)
    vllm_log.clear()
    warm_up(renderer)
    failed = [r for r in vllm_log.records if r.levelno >= logging.WARNING]
    assert [r.getMessage() for r in failed] == [
        "Multi-modal warmup failed",
        "Readonly multi-modal warmup failed",
    ]
    for line in failed:
        assert line.exc_info
        assert isinstance(line.exc_info[1], LookupError)
    assert failures(renderer) == 2
    assert recorder.cleared == 2, "caches are cleared after a failure, too"

    # Creating an engine in the same process does this.
    unregister_vllm_metrics()
    assert failures(renderer) is None
    warm_up(renderer)
    assert failures(renderer) == 4


def test_what_cannot_be_counted_is_no_reason_not_to_start(
    make_renderer: MakeRenderer, tmp_path: Path
) -> None:
    """`PROMETHEUS_MULTIPROC_DIR` names a folder that is gone; prometheus reads it on import."""
    renderer = make_renderer("llava")
    program = f"""
from tests.support.models import inspected_in_this_process
from tests.support.renderers import make_renderer
from vllm.renderers.params import ChatParams

with inspected_in_this_process():
    make_renderer({renderer.model_config.model!r}).warmup(ChatParams())
"""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "gone"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "Cannot count failed multi-modal warmups" in ended.stdout
    assert "FileNotFoundError" in ended.stdout


def test_each_model_has_its_own_count(
    make_renderer: MakeRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = make_renderer("llava", served_model_name="broken")
    break_processors(broken, monkeypatch)
    sound = make_renderer("llava", served_model_name="sound")
    warm_up(broken)
    warm_up(sound)
    assert (failures(broken), failures(sound)) == (2, 0)
