"""Each model sizes its items, and processes them, by the options of their modality."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.regression.conftest import MakeRenderer
from tests.support.mm_kwargs_reads import Read, unscoped_reads
from tests.support.mm_requests import ask, image, video

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

Kwargs = dict[str, Any]
Checkpoint = Callable[[str], Path]

SCOPES = {"image": "images_kwargs", "video": "videos_kwargs", "audio": "audio_kwargs"}
TALL = (900, 2700)


@dataclass(frozen=True)
class Case:
    """Options of one modality of a family, and what they make of it."""

    name: str
    modality: str
    options: Kwargs
    decoy: Kwargs
    """Other values of the same options, which are given flat to be beaten."""
    budget: tuple[int, int]
    """Tokens reserved for one item, without the options and with them."""
    tokens: tuple[int, int]
    """Tokens of the item, without the options and with them."""
    size: tuple[int, int] = (800, 600)
    """Width and height of the image."""

    @property
    def scoped(self) -> Kwargs:
        return {SCOPES[self.modality]: self.options}

    @property
    def forms(self) -> Mapping[str, Kwargs]:
        return {
            "scoped": self.scoped,
            "flat": self.options,
            "mixed": {**self.decoy, **self.scoped},
        }


def edges(shortest: int, longest: int) -> Kwargs:
    return {"size": {"shortest_edge": shortest, "longest_edge": longest}}


def one_tile(max_image_tokens: int) -> Kwargs:
    return {"min_tiles": 1, "max_tiles": 1, "max_image_tokens": max_image_tokens}


CASES = [
    Case(
        "cohere2_vision",
        "image",
        {"max_patches": 4},
        {"max_patches": 2},
        budget=(3328, 1280),
        tokens=(3328, 1280),
        size=(2048, 1536),
    ),
    Case(
        "cohere2_vision",
        "image",
        {"max_patches": 24},
        {"max_patches": 2},
        budget=(3328, 6400),
        tokens=(3328, 6400),
        size=(3072, 2048),
    ),
    Case(
        "gemma3",
        "image",
        {"do_pan_and_scan": True, "pan_and_scan_max_num_crops": 3},
        {"do_pan_and_scan": False, "pan_and_scan_max_num_crops": 2},
        budget=(256, 1024),
        tokens=(256, 1024),
        size=TALL,
    ),
    Case(
        "gemma4",
        "image",
        {"max_soft_tokens": 70},
        {"max_soft_tokens": 560},
        budget=(280, 70),
        tokens=(266, 63),
    ),
    Case(
        "glm4_1v",
        "image",
        edges(12544, 2408448),
        edges(12544, 4816896),
        budget=(6084, 1521),
        tokens=(5041, 1521),
        size=(2000, 2000),
    ),
    Case(
        "glm4_1v",
        "video",
        edges(12544, 100352),
        edges(12544, 47040000),
        budget=(6084, 300),
        tokens=(198, 48),
    ),
    Case(
        "hunyuan_vl",
        "image",
        edges(262144, 1048576),
        edges(262144, 524288),
        budget=(4354, 1154),
        tokens=(2438, 1047),
        size=TALL,
    ),
    Case(
        "hunyuan_vl",
        "image",
        edges(262144, 16777216),
        edges(262144, 524288),
        budget=(4354, 16898),
        tokens=(4354, 16898),
        size=(1024, 16384),
    ),
    Case(
        "idefics3",
        "image",
        {"size": {"longest_edge": 728}},
        {"size": {"longest_edge": 364}},
        budget=(2873, 845),
        tokens=(2197, 845),
    ),
    Case(
        "internvl",
        "image",
        {"max_patches": 4},
        {"max_patches": 2},
        budget=(3328, 1280),
        tokens=(3328, 1280),
    ),
    Case(
        "internvl",
        "image",
        {"max_patches": 24},
        {"max_patches": 2},
        budget=(3328, 6400),
        tokens=(1792, 6400),
        size=(3000, 2000),
    ),
    Case(
        "lfm2_vl",
        "image",
        one_tile(64),
        one_tile(128),
        budget=(256, 64),
        tokens=(256, 64),
        size=(500, 500),
    ),
    Case(
        "lfm2_vl",
        "image",
        one_tile(1024),
        one_tile(128),
        budget=(256, 1024),
        tokens=(256, 484),
        size=(700, 700),
    ),
    Case(
        "muse_glimmer",
        "image",
        {"max_image_tokens": 256},
        {"max_image_tokens": 64},
        budget=(4096, 256),
        tokens=(588, 252),
    ),
    Case(
        "muse_glimmer",
        "video",
        {"max_video_frame_tokens": 36},
        {"max_video_frame_tokens": 64},
        budget=(6912, 1728),
        tokens=(216, 70),
    ),
    Case(
        "paddleocr_vl",
        "image",
        {"max_pixels": 705600},
        {"max_pixels": 1411200},
        budget=(3600, 900),
        tokens=(3072, 867),
        size=TALL,
    ),
    Case(
        "paddleocr_vl",
        "image",
        {"size": {"longest_edge": 5644800}},
        {"size": {"longest_edge": 705600}},
        budget=(3600, 7140),
        tokens=(3600, 7056),
        size=(4000, 4000),
    ),
    Case(
        "qianfan_ocr",
        "image",
        {"max_dynamic_patch": 4},
        {"max_dynamic_patch": 2},
        budget=(3328, 1280),
        tokens=(3328, 1280),
    ),
    Case(
        "qwen2_audio",
        "audio",
        {"max_length": 16000},
        {"max_length": 32000},
        budget=(750, 750),
        tokens=(75, 25),
    ),
    Case(
        "transformers_backend",
        "image",
        {"max_patches": 4},
        {"max_patches": 2},
        budget=(1702, 852),
        tokens=(1702, 852),
        size=(2000, 2000),
    ),
]


def case_id(case: Case) -> str:
    return f"{case.name}-{case.modality}-{'-'.join(case.options)}"


@dataclass(frozen=True)
class Measured:
    """What a renderer reserves for items and makes of them, by modality."""

    reserved: Mapping[str, int]
    tokens: Mapping[str, int]
    hashes: Mapping[str, str]

    def without(self, modality: str) -> tuple[Mapping[str, int | str], ...]:
        return tuple(
            {m: value for m, value in of.items() if m != modality}
            for of in (self.reserved, self.tokens, self.hashes)
        )


def items_of(renderer: BaseRenderer[Any], case: Case) -> Kwargs:
    import numpy as np

    items = {
        "image": image(*case.size),
        "video": video(4, 320, 240),
        "audio": np.zeros(48000, np.float32),
    }
    return {m: items[m] for m in renderer.get_mm_processor().info.supported_mm_limits}


def reserved(renderer: BaseRenderer[Any]) -> dict[str, int]:
    """Tokens reserved for an item of each modality, as the engine computes them."""
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import get_mm_max_toks_per_item

    processor = renderer.get_mm_processor()
    counts = dict.fromkeys(processor.info.supported_mm_limits, 1)
    config = renderer.model_config
    return dict(get_mm_max_toks_per_item(config, MULTIMODAL_REGISTRY, processor, counts))


def measure(renderer: BaseRenderer[Any], case: Case, request: Kwargs | None = None) -> Measured:
    """Ask for each item alone, since some processors tell no modalities apart."""
    answers = {m: ask(renderer, {m: i}, request) for m, i in items_of(renderer, case).items()}
    return Measured(
        reserved(renderer),
        {m: a.tokens[m] for m, a in answers.items()},
        {m: a.hashes[m] for m, a in answers.items()},
    )


def make(make_renderer: MakeRenderer, name: str, kwargs: Kwargs | None) -> BaseRenderer[Any]:
    return make_renderer(
        name, max_model_len=8192, mm_processor_kwargs=kwargs, mm_processor_cache_gb=0
    )


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_options_given_at_start_hold_for_their_modality(
    make_renderer: MakeRenderer, case: Case
) -> None:
    plain = measure(make(make_renderer, case.name, None), case)
    assert (plain.reserved[case.modality], plain.tokens[case.modality]) == (
        case.budget[0],
        case.tokens[0],
    )
    for form, kwargs in case.forms.items():
        given = copy.deepcopy(kwargs)
        got = measure(make(make_renderer, case.name, kwargs), case)

        assert (form, got.reserved[case.modality]) == (form, case.budget[1])
        assert (form, got.tokens[case.modality]) == (form, case.tokens[1])
        assert got.tokens[case.modality] <= got.reserved[case.modality]
        if form == "scoped":
            assert got.without(case.modality) == plain.without(case.modality)
        assert kwargs == given


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_options_of_a_request_hold_for_their_modality(
    make_renderer: MakeRenderer, case: Case
) -> None:
    renderer = make(make_renderer, case.name, None)
    plain = measure(renderer, case)
    for form, kwargs in case.forms.items():
        got = measure(renderer, case, kwargs)

        assert (form, got.tokens[case.modality]) == (form, case.tokens[1])
        assert got.hashes[case.modality] != plain.hashes[case.modality]
        if form == "scoped":
            assert got.without(case.modality) == plain.without(case.modality)
    assert measure(renderer, case) == plain


def test_options_of_images_leave_the_frames_of_a_video_alone(make_renderer: MakeRenderer) -> None:
    """Gemma 4 processes frames as images, with a size of their own."""
    frames = {"video": video(4, 320, 240)}
    start = {"images_kwargs": {"max_soft_tokens": 560}, "max_soft_tokens": 280}
    plain = ask(make(make_renderer, "gemma4", None), frames)
    renderer = make(make_renderer, "gemma4", start)
    for request in (None, {"images_kwargs": {"max_soft_tokens": 1120}}):
        answer = ask(renderer, frames, request)
        assert (answer.tokens, answer.hashes) == (plain.tokens, plain.hashes)


def test_an_option_that_the_processor_ignores_leaves_the_budget(
    make_renderer: MakeRenderer,
) -> None:
    """GLM's processors know a size, but no pixels."""
    renderer = make(make_renderer, "glm4_1v", {"max_pixels": 50176})
    assert reserved(renderer) == reserved(make(make_renderer, "glm4_1v", None))
    assert ask(renderer, {"image": image(800, 600)}).tokens["image"] == 609


