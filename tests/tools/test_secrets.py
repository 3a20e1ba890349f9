"""Secrets of the environment: tokens, and passwords in URLs. No verb shows or keeps one."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.product import REPO, Done, Product

SECRET = "s3cr3t-of-nobody"
"""Part of every one of them; nothing else has it."""
ENV = {
    "HF_TOKEN": f"hf_{SECRET}",
    "BUILDKITE_ANALYTICS_TOKEN": f"bkua_{SECRET}",
    "BUILDKITE_AGENT_ACCESS_TOKEN": f"bkaj_{SECRET}",
    "PIP_INDEX_URL": f"http://reader:{SECRET}@127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": f"http://reader:{SECRET}@127.0.0.1:9/more",
    "UV_DEFAULT_INDEX": f"http://reader:{SECRET}@127.0.0.1:9/simple",
}
GIT_URL = f"http://reader:{SECRET}@127.0.0.1:9/vllm.git"
WHEEL = {"project": "vllm", "file": "vllm-0.28.0.whl", "size": 1, "sha256": "0" * 64}
SOURCE = ("--device", "cpu", "--kernels", "source")


def kept(product: Product) -> list[str]:
    """The files that hold a secret, of all that the checkout has."""
    needle = SECRET.encode()
    paths = (path for path in product.root.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in paths if needle in path.read_bytes()]


def tell(product: Product, *args: str, **env: str) -> Done:
    """Run a verb with every secret in its environment; none may show."""
    done = product.run(*args, **{**ENV, **env})
    assert SECRET not in done.out + done.err, done
    assert kept(product) == []
    return done


@pytest.fixture
def ready(applied: Product) -> Product:
    """An applied checkout, with our own tools as its environment: they have pytest."""
    (applied.root / "build" / "venv").symlink_to(REPO / "build" / "tools")
    return applied


def test_a_secret_in_a_file_would_be_found(product: Product) -> None:
    path = product.root / "build" / "log"
    path.write_text(f"token={SECRET}\n")
    assert kept(product) == [str(path)]


@pytest.mark.parametrize(
    "args",
    [
        *(("apply",), ("export",), ("export", "--dist", "build/dist"), ("lint",), ("status",)),
        *(("doctor", "--device", "cpu"), ("doctor", "--device", "cpu", "--json"), ("pipeline",)),
        *(("verify",), ("fetch",), ("clean",)),
        *(("build", *SOURCE, "--dry-run"), ("test", *SOURCE, "--suites", "list")),
    ],
    ids=" ".join,
)
def test_a_verb_that_does_its_work_shows_none(applied: Product, args: tuple[str, ...]) -> None:
    if args == ("clean",):
        (applied.root / "build" / "tools").unlink()
    assert tell(applied, *args).code == 0


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize("verb", ["fetch", "verify", "apply"])
def test_the_password_of_a_repository_is_not_told(
    product: Product, verb: str, reached: bool
) -> None:
    if reached:
        mini.git(
            product.home, "config", "--file", str(product.home / ".gitconfig"),
            f"url.{product.upstream.repo.as_uri()}.insteadOf", GIT_URL,
        )  # fmt: skip
    done = tell(product, verb, SOURCE="git", GIT_URL=GIT_URL)
    assert done.code == (0 if reached else 2), done
    assert ("http://127.0.0.1:9/vllm.git" in done.out + done.err) == (
        verb == "verify" or not reached
    )


@pytest.mark.parametrize("verb", ["fetch", "roll"])
def test_the_password_of_an_index_is_not_told(product: Product, verb: str) -> None:
    product.sdist.unlink()
    assert tell(product, verb, TAG="v0.29.0", COMMIT="0" * 40).code == 2


def test_nor_is_it_where_the_tools_cannot_be_installed(product: Product) -> None:
    product.sdist.unlink()
    (product.root / "build" / "tools").unlink()
    done = tell(product, "fetch")
    assert "could not install ci/tools.txt" in done.error


@pytest.mark.parametrize(
    ("verb", "device"),
    [("build", "cpu"), ("build", "cuda"), ("bench", "cpu"), ("baseline", "cpu"), ("test", "cpu")],
)
def test_a_build_whose_index_is_out_of_reach_tells_none(
    applied: Product, verb: str, device: str
) -> None:
    applied.edit_pin(wheels={one: {platform.machine(): WHEEL} for one in ("cpu", "cuda")})
    done = tell(applied, verb, DEVICE=device, SUITES="" if verb == "bench" else "upstream")
    assert done.code == 2
    assert "127.0.0.1" in (applied.root / "build/reports/build.log").read_text()


def test_tests_report_none_of_them(ready: Product) -> None:
    """Of a test that fails too: what it raised and printed goes into the reports."""
    done = tell(ready, "test", SUITES="tools", DEVICE="cpu", KERNELS="source")
    assert done.code == 1
    assert list(ready.root.glob("build/reports/*.xml"))


def test_pick_tells_none(applied: Product, tmp_path: Path) -> None:
    fork = forks.make(applied.upstream, tmp_path)
    mini.git(fork, "remote", "add", "elsewhere", GIT_URL)
    assert tell(applied, "pick", FORK=str(fork), ONTO=forks.ONTO).code == 0
