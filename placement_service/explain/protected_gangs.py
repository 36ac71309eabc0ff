"""Running gangs that keep room which a waiting gang could have, and what protects them.

A waiting gang could have the room of gangs of lower priority, of those that its queue may reclaim
from, or of all that may be moved. Some of them must not be disturbed all the same: they are not
preemptible, a disruption budget covers them, they have not run long enough, their queue is not
reclaimable or the guaranteed amount of one says so, or they have something that keeps them
(`staying_gangs`). What is named was tried: without these gangs the waiting one fits beside all
others. There may be other sets, and smaller ones.

Rules of what runs about other pods count as if it stayed, and partitions and shares of GPUs that a
gang has as if it kept them; so where they matter nothing is named. Its host ports and its whole
GPUs come free with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.entities.deadline import OutOfTime
from placement_service.entities.eviction import DisruptionBudget, EvictionPolicy
from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import Snapshot
from placement_service.explain import wording as words
from placement_service.explain.running_rooms import Room, RunningRooms
from placement_service.explain.staying_gangs import Protection, StayingGangs
from placement_service.formulation.eviction_rights import (
    EvictionRights,
    GuaranteeLack,
    Winner,
)
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units, kept_by_demand
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.queues import UNITS_PER_GPU
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Trials of doing without one of the gangs found.
MAX_RETURNS = 4


#: Of gangs that may give way.
NONE = Protection("", "")

_NOT_PREEMPTIBLE = Protection("is not preemptible", "are not preemptible")
_YOUNG = Protection(
    "has not run for its minimum run time", "have not run for their minimum run times"
)
_NEVER_PREEMPTED = Protection(
    "stays, as the waiting gang never preempts", "stay, as the waiting gang never preempts"
)


class RunningGangs:
    """What is known of running gangs, whatever the plan: their rights, what they hold, and what
    keeps them.
    """

    def __init__(self, asked: Snapshot, problem: Problem) -> None:
        """`asked` is the snapshot of the request."""
        self.asked = asked
        self.problem = problem
        self.rights = EvictionRights(asked, problem.policy)
        self.moves = problem.policy.eviction is EvictionPolicy.REPACK
        self.staying = StayingGangs(asked, problem.policy, moves=self.moves)
        self.rooms = RunningRooms(asked, problem, self.staying.misplaced)


class ProtectedGangs:
    """The running gangs of one answer that stay though others could have their room."""

    def __init__(
        self,
        running: RunningGangs,
        snapshot: Snapshot,
        builder: Builder,
        residual: ResidualCapacity,
        plan: Plan,
        state: ReasonState,
        late: Callable[[], bool],
    ) -> None:
        """`snapshot` is that of the problem.

        `residual` holds the plan, which is that of the `state`; every call leaves it as it was. No
        more trials begin once it is `late`.
        """
        self._asked, self._problem = asked, problem = running.asked, running.problem
        self._rights, self._staying = running.rights, running.staying
        self._moves, self._rooms = running.moves, running.rooms
        self._builder = builder
        self._residual = residual
        self._plan = plan
        self._state = state
        self._late = late
        #: Those that stay, as places in the request: others go rather than later ones.
        self._stay = sorted(filter(self._stays, range(len(asked.gangs))), key=self._price)
        self._budgets = [
            _budget(source, asked, problem, plan, snapshot) for source in asked.disruption_budgets
        ]

    def key(self, gang: Gang) -> Winner:
        """Equal for gangs that may take from the same others."""
        return self._rights.winner(self._asked.gangs[gang.index])

    def of(self, gang: Gang) -> tuple[Reason, ...]:
        """One reason where protected gangs are in the way, and nothing else."""
        protected: dict[int, Protection] = {}
        able: list[int] = []
        winner = self.key(gang)
        for index in (i for i in self._stay if i != gang.index):
            protection = self._protection(gang, winner, index)
            if protection is NONE:
                able.append(index)
            elif protection is not None:
                protected[index] = protection
        # A moved gang needs another place; an evicted one does not.
        given = [] if self._moves else able
        allowed = [] if self._moves else self._allowed_extras(protected)
        if not protected or self._place_without(gang, given, allowed) is not None:
            return ()
        if given and self._place_without(gang, list(protected)) is not None:
            given = []
        chosen = self._in_the_way(gang, given, list(protected))
        if not chosen or not self._is_protected(chosen, given, protected):
            return ()
        return (self._reason(gang, {i: protected[i] for i in chosen}, beside=not given),)

    def _allowed_extras(self, protected: Mapping[int, Protection]) -> list[Room]:
        """No less than the room of the extras that budgets let go."""
        found = []
        for index, protection in protected.items():
            if all(budget.name != protection.subject for budget in self._budgets):
                continue
            budgets = [b.left for b in self._budgets if index in b.pods]
            groups = self._asked.gangs[index].groups
            extras = sum(max(0, g.running_count - g.min_replicas) for g in groups)
            count = min(extras, *budgets)
            if count > 0:
                found.append(self._rooms.of(index, count))
        return found

    def _in_the_way(self, gang: Gang, given: Sequence[int], protected: Sequence[int]) -> list[int]:
        """Some of the protected gangs without which, and without the `given`, a gang fits."""
        units = self._place_without(gang, [*given, *protected])
        if units is None:
            return []
        taken = np.zeros_like(self._residual.free)
        for d, node, count in units:
            taken[node] += count * self._problem.request[gang.demands[d].pod_class]
        short = taken - self._residual.free
        for index in given:
            room = self._rooms.of(index)
            short[room.nodes] -= room.amounts
        crowded = np.any(short > 0, axis=1)
        chosen = [i for i in protected if crowded[self._rooms.of(i).nodes].any()]
        if not chosen or self._place_without(gang, [*given, *chosen]) is None:
            return []
        for i in chosen[::-1][:MAX_RETURNS]:
            fewer = [k for k in chosen if k != i]
            if fewer and self._place_without(gang, [*given, *fewer]) is not None:
                chosen = fewer
        return chosen

    def _is_protected(
        self, chosen: Sequence[int], given: Sequence[int], protected: Mapping[int, Protection]
    ) -> bool:
        """Whether the gangs together could not go, even if budgets alone protect them."""
        names = {budget.name for budget in self._budgets}
        return any(protected[i].subject not in names for i in chosen) or any(
            sum(b.pods.get(i, 0) for i in (*chosen, *given)) > b.left for b in self._budgets
        )

    # --- protections ----------------------------------------------------------

    def _protection(self, gang: Gang, winner: Winner, index: int) -> Protection | None:
        """What keeps a running gang from giving way to another; None where that has no claim."""
        mine, theirs = self._asked.gangs[gang.index], self._asked.gangs[index]
        preempts = mine.priority > theirs.priority and not mine.never_preempts
        lack = None if self._moves or preempts else self._rights.lack_of_guarantee(mine, theirs)
        right = self._rights.kind(winner, self._rights.victim(theirs))
        held_back = mine.never_preempts and mine.priority > theirs.priority
        reclaims = not (self._moves or preempts or lack)
        withheld = reclaims and self._rights.is_withheld(mine, theirs)
        young = reclaims and self._rights.is_young(mine, theirs)
        if not (self._moves or preempts or lack or right or held_back or withheld or young):
            return None
        if theirs.not_preemptible:
            return _NOT_PREEMPTIBLE
        if withheld:
            queue = f"in queue {words.queue_word(theirs.queue)}, which is not reclaimable"
            return Protection(f"runs {queue}", f"run {queue}", theirs.queue)
        if not (self._moves or lack or right) and held_back:
            return _NEVER_PREEMPTED
        for budget in self._budgets:
            if index in budget.pods and budget.may_bind:
                return budget.protection
        if self._rights.keeps_its_minimum(theirs):
            return _YOUNG
        if self._moves and self._rights.runs_above_a_limit(theirs):
            queue = f"in queue {words.queue_word(theirs.queue)}, where more runs than a limit"
            return Protection(f"is {queue}", f"are {queue}", theirs.queue)
        if self._moves or right:
            if self._problem.gangs[index].home:
                return NONE
            return self._staying.why(theirs)
        return _of_guarantee(lack) if lack else _YOUNG

    def _stays(self, index: int) -> bool:
        """Whether pods of a gang run that the request tells, and the plan disturbs none."""
        if index not in self._plan and not self._problem.gangs[index].home:
            return any(s.bound_pods for g in self._asked.gangs[index].groups for s in g.pod_sets)
        home = self._problem.gangs[index].home
        return bool(home) and self._plan.get(GangIdx(index), ()) == home

    def _price(self, index: int) -> tuple[object, ...]:
        gang = self._asked.gangs[index]
        return gang.priority, sum(group.running_count for group in gang.groups), gang.name

    def _place_without(
        self, gang: Gang, others: Sequence[int], parts: Sequence[Room] = ()
    ) -> Units | None:
        """Where a trial places the gang when some others, and parts of them, are gone."""
        if self._late():
            return None
        mark = self._residual.mark()
        rooms = [*map(self._rooms.of, others), *parts]
        for room in rooms:
            self._residual.give(room.nodes, room.amounts)
        try:
            return self._builder.place(self._residual, gang)
        except OutOfTime:
            return None
        finally:
            self._residual.undo(mark)
            for room in rooms:
                self._residual.give(room.nodes, -room.amounts)

    # --- words ----------------------------------------------------------------

    def _reason(self, gang: Gang, chosen: Mapping[int, Protection], *, beside: bool) -> Reason:
        """`beside`: it fits beside all others, and not only where others give way, too."""
        own = self._asked.gangs[gang.index]
        alike: dict[Protection, list[str]] = {}
        for index, protection in chosen.items():
            source = self._asked.gangs[index]
            name = f"{words.gang_word(source.name, own.name)} (priority {source.priority})"
            alike.setdefault(protection, []).append(name)
        said = "; ".join(
            f"gang {names[0]} {protection.one}"
            if len(names) == 1
            else f"gangs {words.listed(names)} {protection.several}"
            for protection, names in alike.items()
        )
        them = "it" if len(chosen) == 1 else "them"
        others = "" if beside else " where gangs that may give way do"
        subjects = {protection.subject for protection in alike}
        alone = self._state is ReasonState.EMPTY_QUEUE
        said = f"even with no other gang waiting, {said}" if alone else said
        return Reason(
            ReasonCode.OUTCOMPETED,
            f"{said}; without {them} the gang would fit{others}; "
            f"its own priority is {own.priority}.",
            state=self._state,
            subject=subjects.pop() if len(subjects) == 1 else "",
        )


@dataclass(frozen=True, slots=True)
class _Budget:
    """A disruption budget: how many pods of which gangs it covers, and may still go."""

    name: str
    allowed: int
    left: int
    pods: Mapping[int, int]

    @property
    def may_bind(self) -> bool:
        """Whether more could go than it allows."""
        return sum(self.pods.values()) > self.left

    @property
    def protection(self) -> Protection:
        some = {0: "no eviction", 1: "1 eviction"}.get(self.allowed, f"{self.allowed} evictions")
        budget = f"in disruption budget {self.name.rpartition('/')[2]}, which allows {some}"
        return Protection(f"is {budget}", f"are {budget}", self.name)


def _budget(
    source: DisruptionBudget, asked: Snapshot, problem: Problem, plan: Plan, snapshot: Snapshot
) -> _Budget:
    """A budget and the pods of it that run; `left` is what it allows beside a plan."""
    pods: dict[int, int] = {}
    for index, gang in enumerate(asked.gangs):
        covered = sum(
            len(s.bound_pods)
            for group in gang.groups
            for s in group.pod_sets
            if s.bound_pods and source.matches(gang.namespace, s.template.labels)
        )
        if covered:
            pods[index] = covered
    gone = 0
    for open_gang in (problem.gangs[index] for index in pods):
        kept = kept_by_demand(open_gang, plan.get(open_gang.index, ()))
        request = snapshot.gangs[open_gang.index]
        for home in open_gang.home:
            member = open_gang.demands[home.demand].members[0]
            labels = request.groups[member.group].pod_sets[member.pod_set].template.labels
            if source.matches(request.namespace, labels):
                gone += home.units * member.pods - kept.pop(home.demand, 0)
    allowed = max(0, source.allowed)
    return _Budget(source.name, allowed, allowed - gone, pods)


def _of_guarantee(lack: GuaranteeLack) -> Protection:
    queue = words.queue_word(lack.queue)
    guaranteed, used, asked = (
        f"{amount / UNITS_PER_GPU:g}" for amount in (lack.guaranteed, lack.used, lack.asked)
    )
    if lack.of_victim:
        text = f"in queue {queue}, which uses {used} of the {guaranteed} GPUs guaranteed to it"
        return Protection(f"runs {text}", f"run {text}", lack.queue)
    text = (
        f"could be reclaimed only within the {guaranteed} GPUs guaranteed to queue {queue}, "
        f"which uses {used}, and the gang asks for {asked}"
    )
    if lack.used + lack.asked <= lack.guaranteed:
        text += "; gangs that come first ask for the rest"
    return Protection(text, text, lack.queue)