def test_a_flat_size_of_a_request_reaches_both_processors(make_renderer: MakeRenderer) -> None:
    """InternS1 makes its video processor itself, with the size of the images."""
    renderer = make(make_renderer, "internvl", None)
    items = {"image": image(448, 448), "video": video(2, 320, 240)}
    size = {"size": {"height": 448, "width": 448}}
    assert ask(renderer, items, size).tokens == ask(renderer, items).tokens


def test_counting_tokens_leaves_the_defaults_of_the_processor_alone(
    make_renderer: MakeRenderer,
) -> None:
    """Aya's counts with its options; Transformers keeps them in the defaults of the class."""
    renderer = make(make_renderer, "transformers_backend", None)
    before = ask(renderer, {"image": image(2000, 1500)})
    ask(renderer, {"image": image(2000, 1500)}, {"max_patches": 2})
    assert ask(renderer, {"image": image(2000, 1500)}).tokens == before.tokens


def given_in_each_form(options: Kwargs) -> list[tuple[Kwargs, Kwargs]]:
    scoped = {"images_kwargs": options}
    return [(options, {}), (scoped, {}), ({}, options), ({}, scoped)]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({"size": {"shortest_edge": 3136, "longest_edge": 200704}}, 234),
        ({"min_pixels": 3136, "max_pixels": 200704}, 234),
        ({"max_pixels": 200704}, 234),
    ],
)
def test_the_transformers_back_end_counts_by_the_size_of_its_call(
    make_renderer: MakeRenderer, options: Kwargs, tokens: int
) -> None:
    """Qwen2.5-VL's count reads pixels alone from what it is called with."""
    for start, request in given_in_each_form(options):
        renderer = make_renderer(
            "qwen2_5_vl",
            model_impl="transformers",
            mm_processor_kwargs=start,
            mm_processor_cache_gb=0,
        )
        found = ask(renderer, {"image": image(800, 600)}, request).tokens["image"]
        assert (start, request, found) == (start, request, tokens)


