"""Each fault, seen by a client, and what the API server heard of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

from tests.cluster.api import NODES, PODS, Api, ApiError
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.proxy import (
    Cut,
    Drop,
    FaultProxy,
    Hang,
    LoseAnswer,
    Refuse,
    WatchError,
    count,
    wait_for_hits,
)
from tests.waiting import LONG, wait_until


@pytest.fixture
def through(cluster: Cluster, fault_proxy: FaultProxy) -> Iterator[Api]:
    """The API through the proxy."""
    api = Api(fault_proxy.url, cluster.server.token("admin"))
    yield api
    api.close()


def _revision(api: Api) -> str:
    revision: str = api.listing(NODES)["metadata"]["resourceVersion"]
    return revision


def test_without_rules_everything_passes(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    through.create(NODES, node("a"))
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        through.create(NODES, node("a"))
    assert [one["metadata"]["name"] for one in through.items(NODES)] == ["a"]
    through.delete(NODES, "a")
    assert cluster.api.items(NODES) == []
    # The client has an answer before the proxy has written it down.
    wait_until(lambda: len(fault_proxy.requests) == 4, "all answers are there")
    assert count(fault_proxy.requests, method="POST", path="/nodes$") == 2
    assert [one.status for one in fault_proxy.requests] == [201, 409, 200, 200]


def test_the_official_client_works_through_it(cluster: Cluster, fault_proxy: FaultProxy) -> None:
    cluster.add_nodes(node("a"), node("b"))
    file = cluster.kubeconfig(url=fault_proxy.url)
    with config.new_client_from_config(str(file)) as connection:
        core = client.CoreV1Api(connection)
        stream = watch.Watch().stream(core.list_node, timeout_seconds=round(LONG))
        events = itertools.islice(stream, 2)
        assert {event["object"].metadata.name for event in events} == {"a", "b"}


@pytest.mark.parametrize("status", [409, 410, 429, 500])
def test_a_refused_request_does_not_reach_the_server(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy, status: int
) -> None:
    rule = fault_proxy.fault(Refuse(status), method="POST", path="/nodes$", times=1)
    with pytest.raises(ApiError) as error:
        through.create(NODES, node("a"))
    assert error.value.status == status
    assert cluster.api.items(NODES) == []
    through.create(NODES, node("a"))
    assert rule.hits == 1


def test_a_rule_strikes_only_what_it_names(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    body = {"metadata": {"name": "p", "namespace": cluster.namespace}, "spec": pod_spec()}
    fault_proxy.fault(Refuse(409), method="POST", path="/binding$")
    pod = through.create(PODS, body)
    with pytest.raises(ApiError, match="409"):
        through.bind(pod, "a")
    assert cluster.bound() == {}
    fault_proxy.clear()
    through.bind(pod, "a")
    assert cluster.bound() == {"p": "a"}


def test_after_a_lost_answer_it_has_happened(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fault(LoseAnswer(), method="POST", times=1)
    with pytest.raises(HTTPError):
        through.create(NODES, node("a"))
    assert [one["metadata"]["name"] for one in cluster.api.items(NODES)] == ["a"]


def test_a_dropped_request_has_not_happened(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fault(Drop(), method="POST", times=1)
    with pytest.raises(HTTPError):
        through.create(NODES, node("a"))
    assert cluster.api.items(NODES) == []


def test_a_request_that_hangs_is_answered_later(through: Api, fault_proxy: FaultProxy) -> None:
    rule = fault_proxy.fault(Hang(0.3), method="GET", times=1)
    started = time.monotonic()
    through.items(NODES)
    assert time.monotonic() - started >= 0.3
    wait_for_hits(rule)


def test_a_watch_may_be_cut_in_the_middle_of_a_line(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    revision = _revision(through)
    fault_proxy.fault(Cut(after=1), times=1)
    cluster.api.create(NODES, node("a"))
    cluster.api.create(NODES, node("b"))
    events = through.watch(NODES, revision)
    assert next(events)["object"]["metadata"]["name"] == "a"
    with pytest.raises(HTTPError):
        next(events)


def test_a_watch_may_tell_of_lost_history(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    revision = _revision(through)
    fault_proxy.fault(WatchError(410, after=1), times=1)
    cluster.add_nodes(node("a"), node("b"))
    events = through.watch(NODES, revision)
    assert next(events)["type"] == "ADDED"
    with pytest.raises(ApiError, match="410 Expired"):
        next(events)


def test_severing_breaks_a_watch_and_welcomes_the_next(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    revision = _revision(through)
    events = through.watch(NODES, revision)
    cluster.add_nodes(node("a"))
    assert next(events)["object"]["metadata"]["name"] == "a"
    fault_proxy.sever()
    with pytest.raises(HTTPError):
        next(events)
    assert next(through.watch(NODES, revision))["object"]["metadata"]["name"] == "a"


def test_it_passes_on_that_the_server_is_gone_and_back(
    cluster: Cluster, through: Api, fault_proxy: FaultProxy
) -> None:
    through.items(NODES)
    cluster.server.stop_server(kill=True)
    with pytest.raises(HTTPError):
        through.items(NODES)
    cluster.server.start()
    assert through.items(NODES) == []
