"""The real service, once for all planning tests: what it says counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placement import v1
from placement.client import PlacementClient
from placement.planning.planner import Ask
from placement.testing import serve
from tests.waiting import LONG


@pytest.fixture(scope="package")
def client() -> Iterator[PlacementClient]:
    with serve() as address, PlacementClient(address, timeout=LONG) as client:
        yield client


@pytest.fixture(scope="package")
def ask(client: PlacementClient) -> Ask:
    def one(request: v1.ComputePlacementRequest, seconds: float) -> v1.Placement:
        request.time_limit.FromNanoseconds(round(seconds * 1e9))
        return client.compute(request, timeout=LONG)

    return one
