"""What is left on the nodes while pods are placed, with exact undo.

For each pod class the number of units that fit each node, and its sums per domain,
are kept and brought up to date only for nodes that changed since they were
last asked for.
"""

from __future__ import annotations

import numpy as np

from placement_service.formulation.arrays import Bools, Ints, pods_that_fit
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules.protocol import Rule
from placement_service.heuristic.queue_ledger import QueueLedger

#: Stands in the journal where a slot of the layout was filled.
SLOT = ClassIdx(-1)


class ResidualCapacity:
    """Mutable state of the nodes; `mark` and `undo` go back exactly."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free = problem.free.copy()
        self.gpus_free = problem.node_gpus_free.copy()
        self._touched: list[int] = []
        self._row: dict[ClassIdx, Ints] = {}
        self._seen: dict[ClassIdx, int] = {}
        self._sums: dict[tuple[ClassIdx, int], Ints] = {}
        self._journal: list[tuple[ClassIdx, Ints, Ints]] = []
        #: Slots of a layout that are left, by (domain, size); see `layout`.
        self.slots_left: dict[tuple[int, int], int] = {}
        #: Rules between pods, each with its pods by kind of member and domain.
        self._loads = [_Load(rule, problem.levels[rule.level].count) for rule in problem.rules]
        self._of_class: dict[ClassIdx, list[_Load]] = {}
        for load in self._loads:
            for pod_class in load.pod_classes:
                self._of_class.setdefault(pod_class, []).append(load)
        #: Rules whose pods have changed since they last held.
        self._in_doubt: dict[int, _Load] = {}
        #: What queues have left; `take` knows no gangs, so the code that places one charges it.
        self.queues = QueueLedger(problem)

    # --- what fits --------------------------------------------------------

    def row(self, pod_class: ClassIdx) -> Ints:
        """Units of the pod class that fit on each node [N], at most MANY; not to be changed."""
        row = self._row.get(pod_class)
        request, eligible = self.problem.request[pod_class], self.problem.eligible[pod_class]
        if row is None:
            row = pods_that_fit(self.free, request)
            row[~eligible] = 0
            self._row[pod_class] = row
        elif self._seen[pod_class] < len(self._touched):
            nodes = np.unique(self._touched[self._seen[pod_class] :])
            new = pods_that_fit(self.free[nodes], request)
            new[~eligible[nodes]] = 0
            change = new - row[nodes]
            row[nodes] = new
            for (s, level), sums in self._sums.items():
                if s == pod_class:
                    domain = self.problem.levels[level].domain[nodes]
                    inside = domain >= 0
                    np.add.at(sums, domain[inside], change[inside])
        self._seen[pod_class] = len(self._touched)
        return row

    def slots(self, pod_class: ClassIdx, level: int) -> Ints:
        """Units of the pod class that fit in each domain of a level [D]."""
        row = self.row(pod_class)
        key = (pod_class, level)
        if key not in self._sums:
            self._sums[key] = sums_by_domain(self.problem, level, row)
        return self._sums[key]

    def allowed(self, pod_class: ClassIdx) -> Bools:
        """Nodes where rules between pods let one more pod of the pod class in [N]."""
        result = np.ones(self.problem.node_count, dtype=bool)
        for rule, load in self.loads_of(pod_class):
            domains = rule.open_domains(load, pod_class)
            if domains is not None:
                result &= domains[self.problem.levels[rule.level].domain]
        return result

    def rules_hold(self) -> bool:
        """Whether every rule between pods that only the whole shows holds.

        Nodes without new pods keep them all, so only those with new pods are looked at.
        """
        for key, load in list(self._in_doubt.items()):
            if not load.holds():
                return False
            del self._in_doubt[key]
        return True

    def loads_of(self, pod_class: ClassIdx) -> list[tuple[Rule, Ints]]:
        """The rules that a pod class has to do with, with their pods."""
        return [(load.rule, load.pods) for load in self._of_class.get(pod_class, ())]

    # --- changes ----------------------------------------------------------

    def take(self, pod_class: ClassIdx, nodes: Ints, counts: Ints) -> None:
        """Place units of a pod class; `nodes` are distinct."""
        self._journal.append((pod_class, nodes, counts))
        self._apply(pod_class, nodes, -counts)

    def use_slot(self, domain: int, size: int) -> None:
        """Fill one slot of the layout."""
        self._journal.append((SLOT, np.array([domain]), np.array([size])))
        self.slots_left[domain, size] -= 1

    def mark(self) -> int:
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back all that was placed since `mark`."""
        while len(self._journal) > mark:
            pod_class, nodes, counts = self._journal.pop()
            if pod_class == SLOT:
                self.slots_left[int(nodes[0]), int(counts[0])] += 1
            else:
                self._apply(pod_class, nodes, counts)

    def take_plan(self, plan: Plan) -> None:
        """Place a whole plan."""
        self.queues.charge_plan(self.problem, plan)
        counts: dict[ClassIdx, dict[int, int]] = {}
        for index, units in plan.items():
            demands = self.problem.gangs[index].demands
            for d, node, count in units:
                on_node = counts.setdefault(demands[d].pod_class, {})
                on_node[node] = on_node.get(node, 0) + count
        for pod_class, on_node in counts.items():
            self.take(pod_class, np.array(list(on_node)), np.array(list(on_node.values())))

    def _apply(self, pod_class: ClassIdx, nodes: Ints, change: Ints) -> None:
        self.free[nodes] += change[:, None] * self.problem.request[pod_class]
        self.gpus_free[nodes] += change * self.problem.gpus[pod_class]
        self._touched.extend(nodes.tolist())
        for load in self._of_class.get(pod_class, ()):
            load.add(pod_class, self.problem.levels[load.rule.level].domain[nodes], -change)
            self._in_doubt[id(load)] = load


class _Load:
    """The pods under one rule: `pods[K, D]` by kind of member, see `Rule.tracked`, and domain."""

    def __init__(self, rule: Rule, domains: int) -> None:
        self.rule = rule
        self._weights = rule.tracked()
        self.pods = np.zeros((len(self._weights), domains), dtype=np.int64)
        self.pod_classes = [
            ClassIdx(s) for s in np.flatnonzero(np.any(self._weights, axis=0)).tolist()
        ]

    def add(self, pod_class: ClassIdx, domains: Ints, counts: Ints) -> None:
        inside = domains >= 0
        for row, weight in zip(self.pods, self._weights, strict=True):
            if weight[pod_class]:
                np.add.at(row, domains[inside], counts[inside] * int(weight[pod_class]))

    def holds(self) -> bool:
        """Whether the rule holds, as far as only the whole shows it."""
        return self.rule.holds(self.pods)


def sums_by_domain(problem: Problem, level: int, row: Ints) -> Ints:
    """Sum of row[N] over the nodes of each domain [D]."""
    domain = problem.levels[level].domain
    inside = domain >= 0
    count = problem.levels[level].count
    return np.bincount(domain[inside], row[inside], count).astype(np.int64)
