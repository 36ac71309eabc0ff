"""Fixtures of a real cluster: a pytest plugin, loaded for all tests (tests/conftest.py).

    def test_a_gang_is_bound(cluster: Cluster, kubelet: FakeKubelet, grove: GroveStandIn) -> None:
        cluster.add_nodes(node("a", gpus=8))
        grove.apply(clique_set("g", clique("worker", 2), namespace=cluster.namespace))
        grove.settle()
        start_the_controller(cluster.kubeconfig())
        cluster.wait_until(lambda: len(cluster.bound()) == 2, "both pods are bound")

One API server serves a whole session, per process of pytest-xdist. Each test has a
namespace of its own in it, and begins without nodes, pods, PodGangs, topologies and
priority classes of others: they are wiped before it. A test that needs a server of
its own, to lose its etcd or to lack the CRDs, makes an `ApiServer` of
`api_server_binaries`.

    cluster       the API as admin, a namespace, shorthands
    kubelet       a `FakeKubelet`, running
    grove         a `GroveStandIn`, not running: `settle`, or `start`
    fault_proxy   a `FaultProxy` before the API server, without rules:
                  cluster.kubeconfig(url=fault_proxy.url)

Where no kube-apiserver is to be had the tests are skipped, and the summary says so;
with PLACEMENT_REQUIRE_APISERVER=1 they fail.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import binaries
from tests.cluster.api import (
    CORE_EVENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GANGS,
    PODS,
    PRIORITY_CLASSES,
    TOPOLOGY_BINDINGS,
    Api,
    ApiError,
    Body,
)
from tests.cluster.apiserver import ADMIN, ApiServer
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import FaultProxy
from tests.cluster.schedulers import wipe_kinds
from tests.waiting import wait_until

_SKIPPED: Final = "no kube-apiserver: "
_REQUIRED: Final = "PLACEMENT_REQUIRE_APISERVER"
_NEEDS: Final = "api_server_binaries"


class Cluster:
    """A namespace in the API server of the session, and the whole of its nodes."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.namespace = f"test-{uuid.uuid4().hex[:8]}"
        self.api: Api = server.api()
        self.api.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    def kubeconfig(self, user: str = ADMIN, *, url: str = "") -> Path:
        """A kubeconfig file, see `ApiServer.kubeconfig`."""
        return self.server.kubeconfig(user, url=url, namespace=self.namespace)

    def add_nodes(self, *nodes: Body) -> None:
        self.api.create_all(NODES, nodes)

    def pods(self) -> list[Body]:
        return self.api.items(PODS, self.namespace)

    def bound(self) -> dict[str, str]:
        """The node of each pod that has one, by the pod's name."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods()
            if pod["spec"].get("nodeName")
        }

    def gangs(self) -> dict[str, Body]:
        """The PodGangs, by name."""
        return {one["metadata"]["name"]: one for one in self.api.items(POD_GANGS, self.namespace)}

    def condition(self, gang: str, kind: str) -> Body | None:
        """A condition of a PodGang."""
        conditions = self.gangs()[gang].get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), None)

    def events(self) -> list[Body]:
        return self.api.items(CORE_EVENTS, self.namespace)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a fact of the cluster. Raises AssertionError, saying what was waited for."""
        wait_until(condition, what)


def wipe(api: Api) -> None:
    """Empty a cluster, of all namespaces, as far as tests fill it."""
    wipe_kinds(api)
    for resource in (POD_GANGS, PODS, LEASES, EVENTS):
        try:
            there = api.items_once_there(resource)
        except ApiError as error:
            # No such resource: a server without CRDs.
            if error.status != 404:
                raise
            continue
        for namespace in sorted({one["metadata"]["namespace"] for one in there}):
            api.delete_all(resource, namespace)
    for resource in (NODES, TOPOLOGY_BINDINGS):
        try:
            api.delete_all(resource)
        except ApiError as error:
            if error.status != 404:
                raise
    for one in api.items(PRIORITY_CLASSES):
        if not one["metadata"]["name"].startswith("system-"):
            api.delete(PRIORITY_CLASSES, one["metadata"]["name"])


@pytest.fixture(scope="session")
def api_server_binaries() -> binaries.Binaries:
    """kube-apiserver and etcd, or the test is skipped."""
    try:
        return binaries.ensure()
    except binaries.Unavailable as error:
        if os.environ.get(_REQUIRED):
            pytest.fail(f"{_SKIPPED}{error}", pytrace=False)
        pytest.skip(f"{_SKIPPED}{error}")


@pytest.fixture(scope="session")
def api_server(
    api_server_binaries: binaries.Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """The API server of the session, with the CRDs. Leave it running."""
    server = ApiServer(api_server_binaries, tmp_path_factory.mktemp("apiserver"))
    server.start()
    try:
        server.install_crds()
        yield server
    finally:
        server.stop()


@pytest.fixture
def cluster(api_server: ApiServer) -> Iterator[Cluster]:
    # The test before may have ended with the server down, and with anything in it.
    api_server.start()
    made = Cluster(api_server)
    wipe(made.api)
    yield made
    made.api.close()


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[FakeKubelet]:
    made = FakeKubelet(cluster.api)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def grove(cluster: Cluster) -> Iterator[GroveStandIn]:
    made = GroveStandIn(cluster.api)
    yield made
    made.stop()


@pytest.fixture
def fault_proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    made = FaultProxy(cluster.server.url, cluster.server.ca_file)
    made.start()
    yield made
    made.stop()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test: there is time for it here, and none inside a test."""
    if session.config.option.collectonly or not any(
        _NEEDS in getattr(item, "fixturenames", ()) for item in session.items
    ):
        return
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    # Said by the fixture, to each test that asks for it.
    with suppress(binaries.Unavailable):
        binaries.ensure(say=terminal.write_line if terminal else lambda _: None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        str(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and _SKIPPED in report.longrepr[2]
    ]
    if skipped:
        reason = skipped[0].partition(_SKIPPED)[2]
        terminalreporter.section("NOT TESTED against a real API server", red=True, bold=True)
        terminalreporter.write_line(f"{len(skipped)} tests were skipped: {reason}", red=True)
