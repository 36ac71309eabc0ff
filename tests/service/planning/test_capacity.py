"""The table of capacity, with copies that are told."""

from __future__ import annotations

import time

import pytest

from placement_service.entities.planning import Bounded
from placement_service.entities.request import Policy
from placement_service.planning import capacity
from placement_service.planning.capacity import Cluster, Domains, frontier
from tests.scenario import Group, Scenario, gang_name
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


def test_no_bound_is_about_a_gang_that_is_placed_once() -> None:
    """The other one lies on x1, where it is not in its reservation. There, two copies more fit."""
    scenario = Scenario("x1=8 x2=8").hold("held", "x2", 2, "own")
    scenario = scenario.gang("a", pods=1, gpus=2).gang("b", Group("own", pods=1, gpus=2))
    here, policy = scenario.snapshot(), scenario.policy
    bindings = scenario.bind(**{"b-own-0": "x1"})
    cluster = Cluster.after(here, policy, bindings, [gang_name("b")], Idle(), time.monotonic() + 60)
    assert capacity.copies(cluster, here.gangs[0], exhaustive=False) == Bounded(6, 7)


def test_domains_added_to_those_that_were_added_are_domains_of_their_own() -> None:
    """A saved question may hold some already."""
    here = Scenario("b1/r1: x1=8 x2=8").snapshot()
    once = Domains(here, "rack", "r1").added(1)
    twice = Domains(once, "rack", "r1").added(1)
    assert twice.columns.label("rack")[2:] == [*["r1-added-0"] * 2, *["r1-added-1"] * 2]
