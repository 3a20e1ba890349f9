"""Real vLLM models on tiny checkpoints: in this process, on the CPU, same weights every time.

`make_config` once, then `make_model` and `make_inputs` from it; several models fit in one process.
"""

# ruff: noqa: ANN401 (options of ModelConfig, media items)

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.support import media

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItem

MAX_MODEL_LEN = 32768
"""Tokens, of every model made here."""


@dataclass(frozen=True)
class Inputs:
    """One prompt as the renderer hands it to the engine."""

    token_ids: list[int]
    features: list[MultiModalFeatureSpec]
    """In prompt order, each with its data, modality and placeholder."""
    by_hand: bool = False
    """Prompt and placeholders stand for nothing."""

    @property
    def mm_kwargs(self) -> list[tuple[str, MultiModalKwargsItem]]:
        """What both model runners group and batch."""
        return [(f.modality, f.data) for f in self.features if f.data is not None]


def make_config(checkpoint: Path, **model_options: Any) -> VllmConfig:
    """An eager float32 configuration of `checkpoint`; further keywords go to `ModelConfig`."""
    from vllm.config import CacheConfig, DeviceConfig, LoadConfig, ModelConfig, VllmConfig

    options = {"max_model_len": MAX_MODEL_LEN, "dtype": "float32", "enforce_eager": True}
    with inspected_in_this_process():
        model_config = ModelConfig(model=str(checkpoint), **{**options, **model_options})
    return VllmConfig(
        model_config=model_config,
        cache_config=CacheConfig(block_size=32),
        load_config=LoadConfig(load_format="dummy"),
        device_config=DeviceConfig(device="cpu"),
    )


@contextmanager
def inspected_in_this_process() -> Iterator[None]:
    """What a model class supports; vLLM would start a process for each, which takes 15 s."""
    from vllm.model_executor.models.registry import _LazyRegisteredModel, _ModelInfo

    def inspect(model: Any) -> Any:
        return _ModelInfo.from_model_cls(model.load_model_cls())

    with patch.object(_LazyRegisteredModel, "inspect_model_cls", inspect):
        yield


def make_model(
    vllm_config: VllmConfig, *, device: torch.device | str = "cpu", process_weights: bool = False
) -> Any:
    """The model class of `vllm_config`, as the loader builds it, with `fill_weights`.

    `process_weights` runs what the loader does afterwards, on the CPU the packing of linear
    weights for oneDNN; without it every linear layer stays a `torch.nn.functional.linear`.
    """
    import torch
    from vllm.model_executor.model_loader.utils import (
        initialize_model,
        process_weights_after_loading,
    )
    from vllm.utils.torch_utils import set_default_torch_dtype

    target = torch.device(device)
    vllm_config.device_config.device = target
    with one_process(vllm_config), set_default_torch_dtype(vllm_config.model_config.dtype):
        with target:
            model = initialize_model(vllm_config)
        fill_weights(model)
        if hasattr(model, "_ensure_resampler_device"):  # `MiniCPMVBaseModel.load_weights` ends so
            model._ensure_resampler_device()
        if process_weights:
            process_weights_after_loading(model, vllm_config.model_config, target)
    for module in model.modules():
        if not process_weights and hasattr(module, "quant_method"):
            module.cpu_linear = torch.nn.functional.linear
    return model.eval()


def fill_weights(model: torch.nn.Module, scale: float = 0.1) -> None:
    """Draw each parameter from its name: uniform within `scale`, around one for norms."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.is_floating_point():
                continue
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            values = torch.empty(parameter.shape, dtype=torch.float32)
            values.uniform_(-scale, scale, generator=generator)
            if parameter.ndim == 1 and "norm" in name.lower() and name.endswith("weight"):
                values += 1
            parameter.copy_(values)


@contextmanager
def one_process(vllm_config: VllmConfig) -> Iterator[None]:
    """`vllm_config` as the current one, and a world of this process alone."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state as state

    with set_current_vllm_config(vllm_config):
        if not torch.distributed.is_initialized():
            folder = tempfile.mkdtemp(prefix="vllm-world-")
            state.init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                distributed_init_method=f"file://{folder}/rendezvous",
                backend="gloo",
            )
        if vllm_config.model_config.is_moe and state._EP is None:
            state.destroy_model_parallel()  # the one before had no experts, nor a group for them
        if not state.model_parallel_is_initialized():
            state.initialize_model_parallel(tensor_model_parallel_size=1)
        yield


