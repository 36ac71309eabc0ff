"""HTTP connections on which the headers of an answer have one time limit.

A read timeout applies to each read: a server that sends a byte from time to time can keep a caller
waiting for ever. The caller reads what follows the headers in parts.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Timed(io.RawIOBase):
    """What a socket receives, until `end` if there is one."""

    def __init__(self, received: io.RawIOBase, connected: socket.socket, end: float) -> None:
        self._received = received
        self._connected = connected
        self._timeout = connected.gettimeout()
        self._end: float | None = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the headers take too long")
            self._connected.settimeout(left)
        return self._received.readinto(buffer)

    def no_limit(self) -> None:
        """From now on each read has the timeout that the socket had."""
        self._end = None
        self._connected.settimeout(self._timeout)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._timed: _Timed | None = None
        timeout = sock.gettimeout()
        if timeout is not None:
            self._timed = _Timed(self.fp.detach(), sock, time.monotonic() + timeout)
            self.fp = io.BufferedReader(self._timed)

    def begin(self) -> None:
        super().begin()
        if self._timed is not None:
            self._timed.no_limit()


class _Plain(HTTPConnection):
    response_class = _Response


class _Secure(HTTPSConnection):
    response_class = _Response


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


#: The connection pools of a `urllib3.PoolManager`, by scheme.
POOLS: Final = {"http": _PlainPool, "https": _SecurePool}
