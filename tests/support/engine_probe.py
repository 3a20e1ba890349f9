"""Ask real engines on tiny checkpoints, one after the other in one process.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.engine_probe FOLDER [RUN…]`; checkpoints are made in FOLDER. With
`--each` a run that fails is told as an `error`, and the next one starts.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import asks
from tests.support.checkpoints import make_checkpoint
from tests.support.models import inspected_in_this_process
from tests.support.telling import telling
from tests.support.warmup_probe import RECIPES

OPTIONS: Mapping[str, Any] = {
    "enforce_eager": True,
    "max_model_len": 8192,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 16,
    "block_size": 32,
    # Both named, for the default is most of the machine, and two engines may share a GPU.
    "kv_cache_memory_bytes": 256 << 20,
    "gpu_memory_utilization": 0.3,
    "skip_mm_profiling": True,
    "seed": 0,
}


@dataclass(frozen=True)
class Run:
    """One engine and what it is asked."""

    checkpoint: str
    ask: asks.Ask
    options: Mapping[str, Any] = field(default_factory=dict)


_TRANSFORMERS = {"model_impl": "transformers"}
FAMILIES: Mapping[str, Run] = {
    **{
        name: Run(name, asks.everything)
        for name in (
            *("gemma3", "glm4_1v", "idefics3", "internvl", "llama", "llava", "llava_onevision"),
            *("qwen2_5_vl", "qwen2_audio", "qwen2_vl", "qwen3_vl"),
        )
    },
    "idefics3, transformers": Run("idefics3", asks.everything, _TRANSFORMERS),
    "qwen2_5_vl, transformers": Run("qwen2_5_vl", asks.everything, _TRANSFORMERS),
}
_PLAIN = {"mm_processor_cache_gb": 0, "enable_prefix_caching": False}
_WHOLE = {"enable_chunked_prefill": False, "max_model_len": 2048, "mm_processor_cache_gb": 0}
_VIDEO_SIZE = {"shortest_edge": 4096, "longest_edge": 1048576}
_LONG_VIDEO = {**RECIPES["long-video"], "max_model_len": 262144}
RUNS: Mapping[str, Run] = {
    **FAMILIES,
    "windows, plain": Run("qwen3_vl", asks.windows, _PLAIN),
    "windows, lru": Run("qwen3_vl", asks.windows),
    "windows, shm": Run(
        "qwen3_vl", asks.windows, {"mm_processor_cache_type": "shm", "mm_processor_cache_gb": 0.125}
    ),
    "windows, chunks": Run("qwen3_vl", asks.windows, {"max_num_batched_tokens": 64}),
    "windows, whole": Run("qwen3_vl", asks.windows, _WHOLE),
    "no images": Run("qwen3_vl", asks.limits, {"limit_mm_per_prompt": {"image": 0}}),
    "embeddings": Run("qwen3_vl", asks.embeddings, {"enable_mm_embeds": True, **_PLAIN}),
    "prompt embeddings": Run("llama", asks.prompt_embeddings, {"enable_prompt_embeds": True}),
    "sizes": Run("qwen3_vl", asks.sizes),
    "sizes, scoped": Run(
        "qwen3_vl",
        asks.sizes,
        {
            "mm_processor_kwargs": {"videos_kwargs": {"size": _VIDEO_SIZE}},
            "limit_mm_per_prompt": {"image": 0},
            "max_num_batched_tokens": 128,
        },
    ),
    "long video": Run("qwen3_vl", asks.long_video, _LONG_VIDEO),
}
# The smallest item fits a graph, the largest runs without one.
_GRAPHS = {"cudagraph_mm_encoder": True, "encoder_cudagraph_token_budgets": [64, 128]}
GRAPHS: Mapping[str, Run] = {
    f"{name}, graphs": Run(
        name, asks.everything, {"enforce_eager": False, "compilation_config": _GRAPHS}
    )
    for name in ("glm4_1v", "internvl", "qwen2_5_vl", "qwen3_vl")
}
"""Towers replayed from CUDA graphs, which only a GPU has."""
BY_NAME: Mapping[str, Run] = {
    **RUNS,
    **GRAPHS,
    "long video, profiled": Run(
        "qwen3_vl", asks.long_video, {**_LONG_VIDEO, "skip_mm_profiling": False}
    ),
    "waiting": Run("qwen3_vl", asks.waiting, _PLAIN),
    "windows, two workers": Run("qwen3_vl", asks.windows, {"tensor_parallel_size": 2}),
}
"""Those of `RUNS`, and what not every machine can run, see `test_on_gpu`."""


def run(name: str, folder: Path) -> dict[str, Any]:
    """Answers of one engine, its encoder cache in tokens, its `guard`, the seconds it took."""
    from vllm import LLM
    from vllm.platforms import current_platform

    one, start = BY_NAME[name], time.perf_counter()
    checkpoint = folder / one.checkpoint
    if not checkpoint.exists():
        make_checkpoint(one.checkpoint, checkpoint, weights=True)
    options = {**OPTIONS, **one.options}
    # Greedy tokens are compared, so as exactly as the device computes.
    options["dtype"] = "float32" if current_platform.is_cpu() else "auto"
    llm = LLM(str(checkpoint), **options)
    answers = one.ask(llm, one.checkpoint)
    told = {
        "answers": answers,
        "encoder_cache": asks.encoder_cache(llm).cache_size,
        "guard": asks.guard(),
    }
    llm.llm_engine.engine_core.shutdown()
    del llm
    seconds = round(time.perf_counter() - start, 1)
    return {**told, "seconds": seconds}


def each(name: str, folder: Path) -> dict[str, Any]:
    """The same, or the `error` that it ended with."""
    try:
        return run(name, folder)
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main(arguments: list[str]) -> int:
    """Parse the command line and print what the engines answered as one line."""
    parser = argparse.ArgumentParser(prog="engine_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("runs", nargs="*", default=list(RUNS), metavar="RUN")
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args(arguments)

    # In this process, where the scheduler can be asked and the next engine starts at once.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    with telling() as tell, inspected_in_this_process():
        import vllm
        from vllm.distributed import cleanup_dist_env_and_memory

        runs = {}
        for name in options.runs:
            runs[name] = (each if options.each else run)(name, options.folder)
            cleanup_dist_env_and_memory()
        tell({"vllm": vllm.__file__, "runs": runs})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
