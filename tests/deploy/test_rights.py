"""The rights of the controller in each mode: they are enough, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placement.advice_marks import GANG, GATE, KAI_HOLD, KAI_NODE_POOL
from tests.cluster.api import PODS, Body
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
from tests.controller.gang_facts import scheduled
from tests.deploy.kustomization import rendered
from tests.deploy.manifests import ACCOUNT, DEPLOY, MODES, manifests, with_component


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
