"""Take what covers an image away from a real engine, while a request relies on it.

Prints one JSON line: what is answered, and what the workers got for it. Run it as
`python -m tests.support.fault_probe FOLDER [RUN…]`; the checkpoint is made in FOLDER.
"""

# ruff: noqa: ANN401 (what vLLM takes and tells)

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.support import media, own_platform
from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.models import inspected_in_this_process
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm import LLM

CHECKPOINT = "qwen3_vl"
_SMALLEST = {"shortest_edge": 65536, "longest_edge": 65536}
CHUNKS: Mapping[str, Any] = {"max_num_batched_tokens": 48, "max_num_seqs": 4}
TIGHT: Mapping[str, Any] = {
    "max_model_len": 320,
    "num_gpu_blocks_override": 11,
    "max_num_batched_tokens": 64,
    # So that the encoder cache holds one image.
    "mm_processor_kwargs": {"size": _SMALLEST},
    "limit_mm_per_prompt": {"video": 0},
}
"""A cache for one request of full length, and one block that is never used."""
LOSING: Mapping[str, Any] = {
    "kv_transfer_config": {
        "kv_connector": "LosingConnector",
        "kv_connector_module_path": "tests.support.losing_connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
    }
}


def window(*numbers: int) -> dict[str, Any]:
    """Each image takes 64 tokens and one on either side, so blocks of 32 end inside them.

    The prefix that (1, 2, 3, 4) shares with (1, 2, 3) ends four tokens before the third image.
    """
    shown = CHECKPOINTS[CHECKPOINT].placeholders["image"] * len(numbers)
    images = [media.picture(number, 256, 256) for number in numbers]
    text = " Say what is to be seen there, and what of it is new?"
    return {"prompt": f"{shown}{text}", "multi_modal_data": {"image": images}}


BEFORE, ASKED, OTHER = window(1, 2, 3, 4), window(1, 2, 3), window(1, 5, 3)


@dataclass
class Seen:
    """Of one request: items that were sent without tensors, and those sent after all.

    `encoded` are the encoder inputs of its steps, `preempted` how often it was.
    """

    withheld: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    encoded: list[int] = field(default_factory=list)
    preempted: int = 0


