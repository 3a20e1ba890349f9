"""The placement audit: each family's real grouping and encoders on the simulated accelerator.

`audit` runs one family through both model runners, the encoder CUDA graphs and the position
ids, and reports where every field lives, what moved, what waited and what CUDA would refuse.
`python -m tests.support.audit [--typical] [--runner-v1] [FAMILY …]` prints one JSON line a
family, for any vLLM.
"""

# ruff: noqa: ANN401 (models and their inputs)

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from tests.support import models
from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor, Record
from tests.support.checkpoints import make_checkpoint
from tests.support.cuda_tree import cuda_tree
from tests.support.families import FAMILIES, Cases, Family, cases, typical
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.multimodal.inputs import MultiModalFeatureSpec

_ITEMS, _FRAMES = 8, 16
"""What a graph takes: more than any batch here has, so that some of it is padding."""


@dataclass(frozen=True)
class Placement:
    """Where one field of the batched kwargs is when the model gets it."""

    modality: str
    name: str
    keep_on_cpu: bool
    place: str
    """"device", "cpu" or "no tensor"."""
    size: int
    """Bytes, of all items in the batch."""


@dataclass(frozen=True)
class Run:
    """What one step moved and waited for; sizes in bytes."""

    step: str
    case: str
    h2d_copies: int
    h2d_bytes: int
    h2d_pageable_bytes: int
    d2h_copies: int
    d2h_bytes: int
    syncs: int
    """With those inside `gpu_sync_allowed()`."""
    waits: tuple[str, ...]
    """Where these are, once each."""
    faults: tuple[str, ...]
    """Mismatches and syncs that nothing allows, by line, once each; then what stopped it."""
    digest: str
    """SHA-256 of the embeddings or positions."""


@dataclass
class Report:
    """One family's outcome."""

    family: str
    model: str
    fields_from: str
    """Module of the field configuration."""
    placements: list[Placement] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def faults(self) -> list[str]:
        """One line each: where, what, and in which steps."""
        steps: dict[str, list[str]] = {}
        for run in self.runs:
            for fault in run.faults:
                steps.setdefault(fault, []).append(f"{run.step} ({run.case})")
        return sorted(f"{fault} [{', '.join(where)}]" for fault, where in steps.items())


def audit(
    family: Family,
    checkpoint: Path,
    *,
    strict: bool = True,
    shown: Cases = cases,
    everything: bool = True,
) -> Report:
    """Build the family from its checkpoint folder and run everything it supports.

    Without `everything` neither the second runner nor a graph.
    """
    vllm_config = models.make_config(checkpoint, **family.options)
    fields = models.field_owner(vllm_config)._get_mm_fields_config
    prepared = list(shown(family, vllm_config))
    with cuda_tree(strict=strict) as accelerator, torch.inference_mode():
        with accelerator.unwatched():
            model = models.make_model(vllm_config, device=DEVICE)
        audited = _Audit(accelerator, vllm_config, model)
        report = Report(checkpoint.name, type(model).__name__, fields.__module__)
        for name, requests in prepared:
            report.placements += audited.placements(requests, report.placements)
            report.runs += audited.runs(name, requests, everything=everything)
    return report


def fallen_back(report: Report) -> dict[str, bool]:
    """Whether each case beyond every graph budget ran to its end, in both runners."""
    told: dict[str, bool] = {}
    for run in report.runs:
        if run.step.startswith("graph over budget"):
            ended = not any("Error: " in fault for fault in run.faults)
            told[run.case] = told.get(run.case, True) and ended
    return told


