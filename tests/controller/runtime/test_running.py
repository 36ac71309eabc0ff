"""Settings, probes, metrics and logs: what operators see."""

from __future__ import annotations

import json
import logging
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from controller.runtime import probes
from controller.runtime.logs import JsonFormatter, TextFormatter
from controller.runtime.metrics import Metrics
from controller.runtime.probes import Probes
from controller.settings import Settings
from placement import __version__
from placement.cluster import Call
from placement.cluster import Cluster as Connection
from placement.resources import NODES, POD_GANGS, PODS
from tests.cluster.build import clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import FaultProxy, Refuse
from tests.controller.conftest import controller
from tests.waiting import LONG


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_probes_and_metrics_tell_how_it_fares(
    cluster: Cluster, service: str, grove: GroveStandIn, kubelet: FakeKubelet
) -> None:
    cluster.add_nodes(node("a", gpus=2))
    with controller(cluster.kubeconfig(), service) as running:
        port = running.probes.port
        cluster.wait_until(lambda: get(port, "/readyz") == (200, "ok\n"), "it is ready")
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/nothing")[0] == 404
        for name in ("g", "h"):
            grove.apply(clique_set(name, clique("w", 2), namespace=cluster.namespace))
        grove.settle()
        wanted = (
            'placement_controller_gangs{state="settled"} 1.0',
            'placement_controller_gangs{state="pending"} 1.0',
            'placement_controller_bindings_total{result="bound"} 2.0',
            'placement_controller_cycles_total{outcome="answered"}',
            "placement_controller_leader 1.0",
            f'placement_controller_build_info{{version="{__version__}"}} 1.0',
            'resource="pods/binding",status="201"} 2.0',
        )

        def told() -> bool:
            text = get(port, "/metrics")[1]
            return all(line in text for line in wanted)

        cluster.wait_until(told, "the metrics say so")


