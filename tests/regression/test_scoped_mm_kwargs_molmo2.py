"""Molmo2, whose processor is remote code, samples a video once, for its call and its prompt."""

# ruff: noqa: ANN401 (what HF's classes take)

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.mm_infos import make_info
from tests.support.mm_requests import video

Kwargs = dict[str, Any]
TOKENS = ("<|image|>", "<|video|>", "<im_patch>", "<frame_start>", "<frame_end>")
IDS = (
    "image_patch_id",
    "image_col_id",
    "image_start_token_id",
    "image_end_token_id",
    "low_res_image_start_token_id",
    "frame_start_token_id",
    "frame_end_token_id",
    "image_low_res_id",
)


class VideoProcessor:
    """As the remote one: its function has the options of the call, not its own."""

    size, patch_size, pooling_size = {"height": 28, "width": 28}, 14, (2, 2)
    frame_sample_mode, num_frames, max_fps, sampling_fps = "uniform_last_frame", 6, None, 2

    def sample_frames(
        self, metadata: Any, frame_sample_mode: Any = None, num_frames: Any = None, **_: Any
    ) -> Any:
        assert frame_sample_mode == "uniform_last_frame"
        total = metadata.total_num_frames
        return np.linspace(0, total - 1, num=min(num_frames, total), endpoint=True).astype(int)


class Processor:
    """One token for each frame, and what it is called with."""

    image_use_col_tokens = video_use_col_tokens = False
    use_single_crop_col_tokens = use_single_crop_start_token = None
    use_frame_special_tokens = True

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.image_processor, self.video_processor = SimpleNamespace(), VideoProcessor()
        self.calls: list[tuple[int, Any]] = []

    def __call__(self, text: str, videos: Any = None, **kwargs: Any) -> Any:
        from transformers import BatchFeature

        output = {"input_ids": torch.tensor([self.tokenizer.encode(text)])}
        if videos:
            frames = len(videos[0][0])
            self.calls.append((frames, kwargs.get("do_sample_frames")))
            output |= {
                "video_grids": torch.tensor([[frames, 1, 1]]),
                "pixel_values_videos": torch.zeros(frames, 4, 588),
                "video_token_pooling": torch.zeros(frames, 4),
            }
        return BatchFeature(output)


@pytest.fixture
def ask_molmo(checkpoint: Callable[[str], Path]) -> Callable[..., tuple[tuple[int, Any], int]]:
    """Frames and `do_sample_frames` of HF's call, and frames in the prompt."""
    from vllm.model_executor.models.molmo2 import Molmo2MultiModalProcessor
    from vllm.multimodal.processing.context import set_mm_options

    def ask(item: Any, start: Kwargs, request: Kwargs) -> tuple[tuple[int, Any], int]:
        made: list[Processor] = []

        def get_hf_processor(info: Any, **kwargs: Any) -> Any:
            if not made:
                made.append(Processor(info.get_tokenizer()))
            return set_mm_options(made[0], info.ctx.get_merged_mm_kwargs(kwargs))

        info = make_info(
            "molmo2:Molmo2ProcessingInfo",
            {name: 300 + i for i, name in enumerate(IDS)},
            checkpoint("molmo2"),
            start,
            get_hf_processor=get_hf_processor,
        )
        info.get_tokenizer().add_tokens(list(TOKENS))
        dummies: Any = None
        processor = Molmo2MultiModalProcessor(info, dummies)
        processor._call_hf_processor("<|video|>", {"videos": [copy.deepcopy(item)]}, request, {})
        data: Any = {"video": [item]}
        updates = processor._get_prompt_updates(data, request, {})
        content: Any = next(u for u in updates if u.modality == "video").replacement
        frame = 300 + IDS.index("frame_start_token_id")
        return made[0].calls[0], content(0).full.count(frame)

    return ask


@pytest.mark.parametrize("form", ["flat at start", "scoped at start", "flat", "scoped"])
def test_the_call_and_the_prompt_have_the_same_frames(
    ask_molmo: Callable[..., Any], form: str
) -> None:
    array, metadata = video(8, 28, 28)
    for options, frames in (
        ({"do_sample_frames": True, "num_frames": 4}, 4),
        ({"do_sample_frames": True}, 6),
        ({"do_sample_frames": True, "fps": 1.0}, 6),  # of which Molmo2 knows nothing
        ({"do_sample_frames": False}, 8),
        ({}, 8),
    ):
        given = {"videos_kwargs": options} if form.startswith("scoped") else options
        start, request = (given, {}) if form.endswith("at start") else ({}, given)
        asked = ask_molmo((array, metadata), start, request)
        assert (options, asked) == (options, ((frames, False), frames))


def test_a_video_that_its_loader_has_sampled_stays(ask_molmo: Callable[..., Any]) -> None:
    array, metadata = video(8, 28, 28)
    sampled = {**metadata, "total_num_frames": 80, "frames_indices": list(range(0, 80, 10))}
    for start, request in (({"do_sample_frames": True}, {}), ({}, {"do_sample_frames": True})):
        assert ask_molmo((array, sampled), start, request) == ((8, False), 8)
