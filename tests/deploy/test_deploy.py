"""What is deployed, given to a real API server: it is accepted, and it is enough.

cert-manager's kinds are not there; the certificates that it would make are made by openssl.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.metrics import Metrics as ControllerMetrics
from controller.service_client import ServiceClient
from controller.settings import Settings as ControllerSettings
from placement import v1
from placement.advice_marks import GANG, GATE, KAI_HOLD, KAI_NODE_POOL
from placement.cli.commands.release import command as release
from placement.errors import PlacementError
from placement.testing import serve
from placement_service.api.healthcheck import ailment
from placement_service.api.metrics import Metrics as ServiceMetrics
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
from tests.deploy.kustomization import identity, rendered
from tests.waiting import LONG

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = "system:serviceaccount:placement-system:placement-controller"

#: What is applied as it is; the other folders are parts of these.
MODES = ("service", "bind", "dry-run", "advise-kube-scheduler", "advise-kai", "advise-koordinator")
COMPONENTS = ("cert-manager", "eviction", "monitoring", "release", "tracing")

#: Kinds that no API server knows by itself.
_FOREIGN = ("cert-manager.io", "monitoring.coreos.com")


def manifests(mode: str = "bind") -> list[Body]:
    """What a mode is made of, but for the kinds of others."""
    return [
        body
        for body in rendered(DEPLOY / mode)
        if body["apiVersion"].partition("/")[0] not in _FOREIGN
    ]


@pytest.fixture
def deployed(cluster: Cluster) -> Cluster:
    for body in manifests():
        cluster.api.apply(body)
    return cluster


def with_component(component: str, mode: str, folder: Path) -> Path:
    """A kustomization of one's own, which adds a component to a mode; in a folder of deploy."""
    text = yaml.safe_dump(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(DEPLOY / mode, folder)],
            "components": [os.path.relpath(DEPLOY / component, folder)],
        }
    )
    (folder / "kustomization.yaml").write_text(text)
    return folder


def test_every_file_is_part_of_something() -> None:
    used = {DEPLOY / "README.md"}
    for path in DEPLOY.rglob("kustomization.yaml"):
        used.add(path)
        content = yaml.safe_load(path.read_text())
        names = [
            *content.get("resources", ()),
            *(patch["path"] for patch in content.get("patches", ())),
            *(name for one in content.get("configMapGenerator", ()) for name in one["files"]),
        ]
        used |= {path.parent / name for name in names if "/" not in name}
    assert used == {path for path in DEPLOY.rglob("*") if path.is_file()}
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == {*MODES, *COMPONENTS, "parts"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("mode", MODES)
def test_kubectl_makes_the_same_of_it(mode: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / mode)], capture_output=True, check=True, timeout=LONG
    )
    theirs = list(yaml.safe_load_all(done.stdout))
    assert sorted(theirs, key=identity) == sorted(rendered(DEPLOY / mode), key=identity)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("component", [c for c in COMPONENTS if c != "cert-manager"])
def test_kubectl_makes_the_same_of_what_may_be_added(component: str, tmp_path: Path) -> None:
    folder = with_component(component, "bind", tmp_path)
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, check=True, timeout=LONG
    )
    theirs = list(yaml.safe_load_all(done.stdout))
    assert sorted(theirs, key=identity) == sorted(rendered(folder), key=identity)


