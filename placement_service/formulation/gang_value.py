"""What admitting a gang is worth: the unit of the first tier.

The value is the GPUs of the gang's minimum, whether its pods wait or run. A gang
without GPUs gets a small share of a GPU, so that it counts and larger ones count more, but never as
much as one GPU: its dominant share of what the cluster has, scaled so that all such gangs that fit
the cluster together stay below one GPU. Values are integers, in millionths of a GPU, and depend on
neither names nor order.
"""

from __future__ import annotations

from collections.abc import Iterable

from placement_service.entities.request import PODS, PodGang, Policy, Resources, Snapshot

#: Values are in millionths of a GPU.
UNITS_PER_GPU = 1_000_000

#: No gang is worth more, so that the values of all gangs add up exactly in 53 bits.
MAX_VALUE = 2**40

#: The value of all gangs without GPUs that together fill the cluster in every resource, besides the
#: least value of one unit each.
WITHOUT_GPUS = 900_000


def cluster_totals(snapshot: Snapshot) -> dict[str, int]:
    """What all nodes together have of each resource, the number of pods aside."""
    totals: dict[str, int] = {}
    for allocatable, count in snapshot.columns.allocatable.counts():
        for resource, amount in allocatable.items():
            if amount > 0 and resource != PODS:
                totals[resource] = totals.get(resource, 0) + amount * count
    return totals


def gang_value(gang: PodGang, policy: Policy, totals: Resources) -> int:
    """The value of a gang's minimum, in millionths of a GPU; from 1 to MAX_VALUE.

    A group counts `min_replicas` times the least of its pods, those that run included;
    a group whose requests are all unknown counts nothing. `totals` are those of
    `cluster_totals`.
    """
    sets = [
        (group.min_replicas, [s.template for s in group.pod_sets if s.pods or s.bound_pods])
        for group in gang.groups
    ]
    known = [(count, templates) for count, templates in sets if templates]
    milli_gpus = sum(
        [count * min([policy.milli_gpus(t) for t in templates]) for count, templates in known]
    )
    if milli_gpus:
        return min(milli_gpus * (UNITS_PER_GPU // 1000), MAX_VALUE)
    amounts: dict[str, int] = {}
    for count, templates in known:
        for resource in _asked(t.requests for t in templates) & totals.keys():
            least = min(t.requests.get(resource, 0) for t in templates)
            amounts[resource] = amounts.get(resource, 0) + count * least
    # Exact: the share of the scarcest resource, divided by how many resources there are.
    share = max(
        (WITHOUT_GPUS * n // (totals[r] * len(totals)) for r, n in amounts.items()), default=0
    )
    return min(1 + share, MAX_VALUE)


def _asked(requests: Iterable[Resources]) -> set[str]:
    return {resource for some in requests for resource in some}
