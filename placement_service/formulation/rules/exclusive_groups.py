"""Exclusive groups: no domain holds pods of two groups, as no node serves two ComputeDomains.

Many exclusions that say the same of each of their sides are one such rule. What is counted
by domain tells which group is there: pods, and the sum of the numbers of their groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx, LevelIdx
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.protocol import Bundle, Ceiling, Rule, pad, where_open


@dataclass(frozen=True, slots=True, eq=False)
class ExclusiveGroups(Rule):
    """`group` numbers pod classes from 1 on, 0 those that are in none [C]."""

    closes_for_good: ClassVar[bool] = True

    group: Ints

    def tracked(self) -> tuple[Ints | Bools, ...]:
        return (self.group > 0, self.group)

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        mine = int(self.group[pod_class])
        if not mine:
            return None
        count, total = pods
        return np.append(total == mine * count, True)

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        return where_open(self.open_domains(pods, pod_class))

    def is_about_others(self, pod_class: ClassIdx) -> bool:
        return True

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return type(self)(self.level, pad(self.group, bundles))


def merged(exclusions: Sequence[Exclusion]) -> list[Rule]:
    """The same rules, those as groups that keep each of some sides away from all the others."""
    alike: defaultdict[tuple[LevelIdx, bytes], list[Exclusion]] = defaultdict(list)
    for rule in exclusions:
        alike[rule.level, (rule.left | rule.right).tobytes()].append(rule)
    result: list[Rule] = []
    for some in alike.values():
        sides = np.array([rule.left for rule in some], dtype=np.int64)
        if len(some) == 1 or (sides.sum(axis=0) > 1).any():
            result += some
            continue
        # Those on no left side are together the last group.
        group = np.arange(1, len(some) + 1) @ sides
        rest = (some[0].left | some[0].right) & (group == 0)
        group[rest] = len(some) + 1
        result.append(ExclusiveGroups(some[0].level, group))
    return result