class _Audit:
    def __init__(self, accelerator: Accelerator, vllm_config: VllmConfig, model: Any) -> None:
        self._acc, self._config, self._model = accelerator, vllm_config, model
        self._graphs_of: dict[tuple[int, int], Any] = {}

    def placements(
        self, requests: Sequence[models.Inputs], known: Sequence[Placement]
    ) -> Iterator[Placement]:
        from vllm.multimodal.utils import group_and_batch_mm_kwargs

        mm_kwargs = [pair for request in requests for pair in request.mm_kwargs]
        seen = {(p.modality, p.name) for p in known}
        with self._acc.unwatched():
            groups = list(group_and_batch_mm_kwargs(mm_kwargs, device=DEVICE, pin_memory=True))
        for modality, _, batch in groups:
            flags = {
                k: e.field.keep_on_cpu for m, i in mm_kwargs if m == modality for k, e in i.items()
            }
            for name, value in sorted(batch.items()):
                if (modality, name) not in seen:
                    seen.add((modality, name))
                    yield _placement(modality, name, flags[name], value)

    def runs(
        self, case: str, requests: Sequence[models.Inputs], *, everything: bool
    ) -> Iterator[Run]:
        features = [feature for request in requests for feature in request.features]
        # What is made once: caches, compiled kernels. If it fails, so do the next ones. One of many
        # items has the size of all.
        with self._acc.unwatched(), suppress(Exception):
            self._v2(features if everything else features[:1])
        yield self._watch("runner v1", case, lambda: self._v1(features))
        if everything:
            yield self._watch("runner v2", case, lambda: self._v2(features))
            yield from self._graphs(case, features)
        for request in requests:
            if not request.by_hand:
                yield from self._positions(case, request)

    def _watch(self, step: str, case: str, work: Any) -> Run:
        self._acc.record = record = Record(strict=self._acc.record.strict)
        crash: tuple[str, ...] = ()
        try:
            result = work()
        except Exception as error:
            result, crash = None, (_crash(error, self._acc.root),)
        up = [c for c in record.copies if c.direction == "h2d"]
        down = [c for c in record.copies if c.direction == "d2h"]
        return Run(
            step=step,
            case=case,
            h2d_copies=len(up),
            h2d_bytes=sum(c.size for c in up),
            h2d_pageable_bytes=record.copied("h2d", pinned=False),
            d2h_copies=len(down),
            d2h_bytes=sum(c.size for c in down),
            syncs=sum(not s.strict for s in record.syncs),
            waits=tuple(sorted({str(s) for s in record.syncs if not s.strict})),
            faults=(*sorted({str(f) for f in record.faults()}), *crash),
            digest=_digest(result),
        )

    def _v1(self, features: Sequence[MultiModalFeatureSpec], manager: Any = None) -> Any:
        """`GPUModelRunner` without its engine: what `_execute_mm_encoder` reads."""
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        runner: Any = GPUModelRunner.__new__(GPUModelRunner)
        runner.model, runner.device = self._model, DEVICE
        runner.requests = {"request": SimpleNamespace(mm_features=list(features))}
        runner.lora_config = runner.observability_config = None
        runner.is_multimodal_pruning_enabled = False
        runner.requires_sequential_video_encoding = False
        runner.encoder_cudagraph_manager = manager
        runner.encoder_cache = {}
        scheduled = SimpleNamespace(
            scheduled_encoder_inputs={"request": list(range(len(features)))},
            ec_manager_metadata=None,
            free_encoder_mm_hashes=[],
        )
        return runner._execute_mm_encoder(scheduled)

    def _v2(self, features: Sequence[MultiModalFeatureSpec], manager: Any = None) -> Any:
        from vllm.v1.worker.gpu.mm.encoder_cache import EncoderCache
        from vllm.v1.worker.gpu.mm.encoder_runner import EncoderRunner

        with self._acc.unwatched():
            runner = EncoderRunner(
                self._model, 1, 1, EncoderCache(), torch.float32, DEVICE, manager
            )
        runner.encoder_cache.add_request("request", list(features))
        _, mm_kwargs = runner.prepare_mm_inputs({"request": list(range(len(features)))})
        return runner.execute_mm_encoder(mm_kwargs)

    def _graphs(self, case: str, features: Sequence[MultiModalFeatureSpec]) -> Iterator[Run]:
        """Replay where the batch fits a captured budget, the eager path where it does not."""
        from vllm.model_executor.models.interfaces import supports_encoder_cudagraph
        from vllm.multimodal.utils import group_and_batch_mm_kwargs

        if not supports_encoder_cudagraph(self._model):
            return
        (modality,) = {f.modality for f in features}
        mm_kwargs = [(modality, f.data) for f in features]
        with self._acc.unwatched():
            probe = self._manager(1024, _ITEMS)
            if not probe.supports_modality(modality):
                return
            ((_, _, batch),) = group_and_batch_mm_kwargs(mm_kwargs, device=DEVICE)
            tokens = [int(t) for t in probe._get_per_item_out_tokens(batch)]
            fitting = self._captured(_power(max(64, sum(tokens))), _ITEMS)
            small = self._captured(min(tokens) // 2, 1)
        for step, manager in (("graph", fitting), ("graph over budget", small)):
            for runner, execute in (("v1", self._v1), ("v2", self._v2)):
                name = f"{step} {runner}"
                yield self._watch(name, case, lambda e=execute, m=manager: e(features, m))

    def _captured(self, budget: int, items: int) -> Any:
        """Once, as an engine does, however many batches replay it."""
        if (budget, items) not in self._graphs_of:
            manager = self._manager(budget, items)
            manager.capture(graph_pool=object())
            self._graphs_of[budget, items] = manager
        return self._graphs_of[budget, items]

    def _manager(self, budget: int, items: int) -> Any:
        from vllm.v1.worker.encoder_cudagraph import EncoderCudaGraphManager

        compilation = self._config.compilation_config
        compilation.encoder_cudagraph_token_budgets = [budget]
        compilation.encoder_cudagraph_max_vision_items_per_batch = items
        compilation.encoder_cudagraph_max_frames_per_batch = _FRAMES
        return EncoderCudaGraphManager(self._config, DEVICE, torch.float32, self._model)

    def _positions(self, case: str, inputs: models.Inputs) -> Iterator[Run]:
        model_config = self._config.model_config
        for used, name in (
            (model_config.uses_mrope, "get_mrope_input_positions"),
            # A later release, which roll asks, has no such models.
            (getattr(model_config, "uses_xdrope_dim", 0), "get_xdrope_input_positions"),
        ):
            if used:
                compute = getattr(self._model, name)
                yield self._watch(
                    "positions", case, lambda c=compute: c(inputs.token_ids, inputs.features)
                )


def _placement(modality: str, name: str, keep_on_cpu: bool, value: Any) -> Placement:
    leaves = [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
    places = {"device" if isinstance(t, DeviceTensor) else "cpu" for t in leaves}
    size = sum(t.numel() * t.element_size() for t in leaves)
    return Placement(modality, name, keep_on_cpu, "+".join(sorted(places)) or "no tensor", size)


def _crash(error: Exception, root: Path | None) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if root is not None and f.filename.startswith(f"{root}/vllm/")]
    where = ours[-1] if ours else frames[-1]
    line = f"{where.filename.removeprefix(f'{root}/')}:{where.lineno}"
    return f"{line}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _digest(result: Any) -> str:
    total = hashlib.sha256()
    for leaf in torch.utils._pytree.tree_leaves(result):
        host = leaf.host if isinstance(leaf, DeviceTensor) else leaf
        if isinstance(host, torch.Tensor):
            total.update(host.contiguous().view(torch.uint8).numpy().tobytes())
        else:
            total.update(repr(host).encode())
    return total.hexdigest()


def _power(tokens: int) -> int:
    return 1 << (tokens - 1).bit_length()


def main(arguments: list[str]) -> int:
    """Audit the families that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="audit", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], metavar="FAMILY")
    parser.add_argument("--typical", action="store_true", help="few and many items, long ones")
    parser.add_argument("--runner-v1", action="store_true", help="not v2, and no graphs")
    options = parser.parse_args(arguments)

    shown = typical if options.typical else cases
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder, telling() as tell:
        for name in options.families or FAMILIES:
            checkpoint = make_checkpoint(name, Path(folder, name))
            everything = not options.runner_v1
            try:
                found = audit(FAMILIES[name], checkpoint, shown=shown, everything=everything)
            except Exception as error:  # of a release that has such a model otherwise, or not
                traceback.print_exc()
                tell({"family": name, "why_not": f"{name}: {_crash(error, None)}"})
                continue
            tell(asdict(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