def make_inputs(
    vllm_config: VllmConfig,
    data: Mapping[str, Sequence[Any]],
    *,
    prompt: str | None = None,
) -> Inputs:
    """Run the real processor on `data`, modality to items; the prompt is the dummy one.

    Items are what a user passes as `multi_modal_data`: images as PIL, videos as arrays or
    (array, metadata), audios as (samples, rate).
    """
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.inputs import MultiModalFeatureSpec
    from vllm.multimodal.utils import argsort_mm_positions

    processor = MULTIMODAL_REGISTRY.create_processor(vllm_config.model_config)
    counts = {modality: len(items) for modality, items in data.items() if items}
    if prompt is None:
        prompt = processor.dummy_inputs.get_dummy_text(counts)
    mm_data = {modality: list(data[modality]) for modality in counts}
    # The call takes a text in every release; `apply`, in later ones, only token ids.
    result = processor(prompt, processor.info.parse_mm_data(mm_data))
    kwargs, hashes, places = (result[k] for k in ("mm_kwargs", "mm_hashes", "mm_placeholders"))
    features = [
        MultiModalFeatureSpec(
            data=kwargs[modality][index],
            modality=modality,
            identifier=hashes[modality][index],
            mm_position=places[modality][index],
        )
        for modality, index in argsort_mm_positions(places)
    ]
    return Inputs(list(result["prompt_token_ids"]), features)


def processed_inputs(vllm_config: VllmConfig, modality: str, hf_outputs: Any) -> Inputs:
    """One item from what its processor would have returned, through the model's own field table.

    For families whose processor is not at hand.
    """
    from transformers import BatchFeature
    from vllm.multimodal.inputs import (
        MultiModalFeatureSpec,
        MultiModalKwargsItems,
        PlaceholderRange,
    )

    processor_class = field_owner(vllm_config)
    processor = processor_class.__new__(processor_class)
    feature = BatchFeature(dict(hf_outputs))
    fields = processor._get_mm_fields_config(feature, {})
    (item,) = MultiModalKwargsItems.from_hf_inputs(feature, fields)[modality]
    place = PlaceholderRange(offset=0, length=1)
    spec = MultiModalFeatureSpec(
        data=item, modality=modality, identifier=f"{modality} by hand", mm_position=place
    )
    return Inputs([0], [spec], by_hand=True)


def field_owner(vllm_config: VllmConfig) -> Any:
    """The processor class, whose `_get_mm_fields_config` describes the fields."""
    from vllm.multimodal import MULTIMODAL_REGISTRY

    model_class: Any = MULTIMODAL_REGISTRY._get_model_cls(vllm_config.model_config)
    factory = model_class._processor_factory.processor
    if isinstance(factory, type):
        return factory
    return type(MULTIMODAL_REGISTRY.create_processor(vllm_config.model_config))


def image(width: int, height: int, seed: int = 0) -> Any:
    """Noise, as a PIL image of `width` by `height` pixels."""
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def video(frames: int, width: int, height: int, seed: int = 0) -> Any:
    """Noise at 2 frames a second: uint8 (frames, height, width, 3) and its metadata."""
    import numpy as np

    pixels = np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), np.uint8)
    return pixels, media.metadata(frames)


def audio(seconds: float, rate: int = 16000, seed: int = 0) -> Any:
    """Noise: float32 samples, and their rate in hertz."""
    import numpy as np

    samples = np.random.default_rng(seed).uniform(-0.5, 0.5, int(seconds * rate))
    return samples.astype(np.float32), rate
