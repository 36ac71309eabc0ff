"""Which gangs reclaim, and between which queues."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodGang
from placement_service.judge.outcome import EvictedPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.queues import Usage, above, queue_amount


class Compared(NamedTuple):
    """The first two queues that differ on the ways down to those of two gangs."""

    mine: str
    theirs: str


def compared(plan: Plan, one: PodGang, other: PodGang) -> Compared | None:
    """The queues that decide whether a gang may reclaim from another; None where none differ."""
    ways = [[q.name for q in above(plan.queues, gang.queue)][::-1] for gang in (one, other)]
    return next((Compared(a, b) for a, b in zip(*ways, strict=False) if a != b), None)


class Reclaiming:
    """The gangs that reclaim, and from whom each may.

    An eviction names one gang, but the room of a pod may serve several. So those count, too, that
    share a node with a reclaimed pod and might be named, the most important and oldest first, while
    their queues stay within what is guaranteed to them with all that reclaim.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        named = {e.for_gang for e in plan.evictions if e.kind is EvictionKind.RECLAIM}
        self._gangs: set[str] = named
        if not named:
            return
        self._usage = Usage(plan, fixed=False)
        self._guaranteed = {
            queue.name: in_millis(queue.guaranteed).get(GPUS, 0) for queue in plan.snapshot.queues
        }
        self._gangs = named | self._others(_unnamed(plan, named))

    def may_use(self, gang: PodGang, victim: EvictedPod) -> bool:
        """Whether a gang that reclaims is named for a reclaimed pod, or might be."""
        if victim.eviction.kind is not EvictionKind.RECLAIM or gang.name not in self._gangs:
            return False
        named = victim.eviction.for_gang == gang.name
        return named or self._queue_for(gang, victim) is not None

    def _queue_for(self, gang: PodGang, victim: EvictedPod) -> str | None:
        """The queue that is below its guarantee, where that of the victim is above its own."""
        pair = compared(self._plan, gang, victim.gang)
        if (
            pair is not None
            and self._usage.of(pair.theirs, GPUS) > self._guaranteed[pair.theirs]
            and self._usage.of(pair.mine, GPUS) < self._guaranteed[pair.mine]
        ):
            return pair.mine
        return None

    def _others(self, unnamed: Mapping[str, Sequence[EvictedPod]]) -> set[str]:
        plan = self._plan
        gangs = {gang.name: gang for gang in plan.snapshot.gangs}
        asked = asked_by_gang(plan)
        taken = Counter(
            {queue: sum(asked[name] for name in names) for queue, names in takers(plan).items()}
        )
        now = plan.snapshot.as_of or 0

        def turn(name: str) -> tuple[int, int]:
            created = gangs[name].created
            return -gangs[name].priority, now if created is None else created

        found = set()
        for name in sorted(unnamed, key=turn):
            queues = {self._queue_for(gangs[name], victim) for victim in unnamed[name]}
            for mine in sorted(queue for queue in queues if queue is not None):
                then = self._usage.of(mine, GPUS) + taken[mine] + asked[name]
                if then <= self._guaranteed[mine]:
                    taken[mine] += asked[name]
                    found.add(name)
        return found


def _unnamed(plan: Plan, named: set[str]) -> Mapping[str, Sequence[EvictedPod]]:
    """Gangs with new pods where pods were reclaimed for others, and these pods."""
    found: defaultdict[str, list[EvictedPod]] = defaultdict(list)
    for node, pods in plan.new_by_node:
        gone = plan.evicted_by_node.get(node.name, ())
        reclaimed = [v for v in gone if v.eviction.kind is EvictionKind.RECLAIM]
        for gang in {pod.gang.name: pod.gang for pod in pods}.values() if reclaimed else ():
            # Those that stand above a victim have its room anyway.
            others = [
                v for v in reclaimed if gang.never_preempts or gang.priority <= v.gang.priority
            ]
            if others and gang.name not in named:
                found[gang.name] += others
    return found


def takers(plan: Plan) -> Mapping[str, set[str]]:
    """By queue the gangs that evictions name, for which it reclaims."""
    gangs = {gang.name: gang for gang in plan.snapshot.gangs}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for victim in plan.evicted:
        winner = gangs.get(victim.eviction.for_gang)
        if victim.eviction.kind is EvictionKind.RECLAIM and winner is not None:
            pair = compared(plan, winner, victim.gang)
            if pair is not None:
                found[pair.mine].add(winner.name)
    return found


def asked_by_gang(plan: Plan) -> Counter[str]:
    """The GPUs that the new pods of each gang ask for, in thousandths."""
    found: Counter[str] = Counter()
    for pod in plan.new:
        if not pod.moved:
            found[pod.gang.name] += queue_amount(plan, pod.template, pod.node, GPUS)
    return found