def test_an_option_that_a_processor_pops_may_be_scoped() -> None:
    """Ovis' takes it from its flat keywords, before HF sorts them."""
    from vllm.multimodal.processing.context import resolve_hf_mm_kwargs
    from vllm.transformers_utils.processors.ovis import OvisProcessor

    kwargs = {"images_kwargs": {"max_partition": 1, "do_convert_rgb": True}}
    processor = OvisProcessor.__new__(OvisProcessor)

    assert resolve_hf_mm_kwargs(processor, {"images": []}, kwargs) == {
        "max_partition": 1,
        "images_kwargs": {"do_convert_rgb": True},
    }


@pytest.mark.parametrize("video_scope", [{}, {"do_sample_frames": True}])
def test_glm_samples_the_frames_of_its_call_and_prompt_once(
    make_renderer: MakeRenderer, video_scope: Kwargs
) -> None:
    array, metadata = video(24, 56, 56)
    raw = array, {**metadata, "do_sample_frames": True}
    renderer = make(make_renderer, "glm4_1v", None)
    request = {"videos_kwargs": {"fps": 1.0, **video_scope}}
    flat = ask(renderer, {"video": raw}, {"fps": 1.0})
    assert ask(renderer, {"video": raw}, request).tokens == flat.tokens
    assert int(flat.data["video"]["video_grid_thw"][0]) == 6
    plain = ask(renderer, {"video": (array, metadata)})
    assert ask(renderer, {"video": (array, metadata)}, request).tokens == plain.tokens


