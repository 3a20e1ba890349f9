"""What waits at `server.Gate` in the worker of a served model, at each step."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vllm.v1.sample.logits_processor import LogitsProcessor

from tests.support import server

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.v1.sample.logits_processor import BatchUpdate


class Held(LogitsProcessor):
    """Changes no logits."""

    def __init__(self, _config: VllmConfig, _device: torch.device, _pinned: bool) -> None:
        self.path = Path(os.environ[server.GATE])

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        with self.path.open("ab", buffering=0) as file:
            file.write(b".")
            fcntl.flock(file, fcntl.LOCK_SH)
        return logits

    def is_argmax_invariant(self) -> bool:
        """False, or no greedy request asks it."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """It has no state."""
