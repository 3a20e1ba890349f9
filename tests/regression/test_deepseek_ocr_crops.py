"""DeepSeek-OCR tells an image that is not cut by its number of crops, not by their pixels."""

# ruff: noqa: ANN401 (a stand-in for a model)

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import DEVICE
from tests.support.cuda_tree import cuda_tree

MODELS = [
    ("deepseek_ocr", "DeepseekOCRForCausalLM"),
    ("deepseek_ocr2", "DeepseekOCR2ForCausalLM"),
]


@pytest.mark.parametrize(("module", "name"), MODELS)
@pytest.mark.parametrize("crops", [0, 2])
def test_black_images_and_crops_are_there_and_missing_ones_are_not(
    module: str, name: str, crops: int
) -> None:
    cls = getattr(import_module(f"vllm.model_executor.models.{module}"), name)
    ran: list[int] = []

    class Ran(Exception):
        pass

    def sam_model(patches: torch.Tensor) -> Any:
        ran.append(len(patches))
        raise Ran

    model = SimpleNamespace(
        vision_config=SimpleNamespace(image_size=32), image_size=16, sam_model=sam_model
    )
    with cuda_tree() as accelerator, torch.inference_mode():
        with accelerator.unwatched():
            black = torch.zeros(crops, 3, 32, 32).to(DEVICE)
        shape = torch.tensor([crops, 1])
        with suppress(Ran):
            shapes = (shape,) if module == "deepseek_ocr" else ()
            assert cls._encode_local_features(model, black, *shapes) is None
        image = cls._parse_and_validate_image_input(
            model, pixel_values=black, images_crop=black,
            images_spatial_crop=shape.expand(crops, 2),
        )  # fmt: skip

        assert ran == ([crops] if crops else [])
        assert (image is None) == (crops == 0)
        assert accelerator.record.faults() == []
