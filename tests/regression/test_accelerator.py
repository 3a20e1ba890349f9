"""The simulated accelerator finds what CUDA would refuse, and counts what makes it wait.

Each rule's source in PyTorch stands beside it in `tests/support/accelerator`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import DEVICE, Accelerator, Copy

Work = Callable[[torch.Tensor], Any]

MASK = [True, False, True, False]


def rows() -> torch.Tensor:
    return torch.arange(12.0).view(4, 3)


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    with Accelerator(root=Path(__file__).parent, faults="record") as accelerator:
        yield accelerator


@pytest.fixture
def device(accelerator: Accelerator) -> torch.Tensor:
    """Four rows of three on the device."""
    with accelerator.unwatched():
        return rows().to(DEVICE)


@pytest.fixture(params=[False, True], ids=["eager", "inference"], autouse=True)
def inference(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways that operators reach the simulation: in parts, or composite ones whole."""
    with torch.inference_mode(request.param):
        yield


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.pin_memory().to(DEVICE, non_blocking=True)


REFUSED: dict[str, Work] = {
    "add": lambda x: x + rows(),
    "add in place to the host": lambda x: rows().add_(x),
    "add a host scalar's target": lambda x: torch.tensor(1.0).add_(x.sum()),
    "cat": lambda x: torch.cat([x, rows()]),
    "stack": lambda x: torch.stack([x[0, 0], torch.tensor(1.0)]),
    "linear": lambda x: torch.nn.functional.linear(x, rows()),
    "embedding": lambda x: torch.nn.functional.embedding(torch.tensor([0]), x),
    "index_select": lambda x: x.index_select(0, torch.tensor([0])),
    "device index into the host": lambda x: rows()[x.long()[0]],
    "host values at device indices": lambda x: x.index_put_((torch.tensor(MASK),), rows()[:2]),
    "masked_fill": lambda x: x.masked_fill(rows() > 0, 0.0),
    "masked_scatter": lambda x: x.masked_scatter(rows() > 0, x),
    "where": lambda x: torch.where(x > 0, x, rows()),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, rows()),
    "host repeats": lambda x: x.repeat_interleave(torch.tensor([1, 1, 1, 1]), dim=0),
    "numpy": lambda x: x.numpy(),
}

