"""The admission master with configurations in place of patterns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.admission.master import AdmissionMaster
from placement_service.cp_sat.configurations.columns import ColumnModel, Domains
from placement_service.cp_sat.configurations.lp import Column
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Var
from placement_service.formulation.indices import GangIdx


@dataclass(frozen=True, slots=True)
class Filling:
    """The gangs of a solution, and the parts {kind: times} of domains that hold any."""

    gangs: tuple[GangIdx, ...]
    domains: Domains


class ConfigurationMaster(AdmissionMaster):
    """As the admission master; `columns` solves it with configurations."""

    def __init__(
        self,
        configurations: Configurations,
        parameters: ModelParameters = MODEL_DEFAULTS,
        columns: Iterable[Column] = (),
    ) -> None:
        """`columns` are known from another master of the same configurations."""
        super().__init__(configurations.counting, replace(parameters, master_patterns=0))
        self.configurations = configurations
        self.columns = ColumnModel(configurations, self.cp, self._parts_asked_for(), parameters)
        for column in columns:
            self.columns.lp.add(column)

    def _parts_asked_for(self) -> list[list[tuple[Var, int]]]:
        needs: list[list[tuple[Var, int]]] = [[] for _ in self.configurations.kinds]
        for c, (z, e) in enumerate(zip(self._admitted, self._extras, strict=True)):
            for k in np.flatnonzero(self.configurations.parts[c]).tolist():
                needs[k].append((z, int(self.configurations.parts[c, k])))
            if self.configurations.extra[c] >= 0:
                needs[self.configurations.extra[c]].append((e, 1))
        return needs

    @property
    def filling(self) -> Filling | None:
        """What the last solve found, None before."""
        if not self.columns.chosen:
            return None
        both = zip(self.counting.classes, self._admitted, strict=True)
        gangs = (g for c, z in both for g in c.gangs[: self.columns.chosen[z.index]])
        return Filling(tuple(gangs), self.columns.domains)
