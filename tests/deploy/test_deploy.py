"""What is deployed, given to a real API server: it is accepted, and it is enough.

cert-manager's kinds are not there; the certificates that it would make are made by openssl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.service_client import ServiceClient
from placement import v1
from placement.advice_marks import GANG, GATE, KAI_HOLD, KAI_NODE_POOL
from placement.errors import PlacementError
from placement.testing import serve
from placement_service.api.healthcheck import ailment
from placement_service.api.settings import Settings as ServiceSettings
from tests.certificates import issue
from tests.cluster.api import NAMESPACES, PODS, ApiError, Body
from tests.cluster.build import clique, clique_set, node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import FaultProxy
from tests.cluster.schedulers import (
    BIND_REQUESTS,
    KAI_POD_GROUPS,
    RESERVATIONS,
    install_kinds,
)
from tests.controller.conftest import controller
from tests.controller.gangs import scheduled
from tests.waiting import LONG

BASE = Path(__file__).parents[2] / "deploy" / "base"
ACCOUNT = "system:serviceaccount:placement-system:placement-controller"


def manifests() -> list[Body]:
    """Everything of the base, in the order of its kustomization."""
    files = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    return [
        body
        for file in files
        for body in yaml.safe_load_all((BASE / file).read_text())
        if body is not None
    ]


@pytest.fixture
def deployed(cluster: Cluster) -> Cluster:
    for body in manifests():
        cluster.api.apply(body)
    return cluster


def test_every_file_is_part_of_the_base() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {file.name for file in BASE.iterdir()}


@pytest.mark.parametrize("folder", ["base", "cert-manager"])
def test_nothing_is_changed_on_the_way(folder: str) -> None:
    """A namespace set for all would be set for what belongs to none, too, and refused."""
    kustomization = yaml.safe_load((BASE.parent / folder / "kustomization.yaml").read_text())
    assert kustomization.keys() <= {"apiVersion", "kind", "resources", "images"}


def test_containers_are_harmless() -> None:
    for body in manifests():
        if body["kind"] != "Deployment":
            continue
        assert body["spec"]["replicas"] == 2
        pod = body["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()


def test_settings_are_those_that_there_are() -> None:
    from controller.settings import Settings

    known = {
        *(f"PLACEMENT_CONTROLLER_{name.upper()}" for name in Settings.model_fields),
        *(f"PLACEMENT_{name.upper()}" for name in ServiceSettings.model_fields),
    }
    for body in manifests():
        if body["kind"] == "Deployment":
            for container in body["spec"]["template"]["spec"]["containers"]:
                assert {variable["name"] for variable in container["env"]} <= known


def test_the_api_server_takes_all_of_it(deployed: Cluster) -> None:
    for body in manifests():
        # Applied once more, it changes nothing and is refused nothing.
        deployed.api.apply(body)


def test_its_pods_are_admitted_under_the_restricted_standard(deployed: Cluster) -> None:
    for body in manifests():
        if body["kind"] == "Deployment":
            metadata = {"name": body["metadata"]["name"], "namespace": "placement-system"}
            spec = body["spec"]["template"]["spec"]
            deployed.api.create(PODS, {"metadata": metadata, "spec": spec})
            deployed.api.delete(PODS, metadata["name"], "placement-system", grace=0)
            with pytest.raises(ApiError, match="restricted"):
                deployed.api.create(
                    PODS, {"metadata": metadata, "spec": {**spec, "hostNetwork": True}}
                )


def test_its_rights_are_enough(
    deployed: Cluster,
    service: str,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
) -> None:
    deployed.add_nodes(node("a", gpus=4))
    kubeconfig = deployed.kubeconfig(ACCOUNT, url=fault_proxy.url)
    lease: dict[str, Any] = {"leader_election": True, "lease_namespace": "placement-system"}
    with controller(kubeconfig, service, **lease):
        for name, gpus in (("fits", 2), ("waits", 4)):
            grove.apply(clique_set(name, clique("w", 2, gpus=gpus), namespace=deployed.namespace))
        grove.settle()
        deployed.wait_until(
            lambda: (
                scheduled(deployed, "fits-0").get("status") == "True"
                and scheduled(deployed, "waits-0").get("status") == "False"
            ),
            "both are reported",
        )
        deployed.wait_until(lambda: len(deployed.events()) >= 4, "events are written")
    # The lease is given up by now.
    assert {one.request.path for one in fault_proxy.requests if one.status in (401, 403)} == set()


def test_pods_of_grove_get_our_name_where_it_is_wanted(deployed: Cluster) -> None:
    api = deployed.api

    def name_given(namespace: str, pod: str, labels: Body, **spec: str) -> str:
        made = api.create(
            PODS,
            {
                "metadata": {"name": pod, "namespace": namespace, "labels": labels},
                "spec": {**pod_spec(), **spec},
            },
        )
        api.delete(PODS, pod, namespace, grace=0)
        return str(made["spec"]["schedulerName"])

    wanted = f"{deployed.namespace}-wanted"
    enabled = {"placement-service/enabled": "true"}
    api.create(NAMESPACES, {"metadata": {"name": wanted, "labels": enabled}})
    ours = {"grove.io/podgang": "g-0"}
    deployed.wait_until(
        lambda: name_given(wanted, "a", ours) == "placement-service", "the policy works"
    )
    assert name_given(wanted, "b", {}) == "default-scheduler"
    assert name_given(wanted, "c", ours, schedulerName="kai-scheduler") == "kai-scheduler"
    assert name_given(deployed.namespace, "d", ours) == "default-scheduler"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it signs for service and controller."""
    return issue(tmp_path_factory.mktemp("certificates"), "service", "controller")


