"""Download one artefact from the package index that the user's pip or uv is configured for."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.release.pin import Artefact

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple


def digest(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, size: int, what: str) -> None:
    """Raise where the disk under `folder` has less than `size` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OverlayError(
            f"no disk space for {what}: {size >> 20} MiB needed, {free >> 20} MiB free",
            hint=f"free some space under {folder}, then run this again",
        )


def obtain(layout: Layout, artefact: Artefact) -> Path:
    """The artefact in `build/downloads`, its sha256 proven; downloaded only where it is not there.

    A broken download leaves a `.part` file at most, which the next run starts over.
    """
    path = layout.downloads / artefact.file
    if path.is_file():
        _prove(layout, path, artefact)
        return path
    layout.downloads.mkdir(parents=True, exist_ok=True)
    require_space(layout.downloads, artefact.size, artefact.file)
    part = path.with_name(path.name + ".part")
    _download(layout, artefact, part)
    _prove(layout, part, artefact)
    os.replace(part, path)
    return path


def _prove(layout: Layout, path: Path, artefact: Artefact) -> None:
    size = path.stat().st_size
    found = digest(path)
    if found == artefact.sha256:
        return
    what = "is truncated" if size < artefact.size else "is not the pinned file"
    raise OverlayError(
        f"{layout.shown(path)} {what}: sha256 {found} ({size} bytes),"
        f" the pin says {artefact.sha256} ({artefact.size} bytes)",
        hint=f"remove it to download it again: rm {layout.shown(path)}",
    )


def files(layout: Layout, project: str, version: str) -> dict[str, tuple[Artefact, str]]:
    """File name → the artefact and its day of upload (empty where unknown), of one release.

    Hash and size are what the index says. A file without a sha256 in the index is left out.
    """
    found: dict[str, tuple[Artefact, str]] = {}
    try:
        for client in _clients(layout):
            for package in _packages(client, project):
                sha256 = package.digests.get("sha256", "")
                if package.version != version or not sha256 or package.filename in found:
                    continue
                size = package.size or _size(client, package)
                day = package.upload_time.date().isoformat() if package.upload_time else ""
                found[package.filename] = Artefact(project, package.filename, size, sha256), day
    except OSError as error:  # of requests too
        raise OverlayError(
            f"could not read the files of {project} {version}: {error}",
            hint="check the network, the proxy and the index (python3 -m pip config list)",
        ) from error
    return found


def newest(layout: Layout, project: str) -> str:
    """The highest version of `project` that has an sdist and is no preview."""
    clients = _clients(layout)
    from packaging.version import Version  # the index client depends on it

    found = {
        package.version
        for client in clients
        for package in _packages(client, project)
        if package.version and package.package_type == "sdist"
    }
    stable = [version for version in map(Version, found) if not version.is_prerelease]
    if not stable:
        raise OverlayError(
            f"the configured package index has no release of {project}",
            hint="see `python3 -m pip config list`; a mirror may lag or filter",
        )
    return str(max(stable))


def _packages(client: PyPISimple, project: str) -> list[DistributionPackage]:
    from pypi_simple import NoSuchProjectError

    try:
        return client.get_project_page(project, timeout=60).packages
    except NoSuchProjectError:
        return []


def _size(client: PyPISimple, package: DistributionPackage) -> int:
    """Bytes of a file whose index page does not say."""
    answer = client.s.head(package.url, timeout=60, allow_redirects=True)
    return int(answer.headers.get("Content-Length", "0"))


def _clients(layout: Layout) -> list[PyPISimple]:
    """A client for each index to ask, in order."""
    tools.make_importable(layout)
    import requests
    from pypi_simple import PYPI_SIMPLE_ENDPOINT, PyPISimple
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    settings = tools.pip_settings(layout)
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=Retry(4, backoff_factor=0.5)))
    session.verify = tools.authorities(settings) or True
    if "proxy" in settings:
        session.proxies = {"https": settings["proxy"], "http": settings["proxy"]}
    urls = tools.index_urls(settings)
    return [PyPISimple(url or PYPI_SIMPLE_ENDPOINT, session=session) for url in urls]


def _download(layout: Layout, artefact: Artefact, part: Path) -> None:
    clients = _clients(layout)
    from pypi_simple import tqdm_progress_factory

    try:
        client, package = _find(clients, artefact)
        progress = tqdm_progress_factory() if sys.stderr.isatty() else None
        client.download_package(package, part, verify=False, timeout=60, progress=progress)
    except OSError as error:  # of requests too, down to a missing certificate file
        if error.errno == errno.ENOSPC:
            raise
        raise OverlayError(
            f"could not download {artefact.file}: {error}",
            hint="check the network, the proxy and the index (python3 -m pip config list),"
            f" or put the file into {layout.shown(layout.downloads)}/ by hand",
        ) from error


def _find(clients: list[PyPISimple], artefact: Artefact) -> tuple[PyPISimple, DistributionPackage]:
    for client in clients:
        for package in _packages(client, artefact.project):
            if package.filename == artefact.file:
                return client, package
    raise OverlayError(
        f"the configured package index has no {artefact.file}",
        hint="see `python3 -m pip config list`; a mirror may lag or filter",
    )
