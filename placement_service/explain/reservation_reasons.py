"""Room that reservations hold and a gang could have used."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import Snapshot
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import Headroom, Kinds
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.residual_capacity import ResidualCapacity


class ReservationReasons:
    """Counts the same gangs on the same nodes, with nothing held for anybody."""

    def __init__(self, snapshot: Snapshot, problem: Problem) -> None:
        self._snapshot = snapshot
        self._policy = problem.policy

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
        if not self._snapshot.reservations or self._is_short_without(gang):
            return ()
        held = self._snapshot.reservations
        nodes = len({r.node for r in held})
        gpus = sum(self._policy.gpus(r.held) for r in held)
        what = f"{gpus} GPUs" if gpus else "room"
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        text = f"reservations hold {what} on {where} for others; without them there may be room."
        subject = held[0].name if len(held) == 1 else ""
        return (Reason(ReasonCode.RESERVED, text, state=ReasonState.EMPTY_QUEUE, subject=subject),)

    def _is_short_without(self, gang: Gang) -> bool:
        shortfalls, headroom, problem = self._open
        return bool(shortfalls.failures(problem.gangs[gang.index], headroom))

    @cached_property
    def _open(self) -> tuple[Shortfalls, Headroom, Problem]:
        snapshot = replace(self._snapshot, reservations=())
        problem = formulate(snapshot, self._policy)
        kinds = Kinds(snapshot, problem, NodeRules(snapshot))
        return Shortfalls(kinds), Headroom(kinds, ResidualCapacity(problem)), problem
