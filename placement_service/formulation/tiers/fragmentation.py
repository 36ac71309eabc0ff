"""Fragmentation: whole nodes and domains stay free, pods without GPUs avoid GPU nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import HOSTNAME
from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


@dataclass(frozen=True, slots=True, eq=False)
class Fragmentation:
    """Nodes that lie in domains which lose their wholeness, plus misplaced pods."""

    tier: ClassVar[TierName] = TierName.FRAGMENTATION
    unit: ClassVar[int] = 1
    reported: ClassVar[bool] = True
    priority: ClassVar[int | None] = None

    problem: Problem

    def value(self, plan: Plan) -> int:
        problem = self.problem
        uses_gpus = (problem.gpus > 0).tolist()
        out_of_place = problem.pods_without_gpus.tolist()
        with_gpus: list[int] = []
        without: list[int] = []
        pods: list[int] = []
        for index, units in plan.items():
            if units == problem.gangs[index].home:
                continue
            demands = problem.gangs[index].demands
            at_home = _at_home(problem, problem.gangs[index])
            for d, n, whole_count in units:
                # Pods that stay at home touch no node that was whole.
                count = whole_count - min(whole_count, at_home.get((d, n), 0))
                if not count:
                    continue
                pod_class = demands[d].pod_class
                if uses_gpus[pod_class]:
                    with_gpus.append(n)
                if out_of_place[pod_class]:
                    without.append(n)
                    pods.append(count * out_of_place[pod_class])
        touched = np.zeros(problem.node_count, dtype=bool)
        touched[with_gpus] = True
        misplaced = int(np.array(pods, dtype=np.int64)[problem.node_gpus[without] > 0].sum())
        has_gpus = problem.node_gpus > 0
        total = int((touched & problem.whole_free).sum())
        for level in (problem.levels[i] for i in problem.scope_levels):
            if level.key == HOSTNAME:
                continue
            inside = level.domain >= 0
            at = level.domain[inside]
            size = np.bincount(at, has_gpus[inside], level.count)
            whole = np.bincount(at, (problem.whole_free & has_gpus)[inside], level.count)
            hit = np.bincount(at, touched[inside], level.count)
            total += int(size[(size > 0) & (whole == size) & (hit > 0)].sum())
        return total + misplaced

    def trivial_bound(self) -> int:
        return 0

    def terms(self, model: GoalModel[V]) -> Terms[V] | None:
        return model.fragmentation_cost()

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return []


def _at_home(problem: Problem, gang: Gang) -> Mapping[tuple[int, int], int]:
    """The units of a gang that run, by demand and node; also of one that comes again, with other
    devices, where these pods may be on their nodes again.
    """
    if not gang.begins_anew or problem.policy.eviction is not EvictionPolicy.REPACK:
        return {(h.demand, h.node): h.units for h in gang.home}
    running = problem.gangs[gang.anew_of]
    demand_of = {member[:2]: d for d, one in enumerate(gang.demands) for member in one.members}
    found = Counter[tuple[int, int]]()
    for h in running.home:
        member = running.demands[h.demand].members[0]
        found[demand_of[member[:2]], h.node] += h.units
    return found


def goals(problem: Problem) -> tuple[Fragmentation, ...]:
    return (Fragmentation(problem),)
