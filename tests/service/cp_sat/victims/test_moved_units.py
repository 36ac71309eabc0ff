"""What is known of the places of running gangs that may move."""

from __future__ import annotations

import pytest

from placement_service.cp_sat.victims.moved_units import Homebound, homebound, moved_kinds
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PackingScope,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Gang, Problem
from tests.service.evictions import REPACK, new
from tests.service.questions import GPU, node

NODES = tuple(node(f"{r}{i}", used=8, block="b", rack=r) for r in "ab" for i in range(2))


def group(name: str, *nodes: str, minimum: int, gpus: int = 8) -> PodGroup:
    """A pod on each of these nodes."""
    pods = tuple(BoundPod(f"namespaces/ml/pods/{name}-{n}", f"nodes/{n}") for n in nodes)
    return PodGroup(name, minimum, (PodSet(PodTemplate({GPU: gpus, PODS: 1}), (), pods),))


def opened(groups: tuple[PodGroup, ...], *scopes: PackingScope) -> tuple[Problem, Gang]:
    """A gang that runs and may move, for another one waits."""
    old = PodGang("namespaces/ml/podgangs/old", groups, packing_scopes=scopes)
    problem = formulate(Snapshot(NODES, (old, new(1))), REPACK)
    [gang] = [g for g in problem.gangs if g.home]
    return problem, gang


def classes(problem: Problem) -> list[ClassIdx]:
    """All pod classes."""
    return [ClassIdx(s) for s in range(len(problem.request))]


def bound_to_home(groups: tuple[PodGroup, ...], *scopes: PackingScope) -> list[Homebound]:
    problem, gang = opened(groups, *scopes)
    return list(homebound(problem, [gang], classes(problem)))


LEFT = PackingScope("left", ("left",), "rack")


def test_extras_stay_in_the_domain_that_the_minimum_holds() -> None:
    [units] = bound_to_home((group("left", "a0", "a1", minimum=1),), LEFT)
    assert units.units == 2


def test_units_of_a_class_that_others_of_the_gang_ask_for_may_come_again_anywhere() -> None:
    """Both groups have pods alike. Those of the right one are not bound to the rack."""
    left, right = group("left", "a0", "a1", minimum=1), group("right", "b0", minimum=1)
    assert bound_to_home((left, right), LEFT) == []


def test_where_no_pod_has_to_stay_none_is_bound_to_its_home() -> None:
    """The left group has extras alone: the gang stays without them, or with others elsewhere."""
    left = group("left", "a0", "a1", minimum=0)
    right = group("right", "b0", minimum=1, gpus=7)
    assert bound_to_home((left, right), LEFT) == []


@pytest.mark.parametrize("around", [("left",), ("left", "right")])
def test_units_of_a_part_know_the_larger_parts_that_count_them_too(
    around: tuple[str, ...],
) -> None:
    """Of two scopes over the same groups the first is the larger part."""
    left, right = group("left", "a0", "a1", minimum=1), group("right", "b0", minimum=1, gpus=7)
    scopes = PackingScope("around", around, "block"), LEFT
    problem, gang = opened((left, right), *scopes)
    [block, rack] = (scope.required for scope in gang.scopes)
    [part, *_] = (u for u in homebound(problem, [gang], classes(problem)) if u.within)
    assert (part.level, part.within) == (rack, frozenset({block}))


def test_of_parts_in_parts_that_move_the_outermost_counts() -> None:
    whole = PackingScope("all", ("left",), "block")
    problem, gang = opened((group("left", "a0", "a1", minimum=2),), whole, LEFT)
    [kind] = moved_kinds(problem, [gang], classes(problem))
    assert problem.levels[kind.level].key == "block"
