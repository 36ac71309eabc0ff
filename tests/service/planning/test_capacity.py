"""The table of capacity, with copies that are told."""

from __future__ import annotations

import time

import pytest

from placement_service.entities.planning import Bounded
from placement_service.entities.request import Policy
from placement_service.planning import capacity
from placement_service.planning.capacity import Cluster, Domains, frontier
from tests.scenario import Scenario
from tests.service.planning.idle import Idle
from tests.service.questions import gang, snapshot


def test_more_domains_never_show_fewer_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([Bounded(2, 4), Bounded(1, 5), Bounded(0, 6)])
    monkeypatch.setattr(capacity, "copies", lambda *_, **__: next(told))
    # No search follows.
    monkeypatch.setattr(capacity, "_SHORTEST", float("inf"))
    here = snapshot(1)
    cluster = Cluster.after(here, Policy(), (), (), Idle(), time.monotonic() + 60)
    rows = frontier(
        cluster, Domains(here, "kubernetes.io/hostname"), [gang("a", pods=1, gpus=8)], 2
    )
    assert [row.copies for row in rows] == [[Bounded(2, 4)], [Bounded(2, 5)], [Bounded(2, 6)]]


def test_domains_added_to_those_that_were_added_are_domains_of_their_own() -> None:
    """A saved question may hold some already."""
    here = Scenario("b1/r1: x1=8 x2=8").snapshot()
    once = Domains(here, "rack", "r1").added(1)
    twice = Domains(once, "rack", "r1").added(1)
    assert twice.columns.label("rack")[2:] == [*["r1-added-0"] * 2, *["r1-added-1"] * 2]
