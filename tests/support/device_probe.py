"""What one request moves to a real GPU, and what it waits for, by torch's profiler.

Prints one JSON line; runs on the unpatched and on the patched vLLM alike. Run it as
`python -m tests.support.device_probe FOLDER`; the checkpoint is made in FOLDER. Without a GPU it
sees nothing move.
"""

# ruff: noqa: ANN401 (what vLLM takes)

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import CHECKPOINTS, make_checkpoint
from tests.support.engine_probe import OPTIONS
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm import LLM

_KINDS: Mapping[str, tuple[str, int]] = {
    "few images": ("image", 2),
    "many images": ("image", 16),
    "long video": ("video", 1),
}


def _prompt(modality: str, number: int, first: int) -> Any:
    """So many items that nothing has seen, from the number `first` on."""
    place = CHECKPOINTS["qwen3_vl"].placeholders[modality]
    make = media.picture if modality == "image" else lambda n: media.clip(n, frames=32)
    items = [make(first + n) for n in range(number)]
    return {"prompt": place * number, "multi_modal_data": {modality: items}}


def _traced(llm: LLM, prompt: Any, file: Path) -> list[dict[str, Any]]:
    """Copies and calls of the runtime, by name, with the bytes that they move."""
    from torch.profiler import profile
    from vllm import SamplingParams

    once = SamplingParams(temperature=0, max_tokens=1)
    with profile() as seen:
        llm.generate([prompt], once, use_tqdm=False)
    seen.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    return [
        {"name": event["name"], "bytes": event.get("args", {}).get("bytes", 0)}
        for event in events
        if event.get("cat") in ("gpu_memcpy", "cuda_runtime")
    ]


def probe(folder: Path) -> dict[str, Any]:
    """By kind of request; the one before it, of the same kind, has warmed everything up."""
    import vllm

    checkpoint = folder / "qwen3_vl"
    if not checkpoint.exists():
        make_checkpoint("qwen3_vl", checkpoint, weights=True)
    llm = vllm.LLM(str(checkpoint), **OPTIONS)
    kinds = {}
    for kind, (modality, number) in _KINDS.items():
        for first in (100, 200):
            prompt = _prompt(modality, number, first)
            kinds[kind] = _traced(llm, prompt, folder / "trace.json")
    return {"vllm": vllm.__file__, "kinds": kinds}


def main(arguments: list[str]) -> int:
    """Parse the command line and print what was seen as one line."""
    parser = argparse.ArgumentParser(prog="device_probe", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)

    # In this process, where the profiler looks.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    with telling() as tell:
        tell(probe(options.folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