def test_it_is_not_ready_while_the_cluster_cannot_be_read(
    cluster: Cluster, service: str, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig(url="http://127.0.0.1:9")
    with controller(kubeconfig, service) as running:
        status, why = get(running.probes.port, "/readyz")
        assert status == 503
        assert why.startswith("the cluster is not read yet: ClusterTopologyBinding, Node, Pod, ")
        assert re.search(r", \d+ more\n$", why)
        assert get(running.probes.port, "/healthz")[0] == 200


def test_a_kind_that_may_not_be_read_is_named(
    cluster: Cluster, service: str, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fault(Refuse(403), method="GET", path="/priorityclasses$")
    with controller(cluster.kubeconfig(url=fault_proxy.url), service) as running:
        told = (503, "the cluster is not read yet: PriorityClass\n")
        cluster.wait_until(lambda: get(running.probes.port, "/readyz") == told, "it names the kind")


def test_a_connection_that_asks_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_SILENCE", 0.1)
    registry = CollectorRegistry()
    with (
        Probes("127.0.0.1", 0, healthy=str, ready=str, registry=registry) as serving,
        socket.create_connection(("127.0.0.1", serving.port), timeout=LONG) as silent,
    ):
        assert silent.recv(1) == b""


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("service: placement:50051\ntime_limit: 7\n")
    monkeypatch.setenv("PLACEMENT_CONTROLLER_TIME_LIMIT", "9")
    settings = Settings.load(file)
    assert (settings.service, settings.time_limit) == ("placement:50051", 9)
    with pytest.raises(OSError, match="missing"):
        Settings.load(tmp_path / "missing.yaml")
    monkeypatch.setenv("PLACEMENT_CONTROLLER_SERVICE_PORT_8080_TCP", "tcp://10.0.0.1:8080")
    Settings.load(None)
    monkeypatch.setenv("PLACEMENT_CONTROLLER_DRY_RUN", "true")
    with pytest.raises(ValueError, match="PLACEMENT_CONTROLLER_DRY_RUN: no such setting"):
        Settings.load(None)
    monkeypatch.delenv("PLACEMENT_CONTROLLER_DRY_RUN")
    file.write_text("no_such_setting: 1\n")
    with pytest.raises(ValidationError, match="no_such_setting"):
        Settings.load(file)


def test_everything_that_is_wrong_with_the_settings_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("time_limit: 7\nservice: placement\ntime_limit: -1\n")
    monkeypatch.setenv("PLACEMENT_CONTROLLER_DRY_RUN", "true")
    monkeypatch.setenv("PLACEMENT_CONTROLLER_HTTP_PORT", "x")
    with pytest.raises(ValueError, match=r".") as wrong:
        Settings.load(file)
    assert [line.partition(":")[0] for line in str(wrong.value).splitlines()] == [
        "PLACEMENT_CONTROLLER_DRY_RUN",
        "time_limit",
        "service",
        "time_limit",
        "http_port",
    ]


def test_a_list_that_cannot_be_read_is_told_with_an_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLACEMENT_CONTROLLER_ADVISE", "kai")
    monkeypatch.setenv("PLACEMENT_CONTROLLER_MOED", "advise")
    with pytest.raises(ValueError, match=r".") as wrong:
        Settings.load(None)
    assert str(wrong.value).splitlines() == [
        "PLACEMENT_CONTROLLER_MOED: no such setting; did you mean PLACEMENT_CONTROLLER_MODE?",
        'PLACEMENT_CONTROLLER_ADVISE: is not JSON, such as ["kai"]',
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"- a\n", "must be one mapping of settings"),
        (b"a: 1\n---\nb: 1\n", "must be one mapping of settings"),
        (b"\xb6\xff", "is not text in UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_holds_no_settings_is_told(tmp_path: Path, content: bytes, why: str) -> None:
    (file := tmp_path / "settings.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=why):
        Settings.load(file)


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    (file := tmp_path / "settings.yaml").write_text("# nothing\n")
    assert Settings.load(file).time_limit == Settings.load(None).time_limit


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"service": "placement"}, id="a service without a port"),
        pytest.param({"service_certificate": "c.pem"}, id="a certificate without key"),
        pytest.param({"service_ca": "ca.pem"}, id="an authority without a service"),
        pytest.param({"renew_deadline": 20.0}, id="a leader that outlives its lease"),
        pytest.param({"bind_timeout": 8.0}, id="a binding that outlives the lease"),
        pytest.param({"time_limit": 300.0}, id="a question that looks like a hang"),
        pytest.param({"longest_backoff": 0.1}, id="a back-off that shrinks"),
        pytest.param({"mode": "advise"}, id="a mode that there is not"),
        pytest.param(
            {"mode": "advise", "advise": ("kai",), "advice_ttl": 5.0}, id="advice over too soon"
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)  # type: ignore[arg-type]


def test_identities_differ_between_starts() -> None:
    assert Settings().identity != Settings().identity


def test_log_lines_carry_their_fields() -> None:
    record = logging.makeLogRecord({"msg": "gang %s", "args": ("bound",), "gang": "ml/g"})
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["gang"]) == ("gang bound", "ml/g")
    assert TextFormatter().format(record).endswith("gang bound  gang=ml/g")
    record.gang = "ml/a\nERROR \x1b[31m\u202e"
    assert TextFormatter().format(record).endswith(r"gang=ml/a\nERROR \x1b[31m\u202e")


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (NODES.path, "nodes"),
        (PODS.path_of("p", "ml"), "pods"),
        (PODS.path_of("p", "ml", part="binding"), "pods/binding"),
        (PODS.path_of("p", "ml", part="eviction"), "pods/eviction"),
        (POD_GANGS.path_of("status", "ml", part="status"), "podgangs/status"),
        ("/healthz", "other"),
    ],
)
def test_calls_are_counted_by_resource(path: str, want: str) -> None:
    metrics = Metrics()
    metrics.called(Call("GET", path, 200, 0.1))
    value = metrics.registry.get_sample_value(
        "placement_controller_api_calls_total",
        {"method": "GET", "resource": want, "status": "200"},
    )
    assert value == 1
    took = "placement_controller_api_call_seconds_sum"
    assert metrics.registry.get_sample_value(took, {"method": "GET"}) == 0.1


def test_lists_come_in_pages_as_of_one_moment(cluster: Cluster) -> None:
    cluster.add_nodes(*(node(f"n{i:04}") for i in range(1100)))
    with Connection.connect(kubeconfig=str(cluster.kubeconfig())) as connection:
        pages = list(connection.pages(NODES))
    assert [len(page.items) for page in pages] == [500, 500, 100]
    assert len({page.revision for page in pages}) == 1
    assert {item["kind"] for page in pages for item in page.items} == {"Node"}
