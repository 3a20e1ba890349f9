"""A package index on this machine: real HTTP, with the faults that a test asks for."""

from __future__ import annotations

import hashlib
import html
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Index:
    """What is served: `projects` is project -> file name -> bytes.

    `cuts` downloads break half-way before one is served whole; `gone` files are listed, not there.
    """

    url: str
    projects: dict[str, dict[str, bytes]]
    cuts: int = 0
    gone: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


def _page(files: dict[str, bytes]) -> bytes:
    links = "".join(
        f'<a href="/files/{html.escape(n)}#sha256={hashlib.sha256(data).hexdigest()}">'
        f"{html.escape(n)}</a><br>"
        for n, data in files.items()
    )
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        index = self.index
        index.asked.append(self.path)
        path = urlsplit(self.path).path  # a proxy is asked for a whole URL
        kind, _, name = path.strip("/").partition("/")
        files = {n: data for by_name in index.projects.values() for n, data in by_name.items()}
        if kind == "simple" and name in index.projects:
            self._send(_page(index.projects[name]), "text/html")
        elif kind == "files" and name in files and name not in index.gone:
            cut = index.cuts > 0
            index.cuts -= cut
            self._send(files[name], "application/octet-stream", cut=cut)
        else:
            self.send_error(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, body: bytes, kind: str, *, cut: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if cut else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextmanager
def serving(
    projects: dict[str, dict[str, bytes]], tls: ssl.SSLContext | None = None
) -> Iterator[Index]:
    """With `tls` over HTTPS, as `localhost`."""
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    index = Index(f"http://127.0.0.1:{server.server_port}/simple", projects)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        index.url = f"https://localhost:{server.server_port}/simple"
    handler.index = index  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
