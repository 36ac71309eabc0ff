"""Queues: the limits and guarantees of a queue and of all above it.

A plan is judged by what it adds: a queue that is already over its limit gets nothing more of that
resource, but may stay over it. What a queue keeps for itself counts in no limit above it. GPUs are
counted in thousandths, because pods may ask for a share of one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from placement_service.entities.queues import GPUS, Amounts, Queue, in_millis
from placement_service.entities.request import Node, PodGang, PodSet, PodTemplate
from placement_service.judge.plan import Plan

#: A GPU, in what is counted of the resource `GPUS`.
WHOLE = 1000


class Usage:
    """What runs in each queue and below it; pods are added to a queue and to all above it."""

    def __init__(self, plan: Plan, *, fixed: bool) -> None:
        """With `fixed` only what is not preemptible."""
        self._plan = plan
        self._fixed = fixed
        self._above = {q.name: above(plan.queues, q.name) for q in plan.snapshot.queues}
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for queue in plan.snapshot.queues:
            own = queue.used_not_preemptible if fixed else queue.used
            for up in self._above[queue.name]:
                self._used[up.name].update(in_millis(own))
        for gang in plan.snapshot.gangs:
            for group in gang.groups:
                for pod_set in group.pod_sets:
                    self._add_set(gang, pod_set)

    def _add_set(self, gang: PodGang, pod_set: PodSet) -> None:
        """Counts the running pods of a set; only shares of devices depend on the node."""
        if pod_set.template.device_share is None:
            self.add(gang, pod_set.template, None, len(pod_set.bound_pods))
            return
        for pod in pod_set.bound_pods:
            self.add(gang, pod_set.template, self._plan.outcome.question.node.get(pod.node))

    def add(self, gang: PodGang, template: PodTemplate, node: Node | None, pods: int = 1) -> None:
        """Counts some pods of a gang on a node; a negative number goes."""
        above_it = self._above.get(gang.queue, ())
        if not pods or not above_it or (self._fixed and not gang.not_preemptible):
            return
        for resource in {*template.requests, GPUS}:
            amount = pods * queue_amount(self._plan, template, node, resource)
            for queue in above_it:
                self._used[queue.name][resource] += amount

    def of(self, queue: str, resource: str) -> int:
        """What runs of a resource in a queue and below it."""
        return self._used[queue][resource]


def queues_are_known(plan: Plan) -> Iterator[str]:
    """A gang whose queue is not there gets nothing."""
    for gang in plan.outcome.gangs:
        if gang.has_bound and gang.gang.queue and gang.gang.queue not in plan.queues:
            yield f"gang {gang.gang.name} gets new pods, but its queue {gang.gang.queue} is unknown"


def limits_hold(plan: Plan) -> Iterator[str]:
    """New pods do not take a queue above its limit, or that of a queue above it.

    Nothing comes where more runs than the limit, not even a pod that moves.
    """
    yield from _over(plan, fixed=False)


def guaranteed_amounts_hold_what_is_not_preemptible(plan: Plan) -> Iterator[str]:
    """Gangs that are not preemptible stay inside what is guaranteed to them."""
    yield from _over(plan, fixed=True)


def _over(plan: Plan, *, fixed: bool) -> Iterator[str]:
    if not any(_limited(queue, fixed) for queue in plan.snapshot.queues):
        return
    new = [pod for pod in plan.new if pod.gang.not_preemptible or not fixed]
    usage = Usage(plan, fixed=fixed)
    for evicted in plan.evicted:
        if not evicted.moves:
            node = plan.outcome.question.node.get(evicted.pod.node)
            usage.add(evicted.gang, evicted.template, node, -1)
    added: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in new:
        if not pod.moved:
            usage.add(pod.gang, pod.template, pod.node)
    counts = _counts(plan, usage, fixed=fixed)
    for pod in new:
        inside: set[str] = set()
        for queue in above(plan.queues, pod.gang.queue):
            for resource in _limited(queue, fixed).keys() - inside:
                added[queue.name][resource] += queue_amount(plan, pod.template, pod.node, resource)
            # Of what is inside nothing counts above.
            inside |= {r for r, n in _kept(queue, fixed).items() if counts[queue.name, r] <= n}
    for queue in plan.snapshot.queues:
        for resource, amount in sorted(_limited(queue, fixed).items()):
            total = counts[queue.name, resource]
            if added[queue.name][resource] > 0 and total > amount:
                scale = WHOLE if resource == GPUS else 1
                what = (
                    "is guaranteed {} {}, but gangs that are not preemptible"
                    if fixed
                    else "has a limit of {} {}, but pods in it"
                )
                has = what.format(f"{amount / scale:.15g}", resource)
                yield f"{queue.name} {has} would have {total / scale:g}"


def _counts(plan: Plan, usage: Usage, *, fixed: bool) -> Counter[tuple[str, str]]:
    """What counts in each queue: of those below it only what they do not keep for themselves."""
    found: Counter[tuple[str, str]] = Counter()
    resources = {r for queue in plan.snapshot.queues for r in _limited(queue, fixed)}
    inwards = sorted(plan.snapshot.queues, key=lambda q: -len(above(plan.queues, q.name)))
    for queue in inwards:
        kept = _kept(queue, fixed)
        for resource in resources | kept.keys():
            whole = usage.of(queue.name, resource)
            found[queue.name, resource] += whole
            beyond = max(0, found[queue.name, resource] - kept.get(resource, 0))
            found[queue.parent, resource] += beyond - whole
    return found


def _kept(queue: Queue, fixed: bool) -> Amounts:
    """What counts in no limit above; guaranteed amounts count all."""
    return {} if fixed else in_millis(queue.kept)


def _limited(queue: Queue, fixed: bool) -> Amounts:
    return in_millis(queue.guaranteed if fixed else queue.limit)


def above(queues: Mapping[str, Queue], name: str) -> tuple[Queue, ...]:
    """A queue and all above it, from the bottom up; none when it is unknown."""
    path: list[Queue] = []
    while name in queues and queues[name] not in path:
        path.append(queues[name])
        name = queues[name].parent
    return tuple(path)


def queue_amount(plan: Plan, template: PodTemplate, node: Node | None, resource: str) -> int:
    """What a pod takes of a resource of its queue; of `GPUS` in thousandths."""
    if resource != GPUS:
        return template.requests.get(resource, 0)
    share = template.device_share
    whole = plan.policy.gpus(template.requests) * WHOLE
    if share is None:
        return whole
    part = max(share.compute_milli, share.memory_milli)
    if share.memory_bytes:
        sizes = [d.memory_bytes for d in (node.devices if node else ()) if d.memory_bytes]
        part = max(part, -(-share.memory_bytes * WHOLE // min(sizes)) if sizes else WHOLE)
    return whole + share.count * part
