"""Measurements that ask any release what the patches are for: right or wrong, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from scripts.bench import measures
from scripts.bench.measures import MEASUREMENTS, Measurement, Row, Told, families

PICTURES = ("ernie45_vl", "gemma3", "kimi_vl")
"""Families whose encoder graphs had faults: of an image beyond every graph, of waits."""


def _rows(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    for group, found in told[0]["groups"].items():
        for row, wrong in found["rows"].items():
            yield f"{group}: {row}", {"wrong": float(bool(wrong))}


def _words(told: Sequence[Told]) -> Mapping[str, str]:
    """What is wrong, and why a row was not asked."""
    return {
        f"{group}: {row}": words if kind == "rows" else f"not measured: {words}"
        for group, found in told[0]["groups"].items()
        for kind, rows in found.items()
        for row, words in rows.items()
        if words
    }


def _graphs(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    """Waits of a replayed graph; whether what fits no graph comes to its end."""
    for report in told:
        if "why_not" in report:
            continue
        for kind in dict.fromkeys(run["case"] for run in report["runs"]):
            runs = [run for run in report["runs"] if run["case"] == kind]
            replayed = [run for run in runs if run["step"].startswith("graph v")]
            beyond = [run for run in runs if run["step"].startswith("graph over budget")]
            if replayed:
                yield f"{report['family']}, {kind}", {"syncs": sum(r["syncs"] for r in replayed)}
            if beyond:
                crashed = any("Error: " in fault for run in beyond for fault in run["faults"])
                yield f"{report['family']}, {kind}, beyond", {"wrong": float(crashed)}


def _beyond(told: Sequence[Told]) -> Mapping[str, str]:
    return dict(families(told)) | {
        f"{report['family']}, {run['case']}, beyond": fault
        for report in told
        for run in report.get("runs", ())
        if run["step"].startswith("graph over budget")
        for fault in run["faults"]
        if "Error: " in fault
    }


_WARMUP = MEASUREMENTS["warmup"]
_PAIR = {"base": "base", "patched": "patched"}
ASKED: Mapping[str, Measurement] = {
    "settings": Measurement(
        "Options for one modality",
        "Every rule of patches/scoped-kwargs.md through the real processors: what is reserved for"
        " an item, what it takes, what is refused.",
        "tests.support.settings_probe",
        {"all": ()},
        _rows,
        once=True,
        said=_words,
    ),
    "lora": Measurement(
        "LoRA on towers",
        "Rows that the model counts, against those that forward hooks of its LoRA layers see; and"
        " whether a model without such LoRA starts with that of its language model.",
        "tests.support.lora_rows_probe",
        {"all": ()},
        _rows,
        once=True,
        said=_words,
    ),
    "graphs": Measurement(
        "Encoder graphs",
        "Replayed on the simulated accelerator; and images beyond every captured budget.",
        "tests.support.audit",
        {"all": ("--typical", *PICTURES)},
        _graphs,
        once=True,
        said=_beyond,
    ),
}
SMALL: Mapping[str, Measurement] = {
    **ASKED,
    "warmup": replace(
        _WARMUP,
        cases={case: _WARMUP.cases[case] for case in ("stock", "many modalities")},
        contenders=_PAIR,
    ),
    "copies": MEASUREMENTS["copies"],
    "window": MEASUREMENTS["window"],
}
"""What `roll` asks; the same probes, each once."""


def on(device: str) -> dict[str, Measurement]:
    """All that is measured against other releases, by name."""
    made_on_our_trees = ("series", "packing")
    measured = {**measures.on(device), **ASKED}
    return {name: one for name, one in measured.items() if name not in made_on_our_trees}
