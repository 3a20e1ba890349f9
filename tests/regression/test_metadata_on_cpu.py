"""Multimodal metadata stays on the CPU, and nothing that steers an encoder waits for the device."""

# ruff: noqa: ANN401 (stands in for a method of vLLM)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import models
from tests.support.audit import Report, audit
from tests.support.families import FAMILIES, PADDED
from tests.support.pinned_audit import GetReport, check_same_as_pinned
from tests.support.sources import edited, pinned_source, replaced
from tests.support.static_audit import field_modules, suspects
from tests.support.unbuilt import UNBUILT

MODELS = "vllm.model_executor.models"


@pytest.fixture(scope="module", params=FAMILIES)
def audited(request: pytest.FixtureRequest, report: GetReport) -> Report:
    """A fixture of the module, so that the tests of a family run one after another."""
    return report(request.param)


def test_no_operand_is_on_the_wrong_side_and_nothing_waits(audited: Report) -> None:
    assert audited.faults() == []


def test_nothing_waits_where_the_tree_allows_it_either(audited: Report) -> None:
    """The host has every answer: a wait that is allowed is a wait."""
    assert {wait for run in audited.runs for wait in run.waits} == set()


def test_both_model_runners_do_the_same(audited: Report) -> None:
    """Same embeddings, copies and waits, for every way to batch the items."""
    by_runner: dict[str, list[Any]] = {"runner v1": [], "runner v2": []}
    for run in audited.runs:
        if run.step in by_runner:
            by_runner[run.step].append((run.case, run.digest, run.h2d_bytes, run.syncs))
    assert by_runner["runner v1"] == by_runner["runner v2"] != []


def test_positions_are_computed_on_the_host_alone(audited: Report) -> None:
    for run in audited.runs:
        if run.step == "positions":
            assert (run.h2d_copies, run.d2h_copies, run.syncs) == (0, 0, 0)


def test_fields_are_where_their_flag_says(audited: Report) -> None:
    for placement in audited.placements:
        if placement.place != "no tensor":
            assert (placement.place == "cpu") == placement.keep_on_cpu, placement


@pytest.mark.parametrize("part", range(4))
def test_embeddings_and_positions_are_those_of_the_pinned_release(
    report: GetReport, tmp_path: Path, part: int
) -> None:
    """Of those that `test_padding_on_host` does not compare."""
    families = [name for name in FAMILIES if name not in PADDED]
    check_same_as_pinned(report, families[part::4], tmp_path)


def field_paths() -> dict[str, Path]:
    import vllm

    return field_modules(Path(vllm.__file__).parent / "model_executor" / "models")


def test_every_module_with_fields_is_run_or_read_for_a_reason(
    checkpoint: Callable[[str], Path],
) -> None:
    configs = [models.make_config(checkpoint(n), **f.options) for n, f in FAMILIES.items()]
    owners = [models.field_owner(config) for config in configs]
    run = {cls._get_mm_fields_config.__module__.removeprefix(f"{MODELS}.") for cls in owners}
    modules = set(field_paths())
    assert modules - run == set(UNBUILT)
    assert len(FAMILIES) >= 25


@pytest.mark.parametrize("module", UNBUILT)
def test_what_is_only_read_neither_waits_nor_mixes(module: str) -> None:
    path = field_paths()[module]
    assert [str(s) for s in suspects(path, path.parent)] == []


def faults_with(checkpoint: Path, module: str, *edits: tuple[str, str]) -> list[str]:
    """Faults of the family with the pinned release's `module`, edited: no consumer is changed."""
    name = f"{MODELS}.{module}"
    with replaced({name: edited(pinned_source(name), *edits)}):
        return audit(FAMILIES[checkpoint.name], checkpoint).faults()


def test_a_host_mask_in_qwen2_audio_is_found(checkpoint: Callable[[str], Path]) -> None:
    flag = 'feature_attention_mask=MultiModalFieldConfig.batched("audio"'
    faults = faults_with(
        checkpoint("qwen2_audio"), "qwen2_audio", (f"{flag})", f"{flag}, keep_on_cpu=True)")
    )
    assert any("qwen2_audio.py:429: " in fault for fault in faults)
    assert any("qwen2_audio.py:433: aten.index_put_" in fault for fault in faults)


def test_host_grids_in_ernie45_vl_are_found(checkpoint: Callable[[str], Path]) -> None:
    """The copy at 1747 waits, on the graph path alone."""
    flags = [(f'{m}_grid_thw=MultiModalFieldConfig.batched("{m}"', ")") for m in ("image", "video")]
    edits = [(f"{flag}{end}", f"{flag}, keep_on_cpu=True{end}") for flag, end in flags]
    faults = faults_with(checkpoint("ernie45_vl"), "ernie45_vl", *edits)
    (graph,) = (fault for fault in faults if "ernie45_vl.py:1747: " in fault)
    assert "graph v1 (image)" in graph
    assert "graph v2 (image)" in graph
    assert "runner" not in graph


def test_encoders_that_get_sequence_bounds_on_the_host_are_found(
    checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention

    def on_host(_cls: type, _backend: object, cu_seqlens: Any, *_: Any, **__: Any) -> torch.Tensor:
        return torch.from_numpy(cu_seqlens)

    monkeypatch.setattr(MMEncoderAttention, "maybe_recompute_cu_seqlens", classmethod(on_host))
    faults = audit(FAMILIES["qwen3_vl"], checkpoint("qwen3_vl")).faults()
    assert any("flash_attn_varlen_func mixes devices" in fault for fault in faults)
