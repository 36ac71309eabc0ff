"""What admitting a gang is worth: the unit of the first tier.

The value is the GPUs of the gang's minimum. A gang without GPUs gets a small
share of a GPU, so that it counts, yet never against one: a hundredth of the
nodes that its minimum fills. Values are integers, in thousandths of a GPU, and
depend on neither names nor order.
"""

from __future__ import annotations

from placement_service.entities.request import CPU, MEMORY, PodGang, Policy, Snapshot

#: Values are in thousandths of a GPU.
UNITS_PER_GPU = 1000

#: No gang is worth more, so that the values of all gangs add up exactly in 53 bits.
MAX_VALUE = 2**39

#: What a minimum that fills one whole node without GPUs is worth.
UNITS_PER_NODE_WITHOUT_GPUS = 10


def largest_node(snapshot: Snapshot) -> dict[str, int]:
    """The largest allocatable CPU (millis) and memory (bytes) of any node."""
    return {
        r: max((n.allocatable.get(r, 0) for n in snapshot.nodes), default=0) for r in (CPU, MEMORY)
    }


def gang_value(gang: PodGang, policy: Policy, largest: dict[str, int]) -> int:
    """The value of a gang's minimum, in thousandths of a GPU; from 1 to MAX_VALUE.

    A group counts `min_replicas` pods of the smallest request among its pending
    pods; a group without pending pods counts nothing.
    """
    gpus = 0
    nodes = 0.0
    for group in gang.groups:
        requests = [s.template.requests for s in group.pod_sets if s.pods]
        if not requests:
            continue
        gpus += group.min_replicas * min(policy.gpus(r) for r in requests)
        nodes += group.min_replicas * min(
            max((r.get(k, 0) / size for k, size in largest.items() if size), default=0.0)
            for r in requests
        )
    if gpus:
        return min(gpus * UNITS_PER_GPU, MAX_VALUE)
    return min(max(1, round(nodes * UNITS_PER_NODE_WITHOUT_GPUS)), MAX_VALUE)