WAITING: dict[str, Work] = {
    "item": lambda x: x[0, 0].item(),
    "int": lambda x: int(x[0, 0]),
    "bool": lambda x: bool((x > 0).all()),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "where with a condition alone": lambda x: torch.where(x > 0),
    "device mask": lambda x: x[x[:, 0] > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "host numbers": lambda x: x[torch.tensor([0, 2])],
    "list of numbers": lambda x: x[[0, 2]],
    "list of numbers beside a slice": lambda x: x[:, [0, 2]],
    "list of numbers, written": lambda x: x.__setitem__([0, 2], x[:2].clone()),
    "host numbers, written": lambda x: x.index_put_((torch.tensor([0]),), x[1:2].clone()),
    "number at a host mask": lambda x: x.__setitem__(torch.tensor(MASK), 0.0),
    "number at one place": lambda x: x.__setitem__((0, 0), 1.0),
    "index that is a device scalar": lambda x: x[x.argmax() % 4],
    "cpu": lambda x: x.cpu(),
    "to the host": lambda x: x.to("cpu"),
    "to the device": lambda x: rows().to(x.device),
    "copy to the device": lambda x: x.copy_(rows()),
    "tensor from numbers": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "as_tensor from numbers": lambda x: torch.as_tensor([1.0], device=x.device),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "tensor from device scalars": lambda x: torch.tensor([x[0, 0], x[0, 1]]),
    "repeats": lambda x: x.repeat_interleave(
        torch.ones(4, dtype=torch.int64, device=DEVICE), dim=0
    ),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "bincount": lambda x: x.long().flatten().bincount(),
    "equal": lambda x: torch.equal(x, x),
    "where with a host scalar": lambda x: torch.where(x > 0, x, torch.tensor(0.0)),
    "host filled from the device": lambda x: rows().fill_(x[0, 0]),
}

QUIET: dict[str, Work] = {
    "add": lambda x: x + x,
    "add a host scalar": lambda x: x + torch.tensor(1.0),
    "add a number": lambda x: x + 1.0,
    "device numbers": lambda x: x[torch.arange(2, device=DEVICE)],
    "host mask": lambda x: x[torch.tensor(MASK)],
    "device rows at a host mask": lambda x: x.__setitem__(torch.tensor(MASK), x[:2].clone()),
    "number at a device mask": lambda x: x.__setitem__(x > 5, 0.0),
    "number at a slice": lambda x: x.__setitem__(slice(1, 3), 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 5, float("-inf")),
    "where with a number": lambda x: torch.where(x > 0, x, 0.0),
    "split by numbers": lambda x: x.split([1, 3]),
    "iterate over rows": lambda x: list(x),
    "pinned to the device": lambda _: pinned(rows()),
    "pinned and transposed": lambda _: pinned(rows().t()),
    "pinned by its factory": lambda x: torch.empty(3, pin_memory=True).to(
        x.device, non_blocking=True
    ),
    "pinned from numbers": lambda x: torch.tensor([1], pin_memory=True).to(
        x.device, non_blocking=True
    ),
    "to the host without waiting": lambda x: x.to("cpu", non_blocking=True),
    "repeats with their sum": lambda x: x.repeat_interleave(
        torch.ones(4, dtype=torch.int64, device=DEVICE), dim=0, output_size=4
    ),
    "stack of rows by number": lambda x: torch.stack([x[i] for i in [0, 2]]),
    "list of numbers on the host": lambda _: rows()[[0, 2]],
    "host alone": lambda _: rows()[torch.tensor([0])].tolist(),
    "empty copy": lambda x: torch.empty(0).to(x.device),
}

STRICT: dict[str, Work] = {
    "pageable": lambda x: rows().to(x.device, non_blocking=True),
    "gappy": lambda _: pinned(rows()[:, :2]),
    "converted and transposed": lambda x: (
        rows().t().pin_memory().to(x.device, torch.float64, non_blocking=True)
    ),
    "copied from pageable": lambda x: x.copy_(rows(), non_blocking=True),
    "copied to pageable": lambda x: rows().copy_(x, non_blocking=True),
}


def work(table: dict[str, Work]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", table.values(), ids=table)


@work(REFUSED)
def test_operands_on_two_devices_are_found(
    accelerator: Accelerator, device: torch.Tensor, run: Work
) -> None:
    run(device)
    assert len(accelerator.record.mismatches) == 1
    assert "cpu" in str(accelerator.record.mismatches[0]) or run is REFUSED["numpy"]


@work(WAITING)
def test_what_waits_for_the_device_is_found(
    accelerator: Accelerator, device: torch.Tensor, run: Work
) -> None:
    run(device)
    assert accelerator.record.syncs
    assert not accelerator.record.mismatches
    assert accelerator.record.faults()


@work(QUIET)
def test_what_does_not_wait_is_left_alone(device: torch.Tensor, run: Work) -> None:
    with Accelerator(strict=True) as strict:
        run(device)
    assert not strict.record.syncs
    assert not strict.record.mismatches


@work(STRICT)
def test_strict_mode_adds_copies_through_pageable_memory(device: torch.Tensor, run: Work) -> None:
    for strict, expected in ((False, 0), (True, 1)):
        with Accelerator(strict=strict, faults="record") as accelerator:
            run(device)
        assert len(accelerator.record.faults()) == expected


def test_a_fault_is_blamed_on_the_line_that_caused_it(
    accelerator: Accelerator, device: torch.Tensor
) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    device.tolist()
    (sync,) = accelerator.record.syncs
    assert sync.line == f"{Path(__file__).name}:{line}"


def test_a_line_of_the_tree_is_blamed_for_what_a_library_does_for_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree.py"
    tree.write_text("def caller(work):\n\n    return work()\n", encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(compile(tree.read_text(encoding="utf-8"), str(tree), "exec"), namespace)
    with Accelerator(root=tmp_path, faults="record") as accelerator:
        tensor = torch.ones(2, device=DEVICE)
        namespace["caller"](tensor.tolist)
    assert [s.line for s in accelerator.record.syncs] == ["tree.py:3"]


def test_copies_are_counted_in_bytes_by_direction_and_memory(
    accelerator: Accelerator, device: torch.Tensor
) -> None:
    torch.ones(5).pin_memory().to(DEVICE, non_blocking=True)
    torch.ones(7).to(DEVICE)
    device.cpu()
    device.sum().item()
    record = accelerator.record
    assert [c for c in record.copies if c.direction == "h2d"] == [
        Copy("h2d", 20, True, False, record.copies[0].line),
        Copy("h2d", 28, False, True, record.copies[1].line),
    ]
    assert record.copied("h2d") == 48
    assert record.copied("h2d", pinned=True) == 20
    assert record.copied("h2d", pinned=False) == 28
    assert record.copied("d2h") == 4 * 12 + 4


@pytest.mark.parametrize(("blocking", "size"), [(True, 8), (False, 4)])
def test_conversion_happens_on_the_side_that_cuda_chooses(
    accelerator: Accelerator, blocking: bool, size: int
) -> None:
    host = torch.ones(1, dtype=torch.float32).pin_memory()
    host.to(DEVICE, torch.float64, non_blocking=not blocking)
    assert accelerator.record.copied("h2d") == size


def test_pinned_memory_is_tracked_with_its_storage(accelerator: Accelerator) -> None:
    host = torch.ones(4).pin_memory()
    assert host.is_pinned()
    assert host[1:].is_pinned()
    assert host.pin_memory() is host
    assert not host.clone().is_pinned()
    assert not torch.ones(4).is_pinned()
    assert torch.zeros(4, pin_memory=True).is_pinned()
    assert accelerator.record.copies == []


def test_pinning_keeps_gaps(accelerator: Accelerator) -> None:
    gappy = rows()[:, :2]
    assert gappy.pin_memory().stride() == gappy.stride()
    assert accelerator.record.copies == []


def test_host_index_masks_reach_the_device_without_waiting(
    accelerator: Accelerator, device: torch.Tensor
) -> None:
    device[torch.tensor(MASK)]
    (copy,) = accelerator.record.copies
    assert (copy.size, copy.pinned, copy.blocking) == (2 * 8, True, False)


def test_syncs_that_the_tree_allows_are_counted_but_no_faults(device: torch.Tensor) -> None:
    from vllm.utils.gpu_sync_debug import gpu_sync_allowed

    from tests.support.cuda_tree import cuda_tree

    with cuda_tree() as accelerator:
        with gpu_sync_allowed():
            device.tolist()
        assert not accelerator.record.faults()
        assert [s.allowed for s in accelerator.record.syncs] == [True]
        device.tolist()
        assert [s.allowed for s in accelerator.record.syncs] == [True, False]
        assert len(accelerator.record.faults()) == 1


def test_allowing_syncs_allows_no_mismatch(device: torch.Tensor) -> None:
    from vllm.utils.gpu_sync_debug import gpu_sync_allowed

    from tests.support.cuda_tree import cuda_tree

    with cuda_tree() as accelerator, gpu_sync_allowed():
        device + rows()
    assert len(accelerator.record.faults()) == 1


def test_the_tree_stages_tensors_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.utils import torch_utils

    from tests.support.cuda_tree import cuda_tree

    with cuda_tree(strict=True, faults="raise") as accelerator:
        for data in ([1, 2], torch.ones(2), torch.ones(2).numpy()):
            assert torch_utils.async_tensor_h2d(data, DEVICE).device == DEVICE
        late = SimpleNamespace(PIN_MEMORY=torch_utils.PIN_MEMORY)  # a module imported here
        monkeypatch.setitem(sys.modules, "vllm.late", late)
    assert accelerator.record.copied("h2d", pinned=True) == 16 + 8 + 8
    kept = (torch_utils.PIN_MEMORY, late.PIN_MEMORY)
    assert kept == (False, False), "the change outlived its context"


def test_what_is_on_the_device_cannot_be_pinned(device: torch.Tensor) -> None:
    with Accelerator(), pytest.raises(RuntimeError, match=r"_pin_memory.* sim float32\[4, 3\]"):
        device.pin_memory()


def test_the_first_fault_stops_the_work(device: torch.Tensor) -> None:
    with Accelerator() as accelerator:
        with pytest.raises(RuntimeError, match=r"mixes devices: sim float32\[4, 3\], cpu float32"):
            device + rows()
        with pytest.raises(RuntimeError, match="synchronises"):
            device.tolist()
        with accelerator.unwatched():
            device.tolist()
    assert len(accelerator.record.faults()) == 2


def test_results_are_those_of_the_cpu(device: torch.Tensor, accelerator: Accelerator) -> None:
    layer = torch.nn.Linear(3, 5)
    expected = layer(rows()).softmax(-1)[1:].cumsum(0)
    with accelerator.unwatched():
        weight, bias = layer.weight.detach().to(DEVICE), layer.bias.detach().to(DEVICE)
        result = torch.nn.functional.linear(device, weight, bias).softmax(-1)[1:].cumsum(0)
        assert result.device == DEVICE
        assert torch.equal(result.cpu(), expected)
        device[0] += 1
        assert torch.equal(device.cpu()[0], rows()[0] + 1)
