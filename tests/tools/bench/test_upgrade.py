"""Patch or upgrade: one table of all contenders, from one run; what a release gets wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench import behaviour, measures, rounds, samples, upgrade
from scripts.bench.headline import HEADLINES
from scripts.bench.measures import ALL, MEASUREMENTS
from scripts.bench.samples import Measured, Run
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

TAG = "v0.32.0"
MADE = {
    "processor": "X", "cores": "2", "memory": "24 GiB", "device": "cpu", "base": "vllm v0.28.0",
    "patched": "tree 1",
}  # fmt: skip
Values = dict[str, dict[str, dict[str, list[float]]]]


def whole() -> Run:
    """Every figure of the table: 4 for base, 1 for ours, 2 for the release."""
    by: dict[str, list[float]] = {"base": [4], "patched": [1], TAG: [2]}
    values: dict[str, Values] = {}
    for row in HEADLINES:
        case = row.case.replace(ALL, "qwen")
        values.setdefault(row.measurement, {}).setdefault(case, {})[row.figure] = dict(by)
    values["settings"] = {
        "qwen: a": {"wrong": {"base": [1], "patched": [0], TAG: [1]}},
        "qwen: b": {"wrong": {"base": [1], "patched": [0], TAG: [0]}},
        "others: c": {"wrong": {"base": [1], "patched": [0]}},
    }
    values["lora"] = {f"{group}: x": {"wrong": dict(by)} for group in ("counts", "gate")}
    said = {"settings": {f"qwen: a, {TAG}": "2, not 1", f"others: c, {TAG}": "not measured: no"}}
    return Run(MADE, {
        name: Measured("2026-12-01", 1, one, said=said.get(name, {}))
        for name, one in values.items()
    })  # fmt: skip


def cells(run: Run, text: str) -> list[str]:
    (row,) = (row for row in upgrade.rows(run, [TAG]) if row[0] == text)
    return row[1:]


def test_each_contender_has_a_column() -> None:
    assert upgrade.rows(whole(), [TAG])[0] == ["", "base", "patched", TAG]
    assert cells(whole(), HEADLINES[0].text) == ["4 s", "1 s", "2 s"]
    asked = "options for one modality: rows with a wrong answer, Qwen2/2.5/3-VL"
    assert cells(whole(), asked) == ["2 of 2", "0 of 2", "1 of 2"]
    assert cells(whole(), "the same, other models") == ["1 of 1", "0 of 1", "not measured"]


def test_a_sum_is_over_the_families_that_all_answer_for() -> None:
    run = whole()
    (waits,) = (row for row in HEADLINES if row.figure == "syncs")
    kind = waits.case.replace(ALL, "")
    copies = run.measured["copies"]
    other = {f"other{kind}": {"syncs": {"base": [9], "patched": [9]}}}
    run = run.with_one("copies", replace(copies, values={**copies.values, **other}))
    assert cells(run, waits.text) == ["4", "1", "2"]


def test_what_a_release_gets_wrong_is_listed_with_its_words() -> None:
    found = list(upgrade.wrong(whole(), TAG))
    assert "qwen: a: 2, not 1" in found
    assert "others: c: not measured: no" in found
    assert [line for line in found if "waits for the device" in line]


@pytest.fixture
def where(tmp_path: Path) -> Layout:
    (tmp_path / "tests" / "bench").mkdir(parents=True)
    (tmp_path / "README.md").write_text(f"a\n{upgrade.BEGIN}old\n{upgrade.END}b\n")
    return Layout.of(tmp_path, None)


def test_the_readme_takes_the_table_of_a_whole_run_only(where: Layout) -> None:
    samples.write(rounds.path(where), run := whole())
    upgrade.record(where, run, [TAG])
    text = (where.root / "README.md").read_text()
    assert text == f"a\n{upgrade.BEGIN}{upgrade.table(run, [TAG])}{upgrade.END}b\n"
    assert samples.read(where.root / "tests/bench/upgrade.json") == run
    assert "`make bench AGAINST=v0.32.0`, 2026-12-01: X, 2 cores" in text

    part = Run(MADE, {name: one for name, one in run.measured.items() if name != "lora"})
    with pytest.raises(OverlayError, match="lora is not measured"):
        upgrade.record(where, part, [TAG])


def test_a_release_contends_wherever_base_does_and_is_asked_as_ours_is() -> None:
    long = MEASUREMENTS["start"].against([TAG])
    assert long.contenders == {"base": "base", "patched": "patched", TAG: TAG}
    assert long.arguments("long video", TAG) == long.arguments("long video", "patched")
    assert long.arguments("stock", TAG) == long.arguments("stock", "base")
    verbs = MEASUREMENTS["series"]
    assert verbs.against([TAG]) is verbs
    assert behaviour.on("cpu").keys() > measures.on("cpu").keys() - {"series", "packing"}


def test_families_that_cannot_be_asked_leave_no_sum_and_say_why() -> None:
    figures = dict.fromkeys(("h2d_copies", "h2d_bytes", "h2d_pageable_bytes", "syncs"), 1)
    told: list[measures.Told] = [
        {"family": "a", "runs": [{"step": "runner v1", "case": "few", **figures}]},
        {"family": "b", "why_not": "b: ImportError"},
    ]
    copies = MEASUREMENTS["copies"]
    assert [case for case, _ in copies.read("all", told)] == ["a, few"]
    assert copies.said(told) == {"b": "not measured: b: ImportError"}
    assert [case for case, _ in copies.read("all", told[:1])] == ["a, few", f"{ALL}, few"]
