"""Models whose checkpoints need remote code size their items by their own options, too."""

# ruff: noqa: ANN401 (infos and options are what vLLM takes)

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.mm_infos import make_info
from tests.support.mm_requests import image

Kwargs = dict[str, Any]
Checkpoint = Callable[[str], Path]

SCOPES = {"image": "images_kwargs", "video": "videos_kwargs"}


def edges(shortest: int, longest: int) -> Kwargs:
    return {"size": {"shortest_edge": shortest, "longest_edge": longest}}


TILED: Mapping[str, Kwargs] = {
    "eagle2_5_vl:Eagle2_5_VLProcessingInfo": {"force_image_size": None},
    "h2ovl:H2OVLProcessingInfo": {"use_msac": False},
    "internvl:InternVLProcessingInfo": {},
    "nemotron_vl:LlamaNemotronVLEmbedProcessingInfo": {"force_image_size": 448},
    "nemotron_vl:NemotronVLProcessingInfo": {},
    "nvlm_d:NVLMProcessingInfo": {},
    "skyworkr1v:SkyworkR1VProcessingInfo": {},
}
"""Models that cut images as InternVL does, and what else their configuration holds."""


@pytest.fixture
def tiled_info(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Kwargs | None], Any]:
    from transformers import Qwen2Config
    from vllm.model_executor.models import nemotron_vl

    def image_processor(_config: Any, *, max_num_tiles: int = 12, **_: Any) -> Any:
        return SimpleNamespace(image_size=448, max_num_tiles=max_num_tiles, use_thumbnail=True)

    monkeypatch.setattr(nemotron_vl, "cached_image_processor_from_config", image_processor)
    monkeypatch.setattr(nemotron_vl, "get_hf_file_to_dict", lambda *_: {})
    config = {
        "vision_config": SimpleNamespace(image_size=448, patch_size=14),
        "text_config": Qwen2Config(),
        "downsample_ratio": 0.5,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": 12,
        "dynamic_image_size": True,
        "use_thumbnail": True,
    }

    def make_tiled(family: str, kwargs: Kwargs | None) -> Any:
        # Its tokenizer has the token by which InternVL tells that it takes videos.
        return make_info(family, {**config, **TILED[family]}, checkpoint("qwen3_vl"), kwargs)

    return make_tiled


def tiled_tokens(info: Any, request: Kwargs) -> int:
    processor = info.get_hf_processor(**request)
    output = info.ctx.call_hf_processor(processor, {"images": [image(1344, 1344)]}, request)
    return int(output["image_num_patches"][0]) * processor.image_seq_length


@pytest.mark.parametrize("family", TILED)
def test_models_that_tile_images(tiled_info: Callable[..., Any], family: str) -> None:
    key = "max_num_tiles" if family.endswith(":NemotronVLProcessingInfo") else "max_dynamic_patch"
    four = {"images_kwargs": {key: 4}}
    forms: list[tuple[Kwargs, Kwargs]] = [
        (four, {}),
        ({key: 4}, {}),
        ({key: 2, **four}, {}),
        ({}, four),
        ({}, {key: 4}),
        ({key: 2}, four),
        (four, {key: 2}),
    ]
    plain = tiled_info(family, None)
    assert plain.get_max_image_tokens() == 13 * 256
    assert 5 * 256 < tiled_tokens(plain, {}) <= 13 * 256
    for start, request in forms:
        info = tiled_info(family, start)

        if not request:
            assert info.get_max_image_tokens() == 5 * 256
        assert (start, request, tiled_tokens(info, request)) == (start, request, 5 * 256)