class Engine:
    """An engine in this process, one step at a time, with a worker in another."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        client: Any = llm.llm_engine.engine_core
        self.core = client.engine_core
        self.seen: dict[str, Seen] = {}
        self._done: dict[str, Any] = {}
        self._schedule = self.core.scheduler.schedule
        self.core.scheduler.schedule = self._watched

    def _watched(self, *arguments: Any, **options: Any) -> Any:
        output = self._schedule(*arguments, **options)
        for new in output.scheduled_new_reqs:
            items = [set(feature.data or {}) for feature in new.mm_features]
            self._of(new.req_id).withheld += [i for i, n in enumerate(items) if _lacks(n)]
        # The unpatched tree sends everything at first.
        for name, late in getattr(output.scheduled_cached_reqs, "mm_items", {}).items():
            self._of(name).late += sorted(late)
        for name, encoded in output.scheduled_encoder_inputs.items():
            self._of(name).encoded += encoded
        for name, request in self.core.scheduler.requests.items():
            self._of(name).preempted = request.num_preemptions
        return output

    def _of(self, name: str) -> Seen:
        """vLLM makes the ids of requests unique by a suffix."""
        return self.seen.setdefault(name.partition("-")[0], Seen())

    def add(self, name: str, prompt: Any, tokens: int) -> None:
        from vllm import SamplingParams

        greedy = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=0)
        self.llm.llm_engine.add_request(name, prompt, greedy)

    def step(self) -> None:
        for output in self.llm.llm_engine.step():
            if output.finished:
                self._done[output.request_id] = output

    def told(self, name: str) -> dict[str, Any]:
        """Run until all is done; the answer of `name`, and what was seen of it."""
        while self.llm.llm_engine.has_unfinished_requests():
            self.step()
        output = self._done.pop(name)
        return {
            "tokens": list(output.outputs[0].token_ids),
            "logprob": output.outputs[0].cumulative_logprob,
            **vars(self.seen.pop(name)),
        }

    @contextmanager
    def before_execution(self, act: Callable[[], None]) -> Iterator[None]:
        """Run `act` whenever a step is scheduled, and not yet executed."""
        execute = self.core.model_executor.execute_model

        def acted(*arguments: Any, **options: Any) -> Any:
            act()
            return execute(*arguments, **options)

        with mock.patch.object(self.core.model_executor, "execute_model", acted):
            yield


def _lacks(fields: set[str]) -> bool:
    return "pixel_values" not in fields


TOKENS = 24


def answers(engine: Engine) -> dict[str, Any]:
    """Undisturbed, to the window and to another one."""
    told = {}
    for name, prompt in {"asked": ASKED, "other": OTHER}.items():
        engine.add(name, prompt, TOKENS)
        told[name] = engine.told(name)
    return told


def lost(engine: Engine) -> dict[str, Any]:
    """Each cache reset at each moment, and together; by `cache, moment`."""

    def prefix() -> None:
        engine.core.reset_prefix_cache(reset_running_requests=True)

    def outputs() -> None:
        engine.core.reset_encoder_cache()

    def both() -> None:
        prefix()
        outputs()

    told = {"nothing": _disturbed(engine, lambda: None, 1)}
    acts = {"prefix": prefix, "encoder outputs": outputs, "both": both}
    for name, act in acts.items():
        for moment, steps in {"before": 0, "in the prompt": 1, "in the answer": 8}.items():
            told[f"{name}, {moment}"] = _disturbed(engine, act, steps)
    told["prefix, scheduled"] = _disturbed(engine, prefix, None)
    told["both, scheduled"] = _disturbed(engine, both, None)
    return told


def _disturbed(engine: Engine, act: Callable[[], None], steps: int | None) -> dict[str, Any]:
    """Ask with a filled prefix cache; `act` after `steps`, or between the halves of the first."""
    engine.core.reset_prefix_cache()
    engine.add("before", BEFORE, 1)
    engine.told("before")
    if steps is None:
        # What is scheduled relies on no encoder output from before, then.
        engine.core.reset_encoder_cache()
    engine.add("asked", ASKED, TOKENS)
    if steps is None:
        with engine.before_execution(act):
            engine.step()
    else:
        for _ in range(steps):
            engine.step()
        act()
    return engine.told("asked")


def squeezed(engine: Engine) -> dict[str, Any]:
    """A longer answer takes the blocks of the window, and of its prefix, away."""
    engine.add("before", BEFORE, 1)
    engine.told("before")
    engine.add("long", {"prompt": "Tell me a story."}, 280)
    engine.step()
    engine.add("asked", ASKED, TOKENS)
    return {"asked": engine.told("asked")}


def not_loaded(engine: Engine) -> dict[str, Any]:
    """The connector promises the prompt."""
    engine.add("asked", ASKED, TOKENS)
    return {"asked": engine.told("asked")}


Ask = Callable[[Engine], dict[str, Any]]
RUNS: Mapping[str, tuple[Ask, Mapping[str, Any]]] = {
    "plain": (answers, {"enable_prefix_caching": False}),
    "lost": (lost, CHUNKS),
    "squeezed": (squeezed, TIGHT),
    "not loaded": (not_loaded, LOSING),
}


def run(name: str, checkpoint: Path) -> dict[str, Any]:
    """What one engine told."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.platforms import current_platform

    ask, more = RUNS[name]
    # Greedy tokens are compared, so as exactly as the device computes.
    dtype = "float32" if current_platform.is_cpu() else "auto"
    # For a worker in this process nothing is left out.
    options = {**OPTIONS, "dtype": dtype, "distributed_executor_backend": "mp", **more}
    llm = LLM(str(checkpoint), **options)
    told = ask(Engine(llm))
    llm.llm_engine.engine_core.shutdown()
    del llm
    cleanup_dist_env_and_memory()
    return told


def main(arguments: Sequence[str]) -> int:
    """Parse the command line and print what the engines told as one line."""
    parser = argparse.ArgumentParser(prog="fault_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("runs", nargs="*", default=list(RUNS), metavar="RUN")
    parser.add_argument(
        "--plug-in", type=Path, metavar="RELEASE", help="with a platform made from this tree"
    )
    options = parser.parse_args(arguments)
    if options.plug_in:
        own_platform.install(options.folder / "site", options.plug_in)

    # In this process, where the scheduler can be asked and steps are ours.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    checkpoint = options.folder / CHECKPOINT
    with telling() as tell, inspected_in_this_process():
        import vllm

        if not checkpoint.exists():
            make_checkpoint(CHECKPOINT, checkpoint, weights=True)
        runs = {name: run(name, checkpoint) for name in options.runs}
        tell({"vllm": vllm.__file__, "runs": runs})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
