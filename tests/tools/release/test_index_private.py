"""A private index: behind a proxy, or with a certificate of the team's own authority."""

from __future__ import annotations

import io
import ssl
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from scripts.core import tools
from scripts.core.layout import Layout
from scripts.release import index as client
from tests.tools import mini
from tests.tools.product import REPO, Product
from tests.tools.server import Index, serving

VARIABLES = ("PIP_INDEX_URL", "PIP_CERT", "PIP_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
             "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
             "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_FIND_LINKS", "SSL_CERT_DIR")  # fmt: skip


@dataclass(frozen=True)
class Private:
    """An index that is served over HTTPS."""

    index: Index
    authority: str
    """File of the certificate that a client must trust."""


def wheel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("tiny.py", "")
        info = "tiny-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return packed.getvalue()


@pytest.fixture
def private(product: Product, tmp_path: Path) -> Iterator[Private]:
    product.sdist.unlink()
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "team.pem"))
    projects = {"vllm": {mini.SDIST: product.upstream.sdist}}
    projects["tiny"] = {"tiny-1.0-py3-none-any.whl": wheel()}
    with serving(projects, tls) as index:
        yield Private(index, str(tmp_path / "team.pem"))


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return monkeypatch


@pytest.mark.parametrize("variable", ["PIP_CERT", "SSL_CERT_FILE"])
def test_the_sdist_comes_from_an_index_of_the_teams_authority(
    product: Product, private: Private, variable: str
) -> None:
    url = {"PIP_INDEX_URL": private.index.url}
    refused = product.run("fetch", **url)
    assert refused.code == 2
    assert "CERTIFICATE_VERIFY_FAILED" in refused.error
    assert "fetched" in product.succeed("fetch", **url, **{variable: private.authority})


def installs(folder: Path) -> subprocess.CompletedProcess[str]:
    """uv as `make build` starts it, of a project that only the private index has."""
    layout = Layout.of(REPO, None)
    uv = str(tools.python(layout).with_name("uv"))
    command = [uv, "pip", "install", "--no-cache", "--target", str(folder / "tiny"), "tiny"]
    env = tools.uv_environment(layout) | {"UV_HTTP_RETRIES": "0"}
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_uv_takes_index_and_authority_from_pip(
    private: Private, clean: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean.setenv("PIP_INDEX_URL", private.index.url)
    assert installs(tmp_path).returncode != 0
    clean.setenv("PIP_CERT", private.authority)
    assert installs(tmp_path).returncode == 0
    assert (tmp_path / "tiny/tiny.py").exists()


def test_what_the_system_trusts_is_trusted(
    private: Private, clean: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean.setenv("PIP_INDEX_URL", private.index.url)
    clean.setattr(tools, "_TRUSTED", ("/none", private.authority))
    assert mini.SDIST in client.files(Layout.of(REPO, None), "vllm", mini.TAG.removeprefix("v"))
    assert installs(tmp_path).returncode == 0


def test_a_proxy_of_pips_is_the_only_one_that_is_asked(
    product: Product, index: Index, clean: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing else knows `index.invalid`."""
    product.sdist.unlink()
    index.projects["tiny"] = {"tiny-1.0-py3-none-any.whl": wheel()}
    proxy = index.url.removesuffix("/simple")
    settings = {"PIP_INDEX_URL": "http://index.invalid/simple", "PIP_PROXY": proxy}
    assert "fetched" in product.succeed("fetch", **settings)
    assert index.asked == [
        "http://index.invalid/simple/vllm/",
        f"http://index.invalid/files/{mini.SDIST}",
    ]
    for name, value in settings.items():
        clean.setenv(name, value)
    assert installs(tmp_path).returncode == 0
    assert "http://index.invalid/simple/tiny/" in index.asked
