"""Ask real engines on tiny checkpoints, one after the other in one process.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.engine_probe FOLDER [RUN…]`; checkpoints are made in FOLDER.
"""

# ruff: noqa: ANN401 (options of `LLM`)

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.models import inspected_in_this_process

if TYPE_CHECKING:
    from vllm import LLM

Answer = dict[str, Any]
"""Of one request: `tokens`, or the `error` that refused it; see `_told`."""
OPTIONS: Mapping[str, Any] = {
    "enforce_eager": True,
    "max_model_len": 8192,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 16,
    "block_size": 32,
    # Named, for the default is most of the machine.
    "kv_cache_memory_bytes": 256 << 20,
    "skip_mm_profiling": True,
    "seed": 0,
}
_MAKERS: Mapping[str, Callable[[int], Any]] = {
    "image": media.picture,
    "video": media.clip,
    "audio": media.tone,
}
Items = Mapping[str, tuple[int, ...]]
"""Modality to the numbers of the items to show, see `support.media`."""


def prompt(checkpoint: str, items: Items, **more: Any) -> dict[str, Any]:
    """A prompt of `checkpoint` that shows `items`; keywords go into it as they are."""
    places = CHECKPOINTS[checkpoint].placeholders
    shown = "".join(places[kind] * len(numbers) for kind, numbers in items.items())
    data = {kind: [_MAKERS[kind](n) for n in numbers] for kind, numbers in items.items()}
    return {"prompt": f"{shown} what?", **({"multi_modal_data": data} if data else {}), **more}


def _told(output: Any, pads: set[int]) -> Answer:
    """Greedy tokens and their log probability in all.

    Lengths, in tokens, are those of the prompt, of its images and videos (Qwen's `pads`), and
    of what the prefix cache had of it.
    """
    return {
        "tokens": list(output.outputs[0].token_ids),
        "logprob": output.outputs[0].cumulative_logprob,
        "prompt": len(output.prompt_token_ids),
        "items": sum(token in pads for token in output.prompt_token_ids),
        "cached": output.num_cached_tokens,
    }


def _ask(llm: LLM, *prompts: Any) -> list[Answer]:
    from vllm import SamplingParams

    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=0)
    config = llm.llm_engine.model_config.hf_config
    pads = {getattr(config, f"{kind}_token_id", -1) for kind in ("image", "video")}
    return [_told(output, pads) for output in llm.generate(prompts, greedy, use_tqdm=False)]


def _ask_or_refused(llm: LLM, request: Any) -> Answer:
    """One request, and what it took of the encoder cache, in tokens."""
    from vllm.exceptions import VLLMClientError

    free = _encoder_cache(llm).num_free_slots
    try:
        (answer,) = _ask(llm, request)
    # The base has an HF processor that is given a size twice say so itself.
    except (VLLMClientError, ValueError) as error:
        return {"error": str(error)}
    return answer | {"reserved": free - _encoder_cache(llm).num_free_slots}


def _encoder_cache(llm: LLM) -> Any:
    core: Any = llm.llm_engine.engine_core
    return core.engine_core.scheduler.encoder_cache_manager


Ask = Callable[["LLM", str], dict[str, Answer]]


