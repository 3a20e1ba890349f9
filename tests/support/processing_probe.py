"""Send requests through real renderers and HF processors: how many a second, how long each takes.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.processing_probe FOLDER`; checkpoints are made in FOLDER.
"""

from __future__ import annotations

import argparse
import sys
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.renderers import make_renderer
from tests.support.telling import telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vllm.renderers.base import BaseRenderer

_KINDS: Mapping[str, tuple[str, Callable[[int], Any]]] = {
    "image": ("qwen3_vl", lambda n: media.picture(n, 640, 480)),
    "video": ("qwen3_vl", lambda n: media.clip(n, 16, 320, 240)),
    "audio": ("qwen2_audio", lambda n: media.tone(n, 5)),
}
"""Modality to the checkpoint that is asked, and the item of a number."""


def _prompts(checkpoint: str, kind: str, numbers: range) -> list[Any]:
    """Requests that no cache has seen: each item shows something else."""
    place, (_, make) = CHECKPOINTS[checkpoint].placeholders[kind], _KINDS[kind]
    return [{"prompt": f"{place} what?", "multi_modal_data": {kind: make(n)}} for n in numbers]


def _latencies(renderer: BaseRenderer[Any], prompts: list[Any]) -> Iterator[float]:
    for prompt in prompts:
        start = time.perf_counter()
        renderer.render_cmpl([prompt])
        yield time.perf_counter() - start


def _options(renderer: BaseRenderer[Any]) -> float:
    """Seconds to read the options of a request that has none, and to settle them for HF."""
    from vllm.multimodal.processing import context

    info = renderer.get_mm_processor().info
    processor, settle = info.get_hf_processor(), getattr(context, "resolve_hf_mm_kwargs", None)

    def once() -> None:
        merged = info.ctx.get_merged_mm_kwargs({})
        if settle is not None:  # the patched tree's
            settle(processor, {"images": [], "videos": []}, merged)

    return min(timeit.repeat(once, number=1000, repeat=5)) / 1000


def probe(folder: Path, requests: int) -> dict[str, Any]:
    """By modality, in seconds: each request alone, and all of as many others in one call."""
    import vllm

    kinds: dict[str, Any] = {}
    for kind, (checkpoint, _) in _KINDS.items():
        if not (folder / checkpoint).exists():
            make_checkpoint(checkpoint, folder / checkpoint)
        renderer = make_renderer(folder / checkpoint, max_model_len=32768)
        renderer.render_cmpl(_prompts(checkpoint, kind, range(1, 3)))  # what is made once
        alone = _prompts(checkpoint, kind, range(100, 100 + requests))
        together = _prompts(checkpoint, kind, range(500, 500 + requests))
        latencies = list(_latencies(renderer, alone))
        start = time.perf_counter()
        renderer.render_cmpl(together)
        together = time.perf_counter() - start
        kinds[kind] = {
            "latencies": latencies,
            "together": together,
            "options": _options(renderer),
        }
    return {"vllm": vllm.__file__, "requests": requests, "kinds": kinds}


def main(arguments: list[str]) -> int:
    """Parse the command line and print the measurement as one line."""
    parser = argparse.ArgumentParser(prog="processing_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--requests", type=int, default=25, metavar="N")
    options = parser.parse_args(arguments)

    with telling() as tell:
        tell(probe(options.folder, options.requests))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
