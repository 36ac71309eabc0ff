"""How much waiting GPU pods need each node: nodes that few of them can use are filled first."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Problem

#: Pod classes whose demand ranks nodes: those that ask for most.
MOST_RANKED = 200

#: Others want a node that a pod class has for itself at most this share of what they want of the
#: node that they want most.
WANTED = 0.25


class DemandRank:
    """The demand that could use each node as it is at first."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._demand: Ints = np.zeros(problem.class_count, dtype=np.int64)
        for gang in problem.gangs:
            if gang.placeable:
                for d in gang.demands:
                    self._demand[d.pod_class] += d.count * problem.gpus[d.pod_class]
        # Only nodes that are short of a resource for some class: in most columns these are few.
        most = problem.request.max(axis=0, initial=0)
        self._short = [np.flatnonzero(problem.free[:, r] < m) for r, m in enumerate(most)]

    @cached_property
    def rank(self) -> Ints:
        """Rank of each node by the GPU demand that could use it [N]."""
        return np.unique(self._wanted, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _wanted(self) -> Ints:
        """The GPU demand that could use each node [N]."""
        wanted: Ints = np.zeros(self._problem.node_count, dtype=np.int64)
        for s in self._ranked:
            wanted[self._usable(ClassIdx(s))] += self._demand[s]
        return wanted

    @cached_property
    def _ranked(self) -> list[int]:
        order = np.argsort(-self._demand, kind="stable")
        found: list[int] = order[: min(MOST_RANKED, np.count_nonzero(self._demand))].tolist()
        return found

    def _usable(self, pod_class: ClassIdx) -> Bools:
        """Nodes that have room for a pod [N]."""
        free, request = self._problem.free, self._problem.request[pod_class]
        usable: Bools = self._problem.eligible[pod_class].copy()
        for r in np.flatnonzero(request).tolist():
            short = self._short[r]
            usable[short[free[short, r] < request[r]]] = False
        return usable

    def own_nodes(self, pod_class: ClassIdx) -> Bools | None:
        """Free nodes of which each takes one pod, and that others hardly want, as where they are
        reserved [N]; None where a pod class has none, or no others.
        """
        problem = self._problem
        one = problem.whole_free & (2 * problem.gpus[pod_class] > problem.node_gpus_free)
        if pod_class not in self._ranked or not one.any() or _is_constant(self._wanted[one]):
            return None
        usable = self._usable(pod_class) & one
        others = self._wanted - self._demand[pod_class]
        own: Bools = usable & (others <= WANTED * others[usable].max(initial=0))
        return own if own.any() and not own[usable].all() else None


def _is_constant(some: Ints) -> bool:
    return bool((some == some[0]).all())
