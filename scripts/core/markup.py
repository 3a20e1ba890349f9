"""What our HTML pages share: one style, tables, a document that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff }
h2 { margin-top: 2rem } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
         border-bottom: 1px solid #ddd; overflow-wrap: anywhere }
.n { text-align: right; white-space: nowrap } small { color: #777 }
.ok { color: #16691f } .bad { color: #a3140f } code { font-size: 13px }
summary { cursor: pointer } p.note { color: #555 }
svg { max-width: 100%; height: auto; margin: 1rem 0 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 } th, td { border-color: #444 }
  .ok { color: #7ccf86 } .bad { color: #ff8a80 } p.note { color: #aaa } }
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A page of `parts`, which are HTML, under a title, which is text."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{''.join(parts)}</html>\n"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """`rows` are of HTML, `head` is text. A column headed "#" or "# name" is of numbers."""
    names = list(head)
    shown = (name if name == "#" else name.removeprefix("# ") for name in names)
    kinds = [' class="n"' if name.startswith("#") else "" for name in names]
    heads = zip(kinds, shown, strict=True)
    lines = ["<tr>", *(f"<th{kind}>{escape(name)}</th>" for kind, name in heads), "</tr>"]
    for row in rows:
        cells = zip(kinds, row, strict=True)
        lines += ["<tr>", *(f"<td{kind}>{cell}</td>" for kind, cell in cells), "</tr>"]
    return f"<table>{''.join(lines)}</table>"
