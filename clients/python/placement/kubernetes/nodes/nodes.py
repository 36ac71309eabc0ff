"""Nodes with what is left on them.

A node without a Ready condition counts as ready, because inventories that are written by hand or
made by a tool have no kubelet to set one. A node that does not say what is allocatable allocates
its capacity, as the API server has it. A cordoned node gets no pods, not even those that tolerate
it. A node where a pod holds something that cannot be counted is closed too, because it is not known
what is left, and a warning says why.
"""

from __future__ import annotations

import marshal
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from placement import v1
from placement.kubernetes.nodes.devices import Devices
from placement.kubernetes.nodes.label_paths import HOSTNAME, LabelPaths
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.podspec import HostPort, resources_message
from placement.kubernetes.pods.shares import GPU, HUNDREDTHS, MANAGED
from placement.kubernetes.pods.taints import read_taint
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.values.reading import At, Findings

#: More than any node has, also in bytes, of what only says who manages its GPUs.
_PLENTY: Final = 1 << 44

#: Why a node is closed may quote what anyone has written; the service takes a thousand letters.
_LONGEST_REASON: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What other objects say about nodes: `bound` are the pods that hold resources, by node."""

    bound: Mapping[str, Sequence[Pod]]
    paths: LabelPaths
    devices: Devices
    #: Devices of claims, counted like resources, by node.
    claimable: Mapping[str, Mapping[str, int]]
    #: Whether pods ask for Koordinator's resources by name, see `is_unmanaged`.
    by_name: bool


def is_unmanaged(one: Object, listed: Container[str]) -> bool:
    """Whether a node has GPUs that Koordinator does not manage: no Device lists them (`listed`
    are the nodes of Devices), and the node allocates none of Koordinator's resources. Then pods
    that ask for these do not fit there.
    """
    status = one.body.get("status")
    told = status.get("allocatable", status.get("capacity")) if isinstance(status, dict) else None
    if one.name in listed or not isinstance(told, dict):
        return False
    return GPU in told and told.keys().isdisjoint(MANAGED)


def read_nodes(
    objects: Iterable[Object],
    around: Surroundings,
    diagnostics: Diagnostics,
) -> list[v1.Node]:
    """All nodes in input order."""
    nodes = []
    allocatable = _Allocatable()
    for one in objects:
        findings: Findings = {}
        bound = around.bound.get(one.name, ())
        node = _read_node(one, At(one.body, findings), bound, around, allocatable)
        diagnostics.problems += [one.problem(*finding) for finding in findings]
        reason = _uncountable(bound, node.compute_domain) or node.closed_because
        if reason:
            node.unschedulable = True
            node.closed_because = reason[:_LONGEST_REASON]
            diagnostics.warnings.append(one.problem("", f"is closed for new pods: {reason}"))
        nodes.append(node)
    return nodes


def _read_node(
    one: Object, at: At, bound: Sequence[Pod], around: Surroundings, allocatable: _Allocatable
) -> v1.Node:
    spec, status = at.get("spec"), at.get("status")
    labels = at.get("metadata").get("labels").labels()
    if HOSTNAME not in labels:
        labels = {**labels, HOSTNAME: one.name}
    told = status.get("allocatable")
    amounts = allocatable.read(status.get("capacity") if told.absent else told)
    domains = [p.needs.compute_domain for p in bound if p.needs.compute_domain]
    board = around.devices.board(one.name, labels, amounts.get(GPU, 0), bound)
    managed = around.devices.lists(one.name) or not amounts.keys().isdisjoint(MANAGED)
    amounts = _with_gpus(amounts, board.healthy)
    if around.by_name and managed:
        amounts = dict.fromkeys(MANAGED, _PLENTY) | dict(amounts)
    more = around.claimable.get(one.name)
    return v1.Node(
        name=f"nodes/{one.name}",
        labels={**labels, **around.paths.added(one.name, labels)},
        allocatable=resources_message({**amounts, **more} if more else amounts),
        requested=_requested(bound),
        taints=[read_taint(taint) for taint in spec.get("taints").items()],
        unschedulable=spec.get("unschedulable").flag(),
        not_ready=status.condition("Ready") not in ("", "True"),
        host_ports=_host_ports(bound),
        devices=board.devices,
        partitions=board.partitions,
        partition_policy=board.policy,
        compute_domain=domains[0] if domains else "",
        compute_domain_pods=len(domains),
        # On the wire a number of zero is one that was not given, which allows 110 pods.
        closed_because="it allocates no pods" if amounts.get("pods") == 0 else "",
    )


def _with_gpus(amounts: Mapping[str, int], devices: int) -> Mapping[str, int]:
    """The amounts, with the GPUs that a node counts only in hundredths or as devices."""
    if GPU in amounts:
        return amounts
    hundredths = next((amounts[name] for name in HUNDREDTHS if name in amounts), 0)
    pieces = hundredths // 100 or devices
    return {**amounts, GPU: pieces} if pieces else amounts


def _uncountable(bound: Sequence[Pod], domain: str) -> str:
    """Why the free room of a node is unknown; empty when it is known."""
    for pod in bound:
        if pod.needs.unknown:
            return f"{pod} holds something that cannot be counted ({pod.needs.unknown})"
        if pod.needs.compute_domain not in ("", domain):
            return f"its pods are of two ComputeDomains: {domain}, {pod.needs.compute_domain}"
    return ""


class _Allocatable:
    """Reads what nodes allocate, once for all nodes of a kind of machine."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, int]] = {}

    def read(self, at: At) -> Mapping[str, int]:
        if not isinstance(at.value, dict):
            return at.amounts(round_up=False, capped=True)
        key = marshal.dumps(at.value, 2)
        known = self._known.get(key)
        if known is None:
            before = at.finding_count
            known = at.amounts(round_up=False, capped=True)
            if at.finding_count == before:
                self._known[key] = known
        return known


def _requested(bound: Sequence[Pod]) -> v1.Resources | None:
    if not bound:
        return None
    total: dict[str, int] = {}
    for pod in bound:
        for resource, amount in pod.needs.taken.items():
            total[resource] = total.get(resource, 0) + amount
    return resources_message(total)


def _host_ports(bound: Sequence[Pod]) -> list[v1.HostPort]:
    ports: dict[HostPort, None] = {}
    for pod in bound:
        ports.update(dict.fromkeys(pod.spec.host_ports))
    return [port.message() for port in ports]
