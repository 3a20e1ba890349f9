"""What covers an item is taken away from a request that relies on it.

Runner v1, which is the one of the CPU: v2 needs Triton, `tests/regression` has its side. A request
with three images starts on a prefix with the first two and a part of the third, so that 0 and 1
are sent without tensors. Should they be needed after all, the request either resumes and finds
their encoder outputs still there, or the scheduler has them encoded and sends their tensors in
that step, as `CachedRequestData.mm_items`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import SideBySide, Told
from tests.engine.test_answers import same

# Sent without tensors, sent after all, encoded, in the order of items; and how often preempted.
UNDISTURBED = ([0, 1], [], [], 0)
WHOLE = ([], [], [], 0)
RESUMED = ([0, 1], [], [], 1)
PATHS = {
    "nothing": UNDISTURBED,
    # The request was not sent yet, and is sent whole.
    "prefix, before": WHOLE,
    "encoder outputs, before": ([0, 1], [], [2], 0),
    "both, before": ([], [], [0, 1, 2], 0),
    # Resumed in the next step, on the encoder outputs of the request before.
    "prefix, in the prompt": RESUMED,
    "prefix, in the answer": RESUMED,
    # The prefix holds, nothing has to be encoded.
    "encoder outputs, in the prompt": UNDISTURBED,
    "encoder outputs, in the answer": UNDISTURBED,
    # Resumed in the next step, with the tensors.
    "both, in the prompt": ([0, 1], [0, 1], [0, 1, 2], 1),
    "both, in the answer": ([0, 1], [0, 1], [0, 1, 2], 1),
    # The step runs, its token is dropped; then as before.
    "prefix, scheduled": ([0, 1], [0, 1], [2, 0, 1], 1),
    "both, scheduled": ([0, 1], [0, 1], [2, 0, 1, 2], 1),
}


@pytest.fixture(scope="module")
def told(side_by_side: SideBySide) -> Told:
    """What `support.fault_probe` says of the patched tree."""
    runs: Told = side_by_side("fault_probe", trees=("patched",))["patched"]["runs"]
    return runs


@pytest.fixture(scope="module")
def told_of_a_plug_in(side_by_side: SideBySide, base_tree: Path) -> Told:
    """The same of the patched tree with `support.own_platform`."""
    probe = ("fault_probe", "lost", "squeezed", "--plug-in", str(base_tree))
    runs: Told = side_by_side(*probe, trees=("patched",))["patched"]["runs"]
    return runs


def test_an_answer_depends_on_what_is_shown(told: Told) -> None:
    """Otherwise no comparison could find a fault."""
    assert not same(told["plain"]["asked"], told["plain"]["other"])


@pytest.mark.parametrize("fault", PATHS)
def test_a_lost_cache_changes_no_answer(told: Told, fault: str) -> None:
    """The prefix cache, the encoder outputs or both are reset: before the request is scheduled,

    between its first schedule and that step's execution, after a chunk of its prompt, and in its
    answer. `PATHS` has what serves it then.
    """
    answer = told["lost"][fault]
    assert same(answer, told["plain"]["asked"])
    path = (answer["withheld"], answer["late"], answer["encoded"], answer["preempted"])
    assert path == PATHS[fault]


def test_a_request_that_is_preempted_for_want_of_blocks_gets_its_tensors(told: Told) -> None:
    """A longer request takes its blocks and most of its prefix. It resumes when that is done."""
    answer = told["squeezed"]["asked"]
    assert answer["preempted"] > 0
    assert answer["withheld"] == [0, 1]
    assert answer["late"] == [0, 1]
    assert same(answer, told["plain"]["asked"])


def test_a_prefix_that_the_connector_fails_to_load_is_computed_with_the_tensors(
    told: Told,
) -> None:
    """It promised all three images. The request runs on from the first block, not preempted."""
    answer = told["not loaded"]["asked"]
    assert answer["withheld"] == answer["late"] == answer["encoded"] == [0, 1, 2]
    assert answer["preempted"] == 0
    assert same(answer, told["plain"]["asked"])


def test_each_fault_has_a_known_path(told: Told) -> None:
    assert told["lost"].keys() == PATHS.keys()


@pytest.mark.parametrize("fault", PATHS)
def test_a_platform_whose_runner_does_not_restore_gets_all_tensors_at_once(
    told: Told, told_of_a_plug_in: Told, fault: str
) -> None:
    """Its runner has the release's own `_update_states`, which knows nothing of late ones."""
    answer = told_of_a_plug_in["lost"][fault]
    assert same(answer, told["plain"]["asked"])
    assert answer["withheld"] == answer["late"] == []
    assert answer["preempted"] == PATHS[fault][-1]


def test_a_preempted_request_on_such_a_platform_answers_as_before(
    told: Told, told_of_a_plug_in: Told
) -> None:
    answer = told_of_a_plug_in["squeezed"]["asked"]
    assert answer["preempted"] > 0
    assert answer["withheld"] == answer["late"] == []
    assert same(answer, told["plain"]["asked"])
