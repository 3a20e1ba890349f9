"""Whatever reads an option beside the budgets reads the scope of its modality."""

# ruff: noqa: ANN401 (options are what vLLM takes)

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.regression.conftest import MakeRenderer
from tests.support import renderers
from tests.support.mm_requests import ask, budgets, image, video
from tests.support.names import unknown_names, unused_imports
from tests.support.placement import tree

Kwargs = dict[str, Any]
SMALL = {"shortest_edge": 3136, "longest_edge": 100352}
AUDIO_IN_VIDEO: list[Kwargs] = [
    {"use_audio_in_video": True},
    {"videos_kwargs": {"use_audio_in_video": True}},
]


def silence() -> Any:
    import numpy as np

    return np.zeros(32000, dtype=np.float32)


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni"])
@pytest.mark.parametrize("given", ["at start", "with the request"])
def test_omni_models_size_each_modality_by_its_scope(
    make_renderer: MakeRenderer, name: str, given: str
) -> None:
    items = {"image": image(800, 600), "video": video(4, 640, 480)}
    plain = make_renderer(name, mm_processor_cache_gb=0)
    plain_budgets, plain_tokens = budgets(plain, image=1, video=1), ask(plain, items).tokens

    for scope, own, other in (
        ("images_kwargs", "image", "video"),
        ("videos_kwargs", "video", "image"),
    ):
        kwargs = {scope: {"size": SMALL}}
        at_start, request = (kwargs, None) if given == "at start" else (None, kwargs)
        renderer = make_renderer(name, mm_processor_kwargs=at_start, mm_processor_cache_gb=0)
        tokens = ask(renderer, items, request).tokens
        assert tokens[own] < plain_tokens[own]
        assert tokens[other] == plain_tokens[other]
        if given == "at start":
            found = budgets(renderer, image=1, video=1)
            assert tokens[own] <= found[own] < plain_budgets[own]
            assert found[other] == plain_budgets[other]


def test_a_video_leaves_the_least_size_of_the_image_beside_it_alone(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoint("qwen2_5_omni"), tmp_path / "omni")
    files = [folder / f"{kind}preprocessor_config.json" for kind in ("", "video_")]
    config = json.loads(files[0].read_text())
    config["size"]["shortest_edge"] = 100352
    files[1].write_text(json.dumps(config | {"video_processor_type": "Qwen2VLVideoProcessor"}))
    renderer = renderers.make_renderer(folder, mm_processor_cache_gb=0)
    items = {"image": image(56, 56), "video": video(4, 56, 56)}

    beside = ask(renderer, items, {"max_pixels": 200704}).tokens

    assert beside["video"] > beside["image"] == 4


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni"])
def test_audio_in_video_may_be_asked_for_in_its_scope(
    make_renderer: MakeRenderer, name: str
) -> None:
    renderer = make_renderer(name, mm_processor_cache_gb=0)
    items = {"video": video(4, 64, 64), "audio": silence()}

    flat, scoped = (ask(renderer, items, kwargs, in_prompt=["video"]) for kwargs in AUDIO_IN_VIDEO)

    assert scoped.tokens == flat.tokens
    assert bool(scoped.data["video"]["use_audio_in_video"])
    assert not bool(ask(renderer, items).data["video"]["use_audio_in_video"])
    frames = video(4, 64, 64)
    processor = renderer.get_mm_processor()
    for kwargs in AUDIO_IN_VIDEO:
        with pytest.raises(ValueError, match="Video doesn't have audio track"):
            ask(renderer, {"video": frames}, kwargs)
        with pytest.raises(ValueError, match="Video doesn't have audio track"):
            processor._call_hf_processor("", {"videos": [frames[0]]}, kwargs, {})


def test_long_audio_is_truncated_by_its_scope(make_renderer: MakeRenderer) -> None:
    renderer = make_renderer("qwen3_omni", mm_processor_cache_gb=0)
    audio = silence().repeat(16)  # 32 seconds, of which the model hears 30

    whole, flat, scoped = (
        ask(renderer, {"audio": audio}, kwargs).tokens["audio"]
        for kwargs in ({}, {"truncation": True}, {"audio_kwargs": {"truncation": True}})
    )

    assert scoped == flat < whole


@pytest.mark.parametrize("kwargs", AUDIO_IN_VIDEO)
@pytest.mark.parametrize("parser", ["MultiModalContentParser", "AsyncMultiModalContentParser"])
def test_chat_fetches_the_audio_of_a_video(parser: str, kwargs: Kwargs) -> None:
    from vllm.entrypoints import chat_utils

    tracker = mock.MagicMock()
    parse = getattr(chat_utils, parser)(tracker, mm_processor_kwargs=kwargs)
    parse.__dict__["_connector"] = mock.MagicMock()

    parse.parse_video("file:///video.mp4")

    assert [call.args[0] for call in tracker.add.call_args_list] == ["video", "audio"]


def test_processors_of_one_modality_are_made_with_its_scope(make_renderer: MakeRenderer) -> None:
    from vllm.transformers_utils import processor

    config = make_renderer(
        "qwen3_vl",
        mm_processor_kwargs={
            "image_mean": [0.0, 0.0, 0.0],
            "images_kwargs": {"size": SMALL},
            "videos_kwargs": {"image_mean": [0.1, 0.1, 0.1]},
        },
    ).model_config

    images = processor.cached_image_processor_from_config(config)
    videos = processor.cached_video_processor_from_config(config)

    assert dict(images.size) == SMALL
    assert dict(videos.size) == {"shortest_edge": 4096, "longest_edge": 25165824}
    assert list(images.image_mean) == [0.0, 0.0, 0.0]
    assert list(videos.image_mean) == [0.1, 0.1, 0.1]
    assert not hasattr(images, "videos_kwargs")


def test_the_feature_extractor_is_made_with_the_audio_scope(make_renderer: MakeRenderer) -> None:
    from vllm.transformers_utils.processor import cached_feature_extractor_from_config

    kwargs = {"chunk_length": 20, "audio_kwargs": {"chunk_length": 10}}
    config = make_renderer("qwen2_audio", mm_processor_kwargs=kwargs).model_config

    assert cached_feature_extractor_from_config(config).chunk_length == 10


@pytest.mark.parametrize("keys", [{"size": SMALL}, {"min_pixels": 3136, "max_pixels": 100352}])
def test_cosmos_scales_images_by_the_size_it_is_called_with(keys: Kwargs) -> None:
    """An heir of Qwen3-VL whose image processor is vLLM's own."""
    from vllm.transformers_utils.processors.cosmos3_edge import Cosmos3EdgeImageProcessor

    processor = Cosmos3EdgeImageProcessor(
        size={"shortest_edge": 65536, "longest_edge": 16777216}, merge_size=2, patch_size=16
    )

    grid = processor(image(800, 600), return_tensors="pt", **keys)["image_grid_thw"][0]

    assert int(grid.prod()) * 16 * 16 <= 100352


@pytest.mark.parametrize("folder", ["model_executor/models", "multimodal", "transformers_utils"])
def test_no_reader_uses_a_name_that_it_lacks(folder: str) -> None:
    """Also where nothing runs it here."""
    assert unknown_names(tree() / folder) == []


@pytest.mark.parametrize("folder", ["model_executor/models", "multimodal"])
def test_no_reader_imports_a_name_that_it_does_not_use(folder: str) -> None:
    assert unused_imports(tree() / folder) == []
