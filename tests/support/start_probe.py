"""Start one engine and get the first token of an image; what it reserved for encoder outputs.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.start_probe FOLDER`; the checkpoint is made in FOLDER.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.asks import prompt
from tests.support.checkpoints import make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.telling import telling
from tests.support.warmup_probe import peak_rss

# Pixels to a token of Qwen3-VL: 16 by 16 a patch, 2 by 2 patches merged, 2 frames in one.
_IMAGE, _VIDEO = 32 * 32, 2 * 32 * 32
_LONG_VIDEO = {"longest_edge": 58720256, "shortest_edge": 4096}


@dataclass(frozen=True)
class Recipe:
    """Options of the engine, and the tokens of the largest item that a user wants with them."""

    wanted: int
    options: Mapping[str, Any] = field(default_factory=dict)


RECIPES: Mapping[str, Recipe] = {
    "stock": Recipe(16777216 // _IMAGE),
    "long-video": Recipe(
        _LONG_VIDEO["longest_edge"] // _VIDEO,
        {"mm_processor_kwargs": {"videos_kwargs": {"size": _LONG_VIDEO}}},
    ),
    # For a release that reads no scoped keys when it sizes its budget: images get the size, too.
    "long-video-flat": Recipe(
        _LONG_VIDEO["longest_edge"] // _VIDEO, {"mm_processor_kwargs": {"size": _LONG_VIDEO}}
    ),
}
"""An eighth of the model card's size for long videos: with all of it the unpatched release needs
more memory for its warmup than most machines have."""


def probe(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """Seconds and bytes from the start of `LLM()`; `reserved` and `wanted` are in tokens."""
    import vllm

    checkpoint = folder / "qwen3_vl"
    if not checkpoint.exists():
        make_checkpoint("qwen3_vl", checkpoint, weights=True)
    options = {**OPTIONS, "max_model_len": 65536, "max_num_batched_tokens": 8192}
    asked: Any = prompt("qwen3_vl", {"image": (1,)})
    greedy = vllm.SamplingParams(temperature=0, max_tokens=1)

    # What vLLM finds out about a model class once, in another process, is kept on disk.
    vllm.config.ModelConfig(str(checkpoint))
    with peak_rss() as peak:
        start = time.perf_counter()
        llm = vllm.LLM(str(checkpoint), dtype="float32", **options, **recipe.options)
        started = time.perf_counter()
        llm.generate([asked], greedy, use_tqdm=False)
        answered = time.perf_counter()

    core: Any = llm.llm_engine.engine_core
    reserved = core.engine_core.scheduler.encoder_cache_manager.cache_size
    core.shutdown()
    return {
        "vllm": vllm.__file__,
        "start_seconds": started - start,
        "first_token_seconds": answered - start,
        "peak_bytes": peak["bytes"],
        "reserved": reserved,
        "wanted": recipe.wanted,
    }


def main(arguments: list[str]) -> int:
    """Parse the command line and print the measurement as one line."""
    parser = argparse.ArgumentParser(prog="start_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="stock")
    options = parser.parse_args(arguments)

    # In this process, where memory and scheduler can be looked at.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    with telling() as tell:
        tell(probe(options.folder, RECIPES[options.recipe]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
