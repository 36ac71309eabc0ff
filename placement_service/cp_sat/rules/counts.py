"""What rules over domains need of a model: units by domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ortools.sat.python import cp_model

from placement_service.cp_sat.solving import Var
from placement_service.formulation.arrays import Bools
from placement_service.formulation.indices import ClassIdx, LevelIdx


class ClassCount(NamedTuple):
    """A variable that counts units of one pod class."""

    units: Var
    pod_class: ClassIdx


class DomainCounts(Protocol):
    """A model whose units can be counted by domain."""

    cp: cp_model.CpModel

    def by_domain(self, level: LevelIdx, classes: Bools) -> dict[int, list[ClassCount]]:
        """Units of some pod classes by domain; domains without any are absent."""
        ...

    def total_units(self) -> int:
        """At most so many units are placed."""
        ...


def counts(found: Iterable[ClassCount]) -> list[Var]:
    """The variables alone."""
    return [u.units for u in found]
