"""Which gangs reclaim, and between which queues."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodGang
from placement_service.judge.outcome import EvictedPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.preempting import (
    lacks_run_time,
    loses_its_minimum,
    may_preempt,
)
from placement_service.judge.rules.queues import Usage, above, queue_amount


class Compared(NamedTuple):
    """The first two queues that differ on the ways down to those of two gangs."""

    mine: str
    theirs: str


def compared(plan: Plan, one: PodGang, other: PodGang) -> Compared | None:
    """The queues that decide whether a gang may reclaim from another; None where none differ."""
    ways = [[q.name for q in above(plan.queues, gang.queue)][::-1] for gang in (one, other)]
    return next((Compared(a, b) for a, b in zip(*ways, strict=False) if a != b), None)


def run_time_before_reclaim(plan: Plan, pair: Compared | None, gang: PodGang) -> int:
    """How long the minimum of a gang runs before it is reclaimed, in seconds: as long as it says
    itself, and as long as its queue of the two that are compared says.
    """
    own = gang.minimum_run_time_before_reclaim
    return (
        own if pair is None else max(own, plan.queues[pair.theirs].minimum_run_time_before_reclaim)
    )


class Reclaiming:
    """The gangs that reclaim, for which queues, and from whom each may.

    An eviction names one gang, but the room of a pod may serve several. So those count, too, that
    share a node with a reclaimed pod and might be named, the most important and oldest first, while
    their queues stay within what is guaranteed to them with all that reclaim for them.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: By queue.
        self._gangs = takers(plan)
        if not self._gangs:
            return
        self._usage = Usage(plan, fixed=False)
        self._guaranteed = {
            queue.name: in_millis(queue.guaranteed).get(GPUS, 0) for queue in plan.snapshot.queues
        }
        self._add_others()

    def may_use(self, gang: PodGang, victim: EvictedPod) -> bool:
        """Whether a gang is named for a reclaimed pod, or might be."""
        if victim.eviction.kind is not EvictionKind.RECLAIM:
            return False
        if victim.eviction.for_gang == gang.name:
            return True
        if not self._gangs:
            # Where nobody may reclaim, this pod is named as reclaimed against the rules.
            return False
        queue = self._queue_for(gang, victim)
        return queue is not None and gang.name in self._gangs.get(queue, ())

    def _queue_for(self, gang: PodGang, victim: EvictedPod) -> str | None:
        """The queue that is below its guarantee, where that of the victim is above its own."""
        pair = compared(self._plan, gang, victim.gang)
        if (
            pair is not None
            and self._usage.of(pair.theirs, GPUS) > self._guaranteed[pair.theirs]
            and self._usage.of(pair.mine, GPUS) < self._guaranteed[pair.mine]
            and not self._is_young(pair, victim.gang)
        ):
            return pair.mine
        return None

    def _is_young(self, pair: Compared, gang: PodGang) -> bool:
        """Whether a gang loses its minimum before others may reclaim that."""
        seconds = run_time_before_reclaim(self._plan, pair, gang)
        loses = loses_its_minimum(self._plan.outcome.gang[gang.name])
        return loses and lacks_run_time(self._plan, gang, seconds)

    def _add_others(self) -> None:
        plan = self._plan
        gangs = {gang.name: gang for gang in plan.snapshot.gangs}
        asked = asked_by_gang(plan)
        now = plan.snapshot.as_of or 0

        def turn(name: str) -> tuple[int, int]:
            created = gangs[name].created
            return -gangs[name].priority, now if created is None else created

        unnamed = self._unnamed()
        for name in sorted(unnamed, key=turn):
            for mine in sorted(unnamed[name]):
                reclaim = self._gangs.setdefault(mine, set())
                if name in reclaim:
                    continue
                then = self._usage.of(mine, GPUS) + sum(asked[one] for one in (*reclaim, name))
                if then <= self._guaranteed[mine]:
                    reclaim.add(name)

    def _unnamed(self) -> Mapping[str, set[str]]:
        """Gangs with new pods where pods were reclaimed that they could not have preempted, by
        name, and for which queues they could have reclaimed these.
        """
        found: defaultdict[str, set[str]] = defaultdict(set)
        for node, pods in self._plan.new_by_node:
            gone = self._plan.evicted_by_node.get(node.name, ())
            reclaimed = [v for v in gone if v.eviction.kind is EvictionKind.RECLAIM]
            for gang in {pod.gang.name: pod.gang for pod in pods}.values() if reclaimed else ():
                found[gang.name] |= {
                    queue
                    for victim in reclaimed
                    if not may_preempt(self._plan, gang, victim)
                    and (queue := self._queue_for(gang, victim)) is not None
                }
        return found


def takers(plan: Plan) -> dict[str, set[str]]:
    """By queue the gangs that evictions name, for which it reclaims."""
    gangs = {gang.name: gang for gang in plan.snapshot.gangs}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for victim in plan.evicted:
        winner = gangs.get(victim.eviction.for_gang)
        if victim.eviction.kind is EvictionKind.RECLAIM and winner is not None:
            pair = compared(plan, winner, victim.gang)
            if pair is not None:
                found[pair.mine].add(winner.name)
    return dict(found)


def asked_by_gang(plan: Plan) -> Counter[str]:
    """The GPUs that the new pods of each gang ask for, in thousandths."""
    found: Counter[str] = Counter()
    for pod in plan.new:
        if not pod.moved:
            found[pod.gang.name] += queue_amount(plan, pod.template, pod.node, GPUS)
    return found