def test_controller_and_service_know_each_other_by_certificates(certificates: Path) -> None:
    files = {
        "tls_certificate": certificates / "service.crt",
        "tls_key": certificates / "service.key",
        "tls_client_ca": certificates / "ca.crt",
    }
    question = v1.ComputePlacementRequest(label="hello")
    with serve(**files) as address:
        port = int(address.rpartition(":")[2])
        known = ServiceClient(
            f"localhost:{port}",
            ca=certificates / "ca.crt",
            certificate=certificates / "controller.crt",
            key=certificates / "controller.key",
        )
        assert known.ask(question, timeout=LONG).label == "hello"
        # Renewed while both run, by another authority at that: the next question goes over a
        # new connection, and there the service shows its new certificate.
        issue(certificates, "service", "controller")
        assert known.ask(question, timeout=LONG).label == "hello"
        # Half of a renewal is none.
        (certificates / "service.key").write_bytes(b"")
        (certificates / "controller.crt").touch()
        assert known.ask(question, timeout=LONG).label == "hello"
        issue(certificates, "service", "controller")
        known.cancel()
        stranger = ServiceClient(f"localhost:{port}", ca=certificates / "ca.crt")
        with pytest.raises(PlacementError):
            stranger.ask(question, timeout=3)
        settings = ServiceSettings(host="127.0.0.1", port=port, **files)  # type: ignore[arg-type]
        assert ailment(settings, timeout=LONG) == ""
    assert "no answer" in ailment(settings, timeout=1)


def test_an_advisor_may_do_what_every_adapter_needs(deployed: Cluster, service: str) -> None:
    """One gang for each; no scheduler is there, so nothing is bound."""
    install_kinds(deployed.api)
    for body in yaml.safe_load_all((BASE.parent / "advise" / "rbac.yaml").read_text()):
        deployed.api.apply(body)
    namespace = deployed.namespace
    deployed.add_nodes(node("a", gpus=8))
    group = {"name": "kai", "namespace": namespace, "labels": {KAI_NODE_POOL: KAI_HOLD}}
    deployed.api.create(
        KAI_POD_GROUPS,
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": group,
            "spec": {"minMember": 1},
        },
    )
    gate = {"schedulingGates": [{"name": GATE}]}
    for name, spec, marks in (
        ("kai", {"schedulerName": "kai-scheduler"}, {"pod-group-name": "kai"}),
        ("koord", {"schedulerName": "koord-scheduler", **gate}, {GANG: "koord"}),
        ("kube", {"schedulerName": "default-scheduler", **gate}, {GANG: "kube"}),
    ):
        metadata = {"name": name, "namespace": namespace, "annotations": marks}
        deployed.api.create(PODS, {"metadata": metadata, "spec": {**pod_spec(gpus=1), **spec}})
    with controller(
        deployed.kubeconfig(ACCOUNT),
        service,
        mode="advise",
        advise=("kube-scheduler", "kai", "koordinator"),
        advice_ttl=5.0,
    ):

        def gates(name: str) -> list[Body]:
            pod = deployed.api.get(PODS, name, namespace)
            return list(pod["spec"].get("schedulingGates", ()))

        deployed.wait_until(lambda: gates("kube") == [], "a pod is pinned and let go")
        deployed.wait_until(
            lambda: deployed.api.items(BIND_REQUESTS, namespace) != [], "a BindRequest is made"
        )
        deployed.wait_until(
            lambda: (
                KAI_NODE_POOL
                not in (
                    deployed.api.get(KAI_POD_GROUPS, "kai", namespace)["metadata"].get("labels")
                    or {}
                )
            ),
            "and its gang is held no more",
        )
        deployed.wait_until(lambda: deployed.api.items(RESERVATIONS) != [], "a Reservation is made")
        # All of it is taken back when nobody follows.
        deployed.wait_until(
            lambda: deployed.api.items(BIND_REQUESTS, namespace) == [], "the BindRequest goes"
        )
