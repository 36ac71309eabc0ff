"""Nodes with what is left on them.

A node without a Ready condition counts as ready, for inventories written by hand
or made by a tool have no kubelet to set one. A node that does not say what is
allocatable allocates its capacity, as the API server has it. A cordoned node gets
no pods, not even those that tolerate it.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods import Pod
from placement.kubernetes.podspec import HostPort, read_taint, resources_message
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings

HOSTNAME = "kubernetes.io/hostname"


def read_nodes(
    objects: Iterable[Object], bound: Mapping[str, Sequence[Pod]], problems: list[Problem]
) -> list[v1.Node]:
    """All nodes in input order; `bound` are the pods that hold resources, by node name."""
    nodes = []
    allocatable = _Allocatable()
    for one in objects:
        findings: Findings = {}
        nodes.append(_read_node(one, At(one.body, findings), bound.get(one.name, ()), allocatable))
        problems += [one.problem(*finding) for finding in findings]
    return nodes


def _read_node(one: Object, at: At, bound: Sequence[Pod], allocatable: _Allocatable) -> v1.Node:
    spec, status = at.get("spec"), at.get("status")
    labels = at.get("metadata").get("labels").labels()
    if HOSTNAME not in labels:
        labels = {**labels, HOSTNAME: one.name}
    resources = status.get("allocatable")
    return v1.Node(
        name=f"nodes/{one.name}",
        labels=labels,
        allocatable=allocatable.read(status.get("capacity") if resources.absent else resources),
        requested=_requested(bound),
        taints=[read_taint(taint) for taint in spec.get("taints").items()],
        unschedulable=spec.get("unschedulable").flag(),
        not_ready=not _is_ready(status),
        host_ports=_host_ports(bound),
    )


def _is_ready(status: At) -> bool:
    ready = True
    for condition in status.get("conditions").items():
        if condition.get("type").text() == "Ready":
            ready = condition.get("status").text() == "True"
    return ready


class _Allocatable:
    """Reads what nodes allocate, once for all nodes of a kind of machine."""

    def __init__(self) -> None:
        self._known: dict[bytes, v1.Resources] = {}

    def read(self, at: At) -> v1.Resources:
        if not isinstance(at.value, dict):
            return resources_message(at.amounts(round_up=False))
        key = marshal.dumps(at.value, 2)
        known = self._known.get(key)
        if known is None:
            before = at.finding_count
            known = resources_message(at.amounts(round_up=False))
            if at.finding_count == before:
                self._known[key] = known
        return known


def _requested(bound: Sequence[Pod]) -> v1.Resources | None:
    if not bound:
        return None
    total: dict[str, int] = {}
    for pod in bound:
        for resource, amount in pod.spec.requests.items():
            total[resource] = total.get(resource, 0) + amount
    return resources_message(total)


def _host_ports(bound: Sequence[Pod]) -> list[v1.HostPort]:
    ports: dict[HostPort, None] = {}
    for pod in bound:
        ports.update(dict.fromkeys(pod.spec.host_ports))
    return [port.message() for port in ports]
