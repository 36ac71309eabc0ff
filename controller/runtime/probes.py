"""/healthz, /readyz and /metrics over plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

#: Seconds until a connection on which nothing is asked is closed: each has a thread.
_SILENCE: Final = 10.0
#: Why a probe fails, in words; empty when all is well.
Check = Callable[[], str]


class Probes:
    """Serves while the block runs."""

    def __init__(
        self, host: str, port: int, *, healthy: Check, ready: Check, registry: CollectorRegistry
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _SILENCE

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                elif self.path in ("/healthz", "/readyz"):
                    why = (healthy if self.path == "/healthz" else ready)()
                    self._answer(503 if why else 200, f"{why or 'ok'}\n".encode())
                else:
                    self._answer(404, b"not found\n")

            def _answer(
                self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8"
            ) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing: probes come every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise OSError(f"probes cannot listen on {host}:{port} (http_port): {error}") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="probes", daemon=True
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
