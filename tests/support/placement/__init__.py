"""Where vLLM's multimodal fields live, read off the source by its syntax tree, and the table of it.

`python -m tests.support.placement` brings the table up to date; the words in it are ours.
"""

from __future__ import annotations

from tests.support.placement.fields import Field, fields_of_tree, position_keys, tree
from tests.support.placement.table import TABLE, UNKNOWN, WORDS, parse, render, update

__all__ = [
    "TABLE",
    "UNKNOWN",
    "WORDS",
    "Field",
    "fields_of_tree",
    "parse",
    "position_keys",
    "render",
    "tree",
    "update",
]
