"""An answer that is awaited, and an end that its caller calls for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest

from placement import v1
from placement.aio import AsyncPlacementClient
from placement.errors import PlacementError
from placement.testing import ScriptedServer, scripted_server
from tests.waiting import LONG


def test_finishing_gives_the_best_answer_so_far() -> None:
    servers: list[ScriptedServer] = []

    def script(_: v1.ComputePlacementRequest) -> Iterator[v1.Progress | v1.Placement]:
        yield v1.Progress(phase="exact")
        # It goes on for ever unless it is told to finish.
        assert servers[0].finish.wait(LONG)
        yield v1.Placement(revision="best")

    async def asked(address: str) -> list[v1.Progress | v1.Placement]:
        events = []
        async with (
            AsyncPlacementClient(address, timeout=LONG) as client,
            client.steer(v1.ComputePlacementRequest()) as stream,
        ):
            async for event in stream:
                events.append(event)
                stream.finish()
        return events

    with scripted_server(script) as server:
        servers.append(server)
        progress, placement = asyncio.run(asked(server.address))
    assert isinstance(progress, v1.Progress)
    assert isinstance(placement, v1.Placement)
    assert placement.revision == "best"


def test_an_error_of_the_service_is_raised() -> None:
    async def asked(address: str) -> None:
        async with (
            AsyncPlacementClient(address, timeout=LONG) as client,
            client.steer(v1.ComputePlacementRequest()) as stream,
        ):
            await anext(stream)

    wrong = PlacementError("no", code=grpc.StatusCode.FAILED_PRECONDITION)
    with scripted_server([wrong]) as server, pytest.raises(PlacementError, match="no"):
        asyncio.run(asked(server.address))