def test_options_of_a_video_leave_the_image_beside_it_alone(
    tiled_info: Callable[..., Any],
) -> None:
    """The processor is called once for both, and its call has options of images alone."""
    import numpy as np

    request = {"videos_kwargs": {"max_dynamic_patch": 1}}
    info = tiled_info("internvl:InternVLProcessingInfo", None)
    processor = info.get_hf_processor(**request)
    pictures = {"images": [image(1344, 1344)]}
    clip = {"videos": [np.zeros((2, 448, 448, 3), np.uint8)]}

    for data in ({"text": "<image>", **pictures}, {"text": "<image><video>", **pictures, **clip}):
        output = info.ctx.call_hf_processor(processor, data, request)
        assert int(output["image_num_patches"][0]) == tiled_tokens(info, {}) // 256


def test_tiles_of_an_image_leave_room_for_as_many_frames(tiled_info: Callable[..., Any]) -> None:
    def frames(kwargs: Kwargs | None) -> int:
        info = tiled_info("internvl:InternVLProcessingInfo", kwargs)
        return int(info.get_num_frames_with_most_features(8192, {"image": 1, "video": 1}))

    assert frames({"images_kwargs": {"max_dynamic_patch": 4}}) == frames(None) == 19
    assert frames({"videos_kwargs": {"max_dynamic_patch": 4}}) == frames({"max_dynamic_patch": 4})


ERNIE = "ernie45_vl:Ernie4_5_VLProcessingInfo"
KEYE = "keye:KeyeProcessingInfo"
MIMO = "mimo_v2_omni:MiMoV2OmniProcessingInfo"
SMALL, LARGE = edges(3136, 784 * 64), edges(3136, 784 * 1024)
PIXELS: Mapping[str, tuple[Kwargs, Kwargs]] = {
    ERNIE: (SMALL, LARGE),
    KEYE: (
        {"size": {"min_pixels": 3136, "max_pixels": 784 * 64}},
        {"size": {"min_pixels": 3136, "max_pixels": 784 * 1024}},
    ),
    MIMO: (SMALL, LARGE),
}
"""Small options, and large ones that are also the processor's own size.

The processors of the first two are remote code, so there is nothing to ask.
"""


@pytest.fixture
def pixel_info(checkpoint: Checkpoint) -> Callable[[str, Kwargs | None], Any]:
    from vllm.transformers_utils.configs.mimo_v2_omni import Mimo_VLVisionConfig

    tokenizer = checkpoint("qwen3_vl")
    tokens = ["image", "video", "audio", "vision_start", "vision_end", "video_start", "video_end"]

    def make_pixels(family: str, kwargs: Kwargs | None) -> Any:
        if family == MIMO:
            config = {
                "vision_config": Mimo_VLVisionConfig(patch_size=14, tokens_per_second=1),
                "processor_config": {
                    "image_max_pixels": 784 * 1024,
                    "video_max_pixels": 784 * 1024,
                    **{f"{token}_token_id": i for i, token in enumerate(tokens)},
                },
            }
            return make_info(family, config, tokenizer, kwargs)
        own = SimpleNamespace(size=PIXELS[family][1]["size"])
        vision = SimpleNamespace(patch_size=14, spatial_merge_size=2)
        config = {"vision_config": vision, "spatial_conv_size": 2, "temporal_conv_size": 2}
        override = {"get_image_processor": lambda _, **__: own}
        return make_info(family, config, tokenizer, kwargs, **override)

    return make_pixels


def pixel_budgets(info: Any) -> dict[str, int]:
    return dict(info.get_mm_max_tokens_per_item(4096, {"image": 1, "video": 1}))


def dummy_areas(info: Any) -> dict[str, int]:
    """Pixels of the image and of a frame that profiling runs."""
    from vllm.model_executor.models import ernie45_vl, keye, mimo_v2_omni

    builders: list[Any] = [
        ernie45_vl.Ernie4_5_VLDummyInputsBuilder,
        keye.KeyeDummyInputsBuilder,
        mimo_v2_omni.MiMoV2OmniDummyInputsBuilder,
    ]
    (builder,) = (b for b in builders if b.__module__ == type(info).__mro__[1].__module__)
    data = builder(info).get_dummy_mm_data(4096, {"image": 1, "video": 1}, {})
    frames = data["video"][0]
    frames = frames[0] if isinstance(frames, tuple) else frames
    width, height = data["image"][0].size
    return {"image": width * height, "video": frames.shape[1] * frames.shape[2]}


