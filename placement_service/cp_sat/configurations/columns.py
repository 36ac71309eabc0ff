"""A linear model of gangs with configurations as columns: bounds, and the best in whole numbers.

Variables of the model ask for parts, columns hold them. Bounds are those of the linear relaxation,
see `lp`. Solutions are those of HiGHS or CP-SAT over the configurations found
there; that these are the best of them proves nothing. The relaxation is so tight that HiGHS often
has the best before it branches, several times as fast as CP-SAT; where it has not, CP-SAT is
better at looking for it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configurations.dive import Dive
from placement_service.cp_sat.configurations.lp import (
    Column,
    ConfigurationLp,
    Duals,
    Relaxation,
    Row,
    Weighted,
    linear_rows,
)
from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Var, dot, hold, optimise
from placement_service.formulation.tiers.goal import Terms

#: What lies in domains: {kind: times} for each that holds any.
Domains = Mapping[int, Mapping[int, int]]


class ColumnModel:
    """`needs[K]` are the parts of each kind that variables of `cp` ask for. `chosen` are the values
    of its variables in the last solution, and `domains` what lies where there.
    """

    def __init__(
        self,
        configurations: Configurations,
        cp: cp_model.CpModel,
        needs: Sequence[Sequence[tuple[Var, int]]],
        parameters: ModelParameters = MODEL_DEFAULTS,
        center: Duals | None = None,
    ) -> None:
        """Prices are expected near the `center`."""
        self.configurations, self.cp, self.needs = configurations, cp, needs
        self.lp = ConfigurationLp(configurations, needs, parameters)
        self.lp.center = center
        self.chosen: Sequence[int] = ()
        self.domains: Domains = {}
        self._used: Mapping[Column, int] = {}

    def bound(self, terms: Terms[Var], *, maximize: bool, deadline: float) -> int:
        """A proven bound of a goal under all that is held; `deadline` as `time.monotonic`."""
        return self.lp.bound(self.cp, terms, maximize=maximize, deadline=deadline)

    def narrow(self, value: int) -> None:
        """Leave out what no solution has in which the goal of the last bound is as good as this."""
        for v, low, high in self.lp.ranges(value):
            domain = self.cp.proto.variables[v].domain
            domain[0], domain[1] = low, high

    def fill(
        self,
        terms: Terms[Var],
        bound: int,
        *,
        maximize: bool,
        seconds: float,
        slack: int | None,
        beyond: int | None = None,
        nodes: int = 1,
        fixed: Mapping[Column, int] = MappingProxyType({}),
    ) -> int | None:
        """The value of the best solution with the known configurations that HiGHS finds before it
        branches, or in so many nodes; None if it finds none, or none better than `beyond`.

        `bound` is the proven one, at which the search may end. Configurations are left out that
        cost more than `slack`, in the goal's units, of the bound where they are used. Those that
        are `fixed` are used so often at least.
        """
        columns = self._open(fixed) if fixed else self._columns(slack)
        goal = [(v.index, w) for v, w in terms]
        model = self._linear(columns)
        for use, column in enumerate(columns, len(self.cp.proto.variables)):
            if column in fixed:
                model.row([(use, 1)], least=fixed[column])
        model.row(goal, **{"most" if maximize else "least": bound})
        found = model.whole(
            goal, maximize=maximize, seconds=seconds, nodes=nodes, beyond=beyond
        ).values
        if found is None:
            return None
        counts = np.rint(found).astype(np.int64).tolist()
        return self._take(goal, columns, counts)

    def keep(self, held: Mapping[int, Column], *, seconds: float) -> bool:
        """A solution under all that is held in which as many domains as possible hold what is
        `held` there, with the known configurations, as HiGHS finds it before it branches; false if
        it finds none.

        `domains` then has these as they are, and others as alike as possible.
        """
        columns = list(dict.fromkeys([*held.values(), *self.lp.columns]))
        model = self._linear(columns)
        times = Counter(held.values())
        kept = []
        for use, column in enumerate(columns, len(self.cp.proto.variables)):
            if column in times:
                kept.append((model.variable(times[column]), 1))
                model.row([kept[-1], (use, -1)], most=0)
        found = model.whole(kept, maximize=True, seconds=seconds, nodes=1).values
        if found is None:
            return False
        counts = np.rint(found[: len(self.cp.proto.variables) + len(columns)]).astype(np.int64)
        return self._take((), columns, counts.tolist(), held) is not None

    def refill(
        self,
        terms: Terms[Var],
        bound: int,
        *,
        maximize: bool,
        seconds: float,
        effort: float,
        slack: int | None,
        beyond: int | None = None,
    ) -> int | None:
        """The same by CP-SAT, from the solution there is: it takes longer, and sometimes finds
        more.
        """
        # A dive may have used configurations that cost more.
        columns = list(dict.fromkeys([*self._columns(slack), *self._used]))
        cp = self.cp.clone()
        for column in columns:
            cp.new_int_var(0, self._domains(column), "")
        for row in self._rows_of_uses(columns):
            assert row.high is not None
            weights = [(cp.get_int_var_from_proto_index(v), w) for v, w in row.weights]
            cp.add(dot(weights) <= row.high)
        hold(cp, terms, None if maximize else bound, bound if maximize else None)
        variables = [cp.get_int_var_from_proto_index(i) for i in range(len(cp.proto.variables))]
        uses = variables[len(self.cp.proto.variables) :]
        if self.chosen:
            # Goals have added variables since, of which nothing is known.
            for variable, value in zip(variables, self.chosen, strict=False):
                cp.add_hint(variable, value)
            for use, column in zip(uses, columns, strict=True):
                cp.add_hint(use, self._used.get(column, 0))
        found = optimise(cp, terms, maximize=maximize, seconds=seconds, effort=effort)
        if isinstance(found, Answer):
            return None
        counts = [int(found.solver.value(v)) for v in variables]
        goal = [(v.index, w) for v, w in terms]
        value = sum(w * counts[v] for v, w in goal)
        if beyond is not None and (value <= beyond if maximize else value >= beyond):
            return None
        return self._take(goal, columns, counts)

    def dive(
        self,
        terms: Terms[Var],
        bound: int,
        *,
        maximize: bool,
        whole: Sequence[Var],
        leave: Sequence[float],
        most: int,
        enough: int,
        deadline: float,
        beyond: int | None = None,
    ) -> int | None:
        """The same by a dive that makes variables `whole` first, from `most` columns of those that
        cost hardly anything; it ends where no more than `enough` lacks. What domains hold is fixed
        for all but some shares of them, which are left to HiGHS, the largest share first.
        """
        both = zip(self.lp.columns, self.lp.reduced, strict=True)
        cheap = [column for column, cost in both if cost <= enough]
        relaxation = Relaxation(self.lp, self.cp, terms, maximize, cheap[-most:])
        dive = Dive(relaxation, [v.index for v in whole], deadline)
        now = time.monotonic()
        dive.round_counts(now + (deadline - now) / 2)
        best, lacks = None, abs(bound - beyond) if beyond is not None else None
        for share in leave:
            fixed = dive.fix(share)
            left = deadline - time.monotonic()
            if not fixed or left <= 0 or (lacks is not None and lacks <= enough):
                break
            value = self.fill(
                terms,
                bound,
                maximize=maximize,
                seconds=left,
                slack=None,
                beyond=beyond,
                fixed=fixed,
            )
            if value is not None:
                best, beyond, lacks = value, value, abs(bound - value)
        return best

    def _linear(self, columns: Sequence[Column]) -> LinearModel:
        """All that is held as a linear model; how often each column is used are its last
        variables.
        """
        model = LinearModel()
        for low, *_, high in (v.domain for v in self.cp.proto.variables):
            variable = model.variable(high)
            if low:
                model.row([(variable, 1)], least=low)
        for column in columns:
            model.variable(self._domains(column))
        for row in (*linear_rows(self.cp), *self._rows_of_uses(columns)):
            least = -math.inf if row.low is None else row.low
            model.row(row.weights, least, math.inf if row.high is None else row.high)
        return model

    def _open(self, fixed: Mapping[Column, int]) -> list[Column]:
        """Columns for domains for which none is fixed, and those that are."""
        left = [len(s.domains) for s in self.configurations.signatures]
        for column, times in fixed.items():
            left[column.signature] -= times
        return [q for q in self.lp.columns if q in fixed or left[q.signature]]

    def _columns(self, slack: int | None) -> list[Column]:
        both = zip(self.lp.columns, self.lp.reduced, strict=True)
        return [column for column, cost in both if slack is None or cost <= slack]

    def _domains(self, column: Column) -> int:
        return len(self.configurations.signatures[column.signature].domains)

    def _rows_of_uses(self, columns: Sequence[Column]) -> Iterator[Row]:
        """Columns are used as often as there are domains at most, and hold all parts. How often
        each is used are the variables after those of the master.
        """
        held: list[list[Weighted]] = [[] for _ in self.needs]
        within: dict[int, list[Weighted]] = {}
        for use, column in enumerate(columns, len(self.cp.proto.variables)):
            within.setdefault(column.signature, []).append(Weighted(use, 1))
            for k, times in column.parts:
                held[k].append(Weighted(use, -times))
        for signature, mine in within.items():
            there = len(self.configurations.signatures[signature].domains)
            yield Row(tuple(mine), None, there)
        both = zip(self.needs, held, self.configurations.most, strict=True)
        for needs, holds, most in both:
            if needs and most:
                asked = [Weighted(v.index, n) for v, n in needs]
                yield Row((*asked, *holds), None, 0)

    def _take(
        self,
        goal: Sequence[tuple[int, int]],
        columns: Sequence[Column],
        counts: Sequence[int],
        held: Mapping[int, Column] = MappingProxyType({}),
    ) -> int | None:
        """Keeps a solution and returns its value; None where it uses more domains than there
        are, as floats may. Domains hold what they `held`, as far as may be.
        """
        chosen = counts[: len(self.cp.proto.variables)]
        both = zip(columns, counts[len(chosen) :], strict=True)
        used = {column: times for column, times in both if times}
        left = Counter(used)
        domains: dict[int, Column] = {}
        for domain, column in held.items():
            if left[column]:
                left[column] -= 1
                domains[domain] = column
        free = [[d for d in s.domains if d not in domains] for s in self.configurations.signatures]
        for column in left.elements():
            mine = free[column.signature]
            if not mine:
                return None
            parts = Counter(dict(column.parts))
            _, at = max(
                ((parts & Counter(dict(held[d].parts))).total() if d in held else 0, i)
                for i, d in enumerate(mine)
            )
            domains[mine.pop(at)] = column
        self.chosen, self._used = chosen, used
        self.domains = {domain: dict(column.parts) for domain, column in domains.items()}
        return sum(w * chosen[v] for v, w in goal)
