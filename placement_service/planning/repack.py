"""Fewest running pods to move so that whole domains hold no GPU pod.

1. A small model says which domains cost fewest pods to empty, wherever these go: a bound.
2. A plan says whether the pods that have to move fit elsewhere: step by step into room that is free
   by then; else all at once into room that others leave, if an order of steps is found for that.
3. Where it does not, the next set of domains is tried. A cheaper set that was refused bounds what
   any plan costs: with moves of further gangs it would cost more.
4. Where that leaves fewer moves possible, such sets are tried with moves of further gangs.

A gang moves whole, in one step, or only extras of it do. What is proven is about such moves; a gang
with extras that leaves pod by pod makes none of them.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, cast

import numpy as np

from placement_service.bounds.added_nodes import NEVER
from placement_service.entities.nodes import Ints
from placement_service.entities.planning import Bounded, Repacking
from placement_service.entities.request import PodGang, Policy, Snapshot
from placement_service.formulation.eviction.running_rules import with_all_terms
from placement_service.formulation.formulate import formulate
from placement_service.formulation.open_gangs import may_come_again
from placement_service.formulation.planning_questions import (
    EmptyingAnswer,
    EmptyingQuestion,
    Inside,
    MovableGang,
)
from placement_service.planning import changes
from placement_service.planning.further_moves import further_moves
from placement_service.planning.leavers import is_protected
from placement_service.planning.moves import Mover, adopted, is_refuted, running
from placement_service.planning.remedy_case import Solver
from placement_service.planning.spared_room import SparedRoom
from placement_service.planning.trial_snapshot import for_fitting

_FUNCTION: Final = "placement_service.cp_sat.planning.emptying:fewest_leaving"

#: The part of the time after which refused sets are tried with moves of further gangs, how many of
#: them, and the part of the rest that each gets.
_DIRECT_SHARE: Final = 0.7
_MOST_DETOURS: Final = 8
_SHARE: Final = 0.3


def repack(
    snapshot: Snapshot,
    policy: Policy,
    level: str,
    count: int,
    *,
    solver: Solver,
    deadline: float,
    report: Callable[[int], None] = lambda bound: None,
) -> Repacking:
    """Frees `count` domains of `level`; those that are already free count.

    Waiting gangs are ignored. The level must have so many domains. `report` is told the least
    number of pods that have to move, as it rises.
    """
    policy = for_fitting(policy)
    search = _Search(_running_only(snapshot), policy, level, count, solver, deadline)
    return search.run(report)


@dataclass(frozen=True, slots=True)
class _Gang:
    """A running gang, its GPU pods by domain and group, and the domains of its other pods."""

    name: str
    arrays: MovableGang
    gpu_pods: dict[int, dict[int, list[str]]]
    without_gpus: frozenset[int]
    pods: tuple[str, ...]

    def leaving(self, freed: Collection[int], *, whole: bool) -> tuple[str, ...] | None:
        """The pods that move when these domains are freed; None when they must not."""
        found: dict[int, list[str]] = {}
        for domain in freed:
            for group, pods in self.gpu_pods.get(domain, {}).items():
                found.setdefault(group, []).extend(pods)
        if not found:
            return ()
        few = all(len(pods) <= self.arrays.spare[group] for group, pods in found.items())
        if few and self.arrays.moves_extras and not (whole and self.arrays.moves_whole):
            return tuple(pod for pods in found.values() for pod in pods)
        return self.pods if self.arrays.moves_whole else None


class _Search:
    """Tries sets of domains in order of cost, and keeps what is proven about cheaper ones."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        level: str,
        count: int,
        solver: Solver,
        deadline: float,
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._count = count
        self._solver = solver
        self._deadline = deadline
        self._mover = Mover(policy, solver, deadline)
        values = snapshot.columns.label(level)
        self._names = sorted({value for value in values if value is not None})
        number = {name: i for i, name in enumerate(self._names)}
        self._domain = np.array([-1 if v is None else number[v] for v in values], dtype=np.int64)
        self._room = SparedRoom(snapshot, policy, self._domain, len(self._names))
        self._gangs = [self._gang(gang) for gang in snapshot.gangs]
        #: What any plan costs at least that frees a set: one that was refused, and any untried one.
        self._refused: dict[tuple[int, ...], int] = {}
        self._untried = 0
        #: Refused sets that further moves may make possible: pods with whole gangs, domains.
        self._retries: list[tuple[int, tuple[int, ...]]] = []

    def run(self, report: Callable[[int], None]) -> Repacking:
        """The repacking with fewest pods that was found."""
        best = self._directly(report)
        if best.pods.impossible:
            return best
        for chosen in sorted(self._refused, key=lambda c: (self._refused[c], c))[:_MOST_DETOURS]:
            value = NEVER if best.pods.value is None else best.pods.value
            if self._refused[chosen] >= value or time.monotonic() >= self._deadline:
                break
            found = self._detour(chosen)
            if found is not None and len(found.moves) < value:
                best = found
        if self._bound >= NEVER and best.pods.value is None:
            return Repacking((), (), Bounded(None, None, impossible=True))
        if best.pods.value is not None:
            value = best.pods.value
            return replace(best, pods=Bounded(value, min(self._bound, value)))
        return replace(best, pods=Bounded(None, self._bound or None))

    @property
    def _bound(self) -> int:
        """What any plan costs at least, as far as is known."""
        return min(self._untried, *self._refused.values(), NEVER)

    def _directly(self, report: Callable[[int], None]) -> Repacking:
        """The fewest pods where only those move that have to leave; their gangs as a whole."""
        strangers = set(self._with_strangers().tolist())
        able = tuple(d for d in range(len(self._names)) if d not in strangers)
        question = EmptyingQuestion(
            tuple(gang.arrays for gang in self._gangs),
            able,
            self._count,
            tuple(self._room.of(able)),
        )
        now = time.monotonic()
        until = now + _DIRECT_SHARE * (self._deadline - now)
        while time.monotonic() < (until if self._refused else self._deadline):
            answer = self._solver.call(_FUNCTION, question, deadline=self._deadline)
            if answer is None:
                break
            least = cast("EmptyingAnswer", answer)
            self._untried = least.bound
            found = self._retried(least.bound)
            if found is not None:
                return found
            if self._bound >= NEVER:
                # No set is left, and each that was refused is refused for good.
                return Repacking((), (), Bounded(None, None, impossible=True))
            if least.domains is None:
                break
            # The cost of a refused set with further moves counts as well.
            report(self._bound)
            found = self._attempt(tuple(sorted(least.domains)), least.bound, whole=False)
            if found is not None:
                return found
            question = replace(question, forbidden=(*question.forbidden, least.domains))
        return self._retried(NEVER) or Repacking((), (), Bounded(None, None))

    def _detour(self, chosen: tuple[int, ...]) -> Repacking | None:
        """The repacking that frees this set with moves of further gangs."""
        leaving = self._leaving(chosen, whole=False)
        now = time.monotonic()
        until = now + _SHARE * (self._deadline - now)
        if leaving is None:
            return None
        shut = self._shut(chosen)
        solver = self._solver
        found = further_moves(shut, leaving, self._policy, solver=solver, deadline=until)
        self._refused[chosen] = max(self._refused[chosen], found.least)
        if found.target is None or not self._budgets_allow(found.target):
            return None
        moves = self._mover.in_turns(shut, frozenset(found.target), found.target)
        if moves is None:
            return None
        names = tuple(self._names[d] for d in chosen)
        return Repacking(moves, names, Bounded(len(moves), None))

    def _retried(self, cost: int) -> Repacking | None:
        """The result of retries that cost no more."""
        while self._retries and self._retries[0][0] <= cost:
            dearer, chosen = heapq.heappop(self._retries)
            found = self._attempt(chosen, dearer, whole=True)
            if found is not None:
                return found
        return None

    def _attempt(self, chosen: tuple[int, ...], cost: int, *, whole: bool) -> Repacking | None:
        """The repacking that frees this set; with `whole` it moves only whole gangs."""
        leaving = self._leaving(chosen, whole=whole)
        if leaving is None or not self._budgets_allow(leaving):
            return None
        if not whole and not self._have_room_outside(chosen, leaving):
            return None
        names = tuple(self._names[d] for d in chosen)
        if not leaving:
            return Repacking((), names, Bounded(0, 0))
        shut = self._shut(chosen)
        moves, refuted = self._mover.moves(shut, leaving)
        if moves is not None:
            return Repacking(moves, names, Bounded(len(moves), None))
        if refuted and self._is_hopeless(shut, chosen):
            return None
        # Refused as it is, it may be possible with further moves, which cost more.
        least = cost + self._further(chosen) if refuted else cost
        self._refused[chosen] = min(self._refused.get(chosen, NEVER), least)
        everything = self._leaving(chosen, whole=True)
        if not whole and everything is not None and len(everything) > len(leaving):
            heapq.heappush(self._retries, (len(everything), chosen))
        return None

    def _shut(self, chosen: tuple[int, ...]) -> Snapshot:
        """The snapshot in which these domains take no pods."""
        return changes.cordoned(
            self._snapshot, np.flatnonzero(np.isin(self._domain, chosen)).tolist()
        )

    def _further(self, chosen: Collection[int]) -> int:
        """The least pods of any further move: a whole gang, or one of its extras."""
        least = NEVER
        for gang in self._gangs:
            arrays = gang.arrays
            leaving = len(gang.leaving(chosen, whole=False) or ())
            stays = leaving < arrays.pods
            if stays and arrays.moves_extras and any(arrays.spare):
                return 1
            if stays and arrays.moves_whole:
                least = min(least, arrays.pods - leaving)
        return least

    def _is_hopeless(self, shut: Snapshot, chosen: Collection[int]) -> bool:
        """Whether counting shows that no further moves make room.

        A gang that need not move asks for nothing here, even where it could not be placed again on
        its nodes.
        """
        waiting: set[str] = set()
        absent: dict[str, tuple[str, ...]] = {}
        for gang in self._gangs:
            if not (gang.arrays.moves_whole or gang.arrays.moves_extras):
                continue
            leaving = gang.leaving(chosen, whole=False) or ()
            whole = len(leaving) == len(gang.pods)
            if (whole or gang.name in self._replaceable) and gang.without_gpus.isdisjoint(chosen):
                waiting.update(gang.pods)
            else:
                absent[gang.name] = gang.pods
        gone = frozenset(pod for pods in absent.values() for pod in pods)
        less = changes.without_pods(shut, gone, absent.keys())
        return is_refuted(formulate(changes.released(less, waiting), self._policy))

    @cached_property
    def _replaceable(self) -> frozenset[str]:
        """Gangs whose pods, if they moved, might all be placed again where they run."""
        pods = frozenset(pod for gang in self._gangs for pod in gang.pods)
        waiting = changes.released(self._snapshot, pods)
        problem = formulate(waiting, self._policy)
        home = adopted(problem, waiting, running(self._snapshot))
        return frozenset(waiting.gangs[i].name for i in home)

    # --- what runs ----------------------------------------------------------------

    def _leaving(self, chosen: Collection[int], *, whole: bool) -> frozenset[str] | None:
        pods: set[str] = set()
        for gang in self._gangs:
            leaving = gang.leaving(chosen, whole=whole)
            if leaving is None:
                return None
            pods.update(leaving)
        return frozenset(pods)

    def _budgets_allow(self, leaving: Collection[str]) -> bool:
        for budget in self._snapshot.disruption_budgets:
            covered = (
                pod.name in leaving
                for gang in self._snapshot.gangs
                for group in gang.groups
                for pod_set in group.pod_sets
                if budget.matches(gang.namespace, pod_set.template.labels)
                for pod in pod_set.bound_pods
            )
            if sum(covered) > budget.allowed:
                return False
        return True

    def _gang(self, gang: PodGang) -> _Gang:
        rows = self._snapshot.columns.row_of
        gpu_pods: dict[int, dict[int, list[str]]] = {}
        without_gpus: set[int] = set()
        pods: list[str] = []
        for number, group in enumerate(gang.groups):
            for pod_set in group.pod_sets:
                asks = self._policy.has_gpus(pod_set.template)
                for pod in pod_set.bound_pods:
                    uses = asks or self._policy.gpus(pod.holds(pod_set.template)) > 0
                    pods.append(pod.name)
                    domain = int(self._domain[rows[pod.node]]) if pod.node in rows else -1
                    if not uses:
                        without_gpus.add(domain)
                    elif domain >= 0:
                        gpu_pods.setdefault(domain, {}).setdefault(number, []).append(pod.name)
        known = not any(group.fixed_pods for group in gang.groups)
        movable = known and not gang.not_preemptible and may_come_again(gang)
        arrays = MovableGang(
            len(pods),
            tuple(
                Inside(domain, group, len(names))
                for domain, groups in gpu_pods.items()
                for group, names in groups.items()
            ),
            tuple(_spare(gang, group.name) for group in gang.groups),
            moves_whole=movable
            and not is_protected(gang, self._snapshot)
            and self._room.may_hold(gang),
            moves_extras=movable,
        )
        return _Gang(gang.name, arrays, gpu_pods, frozenset(without_gpus), tuple(pods))

    def _have_room_outside(self, chosen: Sequence[int], leaving: frozenset[str]) -> bool:
        """Whether gangs that have to leave some domains whole may find room outside these."""
        gone = {gang.name for gang in self._gangs if leaving >= {*gang.pods}}
        whole = (
            gang
            for gang in self._snapshot.gangs
            if gang.name in gone and any(group.min_replicas for group in gang.groups)
        )
        return self._room.may_hold_outside(chosen, whole)

    def _with_strangers(self) -> Ints:
        """Domains with GPU pods that belong to no gang, or whose requests are unknown."""
        nodes = self._snapshot.columns
        known = np.zeros(len(nodes), dtype=np.int64)
        for gang in self._snapshot.gangs:
            for group in gang.groups:
                for pod_set in group.pod_sets:
                    for pod in pod_set.bound_pods:
                        if pod.node in nodes.row_of:
                            units = self._policy.gpus(pod.holds(pod_set.template))
                            known[nodes.row_of[pod.node]] += units
        used = nodes.total_requested(r for r in nodes.requested if self._policy.gpus({r: 1}))
        found = self._domain[used > known]
        return np.unique(found[found >= 0])


def _spare(gang: PodGang, group: str) -> int:
    """Pods of a group beyond its minimum, as it was asked for."""
    (found,) = (one for one in gang.groups if one.name == group)
    return max(0, found.running_count - found.min_replicas)


def _running_only(snapshot: Snapshot) -> Snapshot:
    """The snapshot without pods that wait, and without gangs of which nothing runs.

    Any of the others may move, so all that they keep away counts, but those that lack pods of their
    minimum: pods that move are new ones, and a gang gets these only with its minimum.
    """
    gangs = []
    for gang in changes.only(snapshot, ()).gangs:
        groups = tuple(
            # Gangs that do not run whole stay as they are.
            replace(g, min_replicas=min(g.min_replicas, g.running_count), gated_count=0)
            for g in gang.groups
        )
        stays = gang.not_preemptible or gang.is_pending
        gangs.append(
            replace(gang, groups=groups, uninitialized=False, unsupported=(), not_preemptible=stays)
        )
    return with_all_terms(replace(snapshot, gangs=tuple(gangs)))
