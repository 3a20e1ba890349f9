"""Which transformers `floor` puts in front of a suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.suites import floor


def test_the_floor_is_what_the_pin_allows_unless_it_is_named(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSFORMERS", raising=False)
    with pytest.raises(OverlayError) as unknown:
        floor.version(layout)
    assert unknown.value.hint == "set TRANSFORMERS=5.9.0"
    (layout.clone / "requirements").mkdir(exist_ok=True)
    (layout.clone / "requirements" / "common.txt").write_text("torch\ntransformers >= 5.5.3\n")
    assert floor.version(layout) == "5.5.3"
    monkeypatch.setenv("TRANSFORMERS", "5.9.0")
    assert floor.version(layout) == "5.9.0"


def test_the_floor_is_put_in_front_of_the_command(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRANSFORMERS", "1.2.3")
    made = layout.venv.parent / "transformers" / "1.2.3"
    made.mkdir(parents=True)
    told = tmp_path / "told"
    command = ["sh", "-c", f'printf %s "$PYTHONPATH" > {told}; exit 3']
    assert floor.main(layout, command) == 3
    assert told.read_text() == str(made)
