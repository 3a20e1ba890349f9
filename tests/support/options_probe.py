"""What requests become with flat options, at engine start and in a request: tokens and pixels.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.options_probe FOLDER`; checkpoints are made in FOLDER.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import make_checkpoint
from tests.support.mm_requests import ask
from tests.support.models import inspected_in_this_process
from tests.support.renderers import make_renderer
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

Options = dict[str, Any]

_QWEN: list[Options] = [
    {"size": {"shortest_edge": 4096, "longest_edge": 131072}},
    {"size": {"shortest_edge": 65536, "longest_edge": 262144}},
    {"min_pixels": 4096, "max_pixels": 200704},
    {"max_pixels": 200704},
    {"do_convert_rgb": True},
    {"resample": 2},
    {"do_resize": False},
]
_SAMPLING: list[Options] = [
    {"num_frames": 4, "do_sample_frames": True},
    {"fps": 1.0, "do_sample_frames": True},
    {"fps": 1.0},
    {"do_sample_frames": False},
]
POOLS: Mapping[str, list[Options]] = {
    "qwen3_vl": _QWEN + _SAMPLING,
    "qwen2_5_vl": _QWEN,
    "qwen2_vl": _QWEN,
    "glm4_1v": [_QWEN[0], {"max_pixels": 200704}, *_SAMPLING],
    "cohere2_vision": [{"max_patches": 2}, {"max_patches": 4}, {"do_convert_rgb": True}],
    "idefics3": [{"size": {"longest_edge": 728}}, {"do_image_splitting": False}],
    "lfm2_vl": [{"max_image_tokens": 64}, {"do_image_splitting": False}, {"max_tiles": 2}],
    "qwen2_audio": [{"max_length": 16000}, {"truncation": True}, {"padding": "longest"}],
}
"""Options of each family, of which a setting has one or two."""


def _settings(name: str) -> Iterator[tuple[Options, Options]]:
    """Start and request: each option alone in both places, and some pairs."""
    pool, draw = POOLS[name], random.Random(name)
    yield {}, {}
    for options in pool:
        yield options, {}
        yield {}, options
    for _ in range(4):
        first, second = draw.sample(pool, 2) if len(pool) > 1 else (pool[0], pool[0])
        yield first, second


def _items(renderer: BaseRenderer[Any]) -> dict[str, Any]:
    made = {
        "image": media.picture(1, 320, 240),
        "video": media.clip(1, 8, 128, 96),
        "audio": media.tone(1, 2)[0],
    }
    return {m: made[m] for m in renderer.get_mm_processor().info.supported_mm_limits}


def _answer(renderer: BaseRenderer[Any], modality: str, item: Any, request: Options) -> Any:  # noqa: ANN401
    import torch

    try:
        got = ask(renderer, {modality: item}, request)
    except Exception as error:
        return type(error).__name__
    found = hashlib.sha256()
    for key, value in sorted(got.data[modality].items()):
        if isinstance(value, torch.Tensor) and key.startswith(("pixel", "input_features")):
            found.update(value.float().numpy().tobytes())
    return [got.tokens[modality], found.hexdigest()]


def probe(folder: Path) -> dict[str, Any]:
    """Each setting by its words, to tokens and a digest of the pixels, or to the error's name."""
    import vllm

    told: dict[str, Any] = {}
    for name in POOLS:
        renderer = make_renderer(
            make_checkpoint(name, folder / name), max_model_len=8192, mm_processor_cache_gb=0
        )
        config: Any = renderer.model_config.multimodal_config
        for start, request in _settings(name):
            for modality, item in _items(renderer).items():
                config.mm_processor_kwargs = dict(start)
                words = f"{name} {modality}, start {start}, request {request}"
                told[words] = _answer(renderer, modality, item, dict(request))
    return {"vllm": vllm.__file__, "answers": told}


def main(arguments: list[str]) -> int:
    """Print what the settings give as one line."""
    (folder,) = arguments
    with telling() as tell, inspected_in_this_process():
        tell(probe(Path(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
