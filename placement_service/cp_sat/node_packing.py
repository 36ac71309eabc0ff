"""How units fill nodes: constraints of a CP-SAT model over classes of nodes.

The nodes of a class follow patterns of what one node holds; see `node_classes`.
Whatever lies on a node is below a maximal pattern, and what is below n patterns
can be divided among n nodes, so nothing is lost by counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortools.sat.python import cp_model

from placement_service.cp_sat.node_classes import NodeClass, sorts_of
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.problem import Problem


class Filling:
    """`load[k, j]` are the variables that count units of pod class k on class j.

    Pod classes of one sort (`node_classes.sorts_of`) fill a node alike. `patterns[j, p]` says how
    many nodes of class j follow its p-th pattern, and `opened[j, p]`, once it is asked
    for, how many of these hold a unit of some sorts.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        problem: Problem,
        pod_classes: Sequence[int],
        classes: Sequence[NodeClass],
        load: Mapping[tuple[int, int], Sequence[Var]],
    ) -> None:
        self._cp = cp
        self._problem = problem
        self._shapes = pod_classes
        self._classes = classes
        self._load = load
        self.sorts = sorts_of(problem, pod_classes)
        self.patterns: dict[tuple[int, int], Var] = {}
        self.opened: dict[tuple[int, int], Var] = {}
        self._openers: frozenset[int] = frozenset()
        kinds_of: dict[int, list[int]] = {}
        for k, j in sorted(load):
            kinds_of.setdefault(j, []).append(k)
        for j, kinds in kinds_of.items():
            c = classes[j]
            if c.patterns is None:
                self._resources_suffice(c, j, kinds)
            elif len(c.patterns) == 1:
                for sort, variables in self.by_sort(j, kinds).items():
                    self._at_most(variables, len(c.nodes) * c.patterns[0][sort])
            elif all(sum(p) == 1 for p in c.patterns):
                self._at_most([v for k in kinds for v in load[k, j]], len(c.nodes))
            else:
                self._patterns_cover(c, j, kinds)

    def by_sort(self, j: int, kinds: Sequence[int]) -> dict[int, list[Var]]:
        """Load of some pod classes on a class, by sort."""
        found: dict[int, list[Var]] = {}
        for k in kinds:
            found.setdefault(self.sorts[k], []).extend(self._load[k, j])
        return found

    def _at_most(self, variables: Sequence[Var], most: int) -> None:
        self._cp.add(cp_model.LinearExpr.sum(variables) <= most)

    def _resources_suffice(self, c: NodeClass, j: int, kinds: Sequence[int]) -> None:
        for r, free in enumerate(c.free):
            terms = [
                (v, int(self._problem.request[self._shapes[k], r]))
                for k in kinds
                for v in self._load[k, j]
                if self._problem.request[self._shapes[k], r]
            ]
            if terms:
                self._cp.add(dot(terms) <= free)

    def _patterns_cover(self, c: NodeClass, j: int, kinds: Sequence[int]) -> None:
        assert c.patterns is not None
        uses = [self._cp.new_int_var(0, len(c.nodes), "") for _ in c.patterns]
        for p, use in enumerate(uses):
            self.patterns[j, p] = use
        self._at_most(uses, len(c.nodes))
        for sort, variables in self.by_sort(j, kinds).items():
            supply = [(use, p[sort]) for use, p in zip(uses, c.patterns, strict=True) if p[sort]]
            self._cp.add(cp_model.LinearExpr.sum(variables) <= dot(supply))

    def open_for(self, j: int, kinds: Sequence[int]) -> list[Var]:
        """How many nodes of a class that follow each pattern hold units of these pod classes.

        A pattern has room for them on nodes that hold others alone; those are not opened.
        The pod classes of all classes are of the same sorts.
        """
        patterns = self._classes[j].patterns
        assert patterns is not None
        loads = self.by_sort(j, kinds)
        self._openers |= loads.keys()
        able = [p for p, pattern in enumerate(patterns) if any(pattern[s] for s in loads)]
        for p in able:
            use = self.patterns[j, p]
            if all(s in loads for s, count in enumerate(patterns[p]) if count):
                self.opened[j, p] = use
            else:
                self.opened[j, p] = self._cp.new_int_var(0, len(self._classes[j].nodes), "")
                self._cp.add(self.opened[j, p] <= use)
        for sort, variables in loads.items():
            room = [(self.opened[j, p], patterns[p][sort]) for p in able if patterns[p][sort]]
            self._cp.add(cp_model.LinearExpr.sum(variables) <= dot(room))
        return [self.opened[j, p] for p in able]

    def hint(self, loads: Mapping[int, tuple[int, Sequence[int]]]) -> None:
        """Start from what lies on nodes: by node, its class and its units of each pod class."""
        uses = dict.fromkeys(self.patterns, 0)
        opened = dict.fromkeys(self.opened, 0)
        for j, by_shape in loads.values():
            load = [0] * (1 + max(self.sorts))
            for k, count in enumerate(by_shape):
                load[self.sorts[k]] += count
            for p, pattern in enumerate(self._classes[j].patterns or ()):
                if (j, p) in uses and all(a <= b for a, b in zip(load, pattern, strict=True)):
                    uses[j, p] += 1
                    if (j, p) in opened:
                        opened[j, p] += any(load[s] for s in self._openers)
                    break
        for key, use in self.patterns.items():
            self._cp.add_hint(use, uses[key])
        for key, one in self.opened.items():
            if one is not self.patterns[key]:
                self._cp.add_hint(one, opened[key])

    def slots(self, solver: cp_model.CpSolver, j: int, kinds: Sequence[int]) -> list[list[int]]:
        """Places for each sort on each node of a class, as the solver filled it."""
        c = self._classes[j]
        count = 1 + max(self.sorts)
        if c.patterns is None:
            # One node, whose resources suffice for all that the solver put there.
            return [[sum(c.most)] * count]
        if len(c.patterns) == 1:
            return [list(c.patterns[0]) for _ in c.nodes]
        slots: list[list[int]] = []
        if (j, 0) in self.patterns:
            for p, pattern in enumerate(c.patterns):
                uses = solver.value(self.patterns[j, p])
                opened = solver.value(self.opened[j, p]) if (j, p) in self.opened else uses
                shut = [0 if s in self._openers else n for s, n in enumerate(pattern)]
                slots += [list(pattern) for _ in range(opened)]
                slots += [list(shut) for _ in range(uses - opened)]
        else:
            for k in kinds:
                for v in self._load[k, j]:
                    row = [0] * count
                    row[self.sorts[k]] = 1
                    slots += [list(row) for _ in range(solver.value(v))]
        slots += [[0] * count for _ in range(len(c.nodes) - len(slots))]
        return slots
