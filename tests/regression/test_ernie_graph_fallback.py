"""An image of Ernie 4.5 VL beyond every encoder graph budget is run eagerly, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.audit import audit, fallen_back
from tests.support.families import FAMILIES


def test_the_fallback_embeds_the_image(checkpoint: Callable[[str], Path]) -> None:
    report = audit(FAMILIES["ernie45_vl"], checkpoint("ernie45_vl"))

    assert fallen_back(report) == {"image": True, "image twice": True, "image mixed": True}
