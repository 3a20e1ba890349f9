"""Our own tools (uv, ruff, mypy, pytest, an index client), from their lock into `build/tools`."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import site
import subprocess
import sys
from pathlib import Path

from scripts.core import packages
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout

# pip's names for what a mirror, a proxy or a private authority needs, by `pip config list`.
_PIP_KEYS = ("index-url", "extra-index-url", "cert", "proxy")
# What the system trusts, a team's own authority with it; our clients would bring a list of theirs.
_TRUSTED = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def python(layout: Layout) -> Path:
    return layout.tools / "bin" / "python"


def _stamp(layout: Layout) -> str:
    lock = (layout.root / "ci" / "tools.txt").read_bytes()
    return f"{sys.version_info.major}.{sys.version_info.minor} {hashlib.sha256(lock).hexdigest()}"


def ensure(layout: Layout) -> Path:
    """The Python of `build/tools`, made with pip (as the user has configured it) if need be."""
    stamp = layout.tools / "lock.stamp"
    whole = python(layout).is_file() and python(layout).with_name("uv").is_file()
    if whole and stamp.is_file() and stamp.read_text() == _stamp(layout):
        return python(layout)
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise OverlayError(
            f"this Python ({sys.executable}) cannot make virtual environments",
            hint=f"install it: {packages.line(packages.missing(os.environ))}",
        )
    layout.build.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(layout.tools)], "make build/tools")
    lock = str(layout.root / "ci" / "tools.txt")
    command = [str(python(layout)), "-m", "pip", "install", "--quiet", "--no-compile"]
    # `--no-deps`: the lock is complete, and a constraint of the user's must not widen it.
    _run([*command, "--no-deps", "--require-hashes", "-r", lock], "install ci/tools.txt")
    stamp.write_text(_stamp(layout))
    return python(layout)


def _run(command: list[str], what: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise OverlayError(
            f"could not {what}: {' / '.join(said)}",
            hint="check the package index that pip is configured for: python3 -m pip config list",
        )
    return done.stdout


def make_importable(layout: Layout) -> None:
    """Let this process import what `build/tools` holds (the index client needs no child)."""
    ensure(layout)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site.addsitedir(str(layout.tools / "lib" / version / "site-packages"))


def pip_settings(layout: Layout) -> dict[str, str]:
    """Index, proxy and certificate settings of the user's pip: files and environment.

    Later scopes win as they do in pip: global, user, site, environment.
    """
    listed = _run([str(ensure(layout)), "-m", "pip", "config", "list"], "read pip's settings")
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        scope, _, key = name.strip().rpartition(".")
        # Sections of single pip commands (`install.…`, `download.…`) are not ours to read.
        if key in _PIP_KEYS and (scope == "global" or scope == ":env:"):
            found[key] = ast.literal_eval(value)
    return found


def authorities(settings: dict[str, str]) -> str:
    """The file of certificates to trust: pip's, the environment's, the system's; "" if none is."""
    asked = (settings.get("cert"), os.environ.get("SSL_CERT_FILE"))
    return next(filter(None, (*asked, *filter(os.path.isfile, _TRUSTED))), "")


def index_urls(settings: dict[str, str]) -> list[str | None]:
    """The indexes to ask, in order: pip's, else uv's; None stands for the client's own default."""
    uv = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    extra = settings.get("extra-index-url", "").split()
    # pip reads folders too; they hold builds of other projects, never a release's archives.
    return [settings.get("index-url") or uv, *(url for url in extra if url.startswith("http"))]


def uv_environment(layout: Layout) -> dict[str, str]:
    """The environment for uv: the user's own, and pip's mirror and certificate where uv has none.

    pip's extra indexes are left out: they may offer other builds of torch under the same version.
    """
    env = dict(os.environ) | {"UV_PYTHON_DOWNLOADS": "never", "VIRTUAL_ENV": str(layout.venv)}
    settings = pip_settings(layout)
    if "index-url" in settings and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & set(env):
        env["UV_DEFAULT_INDEX"] = settings["index-url"]
    if authorities(settings):
        env["SSL_CERT_FILE"] = authorities(settings)
    if "proxy" in settings:
        env.setdefault("HTTPS_PROXY", settings["proxy"])
        env.setdefault("HTTP_PROXY", settings["proxy"])
    return env
