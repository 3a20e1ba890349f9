"""The bench on stub probes: interleaving, spreads, failures, the page, the README's figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench import headline, measures, page, probes, rounds, samples, scale
from scripts.bench.headline import HEADLINES
from scripts.bench.measures import FIGURES, MEASUREMENTS, Measurement, Row, Told
from scripts.bench.samples import Measured, Run, Spread
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from tests.tools.product import REPO, Product, put_python

STUB = """\
import json, sys

import vllm.a


def main(arguments):
    with open(arguments[0], "a") as order:
        order.write(f"{vllm.a.line_2()} {arguments[1]}\\n")
    if "break" in arguments and vllm.a.line_2() != 2:
        raise RuntimeError("no such device")
    print(json.dumps({"seconds": vllm.a.line_2()}))
    return 0
"""


def read(case: str, told: Sequence[Told]) -> list[Row]:
    return [(case, {"seconds": told[0]["seconds"]})]


def stub(order: Path, **cases: str) -> Measurement:
    words = {case: (str(order), case, more) for case, more in cases.items()}
    return Measurement("Stub", "A < B.", "tests.support.stub", words, read)


@pytest.fixture
def layout(applied: Product, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A product whose environment is this one, with a probe that says which tree it is in."""
    support = applied.root / "tests" / "support"
    support.mkdir()
    for folder in (support.parent, support):
        (folder / "__init__.py").touch()
    for name in ("forked.py", "telling.py"):
        shutil.copyfile(REPO / "tests/support" / name, support / name)
    (support / "stub.py").write_text(STUB)
    put_python(applied.root / "build/venv/bin/python")
    monkeypatch.setattr(probes, "_LOADED", ("vllm.a",))
    return Layout.of(applied.root, None)


def run(layout: Layout, known: Mapping[str, Measurement], turns: int = 1) -> Run:
    trees = {"base": "v0.28.0", "patched": ""}
    made, said = Run({"base": "v0.28.0"}), list[str]()
    return list(rounds.run(layout, "cpu", trees, known, made, rounds=turns, say=said.append))[-1]


def test_trees_take_turns_and_each_is_measured(layout: Layout, tmp_path: Path) -> None:
    order = tmp_path / "order"
    found = run(layout, {"one": stub(order, a="", b="")}, turns=3).measured["one"]
    assert order.read_text().split("\n")[:-1] == [
        *("2 a", "22 a", "2 b", "22 b"),
        *("22 a", "2 a", "22 b", "2 b"),
        *("2 a", "22 a", "2 b", "22 b"),
    ]
    both = {"seconds": {"base": [2, 2, 2], "patched": [22, 22, 22]}}
    assert (found.values, found.failed) == ({"a": both, "b": both}, {})


def test_nothing_is_left_of_the_trees(layout: Layout, tmp_path: Path) -> None:
    before = {path.name for path in layout.build.iterdir()}
    run(layout, {"one": stub(tmp_path / "order", a="")})
    left = {path.name for path in layout.build.iterdir()}
    assert left - before <= {"pycache", "reports", ".lock"}


def test_what_fails_is_named_and_the_others_go_on(layout: Layout, tmp_path: Path) -> None:
    order = tmp_path / "order"
    known = {"one": stub(order, a="break", b=""), "two": stub(order, c="")}
    found = run(layout, known, turns=2)
    assert rounds.failures(found) == ["one: a, patched: RuntimeError: no such device"]
    assert found.measured["one"].values["a"] == {"seconds": {"base": [2, 2]}}
    assert found.measured["two"].values["c"]["seconds"] == {"base": [2, 2], "patched": [22, 22]}
    assert order.read_text().count("22 a") == 1  # not again in the next round
    text = page.html(layout, known, found)
    assert "a, patched: <code>RuntimeError: no such device</code>" in text


def test_what_is_not_there_is_told_apart_from_what_fails(layout: Layout, tmp_path: Path) -> None:
    place = layout.root / "tests/support/stub.py"
    place.write_text('def main(arguments):\n    print(\'{"why_not": "no quilt"}\')\n    return 0\n')
    known = {"one": stub(tmp_path / "order", a="")}
    found = run(layout, known, turns=2)
    assert rounds.failures(found) == []
    assert found.measured["one"].absent == {"a, base": "no quilt", "a, patched": "no quilt"}
    assert "Not measured: a, base: no quilt" in page.html(layout, known, found)


def test_a_probe_that_dies_is_a_failure_too(layout: Layout, tmp_path: Path) -> None:
    place = layout.root / "tests/support/stub.py"
    place.write_text("import os\n\n\ndef main(arguments):\n    os.kill(os.getpid(), 9)\n")
    found = run(layout, {"one": stub(tmp_path / "order", a="")})
    assert rounds.failures(found) == [
        f"one: a, {name}: it ended with -9 and said nothing" for name in ("base", "patched")
    ]


