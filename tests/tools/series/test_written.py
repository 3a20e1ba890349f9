"""What commits are as files, and that it is remembered for as long as it holds."""

from __future__ import annotations

import pytest

from scripts.core.layout import Layout
from scripts.release import pin
from scripts.series import clone, mails, written
from tests.tools.product import Product


class Asked(Exception):
    """Git was asked."""


def known(applied: Product) -> dict[str, bytes]:
    layout = Layout.of(applied.root, None)
    now = clone.state(layout, pin.read(layout.pin_file))
    return written.known(layout, now, mails.load(layout.patches))


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    def exported(*_: object) -> dict[str, bytes]:
        raise Asked

    monkeypatch.setattr(written, "exported", exported)


@pytest.mark.usefixtures("no_git")
def test_what_apply_made_is_known_without_git(applied: Product, patches: dict[str, bytes]) -> None:
    assert known(applied) == patches


@pytest.mark.usefixtures("no_git")
@pytest.mark.parametrize("change", ["a commit", "a patch", "damage", "nothing remembered"])
def test_git_is_asked_where_anything_changed(
    applied: Product, patches: dict[str, bytes], change: str
) -> None:
    note = applied.root / "build" / "exported"
    if change == "a commit":
        applied.git("commit", "--quiet", "--amend", "--message", "Mine")
    elif change == "a patch":
        first = min(patches)
        applied.write_series(patches | {first: patches[first].replace(b"Date: ", b"Date:  ")})
    elif change == "damage":
        note.write_text(note.read_text()[:-1])
    else:
        note.unlink()
    with pytest.raises(Asked):
        known(applied)