@pytest.mark.parametrize("family", PIXELS)
@pytest.mark.parametrize("modality", ["image", "video"])
def test_models_that_size_by_pixels(
    pixel_info: Callable[..., Any], family: str, modality: str
) -> None:
    small, large = PIXELS[family]
    other = "video" if modality == "image" else "image"
    plain = pixel_info(family, None)
    shared = pixel_info(family, small)
    own = pixel_info(family, {SCOPES[modality]: small})
    own_over_flat = pixel_info(family, {**small, SCOPES[modality]: large})

    for measured in (pixel_budgets, dummy_areas):
        assert measured(own)[modality] == measured(shared)[modality] != measured(plain)[modality]
        assert measured(own)[other] == measured(plain)[other]
        assert measured(own_over_flat)[modality] == measured(plain)[modality]
        assert measured(own_over_flat)[other] == measured(shared)[other]


def test_an_image_does_not_crowd_out_the_frames(pixel_info: Callable[..., Any]) -> None:
    """Large images of their own scope used to leave no room for a video at all."""
    huge = {"images_kwargs": edges(3136, 784 * 4096)}
    assert pixel_budgets(pixel_info(ERNIE, huge))["video"] > 0
    for family in (ERNIE, KEYE):
        small, _ = PIXELS[family]
        images = pixel_info(family, {"images_kwargs": small})
        assert (
            images.for_modality("video").get_max_image_tokens()
            == pixel_info(family, None).get_max_image_tokens()
        )


def test_small_images_make_no_room_for_frames(pixel_info: Callable[..., Any]) -> None:
    """4300 tokens are an image of 1024 and three pairs of frames, or a small one and four."""
    small, _ = PIXELS[KEYE]
    plain, images = (
        pixel_info(KEYE, given).for_modality("video").get_num_frames_with_most_features(4300)
        for given in (None, {"images_kwargs": small})
    )

    assert images == plain


@pytest.mark.parametrize("at_start", [True, False])
def test_the_pixels_of_mimo_reach_its_processor(
    pixel_info: Callable[..., Any], at_start: bool
) -> None:
    import torch

    given = {"images_kwargs": {"max_pixels": 784 * 16}, "videos_kwargs": {"max_pixels": 784 * 4}}
    info = pixel_info(MIMO, given if at_start else None)
    processor = info.get_hf_processor(**({} if at_start else given))

    def patches(data: Any, key: str) -> int:
        text = "<|vision_start|><|" + key + "_pad|><|vision_end|>"
        output = processor(text=text, return_tensors="pt", **data)
        return int(output[f"{key}_grid_thw"].prod())

    frames = torch.zeros(2, 3, 560, 560), torch.arange(2) / 2
    assert patches({"images": [image(560, 560)]}, "image") == 64
    assert patches({"videos": [frames]}, "video") == 16


MOSS = "moss_audio:MossAudioProcessingInfo"


