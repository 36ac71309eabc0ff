"""Where the cluster is: files that are named, the usual one, or the pod that we run in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import kubernetes.config.incluster_config as incluster
import pytest
import yaml
from kubernetes.client import configuration

from placement.cluster import ApiError
from placement.cluster import Cluster as Connection
from placement.resources import NODES
from tests.cluster.apiserver import ADMIN
from tests.cluster.build import node
from tests.cluster.fixtures import Cluster
from tests.ports import reserve


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def names(connection: Connection) -> list[str]:
    with connection:
        return [one["metadata"]["name"] for page in connection.pages(NODES) for one in page.items]


@pytest.fixture
def in_a_pod(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a kubelet gives to each container: an address, a token, an authority."""
    address = urlsplit(cluster.server.url)
    token = tmp_path / "token"
    token.write_text(cluster.server.token(ADMIN))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(cluster.server.ca_file))


@pytest.mark.usefixtures("in_a_pod")
def test_a_pod_finds_the_cluster_that_it_runs_in(cluster: Cluster) -> None:
    cluster.add_nodes(node("a", gpus=4))
    assert names(Connection.connect()) == ["a"]


@pytest.mark.usefixtures("in_a_pod")
def test_a_kubeconfig_goes_before_the_pod(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="none: No such file"):
        Connection.connect(kubeconfig=str(tmp_path / "none"))


def test_the_environment_names_files_of_which_some_may_be_missing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.add_nodes(node("a", gpus=4))
    files = [str(tmp_path / "none"), str(cluster.kubeconfig())]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
    assert names(Connection.connect()) == ["a"]


def test_the_usual_file_is_found(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_nodes(node("a", gpus=4))
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(cluster.kubeconfig().read_text())
    assert names(Connection.connect()) == ["a"]


def test_without_any_the_error_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as raised:
        Connection.connect()
    assert raised.value.message == (
        "no cluster is configured: KUBECONFIG is not set, "
        f"and there is no {tmp_path / '.kube' / 'config'}"
    )


@pytest.mark.parametrize("content", [b"# Title\na: b: c\n", b"[]", b"word", b"\x9b", b"- " * 5000])
def test_what_is_no_kubeconfig_is_told(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    with pytest.raises(ApiError, match="is no kubeconfig"):
        Connection.connect(kubeconfig=str(file))


def test_a_context_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="zzz"):
        Connection.connect(kubeconfig=str(cluster.kubeconfig()), context="zzz")


@pytest.mark.usefixtures("in_a_pod")
def test_a_token_that_is_gone_for_a_moment_is_no_answer(tmp_path: Path) -> None:
    """It is read anew every minute, in whichever thread asks then: none may end by it."""
    with Connection.connect() as connection:
        hook = connection._client.configuration.refresh_api_key_hook
        (loader,) = (
            cell.cell_contents
            for cell in hook.__closure__
            if isinstance(cell.cell_contents, incluster.InClusterConfigLoader)
        )
        loader.token_expires_at = loader.token_expires_at.min
        (tmp_path / "token").unlink()
        with pytest.raises(ApiError, match="no credentials") as none:
            connection.request("GET", NODES.path)
        assert none.value.status == 0


def kubeconfig_of(cluster: Cluster, tmp_path: Path, **user: object) -> str:
    """A kubeconfig with these credentials."""
    body = yaml.safe_load(cluster.kubeconfig().read_text())
    body["users"][0]["user"] = user
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def test_credentials_that_were_replaced_are_read_anew(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_nodes(node("a", gpus=4))
    kubeconfig = kubeconfig_of(cluster, tmp_path, token="expired")
    connection = Connection.connect(kubeconfig=kubeconfig)
    kubeconfig_of(cluster, tmp_path, token=cluster.server.token(ADMIN))
    guarded = connection.guarded(lambda method: None)
    assert names(connection) == ["a"]
    assert names(guarded) == ["a"]


def test_credentials_in_a_file_that_a_kubeconfig_names_are_read_anew(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add_nodes(node("a", gpus=4))
    token = tmp_path / "token"
    token.write_text("expired")
    connection = Connection.connect(
        kubeconfig=kubeconfig_of(cluster, tmp_path, tokenFile=str(token))
    )
    token.write_text(cluster.server.token(ADMIN))
    assert names(connection) == ["a"]


def test_credentials_that_stay_refused_are_not_asked_for_each_time(
    cluster: Cluster, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of nobody"},
    }
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"echo asked >> {asked}; echo '{json.dumps(credential)}'"],
        "interactiveMode": "Never",
    }
    connection = Connection.connect(kubeconfig=kubeconfig_of(cluster, tmp_path, exec=program))
    for _ in range(3):
        with pytest.raises(ApiError) as refused:
            connection.request("GET", NODES.path)
        assert refused.value.status == 401
    # To connect, and once more when it was refused.
    assert asked.read_text().split() == ["asked"] * 2


def test_the_environment_is_asked_for_a_proxy_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubeconfig's token is looked at before each request, and the client would ask again."""
    kubeconfig = str(cluster.kubeconfig())
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{reserve()}")
    past_nobody = Connection.connect(kubeconfig=kubeconfig)
    monkeypatch.delenv("HTTPS_PROXY")
    with pytest.raises(ApiError, match="proxy"):
        names(past_nobody)
    connection = Connection.connect(kubeconfig=kubeconfig)

    def once_more() -> None:
        raise AssertionError("it was asked once more")

    monkeypatch.setattr(configuration, "getproxies", once_more)
    assert names(connection) == []
