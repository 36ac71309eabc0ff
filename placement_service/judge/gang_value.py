"""What admitting a gang is worth, as the judge reads the rule.

Written separately from the formulation on purpose: a mistake in one shows in the other.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from placement_service.entities.request import PODS, PodGang, PodTemplate, Policy, Snapshot

#: Values are in millionths of a GPU.
MILLIONTHS = 1_000_000

#: The value of all gangs without GPUs that together fill the cluster in every resource.
SHARED = 900_000

#: The largest value of one gang.
MOST = 2**40


def gang_values(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """The value of each gang's minimum by its name, in millionths of a GPU."""
    there: Counter[str] = Counter()
    for allocatable, count in snapshot.columns.allocatable.counts():
        there.update({r: n * count for r, n in allocatable.items() if n > 0 and r != PODS})
    return {gang.name: _value(gang, policy, there) for gang in snapshot.gangs}


def _value(gang: PodGang, policy: Policy, there: Counter[str]) -> int:
    thousandths = 0
    of_group: list[tuple[int, list[PodTemplate]]] = []
    for group in gang.groups:
        pods = [s.template for s in group.pod_sets if len(s.pods) + len(s.bound_pods)]
        if pods:
            of_group.append((group.min_replicas, pods))
            thousandths += group.min_replicas * min(map(policy.milli_gpus, pods))
    if thousandths:
        return min(thousandths * MILLIONTHS // 1000, MOST)
    asked: Counter[str] = Counter()
    for count, pods in of_group:
        for resource in there:
            asked[resource] += count * min(pod.requests.get(resource, 0) for pod in pods)
    shares = [Fraction(asked[r] * SHARED, there[r] * len(there)) for r in there]
    return min(1 + int(max(shares, default=Fraction(0))), MOST)
