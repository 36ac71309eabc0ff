"""The workload: gangs, their groups, and what a pod asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from placement.v1 import cluster_pb2, workload_pb2
from placement_service.api.validation.names import (
    MAX_TEXT,
    namespace_in,
    show,
    template_path,
    too_long,
)
from placement_service.api.wire.parts import (
    EFFECTS,
    Found,
    add_violations,
    affinity_term_to_proto,
    effect_to_proto,
    host_port_to_proto,
    node_selector_term_to_proto,
    parse_affinity_terms,
    parse_host_ports,
    parse_node_selector_terms,
    parse_resources,
    parse_selector,
    resources_to_proto,
    selector_to_proto,
    unspecified,
)
from placement_service.api.wire.times import (
    duration,
    timestamp,
    whole_seconds,
)
from placement_service.entities.devices import DeviceShare, RequiredPartition
from placement_service.entities.errors import Violation
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Resources,
    SpreadConstraint,
    Toleration,
)
from placement_service.entities.reservations import ReservationSelector

#: Whether only the key is compared.
TOLERATION_OPERATORS: Mapping[workload_pb2.TolerationOperator, bool] = {
    workload_pb2.TOLERATION_OPERATOR_UNSPECIFIED: False,
    workload_pb2.TOLERATION_OPERATOR_EQUAL: False,
    workload_pb2.TOLERATION_OPERATOR_EXISTS: True,
}


class _Templates:
    """Templates of pod sets; those that were read before are not read again."""

    def __init__(
        self, named: Mapping[str, workload_pb2.PodTemplate], violations: list[Violation]
    ) -> None:
        self._named = named
        self._violations = violations
        #: By bytes and namespace, which the terms of a template may mean.
        self._written: dict[tuple[bytes, str], tuple[PodTemplate, Found]] = {}
        self._inline: dict[tuple[bytes, str], tuple[PodTemplate, Found]] = {}
        self._by_name: dict[tuple[str, str], PodTemplate] = {}
        self._told: set[str] = set()

    def of(self, pod_set: workload_pb2.PodSet, namespace: str, path: str) -> PodTemplate:
        """The template of a pod set at a path of the request."""
        if not pod_set.template_name:
            return self._read(pod_set.template, namespace, f"{path}.template")
        if pod_set.HasField("template"):
            self._violations.append(
                Violation(f"{path}.template_name", "must be empty where template is set")
            )
        return self._of_name(pod_set.template_name, namespace, f"{path}.template_name")

    def _of_name(self, name: str, namespace: str, path: str) -> PodTemplate:
        if name not in self._named:
            self._violations.append(Violation(path, f"{show(name)} is not in pod_templates"))
            return PodTemplate({PODS: 1})
        key = (name, namespace)
        if key not in self._by_name:
            found: Found = []
            template = _parse_template(self._named[name], namespace, found)
            self._by_name[key] = replace(template, name=name)
            if name not in self._told:
                self._told.add(name)
                if problem := too_long(name, MAX_TEXT):
                    self._violations.append(Violation(path, problem))
                add_violations(self._violations, template_path(name), found)
        return self._by_name[key]

    def _read(self, message: workload_pb2.PodTemplate, namespace: str, path: str) -> PodTemplate:
        written = (message.SerializeToString(), namespace)
        known = self._written.get(written)
        if known is None:
            # Maps may stand in any order: equal templates are written alike only on request.
            key = (message.SerializeToString(deterministic=True), namespace)
            if key not in self._inline:
                found: Found = []
                self._inline[key] = (_parse_template(message, namespace, found), found)
            known = self._written[written] = self._inline[key]
        template, found = known
        if found:
            add_violations(self._violations, path, found)
        return template


def parse_gangs(
    messages: Iterable[workload_pb2.PodGang],
    named: Mapping[str, workload_pb2.PodTemplate],
    violations: list[Violation],
) -> Iterable[PodGang]:
    """The gangs of a request, whose pod sets may name templates."""
    templates = _Templates(named, violations)
    for i, message in enumerate(messages):
        path = f"gangs[{i}]"
        name = message.name
        groups = tuple(
            _parse_group(group, templates, namespace_in(name), f"{path}.groups[{j}]", violations)
            for j, group in enumerate(message.groups)
        )
        every = tuple(group.name for group in groups)
        yield PodGang(
            name=name,
            groups=groups,
            priority=message.priority,
            packing_scopes=tuple(
                PackingScope(
                    name=scope.name,
                    groups=tuple(scope.groups) or every,
                    required_level=scope.required_level,
                    preferred_level=scope.preferred_level,
                )
                for scope in message.packing_scopes
            ),
            base_gang=message.base_gang,
            uninitialized=message.uninitialized,
            previous_nodes=tuple(message.previous_nodes),
            unsupported=tuple(message.unsupported),
            created=message.create_time.seconds if message.HasField("create_time") else None,
            queue=message.queue,
            not_preemptible=message.not_preemptible,
            start=message.start_time.seconds if message.HasField("start_time") else None,
            minimum_run_time=whole_seconds(message.minimum_run_time),
            minimum_run_time_before_reclaim=whole_seconds(message.minimum_run_time_before_reclaim),
            never_preempts=message.never_preempts,
            volume_claims=tuple(message.volume_claims),
        )


def _parse_group(
    message: workload_pb2.PodGroup,
    templates: _Templates,
    namespace: str,
    path: str,
    violations: list[Violation],
) -> PodGroup:
    pod_sets = []
    for k, pod_set in enumerate(message.pod_sets):
        here = f"{path}.pod_sets[{k}]"
        template = templates.of(pod_set, namespace, here)
        pods = tuple(
            [
                Pod(pod.name, pod.uid, pod.rank if pod.HasField("rank") else None)
                for pod in pod_set.pods
            ]
        )
        running = _parse_bound_pods(pod_set.bound_pods, here, violations)
        pod_sets.append(PodSet(template, pods, running))
    return PodGroup(
        name=message.name,
        min_replicas=message.min_replicas,
        pod_sets=tuple(pod_sets),
        fixed_pods=_parse_bound_pods(message.bound_pods, path, violations),
        gated_count=message.gated_count,
    )


def _parse_bound_pods(
    messages: Sequence[workload_pb2.BoundPod], path: str, violations: list[Violation]
) -> tuple[BoundPod, ...]:
    pods = [BoundPod(p.name, p.node, p.reservation, tuple(p.devices)) for p in messages]
    for n, message in enumerate(messages):
        if message.HasField("held"):
            found: Found = []
            held = parse_resources(message.held, found)
            pods[n] = replace(pods[n], held=_with_the_pod(held))
            add_violations(violations, f"{path}.bound_pods[{n}].held", found)
    return tuple(pods)


def _with_the_pod(resources: Resources) -> Resources:
    """The amounts, where every pod counts as one, whatever the sender says, except for nonsense,
    which `validation` has to see.
    """
    return {**resources, PODS: 1} if resources.get(PODS, 0) >= 0 else resources


def _bound_pod_to_proto(pod: BoundPod) -> workload_pb2.BoundPod:
    return workload_pb2.BoundPod(
        name=pod.name,
        node=pod.node,
        reservation=pod.reservation,
        devices=pod.devices,
        held=None if pod.held is None else resources_to_proto(pod.held),
    )


def gang_to_proto(gang: PodGang) -> workload_pb2.PodGang:
    return workload_pb2.PodGang(
        name=gang.name,
        priority=gang.priority,
        groups=[
            workload_pb2.PodGroup(
                name=group.name,
                min_replicas=group.min_replicas,
                pod_sets=[
                    workload_pb2.PodSet(
                        template=_template_to_proto(pod_set.template),
                        pods=[
                            workload_pb2.Pod(name=p.name, uid=p.uid, rank=p.rank)
                            for p in pod_set.pods
                        ],
                        bound_pods=map(_bound_pod_to_proto, pod_set.bound_pods),
                    )
                    for pod_set in group.pod_sets
                ],
                bound_pods=map(_bound_pod_to_proto, group.fixed_pods),
                gated_count=group.gated_count,
            )
            for group in gang.groups
        ],
        packing_scopes=[
            workload_pb2.PackingScope(
                name=scope.name,
                groups=scope.groups,
                required_level=scope.required_level,
                preferred_level=scope.preferred_level,
            )
            for scope in gang.packing_scopes
        ],
        base_gang=gang.base_gang,
        uninitialized=gang.uninitialized,
        previous_nodes=gang.previous_nodes,
        unsupported=gang.unsupported,
        create_time=timestamp(gang.created),
        queue=gang.queue,
        not_preemptible=gang.not_preemptible,
        start_time=timestamp(gang.start),
        minimum_run_time=duration(gang.minimum_run_time) if gang.minimum_run_time else None,
        minimum_run_time_before_reclaim=(
            duration(gang.minimum_run_time_before_reclaim)
            if gang.minimum_run_time_before_reclaim
            else None
        ),
        never_preempts=gang.never_preempts,
        volume_claims=gang.volume_claims,
    )


def _parse_template(message: workload_pb2.PodTemplate, namespace: str, found: Found) -> PodTemplate:
    resources_found: Found = []
    requests = parse_resources(message.requests, resources_found)
    found.extend((f"requests.{path}", what) for path, what in resources_found)
    return PodTemplate(
        requests=_with_the_pod(requests),
        labels=dict(message.labels),
        node_selector=tuple(sorted(message.node_selector.items())),
        required_node_affinity=parse_node_selector_terms(
            message.required_node_affinity.terms, "required_node_affinity.terms", found
        )
        if message.HasField("required_node_affinity")
        else None,
        tolerations=tuple(
            _parse_toleration(toleration, f"tolerations[{i}]", found)
            for i, toleration in enumerate(message.tolerations)
        ),
        required_affinity=parse_affinity_terms(
            message.required_affinity, "required_affinity", namespace, found
        ),
        required_anti_affinity=parse_affinity_terms(
            message.required_anti_affinity, "required_anti_affinity", namespace, found
        ),
        host_ports=parse_host_ports(message.host_ports),
        spread_constraints=tuple(
            SpreadConstraint(
                max_skew=constraint.max_skew,
                topology_key=constraint.topology_key,
                selector=parse_selector(
                    constraint.selector, f"spread_constraints[{i}].selector", found
                )
                if constraint.HasField("selector")
                else None,
                namespace=namespace,
                min_domains=constraint.min_domains or 1,
                ignore_node_affinity=constraint.ignore_node_affinity,
                honor_taints=constraint.honor_taints,
            )
            for i, constraint in enumerate(message.spread_constraints)
        ),
        device_share=_parse_device_share(message.device_share)
        if message.HasField("device_share")
        else None,
        same_pcie_nics=message.same_pcie_nics,
        compute_domain=message.compute_domain,
        required_reservation=ReservationSelector(
            name=message.required_reservation.name,
            terms=parse_node_selector_terms(
                message.required_reservation.terms, "required_reservation.terms", found
            ),
        )
        if message.HasField("required_reservation")
        else None,
        ignores_reservations=message.ignores_reservations,
        required_partition=RequiredPartition(
            best_score=message.required_partition.best_score,
            ring_bandwidth=message.required_partition.ring_bandwidth,
        )
        if message.HasField("required_partition")
        else None,
        unsupported=tuple(message.unsupported),
    )


def _parse_device_share(message: workload_pb2.DeviceShare) -> DeviceShare:
    return DeviceShare(
        compute_milli=message.compute_milli,
        memory_milli=message.memory_milli,
        memory_bytes=message.memory_bytes,
        count=message.count or 1,
    )


def _parse_toleration(message: workload_pb2.Toleration, path: str, found: Found) -> Toleration:
    exists = TOLERATION_OPERATORS.get(message.operator)
    if exists is None:
        found.append((f"{path}.operator", unspecified(message.operator)))
        exists = False
    effect = EFFECTS.get(message.effect)
    if effect is None and message.effect != cluster_pb2.TAINT_EFFECT_UNSPECIFIED:
        found.append((f"{path}.effect", unspecified(message.effect)))
    return Toleration(message.key, exists, message.value, effect)


def _template_to_proto(template: PodTemplate) -> workload_pb2.PodTemplate:
    return workload_pb2.PodTemplate(
        requests=resources_to_proto(template.requests),
        labels=template.labels,
        node_selector=dict(template.node_selector),
        required_node_affinity=None
        if template.required_node_affinity is None
        else workload_pb2.NodeSelector(
            terms=map(node_selector_term_to_proto, template.required_node_affinity)
        ),
        tolerations=[
            workload_pb2.Toleration(
                key=t.key,
                operator=workload_pb2.TOLERATION_OPERATOR_EXISTS
                if t.exists
                else workload_pb2.TOLERATION_OPERATOR_EQUAL,
                value=t.value,
                effect=effect_to_proto(t.effect),
            )
            for t in template.tolerations
        ],
        required_affinity=map(affinity_term_to_proto, template.required_affinity),
        required_anti_affinity=map(affinity_term_to_proto, template.required_anti_affinity),
        host_ports=map(host_port_to_proto, template.host_ports),
        spread_constraints=[
            workload_pb2.SpreadConstraint(
                max_skew=c.max_skew,
                topology_key=c.topology_key,
                selector=selector_to_proto(c.selector),
                min_domains=c.min_domains,
                ignore_node_affinity=c.ignore_node_affinity,
                honor_taints=c.honor_taints,
            )
            for c in template.spread_constraints
        ],
        device_share=None
        if template.device_share is None
        else workload_pb2.DeviceShare(
            compute_milli=template.device_share.compute_milli,
            memory_milli=template.device_share.memory_milli,
            memory_bytes=template.device_share.memory_bytes,
            count=template.device_share.count,
        ),
        same_pcie_nics=template.same_pcie_nics,
        compute_domain=template.compute_domain,
        required_reservation=None
        if template.required_reservation is None
        else workload_pb2.ReservationSelector(
            name=template.required_reservation.name,
            terms=map(node_selector_term_to_proto, template.required_reservation.terms),
        ),
        ignores_reservations=template.ignores_reservations,
        required_partition=None
        if template.required_partition is None
        else workload_pb2.RequiredPartition(
            best_score=template.required_partition.best_score,
            ring_bandwidth=template.required_partition.ring_bandwidth,
        ),
        unsupported=template.unsupported,
    )