def test_audio_options_of_moss(checkpoint: Checkpoint) -> None:
    import numpy as np
    from vllm.model_executor.models.moss_audio import (
        MossAudioDummyInputsBuilder,
        MossAudioMultiModalProcessor,
    )

    def hop(length: int) -> Kwargs:
        return {"mel_config": {"mel_hop_length": length}}

    def make_moss(kwargs: Kwargs | None) -> Any:
        no_file = {"_get_processor_config_defaults": lambda _: {}}
        return make_info(MOSS, {}, checkpoint("qwen2_audio"), kwargs, **no_file)

    def budget(info: Any) -> int:
        return int(info.get_mm_max_tokens_per_item(8192, {"audio": 1})["audio"])

    def frames(info: Any, request: Kwargs) -> int:
        processor = MossAudioMultiModalProcessor(info, MossAudioDummyInputsBuilder(info))
        audio = {"audios": [np.zeros(16000, np.float32)]}
        output = processor._call_hf_processor("", audio, request, {})
        return int(output["audio_data_seqlens"][0])

    plain, scope = make_moss(None), {"audio_kwargs": hop(320)}
    assert (budget(plain), budget(make_moss(scope))) == (375, 188)
    assert frames(plain, {}) == 100
    for start, request in [
        (scope, {}),
        (hop(320), {}),
        ({**hop(640), **scope}, {}),
        ({}, scope),
        ({}, {**hop(640), **scope}),
        (scope, hop(640)),
        (hop(640), scope),
    ]:
        assert (start, request, frames(make_moss(start), request)) == (start, request, 50)


NANO = "nano_nemotron_vl:NanoNemotronVLProcessingInfo"


def test_tiles_of_nano_nemotron(checkpoint: Checkpoint) -> None:
    config = {
        "force_image_size": 448,
        "patch_size": 14,
        "downsample_ratio": 0.5,
        "use_thumbnail": True,
        "norm_mean": [0.5] * 3,
        "norm_std": [0.5] * 3,
        "vision_config": SimpleNamespace(args={}),
    }
    plain = make_info(NANO, config, checkpoint("qianfan_ocr"))
    four = {"images_kwargs": {"max_num_tiles": 4}}
    assert plain.get_max_image_tokens() == 13 * 256
    for start, request in [
        (four, {}),
        ({"max_num_tiles": 4}, {}),
        ({"max_num_tiles": 2, **four}, {}),
        ({}, four),
        ({"max_num_tiles": 2}, four),
        (four, {"max_num_tiles": 2}),
    ]:
        info = make_info(NANO, config, checkpoint("qianfan_ocr"), start)
        output = info.ctx.call_hf_processor(
            info.get_hf_processor(**request),
            {"text": "<image>", "images": [image(1344, 1344)]},
            request,
        )

        assert (start, request, int(output["image_num_patches"][0])) == (start, request, 5)
        if not request:
            assert info.get_max_image_tokens() == 5 * 256


def test_frames_of_minicpmv_keep_their_slices() -> None:
    """They go through the image processor, which would take the options of images."""
    import numpy as np
    from vllm.model_executor.models import minicpmv
    from vllm.multimodal.parse import MultiModalDataParser

    given: list[Kwargs] = []

    def call(**kwargs: Any) -> Kwargs:
        given.append(kwargs["mm_kwargs"])
        return {}

    parser = MultiModalDataParser()
    info = SimpleNamespace(
        parse_mm_data=lambda data, **_: parser.parse_mm_data(data),
        get_video_max_slice_num=lambda: 1,
        image_pattern="",
    )
    request = {"images_kwargs": {"max_slice_nums": 9, "scale_resolution": 1}}
    minicpmv.MiniCPMVMultiModalProcessor.process_videos(
        SimpleNamespace(info=info, _base_call_hf_processor=call),  # type: ignore[arg-type]
        {"videos": [np.zeros((2, 4, 4, 3), np.uint8)]},
        request,
        {},
    )
    assert given == [{"images_kwargs": {"max_slice_nums": 1}}]


