"""Tests run as on a machine without internet, whatever the machine has."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import hub
from tests.tools.product import REPO

LAYOUT = Layout.of(REPO, None)
# In a child of a child, as an engine's process is: each prints what came of it.
ASKS = """
import asyncio, json, socket, subprocess, sys, urllib.request
def said(ask):
    try:
        return str(ask() or "reached")
    except urllib.error.URLError as error:
        return f"{type(error.reason).__name__} {error.reason.errno}"
    except OSError as error:
        return f"{type(error).__name__} {error.errno}"
async def dial():
    await asyncio.open_connection("example.com", 443)
if len(sys.argv) == 2:
    sys.exit(subprocess.run([sys.executable, "-c", sys.orig_argv[2], sys.argv[1], ""]).returncode)
port = int(sys.argv[1])
datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(json.dumps({
    "here": said(lambda: socket.create_connection(("localhost", port)).close()),
    "own name": said(lambda: socket.getaddrinfo(socket.gethostname(), 1) and ""),
    "name": said(lambda: socket.create_connection(("example.com", 443))),
    "url": said(lambda: urllib.request.urlopen("https://example.com")),
    "asyncio": said(lambda: asyncio.run(dial())),
    "address": said(lambda: socket.socket().connect(("8.8.8.8", 443))),
    "code": said(lambda: socket.socket().connect_ex(("8.8.8.8", 443))),
    "ipv6": said(lambda: socket.socket(socket.AF_INET6).connect(("2001:4860:4860::8888", 443))),
    "by host": said(lambda: socket.gethostbyname("example.com")),
    "bytes": said(lambda: socket.getaddrinfo(b"example.com", 443)),
}))
"""


def test_no_process_of_a_test_finds_or_reaches_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HUB", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = subprocess.run(
            [sys.executable, "-c", ASKS, str(server.getsockname()[1])],
            env={"PATH": os.environ["PATH"], **hub.closed(LAYOUT)}, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    no_name, no_way = f"gaierror {socket.EAI_AGAIN}", f"OSError {errno.ENETUNREACH}"
    assert json.loads(done.stdout) == {
        "here": "reached",
        "own name": "reached",
        "name": no_name,
        "url": no_name,
        "asyncio": no_name,
        "address": no_way,
        "code": str(errno.ENETUNREACH),
        "ipv6": no_way,
        "by host": no_name,
        "bytes": no_name,
    }


def test_the_hub_is_generated_unless_the_real_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for asked in ("", "generated"):
        monkeypatch.setenv("HUB", asked)
        assert hub.tier("cpu") == "cpu"
        assert hub.closed(LAYOUT)["HF_HUB_OFFLINE"] == "1"
    monkeypatch.setenv("HUB", "real")
    assert hub.tier("cuda") == "cuda-hub"
    assert hub.closed(LAYOUT) == {}
    assert hub.environment(LAYOUT) == {}
    monkeypatch.setenv("HUB", "mirror")
    with pytest.raises(OverlayError, match="HUB=mirror is no hub"):
        hub.real()


def test_what_the_user_has_on_the_path_stays_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HUB", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert hub.closed(LAYOUT)["PYTHONPATH"].endswith(f"{os.pathsep}{tmp_path}")
