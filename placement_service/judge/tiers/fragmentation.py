"""Fragmentation: nodes in wholly free domains that are broken into, and pods that need no GPU on
nodes with GPUs.
"""

from __future__ import annotations

import numpy as np

from placement_service.entities.request import HOSTNAME, PODS, Policy, Snapshot
from placement_service.judge.outcome import Outcome
from placement_service.judge.tiers.count import Count, Counts


def count(outcome: Outcome, policy: Policy) -> Counts:
    """Nodes with GPUs in wholly free domains that a new pod breaks into.

    Plus the new pods without GPUs on nodes with GPUs, but not those that only get other devices
    of their node. In a cluster without any GPU all nodes and pods count as if they had some.
    """
    nodes = outcome.snapshot.columns
    has_gpus = nodes.allocatable.where(lambda resources: policy.gpus(resources) > 0)
    gpu_cluster = bool(has_gpus.any())
    if gpu_cluster:
        used = nodes.total_requested(r for r in nodes.requested if policy.gpus({r: 1}))
    else:
        used = nodes.total_requested((PODS,))
        has_gpus = ~has_gpus

    question = outcome.question
    asking = np.array(
        [not gpu_cluster or policy.gpus(t.requests) > 0 for t in question.templates], dtype=bool
    )
    asks = asking[question.template_of_set[outcome.set_of_new]]
    broken = np.zeros(len(nodes), dtype=bool)
    broken[outcome.node_of_new[asks]] = True
    misplaced = ~asks & ~outcome.stays_on_node
    total = int(np.count_nonzero(has_gpus[outcome.node_of_new[misplaced]]))
    for level in _levels(outcome.snapshot) if broken.any() else ():
        if level == HOSTNAME:
            # A node is its own domain.
            total += int(np.count_nonzero(broken & has_gpus & (used == 0)))
            continue
        domain, values = question.domains.of(level)
        known = domain >= 0
        size = np.bincount(domain[known & has_gpus], minlength=len(values))
        taken = np.bincount(domain[known & has_gpus & (used != 0)], minlength=len(values)) > 0
        lost = np.bincount(domain[known & broken], minlength=len(values)) > 0
        total += int(size[lost & ~taken].sum())
    return (Count(total),)


def _levels(snapshot: Snapshot) -> list[str]:
    """Every level that a scope of the request names, and always the node itself."""
    levels = {HOSTNAME}
    for gang in snapshot.gangs:
        for scope in gang.packing_scopes:
            levels.update(level for level in (scope.required_level, scope.preferred_level) if level)
    return sorted(levels)
