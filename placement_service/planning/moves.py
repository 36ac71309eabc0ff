"""Moves in an order in which every pod has room before it leaves.

The moves of one step break no rule once all earlier steps are done, while the pods still hold the
room that they leave. A gang moves in one step.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from placement_service.bounds.counting import Counting
from placement_service.bounds.shortages import Offers, lacks
from placement_service.entities.naming.pod_assignment import count_pods, name_pods
from placement_service.entities.planning import Move
from placement_service.entities.request import Binding, PodSet, Policy, Snapshot
from placement_service.entities.solution import Solution
from placement_service.formulation.devices.names import name_devices
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import Plan, from_solution, is_placed
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.plan_builder import Builder
from placement_service.planning import changes
from placement_service.planning.changes import Place
from placement_service.planning.remedy_case import Solver

#: Seconds below which no search is worth starting, and the part of the rest that one gets.
_SHORTEST: Final = 0.1
_SHARE: Final = 0.3


class Found(NamedTuple):
    """The moves of some pods, None where none were found; and whether it is proven that the pods
    fit nowhere, in any steps.
    """

    moves: tuple[Move, ...] | None
    refuted: bool


@dataclass(frozen=True, slots=True)
class Mover:
    """Finds moves for running pods that have to leave. `deadline` as in `time.monotonic`."""

    policy: Policy
    solver: Solver
    deadline: float

    def moves(self, shut: Snapshot, leaving: frozenset[str]) -> Found:
        """The moves of the pods that leave, by name; `shut` takes none where none may go."""
        moves = self.in_turns(shut, leaving)
        if moves is not None:
            return Found(moves, False)
        refuted = False
        for waiting in self._trials(shut, leaving):
            problem = formulate(waiting, self.policy)
            now = time.monotonic()
            until = now + _SHARE * max(0.0, self.deadline - now)
            found = first_answer(problem, deadline=until, minimums_only=True)
            plan = from_solution(problem, found)
            if not all(is_placed(gang, plan) for gang in problem.gangs):
                refuted = is_refuted(problem)
                if refuted or until - time.monotonic() < _SHORTEST:
                    continue
                found = self.solver.search(problem, found, deadline=until)
                plan = from_solution(problem, found)
                refuted = found.tiers[0].proven
            if all(is_placed(gang, plan) for gang in problem.gangs):
                bindings = name_pods(waiting, found.assignments)
                moves = self.in_turns(shut, leaving, {b.pod: b.node for b in bindings})
                if moves is not None:
                    return Found(moves, False)
                refuted = False
        return Found(None, refuted)

    def _trials(self, shut: Snapshot, leaving: frozenset[str]) -> Iterator[Snapshot]:
        """The pods that leave wait: first beside their present room, then without it, which does
        not help where all that leave are of one minimum and move at once.
        """
        yield changes.displaced(shut, leaving)
        minimums = {
            gang.name: any(group.min_replicas for group in gang.groups) for gang in shut.gangs
        }
        gangs = {b.gang for b in running(shut) if b.pod in leaving}
        whole = {b.pod for b in running(shut) if b.gang in gangs} == leaving
        if not (len(gangs) == 1 and whole and all(minimums[name] for name in gangs)):
            yield changes.released(shut, leaving)

    def in_turns(
        self, snapshot: Snapshot, leaving: frozenset[str], target: Mapping[str, str] | None = None
    ) -> tuple[Move, ...] | None:
        """The moves in steps: each step places the gangs that have room by then, on their `target`
        (node by pod), else as a first answer does. None if some have no room in the end.
        """
        home = {b.pod: b.node for b in running(snapshot)}
        moves: list[Move] = []
        for step in itertools.count(1):
            bindings = self._with_room(snapshot, leaving, target)
            if not bindings:
                break
            moves += (Move(step, b.pod, b.gang, home[b.pod], b.node) for b in bindings)
            leaving -= {b.pod for b in bindings}
            if not leaving:
                return tuple(moves)
            places = {b.pod: Place(b.node, b.devices) for b in bindings}
            snapshot = changes.moved(snapshot, places)
        return None

    def _with_room(
        self, snapshot: Snapshot, leaving: frozenset[str], target: Mapping[str, str] | None
    ) -> Sequence[Binding]:
        """Where leaving pods have room while all of them still hold their present room."""
        waiting = changes.displaced(snapshot, leaving)
        problem = formulate(waiting, self.policy)
        if target is None:
            found = first_answer(problem, deadline=self.deadline, minimums_only=True)
            plan = from_solution(problem, found)
            bindings: Sequence[Binding] = name_pods(waiting, found.assignments)
        else:
            bindings = _bindings(waiting, lambda s: [(p.name, target[p.name]) for p in s.pods])
            plan = adopted(problem, waiting, bindings)
        whole = {
            waiting.gangs[arrays.index].name
            for arrays in problem.pending
            if is_placed(arrays, plan)
        }
        return name_devices(waiting, self.policy, [b for b in bindings if b.gang in whole])


def running(snapshot: Snapshot) -> list[Binding]:
    """Where pods of gangs run, as far as their requests are told."""
    return _bindings(snapshot, lambda s: [(pod.name, pod.node) for pod in s.bound_pods])


def adopted(problem: Problem, snapshot: Snapshot, bindings: Sequence[Binding]) -> Plan:
    """What of a plan of whole gangs keeps the rules; `problem` is that of the snapshot."""
    plan = from_solution(problem, Solution(count_pods(snapshot, bindings), ()))
    return Builder(problem).adopt(plan)


def is_refuted(problem: Problem) -> bool:
    """Whether counting shows that not all gangs fit."""
    loosest = problem.loosest
    if loosest is None:
        return False
    counting = Counting(Topology(loosest))
    everyone = loosest.pending
    if not all(map(counting.fits_alone, everyone)):
        return True
    return any(True for _ in lacks(counting, everyone, Offers(counting, counting.room)))


def _bindings(
    snapshot: Snapshot, places: Callable[[PodSet], Iterable[tuple[str, str]]]
) -> list[Binding]:
    """Pods on nodes, as `places` says of each pod set."""
    return [
        Binding(pod, node, gang.name, group.name)
        for gang in snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        for pod, node in places(pod_set)
    ]
