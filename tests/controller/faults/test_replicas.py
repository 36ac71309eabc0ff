"""Replicas, of which exactly one acts, whatever happens to the lease.

Each has a `FaultProxy` of its own between itself and the API server, which shows who does
what. PLACEMENT_HANDOVERS says how often a killed leader's hand-over is measured.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from controller.runtime.steps import Step
from tests.cluster.api import LEASES, POD_GANGS, Body
from tests.cluster.build import node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.informer import Informer
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import Drop, FaultProxy, Refuse, count, wait_for_hits
from tests.controller import crashing
from tests.controller.conftest import LEASE, Start, controller
from tests.controller.event_judge import UNDER_FAULTS
from tests.controller.gang_facts import bound_of, metric, scheduled, serve_gang
from tests.controller.witness import Witness
from tests.waiting import LONG

BINDING = r"/binding$"
HANDOVERS = int(os.environ.get("PLACEMENT_HANDOVERS", "1"))

#: For those who keep it, also when they stand still for a while.
STEADY: dict[str, Any] = {**LEASE, "lease_duration": 8.0, "renew_deadline": 6.0}
WHERE = LEASE["lease_name"], LEASE["lease_namespace"]


@pytest.fixture
def proxies(cluster: Cluster) -> Iterator[tuple[FaultProxy, FaultProxy]]:
    made = tuple(FaultProxy(cluster.server.url, cluster.server.ca_file) for _ in range(2))
    for proxy in made:
        proxy.start()
    yield made[0], made[1]
    for proxy in made:
        proxy.stop()


class History:
    """Who held the lease, one after another, and since when."""

    def __init__(self, cluster: Cluster) -> None:
        self.holders: list[str] = []
        self.since: list[float] = []
        self._informer = Informer(cluster.api, LEASES, self._see, namespace=WHERE[1])

    def _see(self, lease: Body, is_gone: bool) -> None:
        holder = lease["spec"].get("holderIdentity") or ""
        if not is_gone and holder and self.holders[-1:] != [holder]:
            self.holders.append(holder)
            self.since.append(time.monotonic())

    @contextmanager
    def kept(self) -> Iterator[History]:
        self._informer.start()
        try:
            yield self
        finally:
            self._informer.stop()


@pytest.fixture
def history(cluster: Cluster) -> Iterator[History]:
    with History(cluster).kept() as history:
        yield history


class Two:
    """Two replicas in this process, "first" and "second"; the first one leads."""

    def __init__(
        self,
        cluster: Cluster,
        service: str,
        proxies: tuple[FaultProxy, FaultProxy],
        history: History,
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._proxies = proxies
        self._history = history
        self._ports: list[int] = []

    @contextmanager
    def run(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, proxy in zip(("first", "second"), self._proxies, strict=True):
                config = self._cluster.kubeconfig(url=proxy.url)
                one = controller(config, self._service, identity=name, **STEADY)
                self._ports.append(stack.enter_context(one).probes.port)
                self._cluster.wait_until(
                    lambda: self._history.holders == ["first"], "the first one leads"
                )
            yield

    def check(self) -> None:
        """That they do not both say that they lead: asked one, the other, and one again."""
        first, second, again = (self._leads(which) for which in (0, 1, 0))
        assert not (first and second and again)

    def _leads(self, which: int) -> bool:
        return metric(self._ports[which], "leader") == 1


@pytest.fixture
def two(
    cluster: Cluster,
    service: str,
    proxies: tuple[FaultProxy, FaultProxy],
    history: History,
) -> Two:
    return Two(cluster, service, proxies, history)


def bound_through(*proxies: FaultProxy) -> list[int]:
    """How many pods were bound by requests through each proxy, as far as it wrote it down."""
    return [
        sum(
            passed.status == 201 and passed.request.path.endswith("/binding")
            for passed in proxy.requests
        )
        for proxy in proxies
    ]


@pytest.mark.parametrize("_", range(HANDOVERS))
def test_when_the_leader_is_killed_the_other_takes_over_within_the_lease(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    service: str,
    fault_proxy: FaultProxy,
    history: History,
    _: int,
) -> None:
    with Witness(cluster, UNDER_FAULTS):
        cluster.add_nodes(node("a", gpus=16))
        first = crashing.begin(cluster.kubeconfig(), service, identity="first", **STEADY)
        second = None
        try:
            serve_gang(cluster, grove, "g")
            cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "the first one leads")
            config = cluster.kubeconfig(url=fault_proxy.url)
            second = crashing.begin(config, service, identity="second", **STEADY)
            cluster.wait_until(
                lambda: count(fault_proxy.requests, path="/leases/") >= 2, "the second one waits"
            )
            crashing.kill(first)
            killed = time.monotonic()
            serve_gang(cluster, grove, "h")
            cluster.wait_until(
                lambda: scheduled(cluster, "h-0").get("status") == "True", "the second one leads"
            )
            done = time.monotonic()
        finally:
            crashing.kill(first)
            if second is not None:
                crashing.kill(second)
    assert history.holders == ["first", "second"]
    print(
        f"lease of {STEADY['lease_duration']:.0f} s taken over {history.since[1] - killed:.2f} s"
        f" after the leader was killed; gang bound and reported after {done - killed:.2f} s"
    )


def test_a_leader_that_ends_in_good_order_hands_over_at_once(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    service: str,
    fault_proxy: FaultProxy,
) -> None:
    """Long before the lease would run out, which is after the test."""
    slow: dict[str, Any] = {**LEASE, "lease_duration": 600.0, "renew_deadline": 500.0}
    with Witness(cluster):
        cluster.add_nodes(node("a", gpus=8))
        first = crashing.begin(cluster.kubeconfig(), service, **slow)
        second = None
        try:
            serve_gang(cluster, grove, "g")
            cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "the first one leads")
            second = crashing.begin(cluster.kubeconfig(url=fault_proxy.url), service, **slow)
            cluster.wait_until(
                lambda: count(fault_proxy.requests, path="/leases/") >= 2, "the second one waits"
            )
            first.terminate()
            first.join(LONG)
            assert first.exitcode == 0
            grove.forget(cluster.namespace, "g")
            serve_gang(cluster, grove, "h")
            cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "the second one leads")
        finally:
            crashing.kill(first)
            if second is not None:
                crashing.kill(second)


def test_a_leader_that_cannot_renew_stops_acting(
    cluster: Cluster,
    witness: Witness,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), **LEASE)
    serve_gang(cluster, grove, "g")
    cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "it leads")
    rule = fault_proxy.fault(Refuse(500), path="/leases")
    # After so many attempts the deadline for renewing is over.
    wait_for_hits(rule, round(LEASE["renew_deadline"] / LEASE["renew_period"]) + 2)
    fault_proxy.forget_requests()
    grove.forget(cluster.namespace, "g")
    serve_gang(cluster, grove, "h")
    wait_for_hits(rule, rule.hits + 4)
    assert count(fault_proxy.requests, method="POST", path=BINDING) == 0
    fault_proxy.clear()
    cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "it leads again")


@pytest.mark.parametrize("bound_before", [0, 2])
def test_a_leader_that_was_frozen_beyond_its_lease_sends_nothing_when_it_wakes(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    service: str,
    proxies: tuple[FaultProxy, FaultProxy],
    history: History,
    bound_before: int,
) -> None:
    """It stands still in the middle of binding a gang; the other one finishes it."""
    first_proxy, second_proxy = proxies
    with Witness(cluster, UNDER_FAULTS), ExitStack() as stack:
        cluster.add_nodes(node("a", gpus=16))
        first = crashing.begin(
            cluster.kubeconfig(url=first_proxy.url),
            service,
            freeze_at=Step.BIND,
            visit=bound_before + 1,
            identity="first",
            parallel_calls=1,
            **STEADY,
        )
        stack.callback(crashing.kill, first)
        serve_gang(cluster, grove, "g")
        cluster.wait_until(lambda: crashing.is_frozen(first), "the first one is frozen")
        assert len(cluster.bound()) == bound_before
        second = crashing.begin(
            cluster.kubeconfig(url=second_proxy.url), service, identity="second", **STEADY
        )
        stack.callback(crashing.kill, second)
        cluster.wait_until(
            lambda: scheduled(cluster, "g-0").get("status") == "True", "the other one finishes"
        )
        assert history.holders == ["first", "second"]
        first_proxy.forget_requests()
        crashing.thaw(first)
        cluster.wait_until(
            lambda: count(first_proxy.requests, method="GET", path="/leases/") >= 3,
            "the first one is there again",
        )
        serve_gang(cluster, grove, "h")
        cluster.wait_until(
            lambda: scheduled(cluster, "h-0").get("status") == "True", "the next gang is bound"
        )
        # What the first had bound is not among them.
        want = [0, 8 - bound_before]
        cluster.wait_until(lambda: bound_through(*proxies) == want, "all by the second one")
        sent = [p.request for p in first_proxy.requests if p.request.method != "GET"]
        # A renewal may have been half done; the API server refuses it by its version.
        assert [one for one in sent if "/leases/" not in one.path] == []
        # As a follower it may lead again.
        second.terminate()
        grove.forget(cluster.namespace, "g")
        serve_gang(cluster, grove, "i")
        cluster.wait_until(lambda: bound_through(first_proxy) == [4], "the first one leads again")
    assert history.holders == ["first", "second", "first"]


def test_what_was_unknown_when_the_lease_was_lost_is_not_forgotten(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    """A way to the API server that breaks takes the lease with it, and what became of the
    bindings; the same replica leads again."""
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    lost = fault_proxy.fault(Drop(), method="POST", path=BINDING)
    looks = fault_proxy.fault(Refuse(503), method="GET", path=r"/pods/[^/]+$")
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), **LEASE)
    wait_for_hits(lost, 1)
    wait_for_hits(looks, 1)
    leases = fault_proxy.fault(Refuse(500), path="/leases")
    # Longer than it leads without the lease.
    wait_for_hits(leases, round(LEASE["renew_deadline"] / LEASE["renew_period"]) + 2)
    assert cluster.bound() == {}
    fault_proxy.clear()
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def first_one_binds(
    cluster: Cluster, proxies: tuple[FaultProxy, FaultProxy], history: History, two: Two
) -> None:
    """The first one has led all the time, and binds a gang of four pods."""
    cluster.wait_until(lambda: bound_through(*proxies) == [4, 0], "the first one binds it")
    two.check()
    assert history.holders == ["first"]


def test_times_in_the_lease_years_off_change_nothing(
    cluster: Cluster,
    witness: Witness,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    proxies: tuple[FaultProxy, FaultProxy],
    history: History,
    two: Two,
) -> None:
    """For longer than the lease lasts."""
    moments = itertools.cycle(["1970-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
    cluster.add_nodes(node("a", gpus=8))
    with two.run():
        until = time.monotonic() + STEADY["lease_duration"] + 1
        while time.monotonic() < until:
            cluster.api.merge(LEASES, WHERE[0], {"spec": {"renewTime": next(moments)}}, WHERE[1])
            two.check()
            time.sleep(LEASE["renew_period"])
        serve_gang(cluster, grove)
        first_one_binds(cluster, proxies, history, two)


def test_a_lease_that_is_deleted_stays_with_its_holder(
    cluster: Cluster,
    witness: Witness,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    proxies: tuple[FaultProxy, FaultProxy],
    history: History,
    two: Two,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    with two.run():
        for _ in range(5):
            cluster.api.delete(LEASES, *WHERE)
            cluster.wait_until(
                lambda: cluster.api.find(LEASES, *WHERE) is not None, "the lease is there again"
            )
            two.check()
        serve_gang(cluster, grove)
        first_one_binds(cluster, proxies, history, two)


def test_a_lease_that_is_deleted_while_its_holder_cannot_renew_is_taken_when_it_is_over(
    cluster: Cluster,
    witness: Witness,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    proxies: tuple[FaultProxy, FaultProxy],
    history: History,
    two: Two,
) -> None:
    """Not before: the holder knows of nothing."""
    cluster.add_nodes(node("a", gpus=8))
    with two.run():
        proxies[0].fault(Refuse(500), path="/leases")
        cluster.api.delete(LEASES, *WHERE)
        while history.holders == ["first"]:
            two.check()
            time.sleep(0.02)
        two.check()
        serve_gang(cluster, grove)
        cluster.wait_until(lambda: bound_through(*proxies) == [0, 4], "the second one binds it")
        proxies[0].clear()
    assert history.holders[:2] == ["first", "second"]


def test_two_replicas_outlive_a_restart_of_the_api_server(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    proxies: tuple[FaultProxy, FaultProxy],
    two: Two,
) -> None:
    """Afterwards exactly one of them leads, and each pod is bound once."""
    with Witness(cluster, UNDER_FAULTS) as witness:
        cluster.add_nodes(node("a", gpus=16))
        with two.run():
            serve_gang(cluster, grove, "g")
            cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "the first gang is bound")
            serve_gang(cluster, grove, "h")
            cluster.server.restart(kill=True)
            two.check()

            def says_so() -> bool:
                two.check()
                gangs = cluster.api.items(POD_GANGS, cluster.namespace)
                return len(gangs) == 2 and all(
                    scheduled(cluster, name).get("status") == "True" for name in ("g-0", "h-0")
                )

            cluster.wait_until(says_so, "both gangs are bound")
    assert witness.pods_bound == 8
    # Or fewer, as far as answers were lost with the server.
    assert sum(bound_through(*proxies)) <= 8
