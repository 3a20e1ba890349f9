"""The page of a proof: a line a patch, then each hunk with the test that notices, folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scripts.core import markup
from scripts.core.layout import Layout
from scripts.core.markup import code, folded, table, text
from scripts.proof.verdicts import Verdict

_HEADS = ("test", "import", "died", "excused", "unnoticed")


def write(
    layout: Layout, found: Sequence[Verdict], reasons: Mapping[str, str], faults: Sequence[str]
) -> Path:
    """Write `build/reports/prove.html`; `faults` are what fails the proof."""
    page = markup.document("Proof: each hunk taken away", _parts(found, reasons, faults))
    return markup.put(layout.reports, "prove.html", page)


def _parts(
    found: Sequence[Verdict], reasons: Mapping[str, str], faults: Sequence[str]
) -> Iterator[str]:
    if faults:
        yield f'<p><b class="bad">{len(faults)} without proof</b>, of {len(found)} hunks.</p>'
    else:
        yield f'<p><b class="ok">All {len(found)} hunks are noticed or excused.</b></p>'
    yield "".join(f'<p class="bad">{text(fault)}</p>' for fault in faults)
    patches: dict[str, list[Verdict]] = {}
    for one in found:
        patches.setdefault(one.cut.patch.name, []).append(one)
    rows = []
    for name, verdicts in patches.items():
        n = Counter(_how(one, reasons) for one in verdicts)
        rows.append((text(name), *(str(n[head]) if n[head] else "-" for head in _HEADS)))
    yield table(("patch", *(f"# {head}" for head in _HEADS)), rows)
    for name, verdicts in patches.items():
        hunks = [
            (code(f"{one.cut.path}:{one.cut.line}"), _how(one, reasons),
             code(one.test.removeprefix("tests/regression/")) if one.test else "-",
             text(reasons.get(one.cut.key, one.said).partition("\n")[0][:300]))
            for one in verdicts
        ]  # fmt: skip
        yield folded(
            f"{name}: {len(hunks)} hunks", table(("hunk", "noticed by", "which", "it said"), hunks)
        )


def _how(one: Verdict, reasons: Mapping[str, str]) -> str:
    return "excused" if one.how == "unnoticed" and one.cut.key in reasons else one.how
