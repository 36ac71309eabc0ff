"""What occurs in a question, by name: to count how often a run has met it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from placement_service.entities.devices import PartitionPolicy
from placement_service.entities.request import (
    EPHEMERAL_STORAGE,
    MIG,
    ExtrasPolicy,
    PackingScope,
    PodGang,
    PodTemplate,
    Snapshot,
)
from tests.questions.everything import Drawn

Test = Callable[[Drawn], object]


def _of_templates(wanted: Callable[[PodTemplate], object]) -> Test:
    return lambda drawn: any(
        wanted(s.template)
        for g in drawn.snapshot.gangs
        for group in g.groups
        for s in group.pod_sets
    )


def _of_running(wanted: Callable[[PodTemplate], object]) -> Test:
    return lambda drawn: any(
        s.bound_pods and wanted(s.template)
        for g in drawn.snapshot.gangs
        for group in g.groups
        for s in group.pod_sets
    )


def _of_gangs(wanted: Callable[[PodGang], object]) -> Test:
    return lambda drawn: any(wanted(gang) for gang in drawn.snapshot.gangs)


def _of_scopes(level: Callable[[PackingScope], object]) -> Test:
    return _of_gangs(lambda gang: any(level(scope) for scope in gang.packing_scopes))


def _runs(snapshot: Snapshot, *, told: bool) -> bool:
    return any(
        any(s.bound_pods for s in group.pod_sets) if told else group.fixed_pods
        for gang in snapshot.gangs
        for group in gang.groups
    )


FEATURES: Mapping[str, Test] = {
    "eviction PREEMPT": lambda d: d.policy.eviction.value == "PREEMPT",
    "eviction RECLAIM": lambda d: d.policy.eviction.value == "RECLAIM",
    "eviction REPACK": lambda d: d.policy.eviction.value == "REPACK",
    "a repeatable answer": lambda d: d.policy.deterministic,
    "extras with their priority": lambda d: d.policy.extras is ExtrasPolicy.WITH_PRIORITY,
    "tolerances": lambda d: d.policy.tolerances,
    "starving gangs": lambda d: (
        d.policy.starvation_after is not None
        and any(
            d.snapshot.as_of is not None
            and g.created is not None
            and d.snapshot.as_of - g.created > d.policy.starvation_after
            for g in d.snapshot.gangs
        )
    ),
    "several priorities": lambda d: len({g.priority for g in d.snapshot.gangs}) > 1,
    "required levels": _of_scopes(lambda s: s.required_level),
    "preferred levels": _of_scopes(lambda s: s.preferred_level),
    "sets of gangs": _of_gangs(lambda g: g.base_gang),
    "previous nodes": _of_gangs(lambda g: g.previous_nodes),
    "extras": _of_gangs(
        lambda g: any(x.running_count + x.pending_count > x.min_replicas for x in g.groups)
    ),
    "gangs that lack pods of their minimum": _of_gangs(
        lambda g: g.is_pending and any(x.running_count for x in g.groups)
    ),
    "pods that may not move": lambda d: _runs(d.snapshot, told=False),
    "pods that may move": lambda d: _runs(d.snapshot, told=True),
    "node selectors and affinity": _of_templates(
        lambda t: t.node_selector or t.required_node_affinity
    ),
    "taints": lambda d: any(node.taints for node in d.snapshot.nodes),
    "host ports of pods that may move": _of_running(lambda t: t.host_ports),
    "ComputeDomains of pods that may move": _of_running(lambda t: t.compute_domain),
    "rules between pods of pods that may move": _of_running(
        lambda t: t.required_anti_affinity or t.required_affinity or t.spread_constraints
    ),
    "host ports": _of_templates(lambda t: t.host_ports),
    "affinity": _of_templates(lambda t: t.required_affinity),
    "anti-affinity": _of_templates(lambda t: t.required_anti_affinity),
    "spread": _of_templates(lambda t: t.spread_constraints),
    "queues": lambda d: d.snapshot.queues and any(g.queue for g in d.snapshot.gangs),
    "guaranteed amounts": lambda d: any(queue.guaranteed for queue in d.snapshot.queues),
    "queues that keep something": lambda d: any(q.kept for q in d.snapshot.queues),
    "queues that are not reclaimable": lambda d: any(q.not_reclaimable for q in d.snapshot.queues),
    "minimum run times of queues": lambda d: any(
        q.minimum_run_time_before_reclaim for q in d.snapshot.queues
    ),
    "reservations": lambda d: d.snapshot.reservations,
    "devices of reservations": lambda d: any(r.devices for r in d.snapshot.reservations),
    "required reservations": _of_templates(lambda t: t.required_reservation),
    "disruption budgets": lambda d: d.snapshot.disruption_budgets,
    "pods that hold something else than they ask for": lambda d: any(
        pod.held is not None
        for g in d.snapshot.gangs
        for group in g.groups
        for pod in group.running_pods
    ),
    "minimum run times": _of_gangs(
        lambda g: g.minimum_run_time or g.minimum_run_time_before_reclaim
    ),
    "gangs that never preempt": _of_gangs(lambda g: g.never_preempts),
    "gangs that are not preemptible": _of_gangs(lambda g: g.not_preemptible),
    "devices": lambda d: any(node.devices for node in d.snapshot.nodes),
    "partitions": lambda d: any(node.partitions for node in d.snapshot.nodes),
    "partitions that are honored": lambda d: any(
        node.partitions and node.partition_policy is PartitionPolicy.HONOR
        for node in d.snapshot.nodes
    ),
    "required partitions": _of_templates(lambda t: t.required_partition),
    "slices of GPUs": _of_templates(lambda t: any(r.startswith(MIG) for r in t.requests)),
    "storage": _of_templates(lambda t: t.requests.get(EPHEMERAL_STORAGE)),
    "shares of devices": _of_templates(lambda t: t.device_share),
    "network devices": _of_templates(lambda t: t.same_pcie_nics),
    "ComputeDomains": _of_templates(lambda t: t.compute_domain),
}


def features_of(drawn: Drawn) -> tuple[str, ...]:
    """The names of what occurs in a question."""
    return tuple(name for name, test in FEATURES.items() if test(drawn))
