"""The admission master with configurations in place of patterns.

Its bounds are those of the linear relaxation, see `configuration_lp`. Its solutions are those of
HiGHS or CP-SAT over the configurations found there; that these are the best of them proves nothing.
The relaxation is so tight that HiGHS often has the best before it branches, several times as
fast as CP-SAT; where it has not, CP-SAT is better at looking for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.admission_master import AdmissionMaster
from placement_service.cp_sat.configuration_lp import (
    Column,
    ConfigurationLp,
    Row,
    Weighted,
    linear_rows,
)
from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Var, dot, hold, optimise
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.tiers.goal import Terms


@dataclass(frozen=True, slots=True)
class Filling:
    """The gangs of a solution, and the parts {kind: times} of domains that hold any."""

    gangs: tuple[GangIdx, ...]
    domains: Mapping[int, Mapping[int, int]]


class ConfigurationMaster(AdmissionMaster):
    """As the admission master; `filling` is what the last solve found, None before."""

    def __init__(
        self, configurations: Configurations, parameters: ModelParameters = MODEL_DEFAULTS
    ) -> None:
        super().__init__(configurations.counting, replace(parameters, master_patterns=0))
        self.configurations = configurations
        self._needs = self._parts_asked_for()
        self._lp = ConfigurationLp(configurations, self._needs, parameters)
        self.filling: Filling | None = None
        #: The variables of the master there, and how often columns are used.
        self._chosen: Sequence[int] = ()
        self._used: Mapping[Column, int] = {}

    def _parts_asked_for(self) -> list[list[tuple[Var, int]]]:
        needs: list[list[tuple[Var, int]]] = [[] for _ in self.configurations.kinds]
        for c, (z, e) in enumerate(zip(self._admitted, self._extras, strict=True)):
            for k in np.flatnonzero(self.configurations.parts[c]).tolist():
                needs[k].append((z, int(self.configurations.parts[c, k])))
            if self.configurations.extra[c] >= 0:
                needs[self.configurations.extra[c]].append((e, 1))
        return needs

    def bound(self, terms: Terms[Var], *, maximize: bool, deadline: float) -> int:
        """A proven bound of a goal under all that is held; `deadline` as `time.monotonic`."""
        return self._lp.bound(self.cp, terms, maximize=maximize, deadline=deadline)

    def fill(
        self, terms: Terms[Var], bound: int, *, maximize: bool, seconds: float, slack: int
    ) -> int | None:
        """The value of the best solution with the known configurations that HiGHS finds before it
        branches, None if it finds none.

        `bound` is the proven one, at which the search may end. Configurations are left out that
        cost more than `slack`, in the goal's units, of the bound where they are used.
        """
        columns, goal = self._columns(slack), [(v.index, w) for v, w in terms]
        model = LinearModel()
        for low, *_, high in (v.domain for v in self.cp.proto.variables):
            assert not low, "a variable of the master that cannot be 0"
            model.variable(high)
        for column in columns:
            model.variable(self._domains(column))
        for row in (*linear_rows(self.cp), *self._rows_of_uses(columns)):
            least = -math.inf if row.low is None else row.low
            model.row(row.weights, least, math.inf if row.high is None else row.high)
        model.row(goal, **{"most" if maximize else "least": bound})
        found = model.whole(goal, maximize=maximize, seconds=seconds, nodes=1).values
        if found is None:
            return None
        counts = np.rint(found).astype(np.int64).tolist()
        return self._take(goal, columns, counts)

    def refill(
        self,
        terms: Terms[Var],
        bound: int,
        *,
        maximize: bool,
        seconds: float,
        effort: float,
        slack: int,
    ) -> int | None:
        """The same by CP-SAT, from the solution there is: it takes longer, and sometimes finds
        more.
        """
        cp, columns = self.cp.clone(), self._columns(slack)
        for column in columns:
            cp.new_int_var(0, self._domains(column), "")
        for row in self._rows_of_uses(columns):
            assert row.high is not None
            weights = [(cp.get_int_var_from_proto_index(v), w) for v, w in row.weights]
            cp.add(dot(weights) <= row.high)
        hold(cp, terms, None if maximize else bound, bound if maximize else None)
        variables = [cp.get_int_var_from_proto_index(i) for i in range(len(cp.proto.variables))]
        uses = variables[len(self.cp.proto.variables) :]
        if self.filling is not None:
            # Goals have added variables since, of which nothing is known.
            for variable, value in zip(variables, self._chosen, strict=False):
                cp.add_hint(variable, value)
            for use, column in zip(uses, columns, strict=True):
                cp.add_hint(use, self._used.get(column, 0))
        found = optimise(
            cp, terms, maximize=maximize, seconds=seconds, effort=effort, portfolio=False
        )
        if isinstance(found, Answer):
            return None
        counts = [int(found.solver.value(v)) for v in variables]
        return self._take([(v.index, w) for v, w in terms], columns, counts)

    def _columns(self, slack: int) -> list[Column]:
        both = zip(self._lp.columns, self._lp.reduced, strict=True)
        return [column for column, cost in both if cost <= slack]

    def _domains(self, column: Column) -> int:
        return len(self.configurations.signatures[column.signature].domains)

    def _rows_of_uses(self, columns: Sequence[Column]) -> Iterator[Row]:
        """Columns are used as often as there are domains at most, and hold all parts. How often
        each is used are the variables after those of the master.
        """
        held: list[list[Weighted]] = [[] for _ in self._needs]
        within: dict[int, list[Weighted]] = {}
        for use, column in enumerate(columns, len(self.cp.proto.variables)):
            within.setdefault(column.signature, []).append(Weighted(use, 1))
            for k, times in column.parts:
                held[k].append(Weighted(use, -times))
        for signature, mine in within.items():
            there = len(self.configurations.signatures[signature].domains)
            yield Row(tuple(mine), None, there)
        both = zip(self._needs, held, self.configurations.most, strict=True)
        for needs, holds, most in both:
            if needs and most:
                asked = [Weighted(v.index, n) for v, n in needs]
                yield Row((*asked, *holds), None, 0)

    def _take(
        self, goal: Sequence[tuple[int, int]], columns: Sequence[Column], counts: Sequence[int]
    ) -> int | None:
        """Keeps a solution and returns its value; None where it uses more domains than there
        are, as floats may.
        """
        chosen = counts[: len(self.cp.proto.variables)]
        both = zip(columns, counts[len(chosen) :], strict=True)
        used = {column: times for column, times in both if times}
        left = [list(s.domains) for s in self.configurations.signatures]
        domains: dict[int, dict[int, int]] = {}
        for column, times in used.items():
            for _ in range(times):
                if not left[column.signature]:
                    return None
                domains[left[column.signature].pop()] = dict(column.parts)
        self._chosen, self._used = chosen, used
        admitted = zip(self.counting.classes, self._admitted, strict=True)
        gangs = tuple(g for c, z in admitted for g in c.gangs[: chosen[z.index]])
        self.filling = Filling(gangs, domains)
        return sum(w * chosen[v] for v, w in goal)