EXCEPTIONS: Mapping[str, set[Read]] = {
    "the entry, where the options of the start are merged": {
        Read("mm_kwargs", "merge_mm_kwargs", "mm_processor_kwargs"),
    },
    "the scopes go on to HF, settled first": {
        Read("context", "get_hf_processor", "get_merged_mm_kwargs"),
    },
    "of a model of one modality, whose context reads all options as for it": {
        Read("cohere2_vision", "get_num_patches", "get_merged_mm_kwargs"),
        Read("eagle2_5_vl", "get_image_processor", "get_merged_mm_kwargs"),
        Read("gemma3_mm", "get_image_size_with_most_features", "get_merged_mm_kwargs"),
        Read("gemma3_mm", "get_num_crops", "get_merged_mm_kwargs"),
        Read("glm4v", "get_image_processor", "get_merged_mm_kwargs"),
        Read("h2ovl", "get_image_processor", "get_merged_mm_kwargs"),
        Read("hunyuan_vision", "_get_vision_info", "get_merged_mm_kwargs"),
        Read("hunyuan_vision", "get_image_size_with_most_features", "get_merged_mm_kwargs"),
        Read("idefics3", "_get_image_feature_grid_size", "get_merged_mm_kwargs"),
        Read("lfm2_vl", "_get_image_feature_grid_size", "get_merged_mm_kwargs"),
        Read("lfm2_vl", "get_num_image_tokens", "get_merged_mm_kwargs"),
        Read("moss_audio", "get_hf_processor", "get_merged_mm_kwargs"),
        Read("nemotron_vl", "get_image_processor", "get_merged_mm_kwargs"),
        Read("nvlm_d", "get_image_processor", "get_merged_mm_kwargs"),
        Read("paddleocr_vl", "get_image_size_with_most_features", "get_merged_mm_kwargs"),
        Read("paddleocr_vl", "get_num_image_tokens", "get_merged_mm_kwargs"),
        Read("qianfan_ocr", "get_hf_processor", "get_merged_mm_kwargs"),
        Read("skyworkr1v", "get_image_processor", "get_merged_mm_kwargs"),
    },
    "_get_max_soft_tokens lays the scope of images over": {
        Read("gemma4_mm", "_call_hf_processor", "get_merged_mm_kwargs"),
        Read("gemma4_mm", "get_mm_max_tokens_per_item", "get_merged_mm_kwargs"),
        Read("gemma4_mm", "get_replacement_image", "get_merged_mm_kwargs"),
        Read("gemma4_unified", "get_mm_max_tokens_per_item", "get_merged_mm_kwargs"),
    },
    "the tensors of an item, which go by the name of the options": {
        Read("internvl", "_get_internvl_patches_list", "image_num_patches"),
        Read("internvl", "_get_internvl_patches_list", "video_num_patches"),
        Read("qwen3_asr_realtime", "_maybe_apply_prompt_updates", "audio"),
        Read("step3_vl", "get_encoder_cudagraph_item_specs", "num_patches"),
        Read("voxtral_realtime", "_maybe_apply_prompt_updates", "audio"),
    },
    "one merger serves images and videos, so its mode is of no modality": {
        Read("minicpmv4_6", "_resolve_downsample_mode", "downsample_mode"),
    },
    "measured from the video by the caller, not an option of a processor": {
        Read(
            "qwen2_5_omni_thinker", "get_replacement_qwen2_use_audio_in_video", "second_per_grid_ts"
        ),
        Read(
            "qwen3_omni_moe_thinker",
            "get_replacement_qwen2_use_audio_in_video",
            "second_per_grid_ts",
        ),
    },
    "copies a whole scope": {
        Read("glm4_1v", "_call_hf_processor", "videos_kwargs"),
        Read("glm4_1v", "sample_video_frames", "videos_kwargs"),
        Read("molmo2", "_call_hf_processor", "videos_kwargs"),
        Read("qwen3_omni_moe_thinker", "_call_hf_processor", "audio_kwargs"),
        Read("qwen3_omni_moe_thinker", "_call_hf_processor", "text_kwargs"),
    },
}
"""Reads that name no modality, by the reason why they need not.

The list only shrinks: one that is no longer there fails, too.
"""

