"""Where waiting units may come at all: what no plan that matters puts there needs no variable."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from placement_service.cp_sat.victims.nodes import NodeClass
from placement_service.cp_sat.victims.waiting_parts import WaitingPart
from placement_service.formulation.arrays import Bools, Ints, fit
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Problem


def most_that_come(
    problem: Problem,
    classes: Sequence[NodeClass],
    asked: Sequence[ClassIdx],
    gangs: Sequence[Gang],
    parts: Sequence[WaitingPart],
    settled: Collection[GangIdx],
    anywhere: Collection[ClassIdx] = (),
) -> Ints:
    """At most so many units of each of the pod classes `asked` fit a node of each class [A, J].

    `gangs` bring them, and `parts` of these lie in one domain each. Those that are asked for
    `anywhere` may come to every node. Running gangs that are `settled` keep their minimum.
    """
    first = np.array([c.nodes[0] for c in classes], dtype=np.int64)
    free = _beside(problem, classes, first, settled)
    fits = np.array([fit(free, problem.request[s]) for s in asked], dtype=np.int64)
    fits = fits.reshape(len(asked), len(first))
    fits = np.where(problem.eligible[list(asked)][:, first], fits, 0)
    number = {s: a for a, s in enumerate(asked)}
    sizes = np.array([len(c.nodes) for c in classes], dtype=np.int64)
    part_of = {part.gang: part for part in parts}
    reached = np.zeros(fits.shape, dtype=bool)
    reached[[number[s] for s in anywhere]] = True
    for gang in gangs:
        brought = {number[d.pod_class] for d in gang.demands if d.pod_class in number}
        part = part_of.get(gang.index)
        if part is None or not _is_all_of(gang, part):
            reached[list(brought)] = True
            continue
        domain = problem.levels[part.level].domain[first]
        domains = np.arange(problem.levels[part.level].count)
        able: Bools = domains == part.pin if part.pin >= 0 else domains >= 0
        inside = domain >= 0
        for s, units in part.units.items():
            room = (fits[number[ClassIdx(s)]] * sizes)[inside]
            able &= np.bincount(domain[inside], room, len(able)) >= units
        # Nodes without a domain stand last.
        reached[list(brought)] |= np.append(able, False)[domain]
    return np.where(reached, fits, 0)


def _is_all_of(gang: Gang, part: WaitingPart) -> bool:
    """Whether a scope with the level of a part holds every pod of a gang."""
    return any(
        scope.required == part.level and len(scope.demands) == len(gang.demands)
        for scope in gang.scopes
    )


def _beside(
    problem: Problem, classes: Sequence[NodeClass], first: Ints, settled: Collection[GangIdx]
) -> Ints:
    """What the first node of each class has beside gangs that are settled and have no extras."""
    left: Ints = problem.free[first].copy()
    whole = {g for g in settled if not problem.gangs[g].extras}
    away = [
        (j, s, units)
        for j, node_class in enumerate(classes)
        for (g, s), units in node_class.pods.items()
        if g in whole
    ]
    if away:
        at, pod_class, units = np.array(away, dtype=np.int64).T
        np.subtract.at(left, at, units[:, None] * problem.request[pod_class])
    return left
