"""What admitting a gang is worth, as the judge reads the rule.

Written apart from the formulation on purpose: a mistake in one shows in the other.
"""

from __future__ import annotations

from fractions import Fraction

from placement_service.entities.request import CPU, MEMORY, PodGang, Policy, Snapshot

#: Values are in thousandths of a GPU; a node without GPUs that is filled counts ten of them.
THOUSANDTHS = 1000
PER_NODE = 10

#: The largest value of one gang.
MOST = 2**39


def gang_values(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """The value of each gang's minimum by its name, in thousandths of a GPU."""
    sizes = {
        resource: max((n.allocatable.get(resource, 0) for n in snapshot.nodes), default=0)
        for resource in (CPU, MEMORY)
    }
    return {gang.name: _value(gang, policy, sizes) for gang in snapshot.gangs}


def _value(gang: PodGang, policy: Policy, sizes: dict[str, int]) -> int:
    gpus, share = 0, Fraction(0)
    for group in gang.groups:
        pods = [pod_set.template.requests for pod_set in group.pod_sets if pod_set.pods]
        if pods:
            gpus += group.min_replicas * min(policy.gpus(pod) for pod in pods)
            share += group.min_replicas * min(
                max(
                    (Fraction(pod.get(r, 0), size) for r, size in sizes.items() if size),
                    default=Fraction(0),
                )
                for pod in pods
            )
    value = gpus * THOUSANDTHS if gpus else max(1, round(share * PER_NODE))
    return min(value, MOST)
