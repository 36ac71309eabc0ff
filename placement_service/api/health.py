"""Health as gRPC defines it, answered whatever else happens.

The service of the library keeps a lock while it writes to those who watch, so that a watcher that
does not read could hold up the end of the server. This one never waits for watchers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_Answer = health_pb2.HealthCheckResponse
_Context = grpc.aio.ServicerContext[Any, Any]


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # It has no annotations.
    """One status for the whole server, under several names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._status = _Answer.NOT_SERVING
        self._changed = asyncio.Event()

    def set(self, status: int) -> None:
        """From the event loop."""
        changed, self._changed = self._changed, asyncio.Event()
        self._status = status
        changed.set()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: _Context) -> Any:
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return _Answer(status=self._status)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: _Context
    ) -> AsyncIterator[Any]:
        known = request.service in self._names
        while True:
            changed = self._changed
            yield _Answer(status=self._status if known else _Answer.SERVICE_UNKNOWN)
            await changed.wait()
