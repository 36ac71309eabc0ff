"""A proxy between a client and the API server that breaks things by rule.

    proxy = FaultProxy(server.url, server.ca_file)
    proxy.start()
    rule = proxy.fault(Refuse(409), method="POST", path=r"/binding$", times=2)
    ...                                        # the client talks to proxy.url
    assert rule.hits == 2

It is spoken to in plain HTTP and passes the client's token on. Without rules it
changes nothing. It also counts what passes, by verb and path (`requests`).
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.waiting import wait_until

_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
#: Headers of one connection, not of what is said over it.
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})
_SECONDS_TO_CONNECT: Final = 10.0
_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answers with a status in the API server's place, which never hears of it."""

    status: int
    reason: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """Says nothing for so long, then continues as before."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Ends the connection without an answer. The API server never hears of it."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Passes the request on, then ends the connection: it happened, and nobody knows."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Ends a watch after so many events, in the middle of the next."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class WatchError:
    """Ends a watch after so many events with an event of type ERROR.

    So the API server tells, by 410, of history that it has lost.
    """

    status: int = 410
    after: int = 0


Fault = Refuse | Hang | Drop | LoseAnswer | Cut | WatchError


@dataclass(frozen=True, slots=True)
class Request:
    """What a rule looks at."""

    method: str
    path: str
    is_watch: bool


@dataclass(slots=True, eq=False)
class Rule:
    """One fault, for the requests that match, `times` times or always."""

    fault: Fault
    matches: Callable[[Request], bool]
    times: int | None
    #: How often it has struck.
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that was answered, by whichever server. `status` is 0 where no answer was given."""

    request: Request
    status: int
    fault: Fault | None = None


