"""Time what the host does to cut the padding of a long audio's chunks.

Prints one JSON line; on a vLLM without `pack_valid_rows` it indexes by a mask, as the towers do
there. Run it as `python -m tests.support.packing_probe CHUNKS`.
"""

from __future__ import annotations

import sys
import time

import torch

from tests.support.telling import telling

_ROWS, _COLUMNS = 13, 16
"""Rows of a second of audio in Qwen3-Omni; few columns, so that the rows alone cost."""
_CALLS = 20


def main(arguments: list[str]) -> int:
    """Pack so many chunks, the last of each thirty shorter; tell the median of some calls."""
    from vllm.model_executor.models import utils

    chunks = int(arguments[0])
    padded = torch.rand(chunks, _ROWS, _COLUMNS)
    lengths = [_ROWS - (n % 30 == 29) for n in range(chunks)]
    pack = getattr(utils, "pack_valid_rows", _by_mask)
    taken = []
    with telling() as tell, torch.inference_mode():
        for _ in range(_CALLS):
            start = time.perf_counter()
            pack(padded, lengths)
            taken.append(time.perf_counter() - start)
        tell({"pack_seconds": sorted(taken)[_CALLS // 2]})
    return 0


def _by_mask(padded: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    mask = torch.arange(padded.shape[1]) < torch.tensor(lengths)[:, None]
    return padded[mask]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
