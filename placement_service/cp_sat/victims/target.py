"""What a solution of the victim model means: how much of each gang stays, and where new pods go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.formulation.arrays import Floats, Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Units, units_of
from placement_service.formulation.problem import Problem

_NOWHERE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Target:
    """The aim of a plan: units that stay, by gang, and nodes for each gang that comes, also for
    those that move and need a certain place.
    """

    staying: Mapping[GangIdx, Units]
    places: Mapping[int, Ints]


def target_of(model: VictimModel, values: Floats) -> Target:
    """How much of each gang stays, and the nodes that each waiting gang should use."""
    staying: dict[GangIdx, dict[tuple[int, int], int]] = {}
    for gang in model.running:
        if values[model.placed[gang.index]] > 0.5:
            staying[gang.index] = {}
    for (g, j, s), (v, units) in sorted(model.kept.items()):
        left = round(values[v] * units) if g in staying else 0
        each = model.classes[j].pods[g, s]
        for n in model.classes[j].nodes[: -(-left // each)].tolist():
            here = min(each, left)
            staying[g][s, n] = here
            left -= here
    number: dict[int, int] = {s: a for a, s in enumerate(model.asked)}
    used: dict[int, list[int]] = defaultdict(list)
    for (a, j), v in model.load.items():
        if values[v] > 0.5:
            used[a].append(j)
    domains: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (p, d), v in model.here.items():
        if values[v] > 0.5:
            domains[model.parts[p].gang].append((model.parts[p].level, d))
    for kind, counts in zip(model.kinds, model.moved_here, strict=True):
        # Which of parts that need the same goes to which domain does not matter.
        chosen = [d for d, v in counts.items() for _ in range(round(values[v]))]
        moved = [g for g in kind.gangs if values[model.placed[g]] <= 0.5]
        for g, d in zip(moved, chosen, strict=False):
            domains[g].append((kind.level, d))
    places: dict[int, Ints] = {}
    for gang in (*model.waiting, *model.running):
        comes = values[model.placed[gang.index]] > 0.5
        if gang.home:
            left = sum(staying.get(gang.index, {}).values()) < sum(h.units for h in gang.home)
            comes = left and any(
                gang.demands[h.demand].pod_class in model.placed_again for h in gang.home
            )
        if comes:
            js = sorted(
                {
                    j
                    for d in gang.demands
                    if d.pod_class in number
                    for j in used[number[d.pod_class]]
                }
            )
            nodes = np.sort(np.concatenate([model.classes[j].nodes for j in js] or [_NOWHERE]))
            if domains[gang.index]:
                inside = [
                    model.problem.levels[level].domain[nodes] == d
                    for level, d in domains[gang.index]
                ]
                nodes = nodes[np.any(inside, axis=0)]
            places[gang.index] = nodes
    return Target(
        {g: units_of(_by_demand(model.problem, g, mine)) for g, mine in staying.items()},
        places,
    )


def _by_demand(
    problem: Problem, gang: GangIdx, kept: Mapping[tuple[int, int], int]
) -> Mapping[tuple[int, int], int]:
    """What stays by demand and node, from what stays by pod class and node.

    Pods of one class on one node may be of several demands: they have devices of their own.
    """
    left, found = dict(kept), dict[tuple[int, int], int]()
    demands = problem.gangs[gang].demands
    for home in problem.gangs[gang].home:
        for (s, n), units in left.items():
            if n == home.node and _alike(problem, demands[home.demand].pod_class, s):
                here = min(units, home.units - found.get((home.demand, n), 0))
                found[home.demand, n] = found.get((home.demand, n), 0) + here
                left[s, n] -= here
    return found


def _alike(problem: Problem, one: int, other: int) -> bool:
    request = problem.request
    return one == other or bool((request[one] == request[other]).all())