def rights(mode: str | Path) -> set[str]:
    """What the controller may do besides reading: verb, group and resource."""
    return {
        f"{verb} {resource}" + (f".{group}" if group else "")
        for body in rendered(DEPLOY / mode)
        if body["kind"] in ("ClusterRole", "Role")
        for rule in body["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if verb not in ("get", "list", "watch")
    }


def test_each_mode_may_change_what_it_must_and_nothing_else(tmp_path: Path) -> None:
    lease = {"create leases.coordination.k8s.io", "update leases.coordination.k8s.io"}
    events = {"create events.events.k8s.io", "patch events.events.k8s.io"}
    binding = {
        "create pods/binding",
        "patch pods/status",
        "patch podgangs/status.scheduler.grove.io",
    }
    advising = {"patch pods", "patch pods/status"}
    kai = {
        "patch podgroups.scheduling.run.ai",
        "create bindrequests.scheduling.run.ai",
        "delete bindrequests.scheduling.run.ai",
    }
    reservations = "reservations.scheduling.koordinator.sh"
    assert rights("service") == set()
    assert rights("dry-run") == set()
    assert rights("bind") == lease | events | binding
    assert rights("advise-kube-scheduler") == lease | events | advising
    assert rights("advise-kai") == lease | events | advising | kai
    assert rights("advise-koordinator") == (
        lease | events | advising | {f"create {reservations}", f"delete {reservations}"}
    )
    evicting = {"create pods/eviction", "create configmaps", "patch configmaps"}
    assert rights(with_component("eviction", "bind", tmp_path)) == rights("bind") | evicting


@pytest.mark.parametrize("mode", MODES)
def test_nobody_has_rights_by_star_and_secrets_are_nobodys(mode: str) -> None:
    for body in rendered(DEPLOY / mode):
        for rule in body.get("rules", ()):
            for key in ("verbs", "apiGroups", "resources"):
                assert "*" not in rule[key]
            assert "secrets" not in rule["resources"]


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


def test_the_timer_is_longer_than_a_controller_lets_gangs_wait(tmp_path: Path) -> None:
    (job,) = (
        body
        for body in rendered(with_component("release", "advise-kai", tmp_path))
        if body["kind"] == "CronJob"
    )
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    program, name, *arguments = pod["containers"][0]["command"]
    assert (program, name) == ("placementctl", "release")
    made = release.make_context(name, arguments)
    fields = ControllerSettings.model_fields
    waits = fields["advice_timeout"].default + fields["advice_ttl"].default
    assert made.params["after"] > waits


def test_settings_are_those_that_there_are(tmp_path: Path) -> None:
    known = {
        *(f"PLACEMENT_CONTROLLER_{name.upper()}" for name in ControllerSettings.model_fields),
        *(f"PLACEMENT_{name.upper()}" for name in ServiceSettings.model_fields),
    }
    for mode in (*MODES, with_component("tracing", "bind", tmp_path)):
        for body in rendered(DEPLOY / mode):
            if body["kind"] == "Deployment":
                for container in body["spec"]["template"]["spec"]["containers"]:
                    set_here = {variable["name"] for variable in container["env"]}
                    assert {one for one in set_here if not one.startswith("OTEL_")} <= known


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


def test_an_advisor_may_do_what_every_adapter_needs(
    cluster: Cluster, service: str, fault_proxy: FaultProxy
) -> None:
    """One gang for each; no scheduler is there, so nothing is bound."""
    install_kinds(cluster.api)
    for mode in MODES:
        if mode.startswith("advise-"):
            for body in manifests(mode):
                cluster.api.apply(body)
    namespace = cluster.namespace
    cluster.add_nodes(node("a", gpus=8))
    group = {"name": "kai", "namespace": namespace, "labels": {KAI_NODE_POOL: KAI_HOLD}}
    cluster.api.create(
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
        cluster.api.create(PODS, {"metadata": metadata, "spec": {**pod_spec(gpus=1), **spec}})
    with controller(
        cluster.kubeconfig(ACCOUNT, url=fault_proxy.url),
        service,
        mode="advise",
        advise=("kube-scheduler", "kai", "koordinator"),
        advice_ttl=5.0,
        advise_kai_settle=1.0,
        leader_election=True,
        lease_namespace="placement-system",
    ):

        def gates(name: str) -> list[Body]:
            pod = cluster.api.get(PODS, name, namespace)
            return list(pod["spec"].get("schedulingGates", ()))

        cluster.wait_until(lambda: gates("kube") == [], "a pod is pinned and let go")
        cluster.wait_until(
            lambda: cluster.api.items(BIND_REQUESTS, namespace) != [], "a BindRequest is made"
        )
        cluster.wait_until(
            lambda: (
                KAI_NODE_POOL
                not in (
                    cluster.api.get(KAI_POD_GROUPS, "kai", namespace)["metadata"].get("labels")
                    or {}
                )
            ),
            "and its gang is held no more",
        )
        cluster.wait_until(lambda: cluster.api.items(RESERVATIONS) != [], "a Reservation is made")
        # All of it is taken back when nobody follows.
        cluster.wait_until(
            lambda: cluster.api.items(BIND_REQUESTS, namespace) == [], "the BindRequest goes"
        )
    assert {one.request.path for one in fault_proxy.requests if one.status in (401, 403)} == set()


# --- What is measured ---


def exported() -> set[str]:
    """The names of everything that service and controller export."""
    registries = (ServiceMetrics().registry, ControllerMetrics().registry)
    found = set()
    for family in (family for registry in registries for family in registry.collect()):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        found |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return found


def queries() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query")
    rules = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    for group in rules["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_what_the_dashboard_and_the_alerts_ask_for_is_there() -> None:
    asked = {
        name
        for query in queries()
        for name in re.findall(r"\b(?:placement_[a-z]+|process)_[a-z_]+", query)
    }
    assert asked <= exported()
    # And the other way round: what is measured is shown, but for what others show better.
    own = {name for name in exported() if name.startswith("placement_")}
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in own}
    shown = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in asked}
    assert families - shown <= {
        "placement_controller_stale_plans",
        "placement_controller_watch_events",
        "placement_controller_lists",
    }


def test_labels_that_are_asked_for_are_there() -> None:
    labels = {"le", "namespace", "pod"}
    for metrics in (ServiceMetrics(), ControllerMetrics()):
        for metric in vars(metrics).values():
            labels |= set(getattr(metric, "_labelnames", ()))
    for query in queries():
        for names in re.findall(r"by \(([^)]*)\)", query):
            assert {name.strip() for name in names.split(",")} <= labels, query
        assert set(re.findall(r"(\w+)(?:=~|!=|=)\"", query)) <= labels, query


def test_pod_monitors_find_the_pods_and_their_ports(tmp_path: Path) -> None:
    bodies = rendered(with_component("monitoring", "bind", tmp_path))
    deployments = {
        identity(body)[1:]: body["spec"]["template"]
        for body in bodies
        if body["kind"] == "Deployment"
    }
    monitors = [body for body in bodies if body["kind"] == "PodMonitor"]
    assert {identity(monitor)[1:] for monitor in monitors} == deployments.keys()
    policies = [body["spec"] for body in bodies if body["kind"] == "NetworkPolicy"]
    for monitor in monitors:
        pod = deployments[identity(monitor)[1:]]
        selected = monitor["spec"]["selector"]["matchLabels"]
        assert selected.items() <= pod["metadata"]["labels"].items()
        (container,) = pod["spec"]["containers"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        # And Prometheus, which may be anywhere, is let through.
        assert any(
            policy["podSelector"].get("matchLabels") == selected
            and any(
                "from" not in rule and rule["ports"][0]["port"] == endpoint["port"]
                for rule in policy.get("ingress", ())
            )
            for policy in policies
        )


def test_network_policies_open_ports_that_there_are() -> None:
    bodies = rendered(DEPLOY / "bind")
    pods = {
        body["metadata"]["name"]: body["spec"]["template"]
        for body in bodies
        if body["kind"] == "Deployment"
    }
    opened: dict[str, set[str]] = {}
    for body in bodies:
        if body["kind"] == "NetworkPolicy" and (
            labels := body["spec"]["podSelector"].get("matchLabels")
        ):
            for rule in body["spec"].get("ingress", ()):
                opened.setdefault(labels["app"], set()).update(p["port"] for p in rule["ports"])
    for name, pod in pods.items():
        (container,) = pod["spec"]["containers"]
        assert opened[name] == {port["name"] for port in container["ports"]}
