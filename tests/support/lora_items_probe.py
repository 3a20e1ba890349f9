"""Ask an engine with two adapters on its towers about many items at once, and about each alone.

Prints one JSON line. Run it as `python -m tests.support.lora_items_probe FOLDER RUN`; set
`VLLM_USE_V2_MODEL_RUNNER` to choose the runner.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import media
from tests.support.asks import prompt
from tests.support.checkpoints import make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.interpreter import interpret_kernels
from tests.support.lora_probe import RANK, make_adapters
from tests.support.models import inspected_in_this_process
from tests.support.telling import telling


@dataclass(frozen=True)
class Run:
    """A checkpoint, the parts of it that have adapters, and what is asked at once."""

    checkpoint: str
    parts: Sequence[str]
    prompts: Sequence[Any]
    options: Mapping[str, Any] = field(default_factory=dict)


def _audios(count: int) -> list[Any]:
    """Of a tenth of a second and more."""
    return [
        prompt("gemma4", {"audio": (n,)})
        | {"multi_modal_data": {"audio": [media.tone(n, 0.1 + n / 20)]}}
        for n in range(count)
    ]


def _images(checkpoint: str) -> list[Any]:
    shown: list[tuple[int, ...]] = [(1, 2), (3,), (4, 5, 6), (7, 8)]
    return [prompt(checkpoint, {"image": numbers}) for numbers in shown]


def runs() -> Mapping[str, Run]:
    gemma4, vision, more = "gemma4", ("vision_tower",), {"max_soft_tokens": 1120}
    large = prompt(gemma4, {"image": (9,)}, mm_processor_kwargs=more)
    small = {"max_num_batched_tokens": 300, "limit_mm_per_prompt": {"video": 0, "audio": 0}}
    clips = [prompt(gemma4, {"video": (n, n + 1)}) for n in (1, 5)]
    data = {"tensor_parallel_size": 2, "mm_encoder_tp_mode": "data"}
    return {
        "images": Run(gemma4, vision, [*_images(gemma4), large]),
        "videos": Run(gemma4, vision, clips),
        "small": Run(gemma4, vision, [*_images(gemma4), large], small),
        "audios": Run(gemma4, ("audio_tower",), _audios(24)),
        "two workers": Run("qwen3_vl", ("visual",), _images("qwen3_vl"), data),
        "graphs": Run(
            "qwen3_vl",
            ("visual",),
            _images("qwen3_vl"),
            {"enforce_eager": False, "compilation_config": {"cudagraph_mm_encoder": True}},
        ),
    }


def answers(folder: Path, run: Run) -> dict[str, Any]:
    """Tokens and log probability by prompt: `alone` by adapter, `together` with them in turn."""
    from vllm import LLM, SamplingParams, _custom_ops
    from vllm.exceptions import VLLMClientError
    from vllm.lora.request import LoRARequest

    checkpoint = make_checkpoint(run.checkpoint, folder / run.checkpoint, weights=True)
    parts = {f"{part}-{n}": (part, n / 2) for n in (1, 2) for part in run.parts}
    paths = make_adapters(folder, checkpoint, parts)
    adapters = [None, *(LoRARequest(name, n, paths[name]) for n, name in enumerate(paths, 1))]
    # oneDNN refuses the strides that the audio tower of Gemma 4 hands it, without adapter too.
    _custom_ops._supports_onednn = False
    llm = LLM(
        str(checkpoint),
        enable_lora=True,
        enable_tower_connector_lora=True,
        max_lora_rank=RANK,
        max_loras=3,
        mm_processor_cache_gb=0,
        enable_prefix_caching=False,
        dtype="float32",
        **{**OPTIONS, "max_num_seqs": 32, **run.options},
    )
    greedy = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, logprobs=0)

    def ask(prompts: Sequence[Any], loras: Sequence[Any]) -> list[Any]:
        outputs = llm.generate(list(prompts), greedy, lora_request=list(loras), use_tqdm=False)
        return [[list(o.outputs[0].token_ids), o.outputs[0].cumulative_logprob] for o in outputs]

    taken, refused = [], []
    for one in run.prompts:
        try:
            ask([one], [None])
            taken.append(one)
        except (VLLMClientError, ValueError) as error:
            refused.append(str(error))
    alone = [[ask([one], [lora])[0] for one in taken] for lora in adapters]
    turns = [place % len(adapters) for place in range(len(taken))]
    return {
        "refused": refused,
        "alone": alone,
        "turns": turns,
        "together": ask(taken, [adapters[turn] for turn in turns]),
        "one adapter": ask(taken, [adapters[1]] * len(taken)),
    }


def main(arguments: Sequence[str]) -> int:
    """Print what the engine answered as one line."""
    folder, name = arguments
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if (
        os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1"
        and os.environ.get("VLLM_TARGET_DEVICE") == "cpu"
    ):
        interpret_kernels()
    with telling() as tell, inspected_in_this_process():
        tell(json.loads(json.dumps(answers(Path(folder), runs()[name]))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
