"""The API server of the tests is a real one, and survives what tests do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from tests.cluster import binaries
from tests.cluster.api import CRDS, NODES, POD_GANGS, PODS, Api, ApiError
from tests.cluster.apiserver import ApiServer, StartError
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster


def test_it_is_the_release_that_the_module_names(cluster: Cluster) -> None:
    """Or newer or older, as envtest's assets may be; but it knows its version."""
    version = cluster.api.request("GET", "/version")
    assert version["major"] == "1"
    assert int(version["minor"]) >= 30


def test_the_official_client_finds_it_by_the_kubeconfig(cluster: Cluster) -> None:
    cluster.add_nodes(node("a"))
    with config.new_client_from_config(str(cluster.kubeconfig())) as connection:
        found = client.CoreV1Api(connection).list_node().items
    assert len(found) == 1


def test_new_nodes_are_free_of_taints(cluster: Cluster) -> None:
    """Nobody would take away the taint that says not ready."""
    cluster.add_nodes(node("a"))
    assert "taints" not in cluster.api.get(NODES, "a")["spec"]


def test_a_test_finds_no_nodes_of_the_test_before(cluster: Cluster) -> None:
    assert cluster.api.items(NODES) == []


def test_a_service_account_may_do_nothing_that_is_not_granted(cluster: Cluster) -> None:
    api = cluster.server.api(f"system:serviceaccount:{cluster.namespace}:nobody")
    with pytest.raises(ApiError, match="403 Forbidden"):
        api.items(NODES)
    api.close()


def test_a_binding_for_another_pod_of_the_name_is_refused(cluster: Cluster) -> None:
    pod = cluster.api.create(
        PODS, {"metadata": {"name": "p", "namespace": cluster.namespace}, "spec": pod_spec()}
    )
    other = {**pod, "metadata": {**pod["metadata"], "uid": "another"}}
    with pytest.raises(ApiError, match="409"):
        cluster.api.bind(other, "a")
    cluster.api.bind(pod, "a")
    assert cluster.bound() == {"p": "a"}
    with pytest.raises(ApiError, match="409"):
        cluster.api.bind(pod, "b")


def test_a_gang_of_the_wrong_shape_is_refused(cluster: Cluster) -> None:
    body = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": "g", "namespace": cluster.namespace},
        "spec": {"podGroups": []},
    }
    with pytest.raises(ApiError, match="422"):
        cluster.api.create(POD_GANGS, body)


@pytest.mark.parametrize("kill", [False, True], ids=["in order", "killed"])
def test_a_restart_keeps_address_objects_and_tokens(cluster: Cluster, kill: bool) -> None:
    cluster.add_nodes(node("a"))
    user = f"system:serviceaccount:{cluster.namespace}:nobody"
    cluster.server.token(user)
    url = cluster.server.url
    cluster.server.restart(kill=kill)
    assert cluster.server.url == url
    assert [one["metadata"]["name"] for one in cluster.api.items(NODES)] == ["a"]
    api = cluster.server.api(user)
    with pytest.raises(ApiError, match="403"):  # known, and not 401
        api.items(NODES)
    api.close()


def test_a_server_of_its_own_may_lack_the_crds_and_authorization(
    api_server_binaries: binaries.Binaries, tmp_path: Path
) -> None:
    server = ApiServer(api_server_binaries, tmp_path / "server", authorization="AlwaysAllow")
    server.start()
    try:
        api = server.api("system:serviceaccount:default:anyone")
        assert api.items(CRDS) == []
        with pytest.raises(ApiError, match="404"):
            api.items(POD_GANGS)
        server.install_crds()
        assert api.items_once_there(POD_GANGS) == []
        server.stop()
        server.start()
        assert len(api.items(CRDS)) == 2
        api.close()
    finally:
        server.stop()


def test_a_server_that_does_not_start_says_what_it_said(
    api_server_binaries: binaries.Binaries, tmp_path: Path
) -> None:
    server = ApiServer(api_server_binaries, tmp_path / "server", arguments=["--no-such-flag"])
    try:
        with pytest.raises(StartError, match="no-such-flag"):
            server.start()
    finally:
        server.stop()


def test_a_watch_that_is_broken_off_ends_whatever_it_reads_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a test fails now and then as its parts stop: see `WatchStream` of the product."""

    class Answer:
        status = 200

        def read_chunked(self) -> Iterator[bytes]:
            yield b'{"type": "ADDED", "object": {}}\n'
            yield b'{"type": "MODI\x17\x03\x03\xda\n'

        def shutdown(self) -> None:
            pass

        def close(self) -> None:
            pass

    api = Api("https://127.0.0.1:1", "")
    monkeypatch.setattr(api._pool, "request", lambda *_, **__: Answer())
    ends: list[Callable[[], None]] = []
    events = api.watch(PODS, "1", opened=ends.append)
    assert next(events)["type"] == "ADDED"
    ends[0]()
    assert list(events) == []
