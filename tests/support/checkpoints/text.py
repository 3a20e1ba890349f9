"""A model without a multimodal processor."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import Checkpoint, Ids, Json, text


def _llama(_ids: Ids) -> Json:
    return text("llama", "LlamaForCausalLM")


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "llama": Checkpoint(_llama),
}
