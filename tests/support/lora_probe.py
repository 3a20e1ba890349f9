"""Ask a real engine with adapters on the vision tower of a tiny Qwen3-VL.

Prints one JSON line: what each way of asking answers. Run it as
`python -m tests.support.lora_probe FOLDER`; checkpoint and adapters are made in FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.asks import guard, prompt
from tests.support.checkpoints import make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.models import inspected_in_this_process
from tests.support.telling import telling

if TYPE_CHECKING:
    import torch

CHECKPOINT = "qwen3_vl"
RANK = 8
ADAPTERS: Mapping[str, tuple[str, float]] = {
    "zero": ("visual", 0.0),
    "tower": ("visual.blocks", 1.0),
    "connector": ("visual.merger", 1.0),
    "all": ("visual", 1.0),
}
"""By name: the part of the model whose layers it changes, and the range of its weights."""


def make_adapter(folder: Path, weights: Mapping[str, torch.Tensor], part: str, scale: float) -> str:
    """Write a PEFT adapter for the linear `weights` below `part`, uniform within `scale`."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    generator = torch.Generator().manual_seed(len(part))
    tensors, targets = {}, set()
    for name, weight in sorted(weights.items()):
        module, _, kind = name.rpartition(".")
        if f".{part}" not in name or kind != "weight" or weight.ndim != 2 or "embed" in name:
            continue
        targets.add(module.rpartition(".")[2])
        for side, shape in (("A", (RANK, weight.shape[1])), ("B", (weight.shape[0], RANK))):
            reach = scale if side == "B" else 1.0
            tensors[f"base_model.model.{module}.lora_{side}.weight"] = torch.empty(shape).uniform_(
                -reach, reach, generator=generator
            )
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": RANK,
        "bias": "none",
        "target_modules": sorted(targets),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return str(folder)


def make_adapters(
    folder: Path, checkpoint: Path, adapters: Mapping[str, tuple[str, float]]
) -> dict[str, str]:
    """Write `adapters` for a checkpoint with weights, see `ADAPTERS`; name to path."""
    from safetensors.torch import load_file

    weights: dict[str, torch.Tensor] = {}
    for file in checkpoint.glob("*.safetensors"):
        weights |= load_file(file)
    return {
        name: make_adapter(folder / name, weights, part, scale)
        for name, (part, scale) in adapters.items()
    }


def answers(folder: Path) -> dict[str, Any]:
    """Greedy tokens and their log probability: one a prompt, by the adapters that were used."""
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.platforms import current_platform

    checkpoint = make_checkpoint(CHECKPOINT, folder / CHECKPOINT, weights=True)
    adapters = {
        name: LoRARequest(name, number, path)
        for number, (name, path) in enumerate(
            make_adapters(folder, checkpoint, ADAPTERS).items(), 1
        )
    }
    llm = LLM(
        str(checkpoint),
        enable_lora=True,
        enable_tower_connector_lora=True,
        max_lora_rank=RANK,
        # A slot stays empty: torch kernels, which the CPU uses, index the last one with the -1
        # of a request without adapter.
        max_loras=len(ADAPTERS) + 1,
        mm_processor_cache_gb=0,
        enable_prefix_caching=False,
        dtype="float32" if current_platform.is_cpu() else "auto",
        **OPTIONS,
    )
    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=0)
    image, other, clip = (
        prompt(CHECKPOINT, items) for items in ({"image": (1,)}, {"image": (2,)}, {"video": (1,)})
    )

    def ask(prompts: Sequence[Any], names: Sequence[str | None]) -> list[Any]:
        requests = [adapters[name] if name else None for name in names]
        outputs = llm.generate(list(prompts), greedy, lora_request=requests, use_tqdm=False)
        return [[list(o.outputs[0].token_ids), o.outputs[0].cumulative_logprob] for o in outputs]

    told = {str(name): ask([image, other], [name, name]) for name in (None, *ADAPTERS)}
    return {
        **told,
        "guard": guard(),
        "tower, all": ask([image, other], ["tower", "all"]),
        "nothing, all": ask([image, other], [None, "all"]),
        "clip": [ask([clip], [name])[0] for name in (None, "all")],
        "image with tower, clip with all": ask([image, clip], ["tower", "all"]),
        "clip with nothing, image with all": ask([clip, other], [None, "all"]),
    }


def main(arguments: Sequence[str]) -> int:
    """Print what the engine answered as one line."""
    (folder,) = arguments
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    with telling() as tell, inspected_in_this_process():
        tell(answers(Path(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
