"""Gangs of which all parts lie in some domains, with configurations of these domains alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configurations.columns import ColumnModel
from placement_service.cp_sat.configurations.lp import Duals, Floats
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints


class Limit(NamedTuple):
    """What a gang of each class counts [C], and how much room there is for that."""

    weights: Ints
    room: int


class Elsewhere(NamedTuple):
    """A model of all gangs, its variables for each class, and how many lie elsewhere [C]."""

    cp: cp_model.CpModel
    admitted: Sequence[Var]
    placed: Ints


class GangColumns(ColumnModel):
    """`gangs` are how many gangs of each class lie in these domains, of those that are `left` [C].

    `prices` of kinds [K] are near the best. With gangs `elsewhere` the model of all gangs has its
    rows and its goals, too.
    """

    def __init__(
        self,
        found: Configurations,
        domains: Collection[int],
        left: Ints,
        limits: Iterable[Limit],
        prices: Floats,
        parameters: ModelParameters,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        cp = cp_model.CpModel() if elsewhere is None else elsewhere.cp.clone()
        able = np.flatnonzero(left).tolist() if elsewhere is None else range(len(left))
        self.gangs = {c: cp.new_int_var(0, int(left[c]), "") for c in able}
        if elsewhere is not None:
            both = zip(elsewhere.admitted, elsewhere.placed.tolist(), strict=True)
            for c, (admitted, placed) in enumerate(both):
                every = cp.get_int_var_from_proto_index(admitted.index)
                cp.add(dot([(every, 1), (self.gangs[c], -1)]) == placed)
        for limit in limits:
            weights = [(v, int(limit.weights[c])) for c, v in self.gangs.items()]
            cp.add(dot(weights) <= limit.room)
        needs: list[list[tuple[Var, int]]] = [[] for _ in found.kinds]
        for c, v in self.gangs.items():
            for k in np.flatnonzero(found.parts[c]).tolist():
                needs[k].append((v, int(found.parts[c, k])))
        inside = found.inside(frozenset(domains), left @ found.parts)
        center = Duals(np.zeros(len(cp.proto.constraints)), prices)
        super().__init__(inside, cp, needs, parameters, center)

    def placed(self, classes: int) -> Ints:
        """How many gangs of each class the last solution has here [C]."""
        found = np.zeros(classes, dtype=np.int64)
        for c, v in self.gangs.items():
            found[c] = self.chosen[v.index]
        return found
