"""Running gangs that the rules let go, but that stay because the problem cannot express it.

The first cause is named of those that `formulation.running_gangs` tests and the request shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placement_service.entities.nodes import Nodes
from placement_service.entities.request import PodGang, PodTemplate


class Protection(NamedTuple):
    """What keeps gangs, as said of one and of several; `subject` is the name of what binds."""

    one: str
    several: str
    subject: str = ""


def why_it_stays(gang: PodGang, nodes: Nodes, *, moves: bool) -> Protection | None:
    """What a gang has that keeps it, None where nothing is found."""
    return next(_causes(gang, nodes, moves=moves), None)


def _causes(gang: PodGang, nodes: Nodes, *, moves: bool) -> Iterator[Protection]:
    missing = sum(group.missing for group in gang.groups)
    if missing:
        said = f"waits for {_pods(missing)} of its minimum itself"
        yield Protection(said, f"wait for {_pods(missing)} of their minimums themselves")
    untold = sum(len(group.fixed_pods) for group in gang.groups)
    if untold:
        said = f"{_pods(untold)} whose requests are not told"
        yield Protection(f"has {said}", f"have {said} each")
    sets = [s for group in gang.groups for s in group.pod_sets if s.bound_pods]
    pods = [(pod, s.template) for s in sets for pod in s.bound_pods]
    held = sum(bool(pod.reservation) for pod, _ in pods)
    if held:
        yield Protection(
            f"has {_pods(held)} in reservations", f"have {_pods(held)} each in reservations"
        )
    closed = sum(
        pod.node not in nodes.row_of or not nodes.open[nodes.row_of[pod.node]] for pod, _ in pods
    )
    if closed:
        said = f"{_pods(closed)} on nodes that take no new pods"
        yield Protection(f"has {said}", f"have {said} each")
    for _, template in pods:
        for rule in _rules(template, moves=moves):
            yield Protection(f"has pods {rule}", f"have pods {rule}")


def _rules(template: PodTemplate, *, moves: bool) -> Iterator[str]:
    if template.required_reservation:
        yield "that require a reservation"
    if template.same_pcie_nics:
        yield f"with {template.same_pcie_nics} network devices each"
    if not moves:
        return
    if template.compute_domain:
        yield f"in ComputeDomain {template.compute_domain}, which are not moved"
    if template.required_affinity:
        yield "with required affinity, which are not moved"
    if template.required_anti_affinity:
        yield "with required anti-affinity, which are not moved"
    if template.spread_constraints:
        yield "that are spread, which are not moved"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
