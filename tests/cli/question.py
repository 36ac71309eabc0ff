"""Questions and answers in a few words, for tests of what is printed.

`question` builds a cluster from a drawing and `seat` binds pods by hand, so
each expected text follows from the test alone; no solver runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placement.v1 import cluster_pb2, placement_pb2, placement_service_pb2, workload_pb2

GPU = "nvidia.com/gpu"
BLOCK = "topology.example.com/block"
RACK = "topology.example.com/rack"


def node(
    name: str,
    *,
    gpus: int = 0,
    used: int = 0,
    cpus: int = 64,
    cpus_used: int = 0,
    cordoned: bool = False,
    **labels: str,
) -> cluster_pb2.Node:
    """A node; `block` and `rack` become topology labels."""
    keys = {"block": BLOCK, "rack": RACK}
    resources = cluster_pb2.Resources
    return cluster_pb2.Node(
        name=f"nodes/{name}",
        labels={keys.get(k, k): v for k, v in labels.items()},
        allocatable=resources(cpu_millis=cpus * 1000, extended={GPU: gpus} if gpus else {}),
        requested=resources(cpu_millis=cpus_used * 1000, extended={GPU: used} if used else {}),
        unschedulable=cordoned,
    )


def gang(
    name: str,
    *,
    pods: int,
    gpus: int = 0,
    cpus: int = 0,
    minimum: int | None = None,
    bound: Iterable[str] = (),
    required: str = "",
    preferred: str = "",
    namespace: str = "ml",
    created: int | None = None,
) -> workload_pb2.PodGang:
    """A gang of one group of like pods; `bound` are nodes of pods that run."""
    resources = cluster_pb2.Resources(cpu_millis=cpus * 1000, extended={GPU: gpus} if gpus else {})
    running = [
        workload_pb2.BoundPod(name=f"namespaces/{namespace}/pods/{name}-r{i}", node=f"nodes/{at}")
        for i, at in enumerate(bound)
    ]
    pending = [
        workload_pb2.Pod(name=f"namespaces/{namespace}/pods/{name}-{i}") for i in range(pods)
    ]
    template = workload_pb2.PodTemplate(requests=resources)
    scope = workload_pb2.PackingScope(
        name="gang", required_level=required, preferred_level=preferred
    )
    return workload_pb2.PodGang(
        name=f"namespaces/{namespace}/podgangs/{name}",
        groups=[
            workload_pb2.PodGroup(
                name="worker",
                min_replicas=pods + len(running) if minimum is None else minimum,
                pod_sets=[workload_pb2.PodSet(template=template, pods=pending)] if pods else [],
                bound_pods=running,
            )
        ],
        packing_scopes=[scope] if required or preferred else [],
        create_time=None if created is None else {"seconds": created},
    )


def question(
    nodes: Sequence[cluster_pb2.Node],
    gangs: Sequence[workload_pb2.PodGang],
    *,
    as_of: int | None = None,
) -> placement_service_pb2.ComputePlacementRequest:
    seen = None if as_of is None else {"seconds": as_of}
    return placement_service_pb2.ComputePlacementRequest(
        snapshot=cluster_pb2.ClusterSnapshot(nodes=nodes, as_of=seen), gangs=gangs
    )


def tier(name: str, value: float, bound: float | None = None) -> placement_pb2.ObjectiveTier:
    minimize = name in ("topology", "fragmentation")
    return placement_pb2.ObjectiveTier(name=name, value=value, bound=bound, minimize=minimize)


def reply(
    request: placement_service_pb2.ComputePlacementRequest,
    seats: dict[str, str],
    *,
    tiers: Sequence[placement_pb2.ObjectiveTier] = (),
    reasons: dict[str, list[placement_pb2.Reason]] | None = None,
    scores: dict[str, float] | None = None,
) -> placement_pb2.Placement:
    """The answer that seats each gang's pods, in order, on the nodes listed.

    ``{"a": "n1 n1 n2"}`` binds pods a-0 and a-1 to n1 and a-2 to n2. Domains of
    the scopes follow; a gang is placed when its minimum is met.
    """
    labels = {n.name: n.labels for n in request.snapshot.nodes}
    placement = placement_pb2.Placement(tiers=tiers)
    for g in request.gangs:
        name = g.name.rsplit("/", 1)[1]
        group = g.groups[0]
        pods = [p for s in group.pod_sets for p in s.pods]
        nodes = [f"nodes/{n}" for n in seats.get(name, "").split()]
        for pod, at in zip(pods, nodes, strict=False):
            placement.bindings.add(pod=pod.name, node=at, gang=g.name, group=group.name)
        used = [*nodes, *(b.node for b in group.bound_pods)]
        result = placement.gangs.add(
            name=g.name,
            placed=len(used) >= group.min_replicas,
            placement_score=(scores or {}).get(name),
            reasons=(reasons or {}).get(name, []),
        )
        for scope in g.packing_scopes:
            for level, required in ((scope.required_level, True), (scope.preferred_level, False)):
                if level and used:
                    result.scopes.add(
                        name=scope.name,
                        level=level,
                        required=required,
                        domains=sorted({labels[n].get(level, "") for n in used}),
                    )
    return placement
