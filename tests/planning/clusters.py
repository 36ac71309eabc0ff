"""Clusters and gangs in a few words, for planning tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placement import v1

GPU = "nvidia.com/gpu"
BLOCK = "topology.example.com/block"
RACK = "topology.example.com/rack"
HOST = "kubernetes.io/hostname"


def node(name: str, *, gpus: int = 8, used: int = 0, closed: bool = False, **at: str) -> v1.Node:
    """A node; `block` and `rack` become topology labels."""
    labels = {{"block": BLOCK, "rack": RACK}[key]: value for key, value in at.items()}
    return v1.Node(
        name=f"nodes/{name}",
        labels={HOST: name, **labels},
        allocatable=v1.Resources(cpu_millis=64_000, pod_count=110, extended={GPU: gpus}),
        requested=v1.Resources(extended={GPU: used} if used else {}),
        unschedulable=closed,
    )


def gang(
    name: str,
    pods: int,
    *,
    gpus: int = 8,
    minimum: int | None = None,
    on: Sequence[str] = (),
    required: str = "",
    priority: int = 0,
    fixed: bool = False,
) -> v1.PodGang:
    """A gang of one group "w": `pods` wait, and one runs on each node of `on`."""
    bound = [
        v1.BoundPod(name=f"namespaces/ml/pods/{name}-r{i}", node=f"nodes/{at}")
        for i, at in enumerate(on)
    ]
    waiting = [v1.Pod(name=f"namespaces/ml/pods/{name}-{i}") for i in range(pods)]
    template = v1.PodTemplate(requests=v1.Resources(extended={GPU: gpus}))
    scopes = [v1.PackingScope(name=name, required_level=required)] if required else []
    return v1.PodGang(
        name=resource_name(name),
        priority=priority,
        groups=[
            v1.PodGroup(
                name="w",
                min_replicas=pods + len(on) if minimum is None else minimum,
                pod_sets=[v1.PodSet(template=template, pods=waiting, bound_pods=bound)],
            )
        ],
        packing_scopes=scopes,
        not_preemptible=fixed,
    )


def resource_name(name: str) -> str:
    return f"namespaces/ml/podgangs/{name}"


def request(nodes: Iterable[v1.Node], gangs: Iterable[v1.PodGang]) -> v1.ComputePlacementRequest:
    """The question; what running pods ask for is counted on their nodes."""
    asked = v1.ComputePlacementRequest(
        snapshot=v1.ClusterSnapshot(nodes=list(nodes)), gangs=list(gangs)
    )
    by_name = {node.name: node for node in asked.snapshot.nodes}
    for one in asked.gangs:
        for group in one.groups:
            for pod_set in group.pod_sets:
                for pod in pod_set.bound_pods:
                    used = by_name[pod.node].requested
                    amount = pod_set.template.requests.extended[GPU]
                    used.extended[GPU] = used.extended.get(GPU, 0) + amount
                    used.pod_count += 1
    return asked
