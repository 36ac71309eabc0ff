"""Running gangs that the rules let go, but that stay because the problem cannot express it.

The first cause is named of those that `formulation.eviction.running_gangs` tests and the request
shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placement_service.entities.request import (
    ExtrasPolicy,
    PodGang,
    PodSet,
    Policy,
    Snapshot,
)
from placement_service.explain.wording import queue_word
from placement_service.formulation.eviction.ruled_pods import (
    binds_what_comes,
    can_be_divided,
    has_many_homes,
    may_come_together,
)
from placement_service.formulation.eviction.running_rules import (
    has_many_terms,
    out_of_place,
    unwelcome,
    with_all_terms,
)
from placement_service.formulation.eviction.running_topology import (
    RunningOn,
    adds_topology,
    growing,
    keeps_its_levels,
)
from placement_service.formulation.implied_rules import without_implied_rules
from placement_service.formulation.open_gangs import stays_in_place
from placement_service.formulation.rules.reservations import take_back


class Protection(NamedTuple):
    """What keeps gangs, as said of one and of several; `subject` is the name of what binds."""

    one: str
    several: str
    subject: str = ""


class _Words(NamedTuple):
    """What is said of one pod and of several that a gang has."""

    one: str
    several: str

    def of(self, count: int) -> Iterator[Protection]:
        """The protection by so many pods."""
        if count:
            said = self.one if count == 1 else self.several.format(count)
            yield Protection(f"has {said}", f"have {said} each")


_NOT_THERE = _Words("1 pod on a node that is not there", "{} pods on nodes that are not there")
_CLOSED = _Words("1 pod on a node that takes no new pods", "{} pods on nodes that take no new pods")
_MISPLACED = _Words(
    "1 pod that breaks a rule about other pods where it is",
    "{} pods that break rules about other pods where they are",
)
_UNWELCOME = _Words(
    "1 pod on a node that would not take it again",
    "{} pods on nodes that would not take them again",
)


class StayingGangs:
    """Why running gangs of a snapshot stay; `moves`: gangs that go run elsewhere."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, moves: bool) -> None:
        self._nodes = RunningOn.of(snapshot.columns)
        self._moves = moves
        self._by_priority = policy.extras is ExtrasPolicy.WITH_PRIORITY
        self._queues = {"", *(queue.name for queue in snapshot.queues)}
        self._growing = growing(snapshot)
        #: By name, without rules that say no more than room does.
        bare = without_implied_rules(snapshot)
        self._bare = {gang.name: gang for gang in bare.gangs}
        self._reserved = {reservation.node for reservation in snapshot.reservations}
        self._taking_back = frozenset() if moves else take_back(snapshot)
        #: Pods that break a rule about other pods where they are.
        self.misplaced = out_of_place(with_all_terms(bare) if moves else bare)
        self._many_terms = has_many_terms(bare)
        self._many_homes = has_many_homes(bare, self._nodes)
        #: Pods that their nodes would not take again, and whether none of them is moved.
        self._refused = unwelcome(bare) if moves else frozenset()
        self._many_refused = has_many_homes(bare, self._nodes, self._refused)

    def why(self, gang: PodGang) -> Protection | None:
        """What a gang has that keeps it, None where nothing is found."""
        return next(self._causes(self._bare[gang.name]), None)

    def _causes(self, gang: PodGang) -> Iterator[Protection]:
        missing = sum(group.missing for group in gang.groups)
        if missing:
            said = f"waits for {_pods(missing)} of its minimum itself"
            yield Protection(said, f"wait for {_pods(missing)} of their minimums themselves")
        extras = sum(group.pending_count for group in gang.groups) - missing
        if extras > 0 and self._moves and self._by_priority:
            said = "for extras, which come with their priority"
            yield Protection(f"waits {said}", f"wait {said}")
        in_place = stays_in_place(gang, moves=self._moves)
        if gang.queue not in self._queues and not in_place:
            said = f"in queue {queue_word(gang.queue)}, which does not exist"
            yield Protection(f"is {said}", f"are {said}", gang.queue)
        untold = sum(len(group.fixed_pods) for group in gang.groups)
        if untold:
            said = f"{_pods(untold)} whose requests are not told"
            yield Protection(f"has {said}", f"have {said} each")
        sets = [s for group in gang.groups for s in group.pod_sets if s.bound_pods]
        pods = [(pod, s.template) for s in sets for pod in s.bound_pods]
        held = sum(
            bool(pod.reservation and (pod.devices or pod.reservation not in self._taking_back))
            for pod, _ in pods
        )
        if held:
            yield Protection(
                f"has {_pods(held)} in reservations", f"have {_pods(held)} each in reservations"
            )
        beside = sum(pod.held is not None and pod.node in self._reserved for pod, _ in pods)
        if beside:
            said = f"{_pods(beside)} beside reservations, with devices beyond their requests"
            yield Protection(f"has {said}", f"have {said} each")
        here = self._nodes.nodes.row_of
        yield from _NOT_THERE.of(sum(pod.node not in here for pod, _ in pods))
        refused = [pod for pod, _ in pods if pod.name in self._refused]
        if not self._many_refused and can_be_divided(gang, self._refused):
            refused = []
        closed = [pod for pod in refused if not self._nodes.nodes.open[here[pod.node]]]
        yield from _CLOSED.of(len(closed))
        for s in sets:
            for rule in self._rules(gang, s):
                yield Protection(f"has pods {rule}", f"have pods {rule}")
        yield from _MISPLACED.of(sum(pod.name in self.misplaced for pod, _ in pods))
        yield from _UNWELCOME.of(len(refused))
        together = self._moves and not self._many_homes and may_come_together(gang)
        if not (in_place or together or keeps_its_levels(gang, self._nodes)):
            said = "run in one domain of a level that"
            yield Protection(f"does not {said} it requires", f"do not {said} they require")
        if self._moves and adds_topology(gang, self._growing):
            said = "what pods that wait prefer to be near"
            yield Protection(f"is {said}", f"are {said}")

    def _rules(self, gang: PodGang, pod_set: PodSet) -> Iterator[str]:
        template = pod_set.template
        if template.same_pcie_nics:
            yield f"with {template.same_pcie_nics} network devices each"
        if not self._moves:
            return
        for what in template.unsupported:
            yield f"that use {what}, which is not supported"
        if template.required_reservation:
            yield "that require a reservation, which are not moved"
        if template.compute_domain:
            yield f"in ComputeDomain {template.compute_domain}, which are not moved"
        if template.ignores_reservations:
            yield "that ignore reservations, which are not moved"
        if template.required_anti_affinity and self._many_terms:
            yield "with required anti-affinity, as many others have, which are not moved"
        if binds_what_comes(pod_set) and (self._many_homes or not can_be_divided(gang)):
            what = "with required affinity" if template.required_affinity else "that are spread"
            yield f"{what}, which are not moved"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