def everything(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """Each modality of the checkpoint in one batch: two items, both at once, and a mixture."""
    processor = llm.llm_engine.renderer.mm_processor
    kinds = dict(processor.info.allowed_mm_limits) if processor else {}
    asked: dict[str, Items] = {"text": {}}
    for kind, most in kinds.items():
        asked |= {f"{kind} 1": {kind: (1,)}, f"{kind} 2": {kind: (2,)}}
        if most > 1:
            asked[f"{kind} 1 2"] = {kind: (1, 2)}
    if len(kinds) > 1:
        asked["mixed"] = dict.fromkeys(kinds, (1,))
    answers = _ask(llm, *(prompt(checkpoint, items) for items in asked.values()))
    return dict(zip(asked, answers, strict=True))


def windows(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """A window of images that is sent again, longer by one, and again as it was."""
    short, long = {"image": (1, 2, 3)}, {"image": (1, 2, 3, 4)}
    asked = {"short": short, "longer": long, "short again": short}
    return {name: _ask(llm, prompt(checkpoint, items))[0] for name, items in asked.items()}


def limits(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    asked: dict[str, Items] = {"text": {}, "image": {"image": (1,)}, "video": {"video": (1,)}}
    return {name: _ask_or_refused(llm, prompt(checkpoint, one)) for name, one in asked.items()}


def embeddings(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """An image, and what the tower makes of it in place of the image."""
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(llm.llm_engine.model_config.model)
    seen = processor(images=[media.picture(1)], return_tensors="pt")

    def tower(model: Any) -> Any:
        pixels = seen["pixel_values"].to(model.visual.device, model.visual.dtype)
        return model.visual(pixels, grid_thw=seen["image_grid_thw"].tolist()).cpu()

    embeds = {"image_embeds": llm.apply_model(tower)[0], "image_grid_thw": seen["image_grid_thw"]}
    pixels = prompt(checkpoint, {"image": (1,)})
    given = {"pixels": pixels, "embeddings": pixels | {"multi_modal_data": {"image": embeds}}}
    return {name: _ask_or_refused(llm, one) for name, one in given.items()}


def prompt_embeddings(llm: LLM, _checkpoint: str) -> dict[str, Answer]:
    """A text, and the embeddings of its tokens in place of the text."""
    import torch

    text = "what is this?"
    ids = torch.tensor(llm.get_tokenizer()(text).input_ids)

    def embed(model: Any) -> Any:
        place = next(model.parameters()).device
        return model.embed_input_ids(ids.to(place)).detach().cpu()

    given = {"text": {"prompt": text}, "embeddings": {"prompt_embeds": llm.apply_model(embed)[0]}}
    return {name: _ask_or_refused(llm, one) for name, one in given.items()}


def sizes(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """Per request: nothing, a flat size, each scope with a size, a scope beside a flat size."""
    small = {"size": {"shortest_edge": 4096, "longest_edge": 32768}}
    asked: dict[str, dict[str, Any]] = {
        "stock": {},
        "flat": small,
        "video scope": {"videos_kwargs": small},
        "image scope": {"images_kwargs": small},
    }
    one: Items = {"image": (1,)}
    clip: Items = {"video": (1,)}
    return {
        f"{kind}, {name}": _ask_or_refused(
            llm, prompt(checkpoint, items, mm_processor_kwargs=kwargs)
        )
        for name, kwargs in asked.items()
        for kind, items in (("image", one), ("video", clip))
    }


@dataclass(frozen=True)
class Run:
    """One engine and what it is asked."""

    checkpoint: str
    ask: Ask
    options: Mapping[str, Any] = field(default_factory=dict)


_TRANSFORMERS = {"model_impl": "transformers"}
FAMILIES: Mapping[str, Run] = {
    **{
        name: Run(name, everything)
        for name in (
            *("gemma3", "glm4_1v", "idefics3", "internvl", "llama", "llava", "llava_onevision"),
            *("qwen2_5_vl", "qwen2_audio", "qwen2_vl", "qwen3_vl"),
        )
    },
    "idefics3, transformers": Run("idefics3", everything, _TRANSFORMERS),
    "qwen2_5_vl, transformers": Run("qwen2_5_vl", everything, _TRANSFORMERS),
}
_PLAIN = {"mm_processor_cache_gb": 0, "enable_prefix_caching": False}
_WHOLE = {"enable_chunked_prefill": False, "max_model_len": 2048, "mm_processor_cache_gb": 0}
_VIDEO_SIZE = {"shortest_edge": 4096, "longest_edge": 1048576}
RUNS: Mapping[str, Run] = {
    **FAMILIES,
    "windows, plain": Run("qwen3_vl", windows, _PLAIN),
    "windows, lru": Run("qwen3_vl", windows),
    "windows, shm": Run(
        "qwen3_vl", windows, {"mm_processor_cache_type": "shm", "mm_processor_cache_gb": 0.125}
    ),
    "windows, chunks": Run("qwen3_vl", windows, {"max_num_batched_tokens": 64}),
    "windows, whole": Run("qwen3_vl", windows, _WHOLE),
    "no images": Run("qwen3_vl", limits, {"limit_mm_per_prompt": {"image": 0}}),
    "embeddings": Run("qwen3_vl", embeddings, {"enable_mm_embeds": True, **_PLAIN}),
    "prompt embeddings": Run("llama", prompt_embeddings, {"enable_prompt_embeds": True}),
    "sizes": Run("qwen3_vl", sizes),
    "sizes, scoped": Run(
        "qwen3_vl",
        sizes,
        {
            "mm_processor_kwargs": {"videos_kwargs": {"size": _VIDEO_SIZE}},
            "limit_mm_per_prompt": {"image": 0},
            "max_num_batched_tokens": 128,
        },
    ),
}


def run(name: str, folder: Path) -> dict[str, Any]:
    """Answers of one engine, the size of its encoder cache in tokens, and the seconds it took."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.platforms import current_platform

    one, start = RUNS[name], time.perf_counter()
    checkpoint = folder / one.checkpoint
    if not checkpoint.exists():
        make_checkpoint(one.checkpoint, checkpoint, weights=True)
    options = {**OPTIONS, **one.options}
    # Greedy tokens are compared, so as exactly as the device computes.
    options["dtype"] = "float32" if current_platform.is_cpu() else "auto"
    llm = LLM(str(checkpoint), **options)
    answers = one.ask(llm, one.checkpoint)
    encoder_cache = _encoder_cache(llm).cache_size
    llm.llm_engine.engine_core.shutdown()
    del llm
    cleanup_dist_env_and_memory()
    seconds = round(time.perf_counter() - start, 1)
    return {"answers": answers, "encoder_cache": encoder_cache, "seconds": seconds}


def main(arguments: list[str]) -> int:
    """Parse the command line and print what the engines answered as one line."""
    parser = argparse.ArgumentParser(prog="engine_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("runs", nargs="*", default=list(RUNS), metavar="RUN")
    options = parser.parse_args(arguments)

    # In this process, where the scheduler can be asked and the next engine starts at once.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # vLLM logs to stdout, where only the result may be.
    with redirect_stdout(sys.stderr), inspected_in_this_process():
        import vllm

        found = {name: run(name, options.folder) for name in options.runs}
    sys.stdout.write(json.dumps({"vllm": vllm.__file__, "runs": found}, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
