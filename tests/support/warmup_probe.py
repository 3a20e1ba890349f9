"""Measure one renderer warmup, and the first request after it, in a fresh process.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.warmup_probe`, once per measurement.
"""

# ruff: noqa: ANN401 (wrappers take what vLLM's builders take)

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.renderers import make_renderer
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

_LONG_VIDEO = {"longest_edge": 469762048, "shortest_edge": 4096}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "stock": {},
    "long-video": {"mm_processor_kwargs": {"videos_kwargs": {"size": _LONG_VIDEO}}},
    # For a release that reads no scoped keys when it sizes dummy items. Without images,
    # to which flat keys apply as well; the video alone takes the unpatched one 22 GiB.
    "long-video-flat": {
        "mm_processor_kwargs": {"size": _LONG_VIDEO},
        "limit_mm_per_prompt": {"image": 0},
    },
}
"""Options of `ModelConfig` by name."""

FIRST_REQUESTS: Mapping[str, tuple[int, int] | None] = {
    "none": None,
    "small": (224, 224),
    "full": (4096, 4096),
}
"""Width and height in pixels of the image in the first request."""


@contextmanager
def peak_rss() -> Iterator[dict[str, int]]:
    """Yield a dict that afterwards holds `bytes`: the peak over what was resident."""
    gc.collect()
    result: dict[str, int] = {}
    idle = _status("VmRSS")
    # Makes the kernel forget the peak so far; see proc(5).
    if _write(Path("/proc/self/clear_refs"), "5"):
        yield result
        result["bytes"] = max(_status("VmHWM") - idle, 0)
        return

    done = threading.Event()
    peak = idle

    def sample() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, _status("VmRSS"))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    yield result
    done.set()
    thread.join()
    result["bytes"] = max(peak, _status("VmRSS")) - idle


def _write(path: Path, text: str) -> bool:
    try:
        path.write_text(text, encoding="ascii")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    """Bytes of one field of /proc/self/status, which counts in KiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, value = line.split(":", 1)
        if name == field:
            return int(value.split()[0]) * 1024
    raise KeyError(field)


def _device_peak() -> int:
    """The most bytes that this process has held of the GPU; 0 where it has not touched it."""
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else 0


class _Failures(logging.Handler):
    """Warmup swallows errors, and a failed one is quick: count those."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "warmup failed" in record.getMessage()


def _record_sizes(renderer: BaseRenderer[Any]) -> dict[str, list[int]]:
    """Item sizes by modality: (width, height), array shape, filled by the warmup."""
    sizes: dict[str, list[int]] = {}
    assert renderer.mm_processor is not None, "the checkpoint is not multimodal"
    builder: Any = renderer.mm_processor.dummy_inputs
    build = builder.get_dummy_mm_data

    def recording(*args: Any, **kwargs: Any) -> Any:
        data = build(*args, **kwargs)
        for modality, items in data.items():
            for item in items:
                array = item[0] if isinstance(item, tuple) else item
                # An image has `size`; so has an array, but there it is a number.
                size = array.shape if hasattr(array, "shape") else array.size
                sizes[modality] = [int(n) for n in size]
        return data

    builder.get_dummy_mm_data = recording
    return sizes


def _first_request(renderer: BaseRenderer[Any], size: tuple[int, int]) -> float:
    """Seconds that the renderer needs for a prompt with one image of noise."""
    import numpy as np
    from PIL import Image

    assert renderer.mm_processor is not None
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    prompt: Any = {
        "prompt": renderer.mm_processor.dummy_inputs.get_dummy_text({"image": 1}),
        "multi_modal_data": {"image": Image.fromarray(pixels)},
    }
    start = time.perf_counter()
    renderer.render_cmpl([prompt])
    return time.perf_counter() - start


def probe(
    checkpoint: Path,
    *,
    max_model_len: int,
    max_num_batched_tokens: int,
    recipe: str = "stock",
    first_request: str = "none",
) -> dict[str, Any]:
    """Measure in this process, once: the second warmup would find everything warm.

    Seconds and bytes; `first_request_seconds` is null if there was none.
    """
    import vllm
    from vllm.renderers.params import ChatParams

    renderer = make_renderer(
        checkpoint,
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        **RECIPES[recipe],
    )
    # The chat template is warmed up first, and costs the same with any items.
    renderer.render_chat([[{"role": "user", "content": "warmup"}]], ChatParams())
    sizes = _record_sizes(renderer)
    failures = _Failures()
    logging.getLogger("vllm").addHandler(failures)

    with peak_rss() as peak:
        start = time.perf_counter()
        renderer.warmup(ChatParams())
        seconds = time.perf_counter() - start

    image = FIRST_REQUESTS[first_request]
    return {
        "vllm": vllm.__file__,
        "recipe": recipe,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        "warmup_seconds": seconds,
        "warmup_peak_bytes": peak["bytes"],
        "device_peak_bytes": _device_peak(),
        "warmup_failures": failures.count,
        "item_sizes": sizes,
        "first_request": first_request,
        "first_request_seconds": _first_request(renderer, image) if image else None,
    }


def main(arguments: list[str]) -> int:
    """Parse the command line and print the measurement as one line."""
    parser = argparse.ArgumentParser(prog="warmup_probe", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, help="default: a tiny one, made here")
    parser.add_argument("--family", choices=sorted(CHECKPOINTS), default="qwen3_vl", metavar="NAME")
    parser.add_argument("--max-model-len", type=int, default=262144, metavar="TOKENS")
    parser.add_argument("--max-num-batched-tokens", type=int, default=8192, metavar="TOKENS")
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="stock")
    parser.add_argument("--first-request", choices=sorted(FIRST_REQUESTS), default="none")
    options = parser.parse_args(arguments)

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with telling() as tell, tempfile.TemporaryDirectory() as folder:
        result = probe(
            options.checkpoint or make_checkpoint(options.family, Path(folder)),
            max_model_len=options.max_model_len,
            max_num_batched_tokens=options.max_num_batched_tokens,
            recipe=options.recipe,
            first_request=options.first_request,
        )
        tell(result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
