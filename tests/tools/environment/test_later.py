"""Another release in a root of its own: fetched once, and told apart where it has no kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import build, later, plans
from scripts.release import pin
from tests.tools import mini, server
from tests.tools.product import Product

NEW = "v0.29.0"
VERSIONS = {"requirements/common.txt": b"numpy\n", "requirements/test/cpu.txt": b"numpy==2.2.6\n"}


@pytest.fixture
def where(applied: Product) -> Layout:
    return Layout.of(applied.root, None)


def have(where: Layout, said: list[str]) -> Layout:
    return later.have(where, pin.read(where.pin_file), NEW, say=said.append)


def test_a_release_is_fetched_once_and_has_a_root_of_its_own(
    applied: Product, where: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[Layout, plans.Plan]] = []

    def make(there: Layout, _new: pin.Pin, plan: plans.Plan, **_: object) -> None:
        built.append((there, plan))

    monkeypatch.setattr(build, "build", make)
    monkeypatch.setattr(later, "_lock", lambda *_: None)
    new = mini.release(applied.upstream, tmp_path, NEW, ("More", {**VERSIONS}))
    with server.serving({"vllm": {"vllm-0.29.0.tar.gz": new.sdist}}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        there = have(where, [])
    assert (there.clone / "requirements/common.txt").read_bytes() == b"numpy\n"
    assert pin.read(there.pin_file).tag == NEW
    assert later.lacks(there) == "v0.29.0 has no CPU wheel"
    asked, plan = built[0]
    assert (asked, plan.kernels, plan.wheel) == (there, "none", None)
    # The index is gone.
    assert have(where, []) == there
    assert there.root.parent == where.build / "releases"
    before = applied.git("rev-parse", "HEAD")
    applied.succeed("clean")
    assert not there.root.exists()
    assert applied.git("rev-parse", "HEAD") == before


def test_a_release_that_names_no_versions_cannot_be_had(
    applied: Product, where: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = mini.release(applied.upstream, tmp_path, NEW)
    with server.serving({"vllm": {"vllm-0.29.0.tar.gz": new.sdist}}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        with pytest.raises(OverlayError, match="does not say which versions it tests with"):
            have(where, [])
