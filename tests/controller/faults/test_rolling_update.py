"""Services and controllers are replaced one after another, while gangs arrive and end."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.context import ForkServerProcess

import pytest

from placement_service.api.server import Server, make_server
from placement_service.api.settings import Settings
from tests.cluster.api import POD_GANGS, PODS
from tests.cluster.build import node
from tests.cluster.fixtures import Cluster
from tests.cluster.kubelet import FakeKubelet
from tests.controller import crashing
from tests.controller.conftest import LEASE
from tests.controller.event_judge import UNDER_FAULTS
from tests.controller.gang_facts import add_gang
from tests.controller.witness import Witness
from tests.ports import reserve
from tests.waiting import LONG

#: Seconds; PLACEMENT_ROLLING makes it longer.
SECONDS = float(os.environ.get("PLACEMENT_ROLLING", "12"))
PODS_OF_A_GANG, GANGS_AT_ONCE = 4, 6


class Replicas:
    """Two services at two addresses, of which one may be away."""

    def __init__(self) -> None:
        self._ports = (reserve(), reserve())
        self._servers: list[Server | None] = [None, None]
        for which in (0, 1):
            self._start(which)

    @property
    def address(self) -> str:
        return f"ipv4:{','.join(f'127.0.0.1:{port}' for port in self._ports)}"

    def replace(self, which: int) -> None:
        """As a rolling update does: it drains, ends, and another one begins."""
        self.stop(which, grace=3.0)
        self._start(which)

    def stop(self, which: int, *, grace: float = 0.0) -> None:
        if (server := self._servers[which]) is not None:
            server.stop(grace)

    def _start(self, which: int) -> None:
        server = make_server(Settings(port=self._ports[which], max_concurrent=1))
        server.start()
        # The other one is not replaced before this one can answer.
        assert server.wait_until_ready(LONG)
        self._servers[which] = server


@pytest.fixture
def services() -> Iterator[Replicas]:
    replicas = Replicas()
    try:
        yield replicas
    finally:
        for which in (0, 1):
            replicas.stop(which)


def pods_of(gang: str) -> set[str]:
    return {f"{gang}-{pod}" for pod in range(PODS_OF_A_GANG)}


def test_no_gang_is_lost_and_none_bound_twice(
    cluster: Cluster, kubelet: FakeKubelet, services: Replicas
) -> None:
    """Some controllers are told to end, some killed, and some stand still beyond their lease."""
    chance = random.Random(7)
    gangs: list[str] = []
    with Witness(cluster, UNDER_FAULTS, grace=10.0), ExitStack() as stack:
        cluster.add_nodes(*(node(f"n{i}", gpus=8) for i in range(16)))

        def begin(name: str) -> ForkServerProcess:
            process = crashing.begin(
                cluster.kubeconfig(), services.address, identity=name, time_limit=5.0, **LEASE
            )
            stack.callback(crashing.kill, process)
            return process

        controllers = [begin("c0"), begin("c1")]
        end = time.monotonic() + SECONDS
        turn = 0
        while time.monotonic() < end or turn % 4:
            gangs.append(f"g{turn}")
            add_gang(cluster, gangs[-1], pods=PODS_OF_A_GANG, gpus=1)
            bound = cluster.bound().keys()
            for done in [one for one in gangs[:-GANGS_AT_ONCE] if pods_of(one) <= bound]:
                gangs.remove(done)
                cluster.api.delete(POD_GANGS, done, cluster.namespace)
                for pod in pods_of(done):
                    cluster.api.delete(PODS, pod, cluster.namespace, grace=0)
            # The other one leads after this one has ended.
            which = turn // 4 % 2
            match turn % 4:
                case 0 | 2:
                    services.replace(turn // 2 % 2)
                case 1:
                    end_of = (controllers[which].terminate, controllers[which].kill)
                    chance.choice(end_of)()
                    controllers[which] = begin(f"c{turn}")
                case 3:
                    leader = controllers[1 - which]
                    assert leader.pid is not None
                    os.kill(leader.pid, signal.SIGSTOP)
                    time.sleep(LEASE["lease_duration"] + 1.0)
                    crashing.thaw(leader)
            turn += 1
            time.sleep(chance.random())
        cluster.wait_until(
            lambda: all(pods_of(one) <= cluster.bound().keys() for one in gangs),
            "every gang is bound",
        )