@dataclass(slots=True, eq=False)
class FaultProxy:
    """Listens on a free port of loopback. Rules may come and go at any time."""

    upstream: str
    ca_file: Path
    _rules: list[Rule] = field(default_factory=list)
    _requests: list[Passed] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: _Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "the proxy is not started"
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def requests(self) -> Sequence[Passed]:
        """All so far, in the order of their answers."""
        with self._lock:
            return tuple(self._requests)

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fault-proxy", daemon=True
        ).start()

    def stop(self) -> None:
        """Close it, and with it every connection."""
        if self._server is not None:
            self._server.stopping.set()
            self._server.shutdown()
            self._server.server_close()
            self._server.sever()
            self._server = None

    def sever(self) -> None:
        """Break every connection there is, watches included. New ones are welcome."""
        assert self._server is not None, "the proxy is not started"
        self._server.sever()

    def fault(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        watch: bool | None = None,
        when: Callable[[Request], bool] = lambda _: True,
        times: int | None = None,
    ) -> Rule:
        """Add a rule: the first that matches strikes.

        `path` is searched for as a regular expression; `watch` None means both.
        `Cut` and `WatchError` only ever strike watches.
        """
        if isinstance(fault, Cut | WatchError):
            watch = True
        pattern = re.compile(path)

        def matches(request: Request) -> bool:
            return (
                method in ("", request.method)
                and watch in (None, request.is_watch)
                and pattern.search(request.path) is not None
                and when(request)
            )

        rule = Rule(fault, matches, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget all rules. A client that hangs still hangs."""
        with self._lock:
            self._rules.clear()

    def forget_requests(self) -> None:
        with self._lock:
            self._requests.clear()

    def strike(self, request: Request) -> Fault | None:
        """The fault due for a request, counted as struck."""
        with self._lock:
            for rule in self._rules:
                if (rule.times is None or rule.hits < rule.times) and rule.matches(request):
                    rule.hits += 1
                    return rule.fault
        return None

    def note(self, passed: Passed) -> None:
        with self._lock:
            self._requests.append(passed)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: FaultProxy
    #: Many clients at once is what it is for.
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    def opened(self, one: socket.socket) -> None:
        with self._lock:
            self._sockets.add(one)

    def closed(self, one: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(one)

    def sever(self) -> None:
        with self._lock:
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or an API server: the ends of both know of it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # Heads and bodies are written apart, and must not wait for each other.
    disable_nagle_algorithm = True
    _upstream: http.client.HTTPSConnection | None = None

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def handle_one_request(self) -> None:
        super().handle_one_request()
        if self.server.stopping.is_set():
            self.close_connection = True

    def finish(self) -> None:
        self.server.closed(self.connection)
        self._disconnect()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Said by `requests` instead."""

    def _pass(self) -> None:
        address = urlsplit(self.path)
        is_watch = parse_qs(address.query).get("watch", [""])[0] in ("true", "1", "True")
        request = Request(self.command, address.path, is_watch)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.strike(request)
        status = 0
        try:
            match fault:
                case Refuse():
                    self._refuse(fault)
                    status = fault.status
                case Drop():
                    self.close_connection = True
                case LoseAnswer():
                    answer = self._ask(body)
                    answer.read()
                    self.close_connection = True
                case _:
                    if isinstance(fault, Hang):
                        self.server.stopping.wait(fault.seconds)
                    answer = self._ask(body)
                    status = answer.status
                    self._hand_back(answer, fault, is_watch)
        except (OSError, http.client.HTTPException):
            # One end is gone: so is the other, without a word, as on a broken line.
            self.close_connection = True
        finally:
            self.server.proxy.note(Passed(request, status, fault))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass

    def _refuse(self, fault: Refuse) -> None:
        body = json.dumps(_status(fault.status, fault.reason)).encode()
        self.send_response(fault.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        self.end_headers()
        self.wfile.write(body)

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        """Ask the API server, once: a request is never repeated on the client's behalf."""
        connection = self._connection()
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        connection.request(self.command, self.path, body or None, headers)
        return connection.getresponse()

    def _connection(self) -> http.client.HTTPSConnection:
        """The connection to the API server behind this client's connection."""
        if self._upstream is not None and _is_closed_by_peer(self._upstream.sock):
            self._disconnect()
        if self._upstream is None:
            at = urlsplit(self.server.proxy.upstream)
            trust = ssl.create_default_context(cafile=str(self.server.proxy.ca_file))
            self._upstream = http.client.HTTPSConnection(
                at.hostname or "", at.port, timeout=_SECONDS_TO_CONNECT, context=trust
            )
            self._upstream.connect()
            # A watch is silent for as long as nothing happens.
            self._upstream.sock.settimeout(None)
            self.server.opened(self._upstream.sock)
        return self._upstream

    def _disconnect(self) -> None:
        if self._upstream is not None:
            if self._upstream.sock is not None:
                self.server.closed(self._upstream.sock)
            self._upstream.close()
            self._upstream = None

    def _hand_back(
        self, answer: http.client.HTTPResponse, fault: Fault | None, is_watch: bool
    ) -> None:
        streams = is_watch and answer.status == 200
        content = b"" if streams else answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP | {"content-length", "date", "server"}:
                self.send_header(name, value)
        if streams:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._stream(answer, fault)
        else:
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _stream(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        """Pass a watch on until either end or the fault ends it."""
        if not isinstance(fault, Cut | WatchError):
            # Raises where the API server is cut off itself, and so is the client.
            while data := answer.read1(_PIECE):
                self._chunk(data)
            self._chunk(b"")
            return
        events = _lines(answer)
        for event in itertools.islice(events, fault.after):
            self._chunk(event)
        if isinstance(fault, Cut):
            event = next(events, b"")
            self._chunk(event[: len(event) // 2] or b"{")
        else:
            error = {"type": "ERROR", "object": _status(fault.status)}
            self._chunk(json.dumps(error).encode() + b"\n")
            self._chunk(b"")
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        """One chunk of the answer; an empty one is its end."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _is_closed_by_peer(idle: socket.socket | None) -> bool:
    """Whether an idle connection was ended: nothing else is to be read from one."""
    return idle is None or bool(select.select([idle], [], [], 0)[0])


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The events of a watch, each when it is there."""
    rest = b""
    while data := answer.read1(_PIECE):
        *whole, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in whole)


def _status(code: int, reason: str = "") -> dict[str, Any]:
    """What the API server says with a status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "made by the fault proxy",
        "reason": reason or _REASONS.get(code, "Unknown"),
        "code": code,
    }


def count(requests: Sequence[Passed], *, method: str = "", path: str = "") -> int:
    """How many requests match, each path searched for as a regular expression."""
    return sum(
        method in ("", one.request.method) and re.search(path, one.request.path) is not None
        for one in requests
    )


def wait_for_hits(rule: Rule, hits: int = 1) -> None:
    """Wait until a rule has struck so often. Raises AssertionError."""
    wait_until(lambda: rule.hits >= hits, f"{rule.fault} struck {hits} times")
