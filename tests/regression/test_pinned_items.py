"""Items of any shape go to the device from pinned memory, of which the host keeps little."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from tests.support.accelerator import DEVICE, Accelerator

Items = list[torch.Tensor]


@pytest.fixture
def pinned(accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was pinned, in bytes."""
    sizes: list[int] = []
    mark = accelerator.pinned.mark

    def note(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.untyped_storage().nbytes())
        return mark(tensor)

    monkeypatch.setattr(accelerator.pinned, "mark", note)
    return sizes


def sent(items: Items, *, flat: bool = False) -> list[torch.Tensor]:
    """The items as the model gets them, on the device."""
    from vllm.multimodal.inputs import (
        MultiModalBatchedField,
        MultiModalFieldElem,
        MultiModalFlatField,
    )

    field = MultiModalFlatField(slices=[slice(None)]) if flat else MultiModalBatchedField()
    elems = [MultiModalFieldElem(data=item, field=field) for item in items]
    batch = field.reduce_data(elems, device=DEVICE, pin_memory=True)
    return [t.host for t in batch]


@pytest.mark.parametrize("flat", [False, True])
def test_an_item_with_gaps_is_copied_once_into_pinned_memory(
    accelerator: Accelerator, pinned: list[int], flat: bool
) -> None:
    gappy = torch.arange(24.0).view(4, 6)[..., :3]

    there = sent([gappy], flat=flat)

    assert torch.equal(torch.stack(there).flatten(), gappy.flatten())
    assert pinned == [48]
    assert accelerator.record.faults() == []


def test_items_of_different_shapes_and_types_are_what_they_were(
    accelerator: Accelerator, pinned: list[int]
) -> None:
    items = [
        torch.arange(5.0), torch.tensor([[True, False, True]]), torch.empty(0),
        torch.arange(12, dtype=torch.float64).view(3, 4).t(), torch.tensor(7),
    ]  # fmt: skip

    there = sent(items)

    assert [t.dtype for t in there] == [t.dtype for t in items]
    assert all(torch.equal(a, b) for a, b in zip(there, items, strict=True))
    assert len(pinned) == 1
    assert accelerator.record.faults() == []


def kept_by_the_host_allocator(requests: list[list[int]]) -> int:
    """Bytes that it holds after all `requests`, one after the other.

    ATen/core/CachingHostAllocator.h: a block of the next power of two, which is used again for
    that size alone and never given back.
    """
    most: Counter[int] = Counter()
    for sizes in requests:
        most |= Counter(1 << (size - 1).bit_length() for size in sizes if size)
    return sum(size * number for size, number in most.items())


def test_ragged_items_of_a_thousand_requests_keep_no_more_than_four_times_the_largest(
    accelerator: Accelerator, pinned: list[int]
) -> None:
    """As many items as a budget takes, few and large or many and small."""
    budget, numbers = 1 << 16, random.Random(0)
    requests: list[list[int]] = []
    largest = 0
    for _ in range(1000):
        most = int(2 ** numbers.uniform(10, 16))
        items: Items = []
        while len(items) < 2 or sum(item.nbytes for item in items) + 2 * most < budget:
            items.append(torch.empty(numbers.randrange(most // 2, most), dtype=torch.uint8))
        pinned.clear()
        sent(items)
        requests.append(pinned.copy())
        largest = max(largest, sum(pinned))

    assert kept_by_the_host_allocator(requests) <= 4 * largest
    assert accelerator.record.faults() == []
