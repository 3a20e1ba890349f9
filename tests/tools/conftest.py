"""Fixtures: a small upstream for the whole run, and a product root of its own for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import mini, server
from tests.tools.held import HeldGit
from tests.tools.product import REPO, Product, pin_text

GITCONFIG = """\
[user]
    name = a maintainer
    email = maintainer@example.invalid
[advice]
    detachedHead = false
"""


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> mini.Upstream:
    return mini.make(tmp_path_factory.mktemp("upstream"))


@pytest.fixture(scope="session")
def patches(upstream: mini.Upstream, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The three patches, name -> bytes."""
    return mini.patches(upstream, tmp_path_factory.mktemp("patches"))


def _home(folder: Path) -> Path:
    folder.mkdir()
    (folder / ".gitconfig").write_text(GITCONFIG)
    return folder


@pytest.fixture(scope="session")
def fresh_template(
    upstream: mini.Upstream,
    patches: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> Product:
    folder = tmp_path_factory.mktemp("template")
    root = folder / "root"
    for name in ("patches", "tests/regression", "tests/upstream", "build/downloads"):
        (root / name).mkdir(parents=True)
    for name in ("scripts", "ci", "Makefile", "build/tools"):
        (root / name).symlink_to(REPO / name)
    for name, raw in patches.items():
        (root / "patches" / name).write_bytes(raw)
    (root / "patches" / "README.md").write_text("The series.\n")
    (root / "patches" / "upstream.json").write_text(pin_text(upstream))
    (root / "tests" / "regression" / "test_mini.py").touch()
    (root / "tests" / "upstream" / "suites.json").write_text('{"also": [], "leave": {}}\n')
    for name in ("no_global_cleanup.py", "whose.py"):
        shutil.copy(REPO / "tests" / "upstream" / name, root / "tests" / "upstream")
    (root / "build" / "downloads" / mini.SDIST).write_bytes(upstream.sdist)
    return Product(root, _home(folder / "home"), upstream)


@pytest.fixture(scope="session")
def applied_template(fresh_template: Product, tmp_path_factory: pytest.TempPathFactory) -> Product:
    product = _copy(fresh_template, tmp_path_factory.mktemp("applied"))
    product.succeed("apply")
    return product


def _copy(template: Product, folder: Path) -> Product:
    # A blank and a letter beyond ASCII: whatever works here works in any folder.
    folder.mkdir(exist_ok=True)
    root = folder / "a prod\u00fcct"
    shutil.copytree(template.root, root, symlinks=True)
    return Product(root, _home(folder / "home"), template.upstream)


@pytest.fixture
def product(fresh_template: Product, tmp_path: Path) -> Product:
    """A fresh checkout with the sdist in its downloads; nothing is fetched or applied."""
    return _copy(fresh_template, tmp_path)


@pytest.fixture
def applied(applied_template: Product, tmp_path: Path) -> Product:
    """A checkout after `make apply`."""
    return _copy(applied_template, tmp_path / "applied")


@pytest.fixture
def second(applied_template: Product, tmp_path: Path) -> Product:
    """Another checkout after `make apply`, elsewhere."""
    return _copy(applied_template, tmp_path / "second")


@pytest.fixture
def adopted(product: Product, tmp_path: Path) -> Path:
    """A clone of upstream with its whole history that a person has at the pin, on their branch."""
    folder = tmp_path / "my vll\u00fcm"
    mini.git(tmp_path, "clone", "--quiet", str(product.upstream.repo), str(folder))
    mini.git(folder, "checkout", "--quiet", "-b", "work", mini.TAG)
    return folder


@pytest.fixture
def index(upstream: mini.Upstream) -> Iterator[server.Index]:
    """A package index that has the sdist."""
    with server.serving({"vllm": {mini.SDIST: upstream.sdist}}) as found:
        yield found


@pytest.fixture
def held_git(tmp_path: Path) -> Iterator[HeldGit]:
    with HeldGit.made(tmp_path / "held") as held:
        yield held
