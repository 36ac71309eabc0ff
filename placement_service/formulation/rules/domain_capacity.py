"""Domain capacity: each domain holds pods of a limited weight; on a node, simply a resource."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.protocol import NO_CEILING, Bundle, Ceiling, Rule, pad


@dataclass(frozen=True, slots=True, eq=False)
class DomainCapacity(Rule):
    """The weights [C] of the pods in a domain add up to at most `capacity`."""

    closes_for_good: ClassVar[bool] = True

    weight: Ints
    capacity: int

    def tracked(self) -> tuple[Ints]:
        return (self.weight,)

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        weight = int(self.weight[pod_class])
        return np.append(pods[0] + weight <= self.capacity, True) if weight else None

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        if not self.weight[pod_class]:
            return None
        left = np.maximum(0, self.capacity - pods[0]) // self.weight[pod_class]
        return Ceiling(np.append(left, NO_CEILING))

    def surely(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        ceiling = self.ceiling(pods, pod_class, ())
        return super().surely(pods, pod_class) if ceiling is None else ceiling.by_domain

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return type(self)(self.level, pad(self.weight, bundles), self.capacity)
