"""Which transformers `floor` puts in front of a suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.suites import floor


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(tmp_path, None)


def test_the_floor_is_what_the_pin_allows(layout: Layout) -> None:
    with pytest.raises(OverlayError) as unknown:
        floor.least(layout)
    assert unknown.value.hint == "set TRANSFORMERS=5.9.0"
    (layout.clone / "requirements").mkdir(parents=True)
    (layout.clone / "requirements" / "common.txt").write_text("torch\ntransformers >= 5.5.3\n")
    assert floor.least(layout) == "5.5.3"


def test_the_floor_is_put_in_front_of_the_command(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUB", raising=False)
    made = layout.venv.parent / "transformers" / "1.2.3"
    made.mkdir(parents=True)
    told = tmp_path / "told"
    command = ["sh", "-c", f'printf %s "$PYTHONPATH" > {told}; exit 3']
    assert floor.main(layout, "1.2.3", command) == 3
    assert told.read_text() == f"{made}:{layout.root / 'tests/support/offline'}"
