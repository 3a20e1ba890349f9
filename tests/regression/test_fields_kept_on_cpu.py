"""A field that is kept on the CPU is there when the host reads it, wherever it came from."""

from __future__ import annotations

import pytest
import torch

from tests.support.accelerator import DEVICE
from tests.support.cuda_tree import cuda_tree


@pytest.mark.parametrize("shapes", [[(1, 3)], [(1, 3), (1, 3)], [(1, 3), (2, 3)]])
def test_metadata_that_arrives_on_the_device_is_waited_for(shapes: list[tuple[int, int]]) -> None:
    """From a processor on the GPU, or by IPC: a copy to the host completes late."""
    from vllm.multimodal.inputs import MultiModalBatchedField, MultiModalFieldElem

    field = MultiModalBatchedField(keep_on_cpu=True)
    grids = [torch.full(shape, 7 + n) for n, shape in enumerate(shapes)]
    with cuda_tree(strict=True) as accelerator, torch.inference_mode():
        with accelerator.unwatched():
            elems = [MultiModalFieldElem(data=g.to(DEVICE), field=field) for g in grids]
        batch = field.reduce_data(elems, device=DEVICE, pin_memory=True)

        assert [g.tolist() for g in batch] == [g.tolist() for g in grids]
        assert accelerator.record.faults() == []
