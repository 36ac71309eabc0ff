"""Room that reservations hold and a gang could have used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import PodGang, PodSet, PodTemplate, Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import Headroom, Kinds
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.formulate import formulate
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.reservation_owners import Ownership
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: What is wrong with a reservation that pods require, the worst first.
_NOT_THERE = "is not available"
_NOT_FOR_THEM = "does not take them"
_NO_ROOM = "has no room for them"


class ReservationReasons:
    """Counts the same gangs on the same nodes, as if nothing were held. What fits their devices is
    tried out until the deadline.
    """

    def __init__(
        self, snapshot: Snapshot, problem: Problem, rules: NodeRules, deadline: float
    ) -> None:
        self._deadline = deadline
        self._snapshot = snapshot
        self._policy = problem.policy
        self._rules = rules

    def of(self, gang: Gang) -> tuple[Reason, ...]:
        """Why counting finds no room for a gang, if the reason is what reservations hold."""
        source = self._snapshot.gangs[gang.index]
        waiting = [s for group in source.groups for s in group.pod_sets if s.pods]
        wanted = [s for s in waiting if s.template.required_reservation is not None]
        if wanted:
            return (self._of_required(source, wanted),)
        mine = self._names_of_own(gang)
        near = self._near(waiting)
        others = [r for r in near if r.name not in mine]
        own = [r for r in near if r.name in mine and r.restricted]
        if others:
            own = [r for r in own if any(_is_too_small(r, s.template) for s in waiting)]
        if not (others or own) or self._is_short_without(gang):
            return ()
        said = ((own, "and may not be topped up"), (others, "for others"))
        return tuple(self._reason(held, why) for held, why in said if held)

    def _of_required(self, source: PodGang, wanted: Sequence[PodSet]) -> Reason:
        """`wanted` are the sets of a gang that require a reservation."""
        name = next(
            (r.name for s in wanted if (r := s.template.required_reservation) and r.name), ""
        )
        which = words.reservation_word(name) if name else "one that it selects"
        lacks = {self._lack(source, s) for s in wanted}
        lack = next(text for text in (_NOT_THERE, _NOT_FOR_THEM, _NO_ROOM) if text in lacks)
        text = f"its pods run in a reservation only ({which}), which {lack}."
        return Reason(ReasonCode.RESERVED, text, subject=name)

    def _lack(self, source: PodGang, pods: PodSet) -> str:
        """What is wrong with the reservations that pods require."""
        if self._ownership.of(source, pods):
            return _NO_ROOM
        required = pods.template.required_reservation
        there = any(required and required.matches(r) for r in self._snapshot.reservations)
        return _NOT_FOR_THEM if there else _NOT_THERE

    def _reason(self, held: Sequence[Reservation], why: str) -> Reason:
        nodes = len({r.node for r in held})
        gpus = sum(self._policy.gpus(r.held) for r in held)
        what = words.gpus(gpus) if gpus else "room"
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        names = words.listed([words.reservation_word(r.name) for r in held])
        noun = "reservation {} holds" if len(held) == 1 else "reservations {} hold"
        text = f"{noun.format(names)} {what} on {where} {why}; without "
        text += f"{'it' if len(held) == 1 else 'them'} there may be room."
        subject = held[0].name if len(held) == 1 else ""
        return Reason(ReasonCode.RESERVED, text, state=ReasonState.EMPTY_QUEUE, subject=subject)

    def _names_of_own(self, gang: Gang) -> set[str]:
        """The reservations that waiting pods of a gang may use."""
        source = self._snapshot.gangs[gang.index]
        return {
            self._snapshot.reservations[i].name
            for group in source.groups
            for s in group.pod_sets
            if s.pods
            for i in self._ownership.of(source, s)
        }

    def _near(self, waiting: Iterable[PodSet]) -> list[Reservation]:
        """The reservations on nodes that waiting pods could use."""
        rows = self._snapshot.columns.row_of
        able = np.zeros(len(self._snapshot.columns), dtype=bool)
        for s in waiting:
            able |= self._rules.open(s.template)
        return [r for r in self._snapshot.reservations if r.node in rows and able[rows[r.node]]]

    @cached_property
    def _ownership(self) -> Ownership:
        return Ownership(self._snapshot)

    def _is_short_without(self, gang: Gang) -> bool:
        shortfalls, headroom, problem = self._open
        return bool(shortfalls.failures(problem.gangs[gang.index], headroom))

    @cached_property
    def _open(self) -> tuple[Shortfalls, Headroom, Problem]:
        snapshot = replace(self._snapshot, reservations=())
        prepared = prepare(snapshot, self._policy, until=self._deadline)
        problem = formulate(snapshot, self._policy, prepared)
        kinds = Kinds(snapshot, problem, NodeRules(snapshot))
        return Shortfalls(kinds), Headroom(kinds, ResidualCapacity(problem)), problem


def _is_too_small(reservation: Reservation, template: PodTemplate) -> bool:
    """Whether a pod asks for more than is held of what is held."""
    return any(template.requests.get(r, 0) > amount for r, amount in reservation.held.items())
