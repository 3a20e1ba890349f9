"""What `bench` measures: cases, who contends in each, and how its probe's words are read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Told = Mapping[str, Any]
"""One JSON line of a probe."""
Row = tuple[str, Mapping[str, float]]
"""A case, and its figures."""


@dataclass(frozen=True)
class Figure:
    """`unit`: "s", "B", "/s" or empty for a number of things."""

    title: str
    unit: str = ""
    less_is_better: bool = True


FIGURES: Mapping[str, Figure] = {
    "warmup_seconds": Figure("time of the warmup", "s"),
    "warmup_peak_bytes": Figure("memory at its peak, above idle", "B"),
    "first_request_seconds": Figure("first request after it", "s"),
    "start_seconds": Figure("start of the engine", "s"),
    "first_token_seconds": Figure("start to first token", "s"),
    "peak_bytes": Figure("memory at its peak, above idle", "B"),
    "reserved_over_wanted": Figure("encoder budget reserved, of what is wanted"),
    "h2d_copies": Figure("copies to the device"),
    "h2d_bytes": Figure("bytes to the device", "B"),
    "h2d_pageable_bytes": Figure("of these, pageable", "B"),
    "syncs": Figure("waits for the device"),
    "mapping_seconds": Figure("a step of an encoder that does nothing", "s"),
    "pack_seconds": Figure("time of a call on the host", "s"),
    "broadcast_bytes": Figure("broadcast a turn", "B"),
    "engine_cpu_seconds": Figure("CPU of the engine process a turn", "s"),
    "seconds": Figure("a turn, from end to end", "s"),
    "latency": Figure("a request alone, median", "s"),
    "slowest": Figure("the slowest of them", "s"),
    "options": Figure("its options where it has none, read and settled", "s"),
    "throughput": Figure("requests in one call", "/s", less_is_better=False),
    "verb_seconds": Figure("time", "s"),
    "wrong": Figure("another answer than the right one, or none"),
}


@dataclass(frozen=True)
class Measurement:
    """`contenders`: name → tree (`base`, `warmup budget` or `patched`); the first is compared with.

    `cases` gives each case the arguments of its probe, for all contenders or by name of each.
    `{folder}` in them stands for a folder of that contender. With `once`, one run has all samples.
    """

    title: str
    note: str
    probe: str
    cases: Mapping[str, Sequence[str] | Mapping[str, Sequence[str]]]
    read: Callable[[str, Sequence[Told]], Iterable[Row]]
    contenders: Mapping[str, str] = field(
        default_factory=lambda: {"base": "base", "patched": "patched"}
    )
    once: bool = False
    panels: str = "figure"
    """What the plot has one panel for: each figure, or each kind of case ("family, kind")."""
    device: str = ""
    """The one that it needs, if any."""
    said: Callable[[Sequence[Told]], Mapping[str, str]] = lambda _told: {}
    """What a probe says in words, by row."""

    def against(self, tags: Sequence[str]) -> Measurement:
        """With these releases as contenders, if base is one; asked as the patched tree is."""
        if "base" not in self.contenders or not tags:
            return self
        cases = {
            case: {**given, **dict.fromkeys(tags, given["patched"])}
            if isinstance(given, Mapping)
            else given
            for case, given in self.cases.items()
        }
        return replace(self, cases=cases, contenders={**self.contenders, **{t: t for t in tags}})

    def contends(self, case: str, contender: str) -> bool:
        given = self.cases[case]
        return not isinstance(given, Mapping) or contender in given

    def arguments(self, case: str, contender: str) -> Sequence[str]:
        given = self.cases[case]
        return given[contender] if isinstance(given, Mapping) else given


def _figures(*names: str) -> Callable[[str, Sequence[Told]], Iterator[Row]]:
    """Read the fields of these names from the one line that a probe prints."""

    def read(case: str, told: Sequence[Told]) -> Iterator[Row]:
        yield case, {name: told[0][name] for name in names if told[0].get(name) is not None}

    return read


def _warmup(case: str, told: Sequence[Told]) -> Iterator[Row]:
    if told[0]["warmup_failures"]:
        raise ValueError("the warmup failed, and a failed one is quick")
    names = ("warmup_seconds", "warmup_peak_bytes", "first_request_seconds")
    yield from _figures(*names)(case, told)


def _start(case: str, told: Sequence[Told]) -> Iterator[Row]:
    for name, figures in _figures("start_seconds", "first_token_seconds", "peak_bytes")(case, told):
        share = told[0]["reserved"] / told[0]["wanted"]
        yield name, {**figures, "reserved_over_wanted": share}


ALL = "all families"
_AUDITED = ("h2d_copies", "h2d_bytes", "h2d_pageable_bytes", "syncs")


def _copies(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    """Encoder and position ids of one request, in the first runner; at last of all families."""
    total: dict[str, dict[str, float]] = {}
    asked = [report for report in told if "why_not" not in report]
    for report in asked:
        kinds: dict[str, dict[str, float]] = {}
        for run in report["runs"]:
            if run["step"] in ("runner v1", "positions"):
                figures = kinds.setdefault(run["case"], dict.fromkeys(_AUDITED, 0))
                for name in _AUDITED:
                    figures[name] += run[name]
        for kind, figures in kinds.items():
            yield f"{report['family']}, {kind}", figures
            so_far = total.setdefault(kind, dict.fromkeys(_AUDITED, 0))
            so_far.update((name, so_far[name] + value) for name, value in figures.items())
    for kind, figures in total.items() if len(asked) == len(told) else ():
        yield f"{ALL}, {kind}", figures


def families(told: Sequence[Told]) -> Mapping[str, str]:
    """Those that a release cannot be asked about."""
    return {
        report["family"]: f"not measured: {report['why_not']}"
        for report in told
        if "why_not" in report
    }


def _moved(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    """Events of a GPU, by their names in CUDA's own profiler interface."""
    for kind, events in told[0]["kinds"].items():
        copies = [event for event in events if event["name"].startswith("Memcpy HtoD")]
        yield (
            kind,
            {
                "h2d_copies": len(copies),
                "h2d_bytes": sum(e["bytes"] for e in copies),
                "h2d_pageable_bytes": sum(e["bytes"] for e in copies if "Pageable" in e["name"]),
                "syncs": sum("Synchronize" in event["name"] for event in events),
            },
        )


