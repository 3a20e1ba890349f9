"""Nothing overflows, no word is broken, every link leads somewhere, in any width and light."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from scripts.core import markup
from scripts.core.markup import PAGES
from scripts.suites.runner import BROWSERS

NAMES = [name for name, _, _ in PAGES]
SCRIPT = """
<script>addEventListener("load", () => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  const wide = [...document.querySelectorAll("td, th, p, h1, h2, h3, summary, nav")]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
                   && getComputedStyle(one).display != "inline");
  const broken = [], faint = [], page = light(getComputedStyle(document.body).backgroundColor);
  function light(color) {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, around = node.parentElement;
    if (around.closest("pre, svg, script, style") || !node.data.trim()) continue;
    const ink = light(getComputedStyle(around).color);
    const contrast = (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
    if (contrast < 4.5) faint.push(node.data);
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+(\\.\\d+)?/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(one => Math.round(one.top))).size > 1)
        broken.push(word[0]);
    }
  }
  const said = document.createElement("pre");
  said.id = "found";
  said.textContent = JSON.stringify({
    width: innerWidth, dark: page < 0.5, overflow: document.documentElement.scrollWidth > innerWidth,
    wide: wide.map(one => one.textContent.slice(0, 80)), broken, faint,
    rows: document.querySelectorAll("tr").length});
  document.body.append(said);
});</script>
"""


def _seen(page: Path, width: int, *, dark: bool, folder: Path) -> dict[str, Any]:
    """What a browser makes of it, with everything unfolded."""
    browser = next(found for name in BROWSERS if (found := shutil.which(name)))
    copy = page.with_name(f"seen-{page.name}")
    copy.write_text(page.read_text(encoding="utf-8") + SCRIPT, encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", scheme, "--hide-scrollbars",
               f"--user-data-dir={folder}", f"--window-size={width},1800", "--dump-dom",
               copy.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(_unescaped(found[1]))
    return seen


def _unescaped(html: str) -> str:
    for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", "\u00a0"), ("&amp;", "&")):
        html = html.replace(entity, letter)
    return html


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1300, 760, 400])
@pytest.mark.parametrize("name", NAMES)
def test_it_reads_well(pages: Path, name: str, width: int, dark: bool, tmp_path: Path) -> None:
    seen = _seen(pages / name, width, dark=dark, folder=tmp_path)

    assert (seen["width"], seen["dark"]) == (width, dark)
    assert seen["rows"] > 10
    assert not seen["overflow"]
    assert (seen["wide"], seen["faint"]) == ([], [])
    # A longer run of letters and digits is no word: the hash of a file.
    assert [word for word in seen["broken"] if len(word) <= 24] == []


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: list[str] = []
        self.marks: list[str] = []
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.to += [given[name] for name in ("href", "src") if name in given]
        self.marks += [given["id"]] if "id" in given else []


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_something_here(pages: Path, name: str) -> None:
    links = _Links((pages / name).read_text(encoding="utf-8"))

    assert {*NAMES} - {name} <= {*links.to}
    for link in links.to:
        if link.startswith("#"):
            assert link[1:] in links.marks
        else:
            assert (pages / link).exists(), link


def test_a_page_that_is_not_there_yet_is_no_link_but_says_what_makes_it(tmp_path: Path) -> None:
    markup.put(tmp_path, "prove.html", markup.document("Proof", []))

    start, proof = ((tmp_path / name).read_text() for name in ("index.html", "prove.html"))
    assert "make test" in start
    for page in (start, proof):
        assert "bench.html" not in page
        assert "<code>make bench</code>" in page
    assert 'href="index.html"' in proof
    assert 'href="prove.html"' in start
    markup.put(tmp_path, "bench.html", markup.document("Bench", []))
    assert 'href="bench.html"' in (tmp_path / "prove.html").read_text()
