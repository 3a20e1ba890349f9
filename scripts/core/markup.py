"""What our HTML pages share: one look, tables, links among them; a page needs no other file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from scripts.core.layout import write_whole

PAGES = (
    ("index.html", "Tests", "make test"),
    ("bench.html", "Bench", "make bench"),
    ("prove.html", "Proof", "make prove"),
)
"""File in `build/reports`, what it shows, what makes it. The first is the start page, too."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d8dee4; --page: #fff;
        --box: #f6f8fa; --good: #16691f; --bad: #a3140f; --link: #0550ae }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e6ea; --soft: #9aa4af; --line: #3a424b; --page: #14181d; --box: #1e242b;
          --good: #7ccf86; --bad: #ff8a80; --link: #79b8ff } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 0 auto; padding: 0 1rem 3rem;
       color: var(--ink); background: var(--page) }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: .75rem 0;
      border-bottom: 1px solid var(--line) }
nav b { border-bottom: 2px solid } a { color: var(--link) }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 1.25rem 0 .5rem }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem } h3 { font-size: 1rem; margin: 1.25rem 0 .25rem }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 }
th, td { text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0;
         border-bottom: 1px solid var(--line) }
th { color: var(--soft); font-weight: 600 } .n { text-align: right; white-space: nowrap }
small, .note { color: var(--soft) } .ok { color: var(--good) } .bad { color: var(--bad) }
code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { background: var(--box); padding: .6rem .75rem; overflow-x: auto; border-radius: 4px }
section.bad { color: inherit; border-left: 3px solid var(--bad); padding-left: .9rem }
summary { cursor: pointer; padding: .2rem 0 } details > table { margin-left: .25rem }
.said { white-space: pre-line } .plot { overflow-x: auto; margin: 1rem 0 } svg { display: block }
@media (max-width: 760px) {
  table, tbody, tr, td { display: block; width: auto } tr.head { display: none }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0 } td { border: 0; padding: .1rem 0 }
  td:empty { display: none } .n { text-align: left; white-space: normal }
  td[data-of]::before { content: attr(data-of) ": "; color: var(--soft) } }
"""
_NAV = re.compile(r"<nav>.*?</nav>", re.DOTALL)
_FITS = 16  # letters that any cell holds
_PIECES = re.compile(r"[^\W_]{1,24}[\W_]*|[\W_]+")


def document(title: str, parts: Iterable[str]) -> str:
    """A page of `parts`, which are HTML, under a title, which is text."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><nav></nav>"
        f"<h1>{text(title)}</h1>{''.join(parts)}</html>\n"
    )


def put(folder: Path, name: str, page: str) -> Path:
    """Have `page` as the file `name` of the reports, and each of their pages link those there are.

    Who makes the first of them gets a start page, too.
    """
    write_whole(folder / name, page)
    start = folder / PAGES[0][0]
    if not start.is_file():
        said = f'<p class="note">No tests ran here yet: <code>{PAGES[0][2]}</code></p>'
        write_whole(start, document("No tests yet", [said]))
    for file, _, _ in PAGES:
        if (folder / file).is_file():
            old = (folder / file).read_text(encoding="utf-8")
            write_whole(folder / file, _NAV.sub(lambda _: _links(folder, file), old, count=1))  # noqa: B023
    return folder / name


def _links(folder: Path, here: str) -> str:
    links = []
    for file, name, verb in PAGES:
        if file == here:
            links.append(f"<b>{name}</b>")
        elif (folder / file).is_file():
            links.append(f'<a href="{file}">{name}</a>')
        else:
            links.append(f"<small>{name}: <code>{verb}</code></small>")
    return f"<nav>{' '.join(links)}</nav>"


def text(words: str) -> str:
    """As HTML that may break a long name behind its punctuation, and a long number anywhere."""
    return "".join(
        "<wbr>".join(map(escape, _PIECES.findall(word) if len(word) > _FITS else [word]))
        for word in re.split(r"(\s+)", words)
    )


def code(words: str) -> str:
    return f"<code>{text(words)}</code>"


def wide(inside: str) -> str:
    """A plot, which a narrow screen moves sideways by itself."""
    return f'<div class="plot">{inside}</div>'


def folded(title: str, inside: str) -> str:
    """Shown at a click. The title is text, `inside` is HTML."""
    return f"<details><summary>{text(title)}</summary>{inside}</details>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """`rows` are of HTML, `head` is text. A column headed "#" or "# name" is of numbers.

    On a narrow screen each row stands as a list, its cells behind the names of their columns.
    """
    names = list(head)
    shown = [escape(name if name == "#" else name.removeprefix("# ")) for name in names]
    kinds = [' class="n"' if name.startswith("#") else "" for name in names]
    named = [name if number and name != "#" else "" for number, name in enumerate(shown)]
    of = [f' data-of="{name}"' * bool(name) for name in named]
    lines = ['<tr class="head">']
    lines += [f"<th{kind}>{name}</th>" for kind, name in zip(kinds, shown, strict=True)]
    for row in rows:
        lines.append("</tr><tr>")
        lines += [f"<td{k}{o}>{cell}</td>" for k, o, cell in zip(kinds, of, row, strict=True)]
    return f"<table>{''.join(lines)}</tr></table>"
