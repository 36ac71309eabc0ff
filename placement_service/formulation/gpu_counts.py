"""GPUs as the goals count them: of nodes, in use and free, and of what pods ask for.

In a cluster without GPUs every node counts as one, and is free when it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.request import PODS, Policy, Resources, Snapshot
from placement_service.entities.solution import Assignment
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.pod_classes import Table
from placement_service.formulation.prepared import SetOf

#: From here on the exact number does not matter; sums over all pods stay in 64 bits.
MANY_GPUS = 1 << 40


class GpuCounts(NamedTuple):
    """GPUs of a unit of each pod class [S], and its pods without any; GPUs of each node [N], those
    that are free, and whether the node is wholly free.
    """

    classes: Ints
    pods_without: Ints
    nodes: Ints
    free: Ints
    whole_free: Bools


def gpu_counts(
    snapshot: Snapshot,
    policy: Policy,
    table: Table,
    homes: Sequence[Assignment],
    held: Mapping[SetOf, Resources],
) -> GpuCounts:
    """The counts of a snapshot and its pod classes. Nodes are in use, also where the pods on them,
    those at `homes`, may leave; `held` as in `Prepared`.
    """
    nodes = snapshot.columns
    of_nodes = _gpus(policy, nodes.allocatable.kinds)[nodes.allocatable.number]
    at_home = [
        held.get(SetOf(h.gang, h.group, h.pod_set))
        or snapshot.gangs[h.gang].groups[h.group].pod_sets[h.pod_set].template.requests
        for h in homes
    ]
    if of_nodes.any():
        used = nodes.total_requested(r for r in nodes.requested if policy.gpus({r: 1}))
        gpus_used = np.minimum(used, MANY_GPUS)
        free = of_nodes - gpus_used
        classes = _gpus(policy, table.requests)
        whole = (of_nodes > 0) & (gpus_used == 0)
        in_use = _gpus(policy, at_home) > 0
    else:
        of_nodes = free = np.ones(len(nodes), dtype=np.int64)
        classes = np.ones(len(table.requests), dtype=np.int64)
        whole = nodes.total_requested((PODS,)) == 0
        in_use = np.ones(len(at_home), dtype=bool)
    whole[np.array([h.node for h in homes], dtype=np.int64)[in_use]] = False
    pods_without = (classes == 0).astype(np.int64)
    for content, bundle in table.bundle_of.items():
        pods_without[bundle] = sum(pods for pod_class, pods in content if not classes[pod_class])
    return GpuCounts(classes, pods_without, of_nodes, free, whole)


def _gpus(policy: Policy, resources: Sequence[Resources]) -> Ints:
    """The GPUs of each; absurd numbers count as MANY_GPUS."""
    # Most are the same objects.
    known = {i: min(policy.gpus(r), MANY_GPUS) for i, r in {id(r): r for r in resources}.items()}
    return np.array([known[id(r)] for r in resources], dtype=np.int64)
