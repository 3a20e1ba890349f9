"""Nothing overflows, no word is broken, every link leads somewhere, in any width and light."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from scripts.core import markup
from scripts.core.markup import PAGES
from scripts.suites.runner import BROWSERS

Seen = dict[str, dict[str, Any]]
WIDTHS = (1300, 760, 400)
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
  const said = parent.document.createElement("pre");
  said.className = "found";
  said.textContent = JSON.stringify({
    frame: name, width: innerWidth, dark: page < 0.5,
    overflow: document.documentElement.scrollWidth > innerWidth,
    wide: wide.map(one => one.textContent.slice(0, 80)), broken, faint,
    rows: document.querySelectorAll("tr").length});
  parent.document.body.append(said);
});</script>
"""


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def seen(
    request: pytest.FixtureRequest, pages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    """What a browser makes of each page in each width, with everything unfolded."""
    browser = next(path for name in BROWSERS if (path := shutil.which(name)))
    folder = tmp_path_factory.mktemp("browser")
    frames = [
        f'<iframe name="{name} {width}" width="{width}" height="900" style="border: 0" srcdoc="'
        f'{escape((pages / name).read_text(encoding="utf-8") + SCRIPT)}"></iframe>'
        for name in NAMES
        for width in WIDTHS
    ]
    whole = folder / "all.html"
    whole.write_text(f"<!doctype html><meta charset=utf-8>{''.join(frames)}", encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if request.param else 1}"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", scheme,
               f"--user-data-dir={folder}", "--window-size=1400,900", "--dump-dom",
               whole.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = re.findall(r'<pre class="found">(.*?)</pre>', done.stdout, re.DOTALL)
    found: list[dict[str, Any]] = [json.loads(unescape(one)) for one in said]
    assert len(found) == len(frames), done.stderr[-2000:]
    return {one["frame"]: one | {"asked dark": request.param} for one in found}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_it_reads_well(seen: Seen, name: str, width: int) -> None:
    found = seen[f"{name} {width}"]

    assert (found["width"], found["dark"]) == (width, found["asked dark"])
    assert found["rows"] > 10
    assert not found["overflow"]
    assert (found["wide"], found["faint"]) == ([], [])
    # A longer run of letters and digits is no word: the hash of a file.
    assert [word for word in found["broken"] if len(word) <= 24] == []


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
