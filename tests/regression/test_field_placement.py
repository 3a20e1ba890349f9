"""Every multimodal field is classified, and what positions are computed from is on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import placement
from tests.support.names import unknown_names, unused_imports
from tests.support.placement.fields import fields_of_source
from tests.support.placement.table import TABLE
from tests.support.placement.transfers import TRANSFERS, transfers
from tests.support.unbuilt import READ

COMMAND = "build/venv/bin/python -m tests.support.placement"


@pytest.fixture(scope="module")
def fields() -> list[placement.Field]:
    return placement.fields_of_tree(placement.tree())


def test_the_table_says_where_each_field_of_the_tree_lives(fields: list[placement.Field]) -> None:
    """A field that is new, gone, or on the other side is seen here."""
    text = TABLE.read_text(encoding="utf-8")
    assert placement.render(fields, placement.parse(text)) == text, f"run {COMMAND}"


def test_what_is_not_run_moves_and_waits_as_it_did_when_it_was_read() -> None:
    """A place that is new, gone or written otherwise is seen here, for a person to read."""
    assert transfers(placement.tree(), READ) == TRANSFERS.read_text(encoding="utf-8"), COMMAND


def test_no_model_uses_a_name_that_it_lacks_or_imports_one_that_it_does_not_use() -> None:
    """Also where nothing runs it here."""
    models = [placement.tree() / folder for folder in ("model_executor/models", "models")]
    assert [unknown_names(folder) for folder in models] == [[], []]
    assert [unused_imports(folder) for folder in models] == [[], []]


def test_no_field_is_left_unclassified() -> None:
    words = placement.parse(TABLE.read_text(encoding="utf-8"))
    assert {row: word for row, word in words.items() if word not in placement.WORDS} == {}


def test_fields_that_positions_are_computed_from_stay_on_the_cpu(
    fields: list[placement.Field],
) -> None:
    """Positions need them after the tensors of a cached item are gone."""
    keys = placement.position_keys(placement.tree())
    assert {"image_grid_thw", "video_grid_thw", "audio_feature_lengths"} <= keys.keys()
    assert [f for f in fields if f.name in keys and not f.on_cpu] == []


def test_each_family_that_computes_positions_has_a_field_for_every_one_of_them(
    fields: list[placement.Field],
) -> None:
    names = {f.name for f in fields}
    assert [key for key in placement.position_keys(placement.tree()) if key not in names] == []


def test_fields_are_read_however_they_are_written() -> None:
    source = """
SHARED = {"in_dict": MultiModalFieldConfig.batched("image")}
class Processor:
    def _get_mm_fields_config(self, sizes):
        later = MultiModalFieldConfig.batched("audio", keep_on_cpu=True)
        fields = dict(
            keyword=MultiModalFieldConfig.flat_from_sizes("image", sizes, keep_on_cpu=True),
            by_name=later,
        )
        fields["item"] = MultiModalFieldConfig.shared("image", 1, keep_on_cpu=False)
        for key in ("one", "other"):
            fields[key] = MultiModalFieldConfig.batched("video", keep_on_cpu=True)
        return fields | {k: MultiModalFieldConfig.batched("image") for k in self.keys}
"""
    found = {(f.owner, f.name, f.on_cpu) for f in fields_of_source(source, "models/m.py")}
    assert found == {
        ("SHARED", "in_dict", False),
        ("Processor", "keyword", True),
        ("Processor", "by_name", True),
        ("Processor", "item", False),
        ("Processor", "one", True),
        ("Processor", "other", True),
        ("Processor", "*", False),
    }


@pytest.mark.parametrize(
    "field",
    [
        'MultiModalFieldConfig.batched("image", keep_on_cpu=flag)',
        "MultiModalBatchedField(keep_on_cpu=True)",
    ],
)
def test_a_field_whose_side_cannot_be_read_off_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=r"models/m\.py:1"):
        fields_of_source(f"FIELDS = dict(name={field})", "models/m.py")


def test_a_word_holds_only_for_the_side_it_was_given_for() -> None:
    on_cpu = placement.Field("models/m.py", "Processor", "grid", on_cpu=True)
    on_device = placement.Field("models/m.py", "Processor", "grid", on_cpu=False)
    words = {("models/m.py", "Processor", "grid"): "cpu"}
    assert "Processor grid cpu\n" in placement.render([on_cpu], words)
    assert "Processor grid ?\n" in placement.render([on_device], words)
    assert "Processor grid ?\n" in placement.render([on_cpu], {})


def test_names_are_found_in_every_scope(tmp_path: Path) -> None:
    source = """
import json
from os import path, sep as used

class C:
    size = MISSING_IN_CLASS

    def f(self, x):
        global late
        late = used
        return [missing(y, x, late) for y in x]
"""
    (tmp_path / "m.py").write_text(source)
    assert unknown_names(tmp_path) == ["m.py: MISSING_IN_CLASS", "m.py: missing"]
    assert unused_imports(tmp_path) == ["m.py: json", "m.py: path"]


def test_every_way_to_move_or_to_wait_is_in_the_table(tmp_path: Path) -> None:
    source = """
class Tower:
    def __init__(self):
        self.x = torch.zeros(1, device="cpu")

    def forward(self, x, pad_mask):
        with gpu_sync_allowed():
            rows = x[pad_mask]
        y = torch.arange(3, device=x.device).to(torch.int32)
        if torch.any(y):
            return x[[0]].to(y.device), torch.sum(x).item()

class TowerProcessor:
    def call(self, x):
        return x.tolist()
"""
    (tmp_path / "m.py").write_text(source)
    assert transfers(tmp_path, ["m"]).splitlines()[1:] == [
        f"m Tower.forward: {said}"
        for said in (
            "gpu_sync_allowed()", "x[pad_mask]", "torch.arange(3, device=x.device)",
            "torch.any(y)", "x[[0]].to(y.device)", "x[[0]]", "torch.sum(x).item()",
        )
    ]  # fmt: skip
