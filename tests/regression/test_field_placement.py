"""Every multimodal field is classified, and what positions are computed from is on the CPU."""

from __future__ import annotations

import pytest

from tests.support import placement
from tests.support.placement.fields import fields_of_source
from tests.support.placement.table import TABLE

COMMAND = "build/venv/bin/python -m tests.support.placement"


@pytest.fixture(scope="module")
def fields() -> list[placement.Field]:
    return placement.fields_of_tree(placement.tree())


def test_the_table_says_where_each_field_of_the_tree_lives(fields: list[placement.Field]) -> None:
    """A field that is new, gone, or on the other side is seen here."""
    text = TABLE.read_text(encoding="utf-8")
    assert placement.render(fields, placement.parse(text)) == text, f"run {COMMAND}"


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
