"""From manifests to bindings: the command and the service, on plans known beforehand."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.command import Call

Body = dict[str, Any]


def node(name: str, labels: dict[str, str] | None = None, *, cpus: int = 64) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {
            "allocatable": {"cpu": str(cpus), "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def container(name: str, *, cpu: int = 0, gpu: int = 0, **more: str) -> Body:
    requests = {"cpu": str(cpu), "nvidia.com/gpu": str(gpu)}
    return {"name": name, "image": "example/x", "resources": {"requests": requests}, **more}


def gang(name: str, pods: int, required: str, **spec: Any) -> list[Body]:
    """A PodGang of one group that needs all its pods in one domain, and the pods."""
    members = [{"namespace": "ml", "name": f"{name}-{i}"} for i in range(pods)]
    group = {"name": "w", "minReplicas": pods, "podReferences": members}
    return [
        *({"apiVersion": "v1", "kind": "Pod", "metadata": m, "spec": spec} for m in members),
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"namespace": "ml", "name": name},
            "spec": {
                "podgroups": [group],
                "topologyConstraint": {"packConstraint": {"required": required}},
            },
        },
    ]


def plan(call: Call, service: str, *bodies: Body) -> tuple[Body, str]:
    """The proven answer to objects that come as one List on standard input, and warnings."""
    items = {"apiVersion": "v1", "kind": "List", "items": bodies}
    ask = ["plan", "-f", "-", "-o", "json", "--server", service, "--time-limit", "60s"]
    done = call(*ask, stdin=json.dumps(items))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["termination"]["gap"] == 0
    return answer, done.stderr


def nodes_of(answer: Body, gang: str) -> set[str]:
    return {b["node"] for b in answer["bindings"] if b["podGang"] == gang}


def test_the_order_of_init_containers_and_sidecars_decides(call: Call, service: str) -> None:
    # A sidecar of 2 cores, an init container of 4 and a main one of 3. The sidecar first: both
    # run beside each other, max(2 + 4, 2 + 3) = 6. Last: max(4, 2 + 3) = 5. A node has 11.
    main = container("main", cpu=3)
    sidecar = container("sidecar", cpu=2, restartPolicy="Always")
    init = container("init", cpu=4)
    host = "kubernetes.io/hostname"
    answer, _ = plan(
        call,
        service,
        node("n1", cpus=11),
        node("n2", cpus=11),
        *gang("first", 2, host, containers=[main], initContainers=[sidecar, init]),
        *gang("last", 2, host, containers=[main], initContainers=[init, sidecar]),
    )
    placed = {g["name"]: g["placed"] for g in answer["podGangs"]}
    assert placed == {"first": False, "last": True}
    (reason,) = next(g["reasons"] for g in answer["podGangs"] if g["name"] == "first")
    assert "1 of 2 pods of 6 cpu" in reason["message"]


def test_each_set_lands_on_the_hardware_of_its_own_topology(call: Call, service: str) -> None:
    # The same GPUs, under two bindings: domains of 2 nodes here and of 4 there, one free each.
    def binding(name: str, *levels: tuple[str, str]) -> Body:
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": name},
            "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels]},
        }

    def clique_set(name: str, topology: str, domain: str, replicas: int) -> Body:
        clique = {
            "roleName": "worker",
            "replicas": replicas,
            "podSpec": {"containers": [container("main", gpu=8)]},
        }
        constraint = {"topologyName": topology, "pack": {"required": domain}}
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"namespace": "ml", "name": name},
            "spec": {
                "replicas": 1,
                "template": {
                    "topologyConstraint": constraint,
                    "cliques": [{"name": "worker", "spec": clique}],
                },
            },
        }

    answer, warnings = plan(
        call,
        service,
        *(node(f"h{i}", {"h/block": "hb", "h/rack": f"hr{i // 2}"}) for i in range(4)),
        *(node(f"g{i}", {"g/nvlink-domain": "gd"}) for i in range(4)),
        binding("hopper", ("block", "h/block"), ("rack", "h/rack")),
        binding("blackwell", ("nvlink", "g/nvlink-domain")),
        clique_set("small", "hopper", "rack", 2),
        clique_set("large", "blackwell", "nvlink", 4),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger"}},
    )
    assert nodes_of(answer, "large-0") == {"g0", "g1", "g2", "g3"}
    assert nodes_of(answer, "small-0") in ({"h0", "h1"}, {"h2", "h3"})
    assert "ConfigMap" in warnings


def test_a_volume_that_keeps_a_pod_out_is_named_by_its_claim(call: Call, service: str) -> None:
    """The volumes of two pods are in two racks, and the gang needs one."""
    rack = "example.com/rack"
    objects: list[Body] = [node(f"n-{r}", {rack: r}) for r in ("r1", "r2")]
    members = gang("torn", 2, rack, containers=[container("c", gpu=1)])
    for i, member in enumerate(m for m in members if m["kind"] == "Pod"):
        member["spec"] = dict(member["spec"])
        member["spec"]["volumes"] = [
            {"name": "v", "persistentVolumeClaim": {"claimName": f"data-{i}"}}
        ]
        term = {"key": rack, "operator": "In", "values": [f"r{i + 1}"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        objects += [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": "ml", "name": f"data-{i}"},
                "spec": {"volumeName": f"pv-{i}"},
                "status": {"phase": "Bound"},
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"pv-{i}"},
                "spec": {"nodeAffinity": {"required": terms}},
            },
        ]
    answer, _ = plan(call, service, *objects, *members)
    [result] = answer["podGangs"]
    assert result["reasons"][0]["message"].endswith(
        f" (required level {rack}). PersistentVolumeClaims data-0 and data-1 tie pods to nodes."
    )


def test_a_gang_of_koordinator_is_relaxed_to_the_next_layer(call: Call, service: str) -> None:
    """Two blocks of one spine hold a pod each; no other label names the layer above."""
    layers = [
        {"topologyLayer": "SpineLayer", "labelKey": ["spine"]},
        {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["block"]},
    ]
    strategy = {"gatherStrategy": [{"layer": "BlockLayer", "strategy": "MustGather"}]}
    notes = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(strategy)}
    label = {"pod-group.scheduling.sigs.k8s.io": "two"}
    items = [
        *(node(f"n-{block}", {"spine": "s", "block": block}) for block in ("b1", "b2")),
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "ClusterNetworkTopology",
            "metadata": {"name": "default"},
            "spec": {"networkTopologySpec": layers},
        },
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"namespace": "ml", "name": "two", "annotations": notes},
            "spec": {"minMember": 2},
        },
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"namespace": "ml", "name": f"two-{i}", "labels": label},
                "spec": {"containers": [container("c", gpu=8)]},
            }
            for i in range(2)
        ),
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    ask = ["explain", "-f", "-", "-o", "json", "--server", service, "--gang", "ml/two"]
    done = call(*ask, stdin=text)
    [relaxed] = [r for r in json.loads(done.stdout)["remedies"] if r["kind"] == "RELAX"]
    assert (relaxed["level"], relaxed["to"], relaxed["proven"]) == ("block", "spine", True)
