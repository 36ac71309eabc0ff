"""The aggregate model: it counts parts of a kind per domain, whatever gang they belong to.

Where the exact model (`exact.model`) asks of every gang which of its units lie on
which class of nodes, this one asks only how many parts of which kind open in
which domain (`part_types`, `domain_forest`), and how many units of which pod class lie on
which class of nodes (`node_classes`, `node_packing`). It says the same about gangs that kinds can
describe, is much smaller, and does not distinguish gangs that are alike:

    z[G]         gangs of a group placed
    set[F, D]    whole sets of a family in domain D
    whole[k, D]  parts of kind k in one domain of their preferred level
    apart[k, D]  parts of kind k that open in domain D and are split below it
    empty[k, D]  parts of kind k without any unit, of what opened in domain D
    load[s, J]   units of pod class s on nodes of class J

In order: the variables (`variables`), the constraints (`constraints`), and
here the goals.

It may count too little: a part that is split counts as using two domains, or as many as counting
proves. Parts that fill a large share of a domain are distinguished, and count the domains that they
use one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.aggregation import Aggregation
from placement_service.cp_sat.aggregate.constraints import constrain
from placement_service.cp_sat.aggregate.disaggregation import Disaggregation
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.aggregate.variables import AggregateVariables
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Strategy, Var, hold, lesser, optimise
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Admission, Terms

K = TypeVar("K")


class AggregateModel:
    """A part of the problem whose gangs all are plain (`part_types.is_plain`)."""

    def __init__(
        self,
        counting: Counting,
        forest: Forest,
        subproblem: Subproblem,
        parameters: ModelParameters = MODEL_DEFAULTS,
        most_variables: int | None = None,
        until: float = math.inf,
    ) -> None:
        """Raises TooManyVariables and OutOfTime, see `AggregateVariables`."""
        self.variables = AggregateVariables(
            counting, forest, subproblem, parameters, most_variables, until
        )
        self.problem = counting.problem
        self.gangs = subproblem.gangs
        self.kinds = self.variables.kinds
        self.cp = self.variables.cp
        self._filling = constrain(self.variables, counting)

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cp.proto.variables)

    # --- goals ------------------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[Var]]:
        for g, group in enumerate(self.kinds.groups):
            if self.problem.gangs[group.gangs[0]].pending:
                yield Admission(self.variables.tally.gangs[g], group.gangs)

    def lesser(self, terms: Terms[Var], most: int) -> Var:
        return lesser(self.cp, terms, most)

    def extra_units(self, priority: int | None) -> Terms[Var]:
        extras = self.variables.extras
        return [t for p, terms in extras.items() if priority in (None, p) for t in terms]

    def kept_pods(self) -> Terms[Var]:
        # Running gangs that may give way are not in the model.
        return []

    def topology_cost(self) -> Terms[Var]:
        return self.variables.costs

    def fragmentation_cost(self) -> None:
        return None

    def hold(
        self, terms: Terms[Var], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Keep a goal at what was reached."""
        hold(self.cp, terms, at_least, at_most)

    def solve(
        self,
        terms: Terms[Var],
        *,
        maximize: bool,
        hint: Plan | None,
        seconds: float,
        effort: float,
        portfolio: bool = False,
        linear: int = 2,
    ) -> Answer:
        """Optimise one goal, from a plan if there is one; see `solving.optimise`."""
        if hint is not None:
            self._hint(hint)
        found = optimise(
            self.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            strategy=Strategy(portfolio and not self.problem.policy.deterministic, linear=linear),
        )
        if isinstance(found, Answer):
            return found
        plan = Disaggregation(
            self.kinds,
            self.variables.pod_classes,
            self.variables.classes,
            lambda j, kinds: self._filling.slots(found.solver, j, kinds),
            self.variables.tally.map(found.solver.value),
        ).plan()
        return Answer(plan, found.value, found.bound, found.proven)

    def _hint(self, plan: Plan) -> None:
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        mine = self.variables.tally
        start = Aggregation(
            self.kinds, self.variables.pod_classes, self.variables.classes, plan, mine.large
        )
        have = start.tally

        def add(variables: Mapping[K, Var], counts: Mapping[K, int]) -> None:
            for key, v in variables.items():
                self.cp.add_hint(v, min(counts.get(key, 0), self.variables.upper[v.index]))

        add(mine.gangs, have.gangs)
        add(mine.loose, have.loose)
        add(mine.sets, have.sets)
        add(mine.whole, have.whole)
        add(mine.apart, have.apart)
        add(mine.empty, have.empty)
        add(mine.units, have.units)
        add(mine.load, have.load)
        for p, q in zip(mine.large, have.large, strict=True):
            self.cp.add_hint(p.there, q.there)
            add(p.uses, q.uses)
            add(p.units, q.units)
            add(p.parts, q.parts)
        self._filling.hint(start.on_node)


def aggregate_size(problem: Problem, forest: Forest, gangs: Sequence[Gang]) -> int:
    """About how many variables a model of everything would have, before it is built."""
    pod_classes = {d.pod_class for g in gangs for d in g.demands}
    kinds = np.unique(np.concatenate([forest.holds.T, problem.free], axis=1), axis=0)
    return len(kinds) * len(pod_classes)
