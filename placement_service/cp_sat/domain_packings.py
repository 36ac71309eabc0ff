"""What fits into one domain together: the maximal multisets of parts.

The aggregate model accepts parts in a domain as long as all their units together fit its nodes, and
its linear relaxation also splits parts into fractions. Often far fewer whole parts fit into one
domain together. Where a domain holds only a few parts, that can be found out beforehand.

A multiset is left out only if counting or CP-SAT has proven that its units do not fit on the nodes
of the domain; what is not settled in time counts as fitting. So the parts of any plan in the domain
are below one of the multisets that are found.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.node_classes import NodeClass
from placement_service.cp_sat.node_packing import Filling
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Var
from placement_service.formulation.arrays import Ints

#: How many of each part.
Multiset = tuple[int, ...]


@dataclass(slots=True)
class Budget:
    """How many multisets may still be tried, how many of these by CP-SAT, and until when.

    `deadline` is in `time.monotonic` seconds.
    """

    trials: int
    proofs: int
    deadline: float

    def share(self, parts: int) -> Budget:
        """Takes the share of one of so many parts."""
        mine = Budget(self.trials // parts, self.proofs // parts, self.deadline)
        self.trials -= mine.trials
        self.proofs -= mine.proofs
        return mine

    def give_back(self, rest: Budget) -> None:
        """Takes back the rest of a share."""
        self.trials += rest.trials
        self.proofs += rest.proofs


class _TooMany(Exception):
    """There are more multisets than are worth the effort, or than may be tried."""


class DomainPackings:
    """Trials on the nodes of some classes, with units of some pod classes [S]."""

    def __init__(
        self,
        counting: Counting,
        pod_classes: Sequence[int],
        classes: Sequence[NodeClass],
        parameters: ModelParameters = MODEL_DEFAULTS,
    ) -> None:
        self._parameters = parameters
        self._problem = counting.problem
        self._shapes = pod_classes
        self._classes = classes
        nodes = [n for c in classes for n in c.nodes]
        self._units = counting.units[:, list(pod_classes)]
        self._offers = counting.room[:, nodes].sum(axis=1)
        self._request = self._problem.request[list(pod_classes)]
        # Any node of a class takes what another one takes.
        free = np.array([c.free for c in classes for _ in c.nodes], dtype=np.float64)
        self._total = np.maximum(1, free.sum(axis=0))
        self._share = np.array(self._request / np.maximum(1, free.max(axis=0))).max(axis=1)
        self._bins = [(list(c.free), [m > 0 for m in c.most]) for c in classes for _ in c.nodes]
        self._price = (1 / self._total).tolist()
        self._known: dict[bytes, bool] = {}
        #: What CP-SAT has proven not to fit [., S].
        self._refuted = np.zeros((0, len(pod_classes)), dtype=np.int64)
        self._budget = Budget(0, 0, 0.0)

    @staticmethod
    def key(classes: Sequence[NodeClass]) -> Hashable:
        """Equal for classes of nodes on which the same fits."""
        return frozenset(
            (i, c.patterns if c.patterns is not None else c.free, c.most, len(c.nodes))
            for i, c in enumerate(sorted(classes, key=lambda c: (c.free, c.most, len(c.nodes))))
        )

    def size(self, units: Ints) -> float:
        """The share of the nodes that units take, of the resource of which it is largest."""
        amounts = units @ self._request.astype(np.float64)
        return float((amounts / self._total).max())

    def maximal(
        self, needs: Sequence[Ints], most: Sequence[int], budget: Budget
    ) -> list[Multiset] | None:
        """The maximal multisets of parts that fit, or None when there are too many.

        `needs` are the units [S] that each part asks for, one at least; `most` is how many
        such parts there are at most.
        """
        self._budget = budget
        found: list[Multiset] = []
        chosen = [0] * len(needs)

        def extend(at: int, units: Ints) -> None:
            if at == len(needs):
                if not any(
                    chosen[k] < most[k] and self._fits(units + need) for k, need in enumerate(needs)
                ):
                    found.append(tuple(chosen))
                if len(found) > self._parameters.packing_multisets:
                    raise _TooMany
                return
            count, full = 0, units
            while count < most[at] and self._fits(full + needs[at]):
                count, full = count + 1, full + needs[at]
            # Fewer of the last part would leave room for one more.
            fewest = count if at + 1 == len(needs) else 0
            for k in range(count, fewest - 1, -1):
                chosen[at] = k
                extend(at + 1, units + k * needs[at])
            chosen[at] = 0

        try:
            extend(0, np.zeros(len(self._shapes), dtype=np.int64))
        except _TooMany:
            return None
        return found

    def _fits(self, units: Ints) -> bool:
        """False only if it is proven that so many units of each pod class do not fit. Whatever
        holds more than a refuted multiset is refuted, too. CP-SAT alone might not settle it: then
        it would count as fitting, and smaller multisets as not maximal.
        """
        if (self._refuted <= units).all(axis=1).any():
            return False
        key = units.tobytes()
        if key not in self._known:
            self._budget.trials -= 1
            if self._budget.trials < 0 or time.monotonic() > self._budget.deadline:
                raise _TooMany
            counted = bool((self._units @ units <= self._offers).all())
            self._known[key] = counted and (self._packs(units) or not self._is_refuted(units))
        return self._known[key]

    def _packs(self, units: Ints) -> bool:
        """Whether best fit, large before small, gets all units onto the nodes."""
        bins = [(list(free), able) for free, able in self._bins]

        def left(free: Sequence[int]) -> float:
            return float(sum(x * price for x, price in zip(free, self._price, strict=True)))

        for s in sorted(np.flatnonzero(units).tolist(), key=lambda s: -self._share[s]):
            row = [(r, x) for r, x in enumerate(self._request[s].tolist()) if x]
            able = [free for free, may in bins if may[s]]
            for _ in range(int(units[s])):
                fitting = [free for free in able if all(free[r] >= x for r, x in row)]
                if not fitting:
                    return False
                best = min(fitting, key=left)
                for r, x in row:
                    best[r] -= x
        return True

    def _is_refuted(self, units: Ints) -> bool:
        """Whether CP-SAT proves that the units do not fit."""
        if self._budget.proofs <= 0:
            return False
        self._budget.proofs -= 1
        cp = cp_model.CpModel()
        load: dict[tuple[int, int], list[Var]] = {}
        for s in np.flatnonzero(units).tolist():
            mine: list[Var] = []
            for j, c in enumerate(self._classes):
                most = min(int(units[s]), len(c.nodes) * c.most[s])
                if most:
                    mine.append(cp.new_int_var(0, most, ""))
                    load[s, j] = mine[-1:]
            cp.add(cp_model.LinearExpr.sum(mine) == int(units[s]))
        Filling(cp, self._problem, self._shapes, self._classes, load)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = self._parameters.packing_effort
        refuted = bool(solver.solve(cp) == cp_model.INFEASIBLE)
        if refuted:
            self._refuted = np.vstack([self._refuted, units])
        return refuted
