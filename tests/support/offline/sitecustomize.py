"""For each Python below a folder on PYTHONPATH: the machine as it is without internet.

Names other than this machine's are not found, other addresses are not reached, so that tests answer
alike with internet and without; what upstream's tests would fetch is not fetched.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from functools import wraps
from typing import Any

_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex


def _here(host: object) -> bool:
    """Whether `host`, a name or an address, is this machine or in a private network."""
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    if name in ("localhost", "<broadcast>", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_private
    except ValueError:
        return False


def _asking(resolve: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(resolve)
    def asked(host: object, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        if not _here(host):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return resolve(host, *args, **kwargs)

    return asked


def _reached(connection: socket.socket, address: Any) -> bool:  # noqa: ANN401 - as socket has it
    # A datagram socket sends nothing when it connects: so one asks for its own address.
    stream = connection.type == socket.SOCK_STREAM
    internet = connection.family in (socket.AF_INET, socket.AF_INET6)
    return not (stream and internet) or _here(address[0])


def connect(self: socket.socket, address: Any) -> None:  # noqa: ANN401
    if not _reached(self, address):
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
    _connect(self, address)


def connect_ex(self: socket.socket, address: Any) -> int:  # noqa: ANN401
    return _connect_ex(self, address) if _reached(self, address) else errno.ENETUNREACH


for _name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, _name, _asking(getattr(socket, _name)))
socket.socket.connect = connect  # type: ignore[method-assign]
socket.socket.connect_ex = connect_ex  # type: ignore[method-assign]
