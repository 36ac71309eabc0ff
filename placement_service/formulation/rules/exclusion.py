"""Exclusion: two sides that must not meet in a domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.protocol import Bundle, Ceiling, Rule, pad, where_open


@dataclass(frozen=True, slots=True, eq=False)
class Exclusion(Rule):
    """No domain holds pods of both sides; both are masks over pod classes [C]."""

    closes_for_good: ClassVar[bool] = True

    left: Bools
    right: Bools

    def tracked(self) -> tuple[Bools, Bools]:
        return (self.left, self.right)

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        if not (self.left[pod_class] or self.right[pod_class]):
            return None
        return np.append(pods[1 if self.left[pod_class] else 0] == 0, True)

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        return where_open(self.open_domains(pods, pod_class))

    def is_about_others(self, pod_class: ClassIdx) -> bool:
        return not (self.left[pod_class] and self.right[pod_class])

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return type(self)(self.level, pad(self.left, bundles), pad(self.right, bundles))