def test_a_bench_that_is_stopped_leaves_no_probe_running(layout: Layout, tmp_path: Path) -> None:
    place = layout.root / "tests/support/stub.py"
    place.write_text(
        "import os, signal\n\n\ndef main(arguments):\n"
        "    open(arguments[0], 'w').write(str(os.getpid()))\n    signal.pause()\n"
    )
    note = tmp_path / "note"
    with probes.started(layout, "cpu", {"patched": ""}, {}) as found, ThreadPoolExecutor() as pool:
        asked = pool.submit(found.ask, "patched", "tests.support.stub", [str(note)], tmp_path / "l")
        while not (note.is_file() and note.read_text()):
            assert not asked.done()
            time.sleep(0.01)
        found.end()
        with pytest.raises(OverlayError, match="a process that runs probes has ended"):
            asked.result()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_measurement_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OverlayError, match="no measurement is named speed") as caught:
        rounds.chosen(MEASUREMENTS, ["warmup", "speed"])
    assert caught.value.hint == f"BENCH={','.join(MEASUREMENTS)}"


def test_an_unknown_measurement_ends_the_verb_before_it_builds(applied: Product) -> None:
    done = applied.run("bench", BENCH="speed")
    assert (done.code, done.error) == (2, "no measurement is named speed")


def measured(values: samples.Values) -> Measured:
    return Measured("2026-08-27", 3, values)


SOME = Run(
    {"base": "vLLM v0.28.0", "patched": "tree 12", "device": "cpu"},
    {
        "one": measured(
            {
                "slow": {"seconds": {"base": [3.0, 1.0, 2.0], "patched": [0.2, 0.1, 0.3]}},
                "none": {"syncs": {"base": [4], "patched": [0]}},
            }
        )
    },
)


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    samples.write(one, SOME)
    again = samples.read(one)
    assert again is not None
    samples.write(two, again)
    assert one.read_bytes() == two.read_bytes()
    assert json.loads(one.read_text())["measured"]["one"]["values"] == SOME.measured["one"].values


def test_figures_of_another_tree_are_not_kept(layout: Layout) -> None:
    samples.write(rounds.path(layout), SOME)
    assert rounds.kept(layout, SOME.made_with) == SOME
    assert rounds.kept(layout, {**SOME.made_with, "patched": "tree 13"}).measured == {}


@pytest.mark.parametrize(
    ("first", "other", "said"),
    [
        ([4, 5, 6], [1, 1, 1], "1/5"),
        ([1, 1, 1], [5, 5, 5], "5 times"),
        ([10, 10, 10], [9, 9, 9], "-10 %"),
        ([1, 2, 3], [1, 1, 1], "no difference beyond noise"),
        ([7], [7], "the same"),
        ([7], [0], "none left"),
    ],
)
def test_medians_are_compared_in_words(first: list[float], other: list[float], said: str) -> None:
    assert page.compared(Spread.of(first), Spread.of(other)) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(0.0123, "s", "12.3 ms"), (1.5 * 2**30, "B", "1.5 GiB"), (2040, "", "2,040"), (0, "B", "0 B"),
     (123.4, "s", "123 s"), (31.25, "/s", "31.2/s")],
)  # fmt: skip
def test_an_amount_has_the_unit_of_its_size(value: float, unit: str, said: str) -> None:
    assert page.amount(value, unit) == said


def test_the_page_has_every_row_and_needs_no_other_file(layout: Layout) -> None:
    one = Measurement("Title", "A < B.", "", {"slow": (), "none": ()}, read)
    text = page.html(layout, {"one": one}, SOME)
    for said in ("2 s <br><small>1 s … 3 s</small>", "200 ms", "1/10", "none left", "A &lt; B."):
        assert said in text
    assert text.count("<svg ") == 1
    assert text == page.html(layout, {"one": one}, SOME)
    assert not re.search(r"""(src|href)=["'](?!#)""", text)


def test_copies_and_waits_of_a_gpu_are_told_by_name() -> None:
    events = [
        {"name": "Memcpy HtoD (Pageable -> Device)", "bytes": 24},
        {"name": "Memcpy HtoD (Pinned -> Device)", "bytes": 100},
        {"name": "Memcpy DtoH (Device -> Pinned)", "bytes": 7},
        {"name": "cudaStreamSynchronize", "bytes": 0},
        {"name": "cudaLaunchKernel", "bytes": 0},
    ]
    found = MEASUREMENTS["device"].read("all", [{"kinds": {"few images": events}}])
    told = {"h2d_copies": 2, "h2d_bytes": 124, "h2d_pageable_bytes": 24, "syncs": 1}
    assert list(found) == [("few images", told)]