UNTIL_ONE_LORA_A_CALL = {
    Read("gemma4_mm", "_process_image_input", "mm_processor_kwargs"),
    Read("gemma4_mm", "get_mm_lora_token_counts", "input_features_padded"),
    Read("gemma4_mm", "get_mm_lora_token_counts", "mm_processor_kwargs"),
    Read("gemma4_mm", "get_mm_lora_token_counts", "pixel_values_key"),
}
"""What a later patch of the series takes away: "[LoRA] Run the encoder for one LoRA at a time"."""


def test_every_read_names_its_modality() -> None:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    found = set(unscoped_reads(Path(spec.origin).parent))
    assert found - UNTIL_ONE_LORA_A_CALL == set().union(*EXCEPTIONS.values())


def test_a_read_without_a_modality_is_found(tmp_path: Path) -> None:
    models = tmp_path / "model_executor" / "models"
    models.mkdir(parents=True)
    (models / "new.py").write_text(
        "def budget(self, mm_kwargs):\n"
        "    size = mm_kwargs.get('size')\n"
        "    mine = self.ctx.get_merged_mm_kwargs({}, modality='image')\n"
        "    return self.ctx.get_merged_mm_kwargs({}), mine.get('size'), size\n"
        "def start(config, mm_kwargs):\n"
        "    mm_kwargs = overlay_modality_mm_kwargs(mm_kwargs, 'video')\n"
        "    return mm_kwargs.get('fps'), config.mm_processor_kwargs\n"
    )
    assert set(unscoped_reads(tmp_path)) == {
        Read("new", "budget", "size"),
        Read("new", "budget", "get_merged_mm_kwargs"),
        Read("new", "start", "mm_processor_kwargs"),
    }
