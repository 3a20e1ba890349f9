"""Resend windows of images to a real engine with a worker process, and count what is broadcast.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.window_probe FOLDER --images N… --turns T`; the checkpoint is made in
FOLDER.
"""

# ruff: noqa: ANN401 (what vLLM takes and tells)

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.models import inspected_in_this_process
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm import LLM

CHECKPOINT = "qwen3_vl"
HEAD = "A system prompt that is longer than one block of the cache and is never changed."
FIXED = 2
"""Images in front of a window that moves."""
_WARMING = 2  # images of a window that nobody counts: the first turns of an engine take longer


def _prompt(head: str, numbers: Sequence[int], tail: str) -> dict[str, Any]:
    """Smallest images that the model takes: 64 tokens, 1.5 MiB each."""
    shown = CHECKPOINTS[CHECKPOINT].placeholders["image"] * len(numbers)
    images = [media.picture(number, 256, 256) for number in numbers]
    return {"prompt": f"{head}{shown}{tail}", "multi_modal_data": {"image": images}}


def resent(images: int, turns: int) -> Iterator[dict[str, Any]]:
    """One conversation: the same window each turn, and one more text."""
    numbers = [100 * images + i for i in range(images)]
    said = ""
    for turn in range(turns):
        said += f" In turn {turn}, which of the pictures above is the one that was meant before?"
        yield _prompt("", numbers, said)


def moving(images: int, turns: int) -> Iterator[dict[str, Any]]:
    """Each turn the oldest image of the window goes and a new one comes, behind `FIXED` others.

    The shared prefix ends inside the last of those, where no block ends.
    """
    for turn in range(turns):
        window = [10000 + turn + i for i in range(images)]
        yield _prompt(HEAD, [*range(9000, 9000 + FIXED), *window], f" What is new in turn {turn}?")


def _told(output: Any, pad: int) -> dict[str, Any]:
    """Lengths are in tokens; images, those wholly `covered` by the prefix and `straddling` its end.

    `logprob` is that of the greedy `tokens` in all.
    """
    spans, end = [], 0
    for token, run in groupby(output.prompt_token_ids):
        start, end = end, end + len(list(run))
        if token == pad:
            spans.append((start, end))
    cached = output.num_cached_tokens
    return {
        "images": len(spans),
        "prompt": end,
        "cached": cached,
        "covered": sum(end <= cached for _, end in spans),
        "straddling": sum(start < cached < end for start, end in spans),
        "tokens": list(output.outputs[0].token_ids),
        "logprob": output.outputs[0].cumulative_logprob,
    }


def _turn(llm: LLM, prompt: Any) -> dict[str, Any]:
    from vllm import SamplingParams

    from tests.support.counting_executor import TELL

    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=0)
    (before,), start = llm.collective_rpc(TELL), time.perf_counter()
    (output,) = llm.generate([prompt], greedy, use_tqdm=False)
    seconds, (after,) = time.perf_counter() - start, llm.collective_rpc(TELL)
    return {
        **_told(output, llm.llm_engine.model_config.hf_config.image_token_id),
        "broadcast_bytes": after["bytes"] - before["bytes"],
        "engine_cpu_seconds": after["cpu_seconds"] - before["cpu_seconds"],
        "seconds": seconds,
    }


def probe(folder: Path, images: Sequence[int], window: int, turns: int) -> dict[str, Any]:
    """Rows in the order asked: `turns` for each number of `images`, then those that `moved`."""
    from vllm import LLM
    from vllm.platforms import current_platform

    from tests.support.counting_executor import CountingExecutor

    checkpoint = folder / CHECKPOINT
    if not checkpoint.exists():
        make_checkpoint(CHECKPOINT, checkpoint, weights=True)
    # Greedy tokens are compared, so as exactly as the device computes.
    dtype: Any = "float32" if current_platform.is_cpu() else "auto"
    llm = LLM(
        str(checkpoint), dtype=dtype, distributed_executor_backend=CountingExecutor, **OPTIONS
    )
    for prompt in resent(_WARMING, 3):
        _turn(llm, prompt)
    rows = [_turn(llm, prompt) for count in images for prompt in resent(count, turns)]
    moved = []
    for prompt in moving(window, turns) if window else ():
        # The image at the end of the prefix has to be encoded again.
        llm.llm_engine.reset_encoder_cache()
        moved.append(_turn(llm, prompt))
    llm.llm_engine.engine_core.shutdown()
    return {"turns": rows, "moved": moved}


def main(arguments: list[str]) -> int:
    """Parse the command line and print what was counted as one line."""
    parser = argparse.ArgumentParser(prog="window_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--images", type=int, nargs="+", required=True, metavar="N")
    parser.add_argument("--turns", type=int, required=True, metavar="T")
    parser.add_argument(
        "--moving", type=int, default=0, metavar="N", help="and a window of N that moves"
    )
    options = parser.parse_args(arguments)

    with telling() as tell, inspected_in_this_process():
        import vllm

        told = probe(options.folder, options.images, options.moving, options.turns)
        tell({"vllm": vllm.__file__, **told})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
