"""What is left of the guaranteed GPUs of queues, for the gangs that wait in them.

Of one priority, GPUs inside the guaranteed amount of their queue come before any outside it.
Counted is the queue that a gang names, with what runs in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodGang, PodSet, Policy, Snapshot
from placement_service.entities.solution import Assignment
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.open_gangs import is_anew, is_part, part_name, whole_name

#: The unit here is that of the values of gangs; pods ask for thousandths of a GPU.
UNITS = UNITS_PER_GPU // 1000


class Guarantee(NamedTuple):
    """What is `left` of a queue's guarantee, and how much of it the minimum of each gang needs; no
    more is left than all of them need. The minimums of running gangs that may give way are needs,
    as if these gangs waited; all other running pods, also extras of such gangs, are subtracted from
    what is left.
    """

    left: int
    needs: dict[GangIdx, int]


def formulate(
    snapshot: Snapshot, policy: Policy, homes: Iterable[Assignment] = ()
) -> tuple[Guarantee, ...]:
    """The queues with guaranteed GPUs left and gangs that wait, in the request's order."""
    left = {
        queue.name: guaranteed - in_millis(queue.used).get(GPUS, 0)
        for queue in snapshot.queues
        if (guaranteed := in_millis(queue.guaranteed).get(GPUS, 0))
    }
    if not left:
        return ()
    # Many pod sets share a template, which lives as long as the snapshot.
    known: dict[int, int] = {}

    def gpus(pod_set: PodSet) -> int:
        template = pod_set.template
        if id(template) not in known:
            known[id(template)] = policy.milli_gpus(template)
        return known[id(template)]

    at_home: Counter[int] = Counter()
    for h in homes:
        at_home[h.gang] += h.pods * gpus(snapshot.gangs[h.gang].groups[h.group].pod_sets[h.pod_set])
    by_name = {gang.name: i for i, gang in enumerate(snapshot.gangs)}
    needs: dict[str, dict[GangIdx, int]] = {}
    for index, gang in enumerate(snapshot.gangs):
        if gang.queue not in left:
            continue
        left[gang.queue] -= sum(
            len(s.bound_pods) * gpus(s) for group in gang.groups for s in group.pod_sets
        )
        whole, itself = snapshot.gangs[by_name[whole_name(gang.name)]], gang
        if is_anew(gang.name):
            # It takes what the gang itself would, or what runs of it.
            part = by_name.get(part_name(whole.name))
            itself = whole if part is None or whole.is_pending else snapshot.gangs[part]
        # What runs of a gang that lacks pods of its minimum fills a guarantee in any case.
        need = 0 if is_part(gang.name) and whole.is_pending else _need(itself, gpus)
        left[gang.queue] -= max(0, at_home[index] - need)
        if gang.is_pending and need:
            needs.setdefault(gang.queue, {})[GangIdx(index)] = need * UNITS
    # A guarantee without end is more than models can count.
    return tuple(
        Guarantee(min(left[queue] * UNITS, sum(mine.values())), mine)
        for queue, mine in needs.items()
        if left[queue] > 0
    )


def _need(gang: PodGang, gpus: Callable[[PodSet], int]) -> int:
    """The least GPUs that the minimum lacks, in thousandths."""
    return sum(
        group.missing * min((gpus(s) for s in group.pod_sets if s.pods), default=0)
        for group in gang.groups
    )