def test_what_needs_a_gpu_is_measured_on_one() -> None:
    assert set(measures.on("cuda")) - set(measures.on("cpu")) == {"device"}


def window(images: Mapping[int, float]) -> Measured:
    return measured(
        {
            f"{n} images": {
                "broadcast_bytes": {"base": [1000 + 500 * n], "patched": [1000 + 5 * n]},
                "engine_cpu_seconds": {"base": [0.001 + 0.002 * x], "patched": [0.001]},
            }
            for n, x in images.items()
        }
    )


def test_the_model_finds_the_line_that_its_points_lie_on() -> None:
    models = scale.models(window({1: 1, 5: 5, 25: 25}), None)
    base, patched = models["base"], models["patched"]
    assert base.sent.at(1000) == pytest.approx(501_000)
    assert patched.sent.slope == pytest.approx(5)
    assert base.read_by_all(10, 64, 25) == pytest.approx(10 * 64 * 13_500)
    assert base.most(25) == pytest.approx(1 / 0.051)
    assert base.sent.strays() == base.busy.strays() == []


def test_no_image_makes_a_turn_cheaper() -> None:
    model = scale.models(window({1: 25, 5: 5, 25: 1}), None)["base"]
    assert model.busy.slope == 0
    assert model.most(1) == model.most(1000) > 0


def test_the_model_names_the_points_that_it_misses() -> None:
    assert scale.models(window({1: 1, 5: 9, 25: 25}), None)["base"].busy.strays() == [5, 25]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_simulated_wait_is_the_formula_s(share: float) -> None:
    model = scale.models(window({1: 1, 5: 5, 25: 25}), None)["base"]
    rate = share * model.most(25)
    assert scale.simulated_wait(model, rate, 25) == pytest.approx(model.wait(rate, 25), rel=0.05)
    assert model.wait(2 * model.most(25), 25) == float("inf")


def test_every_headline_is_a_figure_that_is_measured() -> None:
    for row in HEADLINES:
        assert row.measurement in MEASUREMENTS
        assert row.figure in FIGURES


def test_the_readme_shows_the_figures_of_the_committed_run_and_no_others() -> None:
    found = samples.read(headline.recorded(Layout.of(REPO, None)))
    readme = (REPO / "README.md").read_text()
    if found is None:
        assert headline.BEGIN + headline.END in readme
        return
    assert set(found.measured) == set(measures.on(found.made_with["device"]))
    assert rounds.failures(found) == []
    assert headline.replaced(readme, found) == readme


def test_the_measured_window_lies_on_the_model_s_lines() -> None:
    found = samples.read(headline.recorded(Layout.of(REPO, None)))
    if found is None:
        pytest.skip("no run is recorded yet: make bench RECORD=1")
    for model in scale.models(found.measured["window"], found.measured["copies"]).values():
        assert model.sent.strays() == []


def test_a_run_that_lacks_a_measurement_is_not_recorded(layout: Layout) -> None:
    samples.write(rounds.path(layout), SOME)
    with pytest.raises(OverlayError, match="warmup is not measured") as caught:
        headline.record(layout)
    assert caught.value.hint.startswith("make bench BENCH=warmup,")
    assert not headline.recorded(layout).exists()


def test_a_recorded_run_changes_only_the_figures_of_the_readme(layout: Layout) -> None:
    rows = {
        (row.measurement, row.case, row.figure): {"base": [2], "patched": [1]} for row in HEADLINES
    }
    values: dict[str, dict[str, dict[str, dict[str, list[int]]]]] = {}
    for (name, case, figure), found in rows.items():
        values.setdefault(name, {}).setdefault(case, {})[figure] = found
    made = dict.fromkeys(("processor", "cores", "memory", "device", "base", "patched"), "x")
    whole = Run(made, {name: measured(values.get(name, {})) for name in measures.on("x")})
    samples.write(rounds.path(layout), whole)
    readme = layout.root / "README.md"
    readme.write_text(f"before\n{headline.BEGIN}old\n{headline.END}after\n")
    headline.record(layout)
    text = readme.read_text()
    assert text.startswith(f"before\n{headline.BEGIN}| | base | patched | |\n")
    assert text.endswith(f"{headline.END}after\n")
    assert "old" not in text
    assert rounds.path(layout).read_bytes() == headline.recorded(layout).read_bytes()
    assert samples.read(headline.recorded(layout)) == replace(whole)
