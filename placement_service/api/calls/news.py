"""Progress on its way to callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from placement_service.api import envelope
from placement_service.api.calls.status import Context
from placement_service.api.methods import TOLD_OF_PROGRESS, Method


class News:
    """Progress on its way to a caller: a slow reader gets the latest, not all of it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: bytes | None = None
        self._sending: asyncio.Task[None] | None = None

    def tell(self, progress: bytes) -> None:
        self._latest = progress
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def sent(self) -> None:
        """Returns when what is on its way has been taken; what is not yet stays."""
        self._latest = None
        if self._sending is not None:
            await self._sending

    def end(self) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()

    async def _send(self) -> None:
        while self._latest is not None:
            progress, self._latest = self._latest, None
            await self._context.write(progress)


def telling(method: Method, news: News) -> Callable[[bytes], None]:
    """The function that takes the progress of a call; most callers get none."""
    if method.steps:
        return lambda progress: news.tell(envelope.wrapped(progress, method.progress))
    return news.tell if method.call in TOLD_OF_PROGRESS else lambda _: None
