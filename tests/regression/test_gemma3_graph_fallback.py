"""An image of Gemma 3 beyond every encoder graph budget is run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.audit import audit, fallen_back
from tests.support.families import FAMILIES


def test_the_fallback_embeds_the_image(checkpoint: Callable[[str], Path]) -> None:
    report = audit(FAMILIES["gemma3"], checkpoint("gemma3"))

    assert fallen_back(report) == {"image": True, "image twice": True, "image mixed": True}
