"""The admission master with configurations in place of patterns.

Its bounds are those of the linear relaxation, see `configuration_lp`. Its solutions are those of
CP-SAT over the configurations found there; that these are the best of them proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.admission_master import AdmissionMaster
from placement_service.cp_sat.configuration_lp import Column, ConfigurationLp
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Var, dot, optimise
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
        self._hint: Sequence[int] = ()
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
        self,
        terms: Terms[Var],
        bound: int,
        *,
        maximize: bool,
        seconds: float,
        effort: float,
        slack: int,
    ) -> Answer:
        """The best solution with the known configurations; the answer has no bound.

        `bound` is the proven one, at which the search may end. Configurations are left out
        that cost more than `slack`, in the goal's units, of the bound where they are used.
        """
        cp = self.cp.clone()
        columns = [
            column
            for column, cost in zip(self._lp.columns, self._lp.reduced, strict=True)
            if cost <= slack
        ]
        signatures = self.configurations.signatures
        most = self.configurations.most
        uses = [cp.new_int_var(0, len(signatures[c.signature].domains), "") for c in columns]
        held: list[list[tuple[Var, int]]] = [[] for _ in self._needs]
        within: list[list[Var]] = [[] for _ in signatures]
        for use, column in zip(uses, columns, strict=True):
            within[column.signature].append(use)
            for k, times in column.parts:
                held[k].append((use, times))
        for signature, mine in zip(signatures, within, strict=True):
            if mine:
                cp.add(cp_model.LinearExpr.sum(mine) <= len(signature.domains))
        for k, (needs, holds) in enumerate(zip(self._needs, held, strict=True)):
            if needs and most[k]:
                cp.add(dot([*needs, *((use, -times) for use, times in holds)]) <= 0)
        if maximize:
            cp.add(dot(terms) <= bound)
        else:
            cp.add(dot(terms) >= bound)
        for i, value in enumerate(self._hint):
            cp.add_hint(cp.get_int_var_from_proto_index(i), value)
        if self._hint:
            for use, column in zip(uses, columns, strict=True):
                cp.add_hint(use, self._used.get(column, 0))
        found = optimise(
            cp, terms, maximize=maximize, seconds=seconds, effort=effort, portfolio=False
        )
        if isinstance(found, Answer):
            return Answer(None, None, None, proven=False)
        value_of = found.solver.value
        variables = range(len(self.cp.proto.variables))
        self._hint = [int(value_of(cp.get_int_var_from_proto_index(i))) for i in variables]
        used = zip(columns, (int(value_of(use)) for use in uses), strict=True)
        self._used = {column: times for column, times in used if times}
        self._take([int(value_of(z)) for z in self._admitted])
        return Answer(None, found.value, None, proven=False)

    def _take(self, admitted: Sequence[int]) -> None:
        left = [list(s.domains) for s in self.configurations.signatures]
        domains: dict[int, dict[int, int]] = {}
        for column, times in self._used.items():
            for _ in range(times):
                domains[left[column.signature].pop()] = dict(column.parts)
        both = zip(self.counting.classes, admitted, strict=True)
        self.filling = Filling(tuple(g for c, k in both for g in c.gangs[:k]), domains)
