"""The families that the placement audit runs: a checkpoint, and inputs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support import models

if TYPE_CHECKING:
    from transformers import PretrainedConfig
    from vllm.config import VllmConfig

Size = tuple[Any, ...]


@dataclass(frozen=True)
class Family:
    """How to make inputs for the checkpoint of the same name.

    `sizes` gives each modality two items of different size, as arguments of `models.image` and
    so on. Where the processor cannot be had, `processed` makes from a modality and such a size
    what it would return for one item.
    """

    sizes: Mapping[str, tuple[Size, Size]]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `ModelConfig`."""
    prompt: str | None = None
    processed: Callable[[str, Size], dict[str, Any]] | None = None


_MAKERS = {"image": models.image, "video": models.video, "audio": models.audio}


def _patches(modality: str, size: Size, **shape: int) -> dict[str, Any]:
    """`size`: the grid in patches: frames, rows, columns; pixels as (patches, *shape)."""
    import torch

    frames, rows, columns = size
    pixels = torch.rand(frames * rows * columns, *shape.values())
    name = "pixel_values" if modality == "image" else "pixel_values_videos"
    return {name: pixels, f"{modality}_grid_thw": torch.tensor([size])}


def _ernie45_vl(modality: str, size: Size) -> dict[str, Any]:
    return _patches(modality, size, features=588)


def _keye(modality: str, size: Size) -> dict[str, Any]:
    return _patches(modality, size, channels=3, height=14, width=14)


def _kimi_vl(_modality: str, size: Size) -> dict[str, Any]:
    """`size` in patches: rows, columns."""
    import torch

    return {
        "pixel_values": torch.rand(size[0] * size[1], 3, 14, 14),
        "image_grid_hws": torch.tensor([size]),
    }


def _pixtral(_modality: str, size: Size) -> dict[str, Any]:
    """`size`: height and width in pixels."""
    import torch

    return {"images": [torch.rand(3, *size)]}


