"""The table of fields: one line a field, with a word of ours for how the device gets at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.placement.fields import Field

TABLE = Path(__file__).parents[2] / "regression" / "field_placement.txt"

WORDS = {
    "bulk": "on the device: the data itself",
    "device": "on the device: metadata that operations there read as it is",
    "staged": "on the CPU: its consumer sends what the device needs of it, without a sync",
    "cpu": "on the CPU: sizes, counts and text, which the device never reads",
}
_ON_CPU = {"bulk": False, "device": False, "staged": True, "cpu": True}
UNKNOWN = "?"
"""Stands for the word of a field that nobody has classified."""

Words = Mapping[tuple[str, str, str], str]


def parse(text: str) -> dict[tuple[str, str, str], str]:
    """The word of each (file, owner, field) of a table."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {(file, owner, name): word for file, owner, name, word in rows}


def render(fields: Iterable[Field], words: Words) -> str:
    """The table of `fields`. A field without a word that fits its flag gets `UNKNOWN`."""
    lines = [f"# {word:6}  {meaning}" for word, meaning in WORDS.items()]
    for field in sorted(fields):
        word = words.get((field.file, field.owner, field.name), UNKNOWN)
        if _ON_CPU.get(word) is not field.on_cpu:
            word = UNKNOWN
        lines.append(f"{field.file} {field.owner} {field.name} {word}")
    return "\n".join(lines) + "\n"


def update(fields: Iterable[Field]) -> list[str]:
    """Write the table of `fields` with the words it has, and return its unclassified lines."""
    text = render(fields, parse(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {})
    TABLE.write_text(text, encoding="utf-8")
    return [line for line in text.splitlines() if line.endswith(f" {UNKNOWN}")]
