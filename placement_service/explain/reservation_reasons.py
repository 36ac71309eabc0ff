"""Room that reservations hold and a gang could have used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property

import numpy as np

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import Headroom, Kinds
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.reservation_owners import Ownership
from placement_service.heuristic.residual_capacity import ResidualCapacity


class ReservationReasons:
    """Counts the same gangs on the same nodes, as if nothing were held."""

    def __init__(self, snapshot: Snapshot, problem: Problem, rules: NodeRules) -> None:
        self._snapshot = snapshot
        self._policy = problem.policy
        self._rules = rules

    def of(self, gang: Gang) -> tuple[Reason, ...]:
        """Why counting finds no room for a gang, if the reason is what reservations hold."""
        source = self._snapshot.gangs[gang.index]
        wanted = [
            s.template.required_reservation
            for group in source.groups
            for s in group.pod_sets
            if s.pods and s.template.required_reservation is not None
        ]
        if wanted:
            name = next((w.name for w in wanted if w.name), "")
            which = words.reservation_word(name) if name else "one that it selects"
            text = f"its pods run in a reservation only ({which}), which has no room for them."
            return (Reason(ReasonCode.RESERVED, text, subject=name),)
        mine = self._names_of_own(gang)
        held = self._in_the_way(gang, mine)
        if not held or self._is_short_without(gang):
            return ()
        nodes = len({r.node for r in held})
        gpus = sum(self._policy.gpus(r.held) for r in held)
        what = words.gpus(gpus) if gpus else "room"
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        names = words.listed([words.reservation_word(r.name) for r in held])
        noun = "reservation {} holds" if len(held) == 1 else "reservations {} hold"
        why = "and may not be topped up" if held[0].name in mine else "for others"
        text = f"{noun.format(names)} {what} on {where} {why}; without "
        text += f"{'it' if len(held) == 1 else 'them'} there may be room."
        subject = held[0].name if len(held) == 1 else ""
        return (Reason(ReasonCode.RESERVED, text, state=ReasonState.EMPTY_QUEUE, subject=subject),)

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

    def _in_the_way(self, gang: Gang, mine: Collection[str]) -> list[Reservation]:
        """Those of others on nodes that the gang could use, else what is its own and restricted."""
        source = self._snapshot.gangs[gang.index]
        rows = self._snapshot.columns.row_of
        able = np.zeros(len(self._snapshot.columns), dtype=bool)
        for group in source.groups:
            for s in group.pod_sets:
                if s.pods:
                    able |= self._rules.open(s.template)
        near = [r for r in self._snapshot.reservations if r.node in rows and able[rows[r.node]]]
        others = [r for r in near if r.name not in mine]
        return others or [r for r in near if r.restricted]

    @cached_property
    def _ownership(self) -> Ownership:
        return Ownership(self._snapshot)

    def _is_short_without(self, gang: Gang) -> bool:
        shortfalls, headroom, problem = self._open
        return bool(shortfalls.failures(problem.gangs[gang.index], headroom))

    @cached_property
    def _open(self) -> tuple[Shortfalls, Headroom, Problem]:
        snapshot = replace(self._snapshot, reservations=())
        problem = formulate(snapshot, self._policy)
        kinds = Kinds(snapshot, problem, NodeRules(snapshot))
        return Shortfalls(kinds), Headroom(kinds, ResidualCapacity(problem)), problem