def test_minicpmv_4_6_calls_its_image_processor_without_scopes() -> None:
    import torch
    from vllm.model_executor.models import minicpmv4_6
    from vllm.multimodal.parse import MultiModalDataParser

    given: list[Kwargs] = []

    class ImageProcessor:
        patch_size = 14

        def __call__(self, _images: Any, **options: Any) -> Any:
            given.append(options)
            return {
                "pixel_values": torch.zeros(1, 3, 14, 14),
                "target_sizes": torch.ones(1, 2, dtype=torch.long),
            }

    parser = MultiModalDataParser()
    config = SimpleNamespace(insert_layer_id=-1)
    scopes = {"image": {"max_slice_nums": 4}, "video": {"scale_resolution": 1}}
    info = SimpleNamespace(
        parse_mm_data=lambda data, **_: parser.parse_mm_data(data),
        get_image_processor=ImageProcessor,
        get_video_max_slice_num=lambda: 1,
        get_hf_config=lambda: config,
        ctx=SimpleNamespace(get_merged_mm_kwargs=lambda _, modality: scopes[modality]),
    )
    processor: Any = SimpleNamespace(info=info, _resolve_downsample_mode=lambda _: "4x")
    request = {SCOPES[m]: options for m, options in scopes.items()}
    cls = minicpmv4_6.MiniCPMV4_6MultiModalProcessor
    cls.process_images(processor, {"images": [image(14, 14)]}, request, {})
    cls.process_videos(processor, {"videos": [[image(14, 14)]]}, request, {})
    assert given == [{"max_slice_nums": 4}, {"scale_resolution": 1, "max_slice_nums": 1}]


def test_the_image_processor_of_minicpmv_takes_the_image_scope(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.model_executor.models import minicpmv
    from vllm.transformers_utils.processors import minicpmv as vendored

    class ImageProcessor:
        def __init__(self, **_: Any) -> None: ...

    given: list[Kwargs] = []
    monkeypatch.setattr(
        minicpmv, "cached_get_image_processor", lambda *_, **kwargs: given.append(kwargs)
    )
    monkeypatch.setattr(vendored, "MiniCPMVProcessor", lambda **_: None)
    info = make_info(
        "minicpmv:MiniCPMVProcessingInfo",
        {},
        checkpoint("qwen3_vl"),
        {"max_slice_nums": 9, "images_kwargs": {"max_slice_nums": 4}, "videos_kwargs": {"a": 1}},
        _image_processor_cls=ImageProcessor,
        get_model_version=lambda _: (4, 5),
    )
    info.get_hf_processor()
    assert [g["max_slice_nums"] for g in given] == [4]
    assert not given[0].keys() & SCOPES.values()


def test_encoders_read_the_image_scope() -> None:
    """Where the model itself reads the start options, not its processor."""
    from vllm.model_executor.models.lfm2_vl import Lfm2VLForConditionalGeneration as Lfm2

    def lfm2(kwargs: Kwargs) -> int:
        model = SimpleNamespace(
            multimodal_config=SimpleNamespace(mm_processor_kwargs=kwargs), config=None
        )
        model._get_lfm2vl_mm_processor_kwargs = partial(
            Lfm2._get_lfm2vl_mm_processor_kwargs,
            model,  # type: ignore[arg-type]
        )
        return Lfm2._get_lfm2vl_min_image_tokens(model)  # type: ignore[arg-type]

    assert lfm2({"min_image_tokens": 32, "images_kwargs": {"min_image_tokens": 16}}) == 16
    assert lfm2({"videos_kwargs": {"min_image_tokens": 16}}) == 64


def test_one_image_processor_for_images_and_frames_takes_no_scope(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLaVA-OneVision 2 would size the frames of a video by the images' options."""
    from vllm.model_executor.models import llava_onevision2

    given: list[Kwargs] = []
    load = llava_onevision2._load_ov2_processor
    monkeypatch.setattr(load, "__wrapped__", None, raising=False)
    monkeypatch.setattr(
        llava_onevision2, "_load_ov2_processor", lambda *_, **kwargs: given.append(kwargs)
    )
    kwargs = {"max_pixels": 4, "images_kwargs": {"size": {"longest_edge": 8}}}
    family = "llava_onevision2:LlavaOnevision2ProcessingInfo"
    make_info(family, {}, checkpoint("qwen3_vl"), kwargs).get_hf_processor()
    assert given == [{"max_pixels": 4, "use_fast": True}]