def _window(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    """One sample a turn, but for the first with a window, which brings it."""
    seen = set()
    for turn in told[0]["turns"]:
        images = turn["images"]
        if images in seen:
            names = ("broadcast_bytes", "engine_cpu_seconds", "seconds")
            yield f"{images} image{'s' * (images > 1)}", {name: turn[name] for name in names}
        seen.add(images)


def _processing(_case: str, told: Sequence[Told]) -> Iterator[Row]:
    for kind, found in told[0]["kinds"].items():
        latencies = found["latencies"]
        yield (
            kind,
            {
                "latency": statistics.median(latencies),
                "slowest": max(latencies),
                "options": found["options"],
                "throughput": told[0]["requests"] / found["together"],
            },
        )


def _by_case(figure: str) -> Callable[[str, Sequence[Told]], Iterator[Row]]:
    """Read the one line of a probe that has tried each case: its name to that figure."""

    def read(_case: str, told: Sequence[Told]) -> Iterator[Row]:
        for case, value in told[0].items():
            yield case, {figure: value}

    return read


_LENGTHS = ("--max-model-len", "262144", "--max-num-batched-tokens", "8192")
TURNS = 6
MEASUREMENTS: Mapping[str, Measurement] = {
    "warmup": Measurement(
        "Renderer warmup",
        "262,144 tokens of context, 8,192 a prefill step. The tiny checkpoints have the processors"
        " of the real models. “#55448” is the series up to that pull request. Long video: scoped"
        " keys of 469,762,048 pixels, which base does not read when it sizes its items; “#55448”"
        " does, makes one of more than the step takes, and its warmup fails.",
        "tests.support.warmup_probe",
        {
            "stock": (*_LENGTHS, "--first-request", "small"),
            "stock, full-size request": (*_LENGTHS, "--first-request", "full"),
            "long video": dict.fromkeys(("base", "patched"), (*_LENGTHS, "--recipe", "long-video")),
            "many modalities": (*_LENGTHS, "--family", "qwen2_5_omni"),
        },
        _warmup,
        {"base": "base", "#55448": "warmup budget", "patched": "patched"},
    ),
    "start": Measurement(
        "Engine start",
        "Qwen3-VL, in one process, without profiling of the encoder. Long video: 58,720,256 pixels"
        " in the video scope; base reads no scope when it sizes its budget and needs the flat"
        " recipe for the same videos, which gives images the size, too.",
        "tests.support.start_probe",
        {
            "stock": ("{folder}",),
            "long video": {
                "base": ("{folder}", "--recipe", "long-video-flat"),
                "patched": ("{folder}", "--recipe", "long-video"),
            },
        },
        _start,
    ),
    "copies": Measurement(
        "Host to device, by family",
        "Encoder and positions of one request on the simulated accelerator: exact numbers, no"
        " times. Sizes are those of tiny items and towers.",
        "tests.support.audit",
        {"all": ("--typical", "--runner-v1")},
        _copies,
        once=True,
        panels="kind",
        said=families,
    ),
    "device": Measurement(
        "Host to device, on the GPU",
        "The same of a request to a real engine with Qwen3-VL, counted by torch's profiler.",
        "tests.support.device_probe",
        {"all": ("{folder}",)},
        _moved,
        device="cuda",
    ),
    "packing": Measurement(
        "Padding cut from chunks of audio",
        "One chunk a second; base indexes by a mask, and would wait for a GPU to do so.",
        "tests.support.packing_probe",
        {"1 minute": ("60",), "30 minutes": ("1800",)},
        _figures("pack_seconds"),
    ),
    "mapping": Measurement(
        "Items of a step mapped to their LoRA",
        "By runner v1. Patched, items of different adapters are encoded in calls of their own.",
        "tests.support.lora_mapping_probe",
        {"all": ("{folder}",)},
        _by_case("mapping_seconds"),
        {"base": "base", "base again": "base", "patched": "patched"},
    ),
    "window": Measurement(
        "Rolling window",
        "One conversation: a window of images, which the prefix cache covers, is sent again each"
        f" turn with one more text. {TURNS - 1} turns in one engine with a worker process.",
        "tests.support.window_probe",
        {"all": ("{folder}", "--images", "1", "5", "25", "--turns", str(TURNS))},
        _window,
        once=True,
    ),
    "processing": Measurement(
        "Processing path",
        "Real HF processors on requests that no cache has seen. Nothing here should be better or"
        " worse than base.",
        "tests.support.processing_probe",
        {"all": ("{folder}",)},
        _processing,
    ),
    "series": Measurement(
        "Verbs on the series",
        "On trees that hold nothing else to do. apply and pick work in a tree apart, so that no"
        " failure leaves a half-done one; git and quilt work in place. Plain git has"
        " `log --check` for lint, and `status` for an apply again.",
        "tests.support.series_probe",
        {"all": {by: ("{folder}", by) for by in ("git", "quilt", "product")}},
        _by_case("verb_seconds"),
        {"git": "patched", "quilt": "patched", "product": "patched"},
    ),
}


def on(device: str) -> dict[str, Measurement]:
    """The measurements that can be made on `device`, by name."""
    return {name: one for name, one in MEASUREMENTS.items() if one.device in ("", device)}
