"""The API server refuses writes, says nothing, or loses its answer, in every way to advise."""

from __future__ import annotations

import random
from functools import partial

import pytest

from tests.cluster.fixtures import Cluster
from tests.cluster.proxy import Drop, Fault, FaultProxy, LoseAnswer, Refuse, Request
from tests.cluster.schedulers import install_kinds
from tests.controller.advice.worlds import Way, every_way, is_over, left_over
from tests.controller.conftest import controller

FAULTS: tuple[Fault, ...] = (
    Refuse(409),
    Refuse(422),
    Refuse(429, retry_after=1),
    Refuse(500),
    Drop(),
    LoseAnswer(),
)
#: How often the API server fails before it is well again.
STRIKES = 12


@pytest.fixture
def world(cluster: Cluster) -> Cluster:
    install_kinds(cluster.api)
    return cluster


def run_whole(world: Cluster, gangs: int) -> bool:
    return len(world.bound()) == 2 * gangs


@pytest.mark.usefixtures("impatient")
@every_way
def test_whatever_writes_meet_gangs_run_whole_and_nothing_is_left(
    world: Cluster, service: str, fault_proxy: FaultProxy, way: Way
) -> None:
    """Every fault may meet every write: which do is chance. Gangs come until all have struck."""
    chance = random.Random(way.name)
    met: list[Fault] = []

    def strikes(fault: Fault) -> bool:
        if len(met) < STRIKES and chance.random() < 0.1:
            met.append(fault)
            return True
        return False

    for fault in FAULTS:

        def when(request: Request, fault: Fault = fault) -> bool:
            return request.method != "GET" and strikes(fault)

        fault_proxy.fault(fault, when=when)
    way.add_nodes(world, "a", "b", gpus=8)
    settings = {**way.settings, "advice_ttl": 5.0}
    gangs = 0
    with (
        way.scheduled(world),
        controller(world.kubeconfig(url=fault_proxy.url), service, **settings),
    ):
        while len(met) < STRIKES and gangs < 3:
            way.add_gang(world, f"g{gangs}", 2)
            gangs += 1
            world.wait_until(partial(run_whole, world, gangs), f"{gangs} gangs run")
        fault_proxy.clear()
        world.wait_until(lambda: is_over(world), "all advice has ended")
        world.wait_until(lambda: left_over(world) == [], "and nothing is left")
    assert len(set(map(repr, met))) > 2
