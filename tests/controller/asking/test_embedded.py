"""The service inside the controller."""

from __future__ import annotations

import pytest

from controller.asking.embedded import serving
from placement.client import PlacementClient
from placement.v1 import ComputePlacementRequest
from placement_service.api.server import Server
from tests.waiting import LONG


def test_it_is_asked_once_its_solver_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Server.wait_until_warm
    warm: list[bool] = []

    def wait(server: Server, timeout: float) -> bool:
        warm.append(waited(server, timeout))
        return warm[-1]

    monkeypatch.setattr(Server, "wait_until_warm", wait)
    with serving(time_limit=5.0) as address, PlacementClient(address) as client:
        assert warm == [True]
        assert not client.compute(ComputePlacementRequest(), timeout=LONG).bindings