def _ultravox(_modality: str, size: Size) -> dict[str, Any]:
    """`size`: chunks, mel frames in each."""
    import torch

    chunks, frames = size
    return {
        "audio_features": torch.rand(chunks, 128, frames),
        "audio_token_len": torch.full((chunks,), -(-frames // 16)),
        "audio_lens": torch.full((chunks,), frames),
        "audio_num_chunks": torch.tensor([chunks]),
    }


def _granite_speech(_modality: str, size: Size) -> dict[str, Any]:
    """`size`: mel frames, two stacked in a row."""
    import torch

    embeds = 3 * -(-size[0] // 15)
    return {
        "input_features": torch.rand(1, size[0], 160),
        "audio_embed_sizes": torch.tensor([embeds]),
    }


def _minicpmv(modality: str, size: Size) -> dict[str, Any]:
    """`size`: rows and columns of patches, of each slice."""
    import torch

    prefix = "video_" if modality == "video" else ""
    slices = [torch.rand(3, 14, 14 * rows * columns) for rows, columns in size]
    return {
        f"{prefix}pixel_values": [slices],
        f"{prefix}image_sizes": torch.tensor([[448, 448]]),
        f"{prefix}tgt_sizes": [torch.tensor(size)],
    }


def _molmo2(modality: str, size: Size) -> dict[str, Any]:
    """`size`: crops (or frames) and pooled patches, each of four of the 64 in a crop."""
    import torch

    crops, pooled = size
    patches = 64 * crops
    pixels = "pixel_values" if modality == "image" else "pixel_values_videos"
    tokens = torch.full((pooled + 2,), 257)  # <im_patch>
    tokens[0], tokens[-1] = 259, 260
    return {
        pixels: torch.rand(crops, 64, 14 * 14 * 3),
        f"{modality}_token_pooling": torch.arange(4 * pooled).view(pooled, 4) % patches,
        f"{modality}_num_crops": torch.tensor([crops]),
        f"{modality}_num_pooled_patches": torch.tensor([pooled]),
        f"{modality}_num_patches": torch.tensor([patches]),
        f"{modality}_tokens": tokens,
        f"num_{modality}_tokens": torch.tensor([len(tokens)]),
    }


def _phi4mm(modality: str, size: Size) -> dict[str, Any]:
    """An image of tiles by tiles; or an audio of so many frames."""
    import torch

    if modality == "audio":
        return {"input_audio_embeds": [torch.rand(size[0], 80)]}
    rows, columns = size
    crops = rows * columns + 1
    tokens = 16 * 16 + 1 + 16 * 16 * rows * columns + 16 * rows + 16
    return {
        "input_image_embeds": [torch.rand(crops, 3, 448, 448)],
        "image_attention_mask": [torch.ones(crops, 32, 32)],
        "image_sizes": torch.tensor([[448 * rows, 448 * columns]]),
        "num_img_tokens": torch.tensor([tokens]),
    }


def sub_configs(config: PretrainedConfig) -> PretrainedConfig:
    """Make configurations of the dicts in one; for families whose own class is remote code."""
    from transformers import CONFIG_MAPPING, PretrainedConfig

    for name, value in vars(config).copy().items():
        if name.endswith("_config") and isinstance(value, dict):
            known = value.get("model_type") in CONFIG_MAPPING
            kind = CONFIG_MAPPING[value["model_type"]] if known else PretrainedConfig
            setattr(config, name, kind(**value))
    return config


Cases = Callable[[Family, "VllmConfig"], Iterator[tuple[str, list[models.Inputs]]]]
"""Names, each with requests that make one batch."""

IMAGE = ((128, 96), (64, 64))
VIDEO = ((4, 128, 96), (6, 64, 64))
AUDIO = ((1.0,), (2.5,))

FAMILIES: Mapping[str, Family] = {
    "gemma3": Family(
        {"image": ((800, 300), (700, 300))},  # cut into three and two
        {"mm_processor_kwargs": {"do_pan_and_scan": True}},
    ),
    "cohere2_vision": Family({"image": IMAGE}),
    "ernie45_vl": Family(
        {"image": ((1, 8, 6), (1, 4, 4)), "video": ((4, 4, 6), (2, 4, 4))},
        {"hf_overrides": sub_configs},
        processed=_ernie45_vl,
    ),
    "gemma4": Family({"image": IMAGE, "video": VIDEO, "audio": AUDIO}),
    "hunyuan_vl": Family({"image": IMAGE}, {"runner": "generate"}),
    "keye": Family(
        {"image": ((1, 8, 6), (1, 4, 4)), "video": ((4, 4, 6), (2, 4, 4))},
        {"hf_overrides": sub_configs},
        processed=_keye,
    ),
    "muse_glimmer": Family({"image": IMAGE}),
    "paddleocr_vl": Family({"image": IMAGE}),
    "qianfan_ocr": Family({"image": IMAGE}),
    "glm4_1v": Family({"image": IMAGE, "video": VIDEO}),
    "idefics3": Family({"image": IMAGE}),
    "internvl": Family({"image": IMAGE, "video": VIDEO}),
    "lfm2_vl": Family({"image": IMAGE}),
    "llava": Family({"image": IMAGE}),
    "llava_next": Family({"image": IMAGE}),
    # Videos of one length: others make its embeddings fail `sanity_check_mm_encoder_outputs`.
    "llava_onevision": Family({"image": IMAGE, "video": ((4, 128, 96), (4, 64, 64))}),
    "qwen2_5_vl": Family({"image": IMAGE, "video": VIDEO}),
    "qwen2_audio": Family({"audio": AUDIO}),
    "qwen2_vl": Family({"image": IMAGE, "video": VIDEO}),
    "qwen3_vl": Family({"image": IMAGE, "video": VIDEO}),
    "aria": Family({"image": IMAGE}),
    "audioflamingo3": Family({"audio": AUDIO}),
    "glmasr": Family({"audio": AUDIO}),
    "granite_speech": Family({"audio": ((100,), (150,))}, processed=_granite_speech),
    "kimi_vl": Family({"image": ((8, 6), (4, 4))}, processed=_kimi_vl),
    "ultravox": Family({"audio": ((1, 100), (2, 200))}, processed=_ultravox),
    "blip2": Family({"image": IMAGE}),
    "llava_next_video": Family({"video": VIDEO}),
    "minicpmv": Family(
        {"image": (((8, 6), (4, 4)), ((8, 8),)), "video": (((8, 6),), ((6, 6), (6, 6)))},
        {"hf_overrides": sub_configs},
        processed=_minicpmv,
    ),
    "molmo2": Family(
        {"image": ((2, 12), (1, 9)), "video": ((3, 10), (2, 8))},
        {"hf_overrides": sub_configs},
        processed=_molmo2,
    ),
    "phi4mm": Family({"image": ((1, 2), (1, 1)), "audio": ((160,), (200,))}, processed=_phi4mm),
    "mistral3": Family({"image": IMAGE}),
    "mllama4": Family({"image": ((224, 112), (112, 112))}),
    "ovis": Family({"image": IMAGE}),
    "paligemma": Family({"image": IMAGE}),
    "pixtral": Family(
        {"image": ((112, 84), (56, 56))}, {"hf_overrides": sub_configs}, processed=_pixtral
    ),
    "qwen2_5_omni": Family({"image": IMAGE, "video": VIDEO, "audio": AUDIO}),
    "qwen3_asr": Family({"audio": AUDIO}),
    "step3_vl": Family({"image": ((728, 728), (1500, 800))}),
    "whisper": Family({"audio": AUDIO}, {"max_model_len": 448}, prompt="<|startoftranscript|>"),
    "transformers_backend": Family({"image": IMAGE}, {"model_impl": "transformers"}),
}

PADDED = (
    "aria", "audioflamingo3", "gemma4", "glmasr", "granite_speech", "idefics3", "phi4mm",
    "qwen2_5_omni", "qwen2_audio", "qwen3_asr", "ultravox",
)  # fmt: skip
"""Those that strip padding from what their encoders make."""
"""By name of the checkpoint."""


def cases(family: Family, vllm_config: VllmConfig) -> Iterator[tuple[str, list[models.Inputs]]]:
    """One item, two of one size, two of different sizes: they batch in different ways.

    Every item is a request of its own, as batches take them from different requests.
    """
    for modality, (first, second) in family.sizes.items():
        one, again, other = (
            _request(family, vllm_config, modality, size, seed)
            for seed, size in enumerate((first, first, second))
        )
        yield modality, [one]
        yield f"{modality} twice", [one, again]
        yield f"{modality} mixed", [one, other]


def typical(family: Family, vllm_config: VllmConfig) -> Iterator[tuple[str, list[models.Inputs]]]:
    """What people send in one request: few images, many images, a long video, an audio."""
    for modality, (size, _) in family.sizes.items():
        for name, number, longer in _TYPICAL[modality]:
            shown = _longer(size, longer)
            yield name, [_request(family, vllm_config, modality, shown, n) for n in range(number)]


_TYPICAL = {
    "image": (("few images", 2, 1), ("many images", 16, 1)),
    "video": (("long video", 1, 8),),
    "audio": (("audio", 1, 1),),
}
"""Modality to names, each with how many items and how many times as long as the first size."""


def _longer(size: Size, times: int) -> Size:
    """Frames come first, but where a size is a row of slices."""
    return size * times if isinstance(size[0], tuple) else (size[0] * times, *size[1:])


def _request(
    family: Family, vllm_config: VllmConfig, modality: str, size: Size, seed: int
) -> models.Inputs:
    if family.processed is not None:
        import torch

        torch.manual_seed(seed)
        return models.processed_inputs(vllm_config, modality, family.processed(modality, size))
    item = _MAKERS[modality](*size, seed=seed)
    return models.make_inputs(vllm_config, {modality: [item]}, prompt=family.prompt)
