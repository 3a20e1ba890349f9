"""Time what it takes to map the items of a step to their adapters, on the host.

The step is that of model runner v1, with the real LoRA manager of a tiny Qwen3-VL; its encoder
answers without work. Prints one JSON line; runs on the unpatched and on the patched vLLM alike.
Run it as `python -m tests.support.lora_mapping_probe FOLDER`.
"""

# ruff: noqa: ANN401 (models and runners)

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support import lora, models
from tests.support.checkpoints import make_checkpoint
from tests.support.telling import telling

_STEPS = 60
CASES = ((1, 1), (8, 1), (8, 4), (64, 1), (64, 4))
"""Items of a step, and the adapters that they have in turn."""


class _Adapters:
    """A worker's LoRA manager, as far as a runner asks it, with all adapters loaded."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.split_mm_items = getattr(manager, "split_mm_items", None)

    def supports_tower_connector_lora(self) -> bool:
        return bool(self._manager.supports_tower_connector_lora)

    def set_active_adapters(self, _requests: Any, mapping: Any) -> None:
        self._manager.set_adapter_mapping(mapping)


def make_runner(manager: Any, features: Sequence[Any], adapters: int) -> tuple[Any, Any]:
    """A runner that can encode, and a step with `features`, one request for each adapter."""
    import torch
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner.__new__(GPUModelRunner)
    numbers = range(1, adapters + 1)
    by_request = {f"with {n}": list(features[n - 1 :: adapters]) for n in numbers}
    vars(runner).update(
        model=manager.model,
        device=torch.device("cpu"),
        lora_config=manager.lora_config,
        lora_manager=_Adapters(manager),
        observability_config=None,
        is_multimodal_pruning_enabled=False,
        requires_sequential_video_encoding=False,
        encoder_cudagraph_manager=None,
        encoder_cache={},
        requests={name: SimpleNamespace(mm_features=fs) for name, fs in by_request.items()},
        input_batch=SimpleNamespace(
            req_id_to_index={name: index for index, name in enumerate(by_request)},
            request_lora_mapping=list(numbers),
            lora_id_to_lora_request=dict.fromkeys(numbers),
        ),
    )
    step = SimpleNamespace(
        scheduled_encoder_inputs={name: list(range(len(fs))) for name, fs in by_request.items()},
        ec_manager_metadata=None,
        free_encoder_mm_hashes=[],
    )
    return runner, step


def seconds(folder: Path) -> dict[str, float]:
    """The median step, by case."""
    import torch

    size = {"size": {"shortest_edge": 4096, "longest_edge": 4096}}
    checkpoint = make_checkpoint("qwen3_vl", folder / "qwen3_vl")
    config = models.make_config(checkpoint, mm_processor_kwargs=size)
    config.lora_config = lora.tower_lora(max_loras=5)
    manager = lora.make_manager(models.make_model(config), config)
    for adapter in range(1, 5):
        lora.add_adapter(manager, adapter, scale=0.1)
    most = max(items for items, _ in CASES)
    features = models.make_inputs(
        config, {"image": [models.image(64, 64, seed=n) for n in range(most)]}
    ).features
    rows = torch.zeros(features[0].mm_position.get_num_embeds(), 1)
    manager.model.embed_multimodal = lambda *, image_grid_thw, **_: [rows] * len(image_grid_thw)

    found = {}
    for items, adapters in CASES:
        runner, step = make_runner(manager, features[:items], adapters)
        taken = []
        for _ in range(_STEPS):
            runner.encoder_cache.clear()
            start = time.perf_counter()
            runner._execute_mm_encoder(step)
            taken.append(time.perf_counter() - start)
            assert len(runner.encoder_cache) == items
        plural = "s" * (items > 1), "s" * (adapters > 1)
        found[f"{items} item{plural[0]}, {adapters} adapter{plural[1]}"] = statistics.median(taken)
    return found


def main(arguments: Sequence[str]) -> int:
    """Print what was measured as one line."""
    (folder,) = arguments
    with telling() as tell, models.inspected_in_this_process():
        tell(seconds(Path(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
