"""Groups of pods of which no domain holds two are one rule, and it says what many exclusions do."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from placement_service.entities.request import Snapshot
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import ClassIdx, LevelIdx
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.exclusive_groups import ExclusiveGroups, merged
from placement_service.formulation.rules.protocol import Rule
from placement_service.heuristic.residual_capacity import ResidualCapacity
from tests.scenario import Group, Scenario

DOMAINS = 3


def sides(groups: list[int], *, each: int) -> list[Exclusion]:
    """Exclusions of the first groups, each from all that are in another group or the last."""
    group = np.array(groups)
    return [Exclusion(LevelIdx(0), group == g, (group > 0) & (group != g)) for g in range(1, each)]


def counted(rule: Rule, pods: dict[tuple[int, int], int]) -> Ints:
    """What a rule tracks of pods by class and domain."""
    found = np.zeros((len(rule.tracked()), DOMAINS), dtype=np.int64)
    for row, weights in zip(found, rule.tracked(), strict=True):
        for (pod_class, domain), n in pods.items():
            row[domain] += n * int(weights[pod_class])
    return found


def open_to(rules: list[Rule], pods: dict[tuple[int, int], int], pod_class: int) -> Bools:
    result = np.ones(DOMAINS + 1, dtype=bool)
    for rule in rules:
        able = rule.open_domains(counted(rule, pods), ClassIdx(pod_class))
        result &= True if able is None else able
    return result


@pytest.mark.parametrize("each", [4, 3])
def test_it_opens_what_all_exclusions_open(each: int) -> None:
    """Also where the last group has no exclusion of its own."""
    groups = [1, 2, 3, 0, 1, 3]
    many = sides(groups, each=each)
    [one] = merged(many)
    assert isinstance(one, ExclusiveGroups)
    rng = random.Random(7)
    pods: dict[tuple[int, int], int] = {}
    for _ in range(60):
        pod_class, domain = rng.randrange(len(groups)), rng.randrange(DOMAINS)
        for c in range(len(groups)):
            assert (open_to([one], pods, c) == open_to(list(many), pods, c)).all()
        if open_to([one], pods, pod_class)[domain]:
            pods[pod_class, domain] = pods.get((pod_class, domain), 0) + rng.randint(1, 3)
        elif pods:
            pods.pop(rng.choice(list(pods)))


def test_exclusions_of_other_pods_or_of_sides_that_overlap_stay() -> None:
    first, second, _ = sides([1, 2, 3, 1], each=4)
    other = Exclusion(LevelIdx(0), np.arange(4) == 0, np.arange(4) == 1)
    higher = replace(second, level=LevelIdx(1))
    overlap = replace(second, left=first.left | second.left, right=second.right & ~first.left)
    for some in ([first], [first, other], [first, higher], [first, overlap]):
        assert merged(some) == some


def clusters(*domains: str) -> Snapshot:
    """Nodes of two GPUs, and gangs of two pods of one GPU in ComputeDomains."""
    scenario = Scenario("x1=2 x2=2 x3=2")
    for i, domain in enumerate(domains):
        group = Group("w", pods=2, gpus=1, asks={"compute_domain": domain})
        scenario = scenario.gang(f"g{i}", group)
    return scenario.snapshot()


def test_compute_domains_are_one_rule() -> None:
    problem = formulate(clusters("a", "b", "c", "d"), Scenario("x1=2").policy)
    [rule] = problem.rules
    assert isinstance(rule, ExclusiveGroups)
    residual = ResidualCapacity(problem)
    mine = ClassIdx(problem.gangs[0].demands[0].pod_class)
    mark = residual.mark()
    residual.take(mine, np.array([1]), np.array([2]))
    other = ClassIdx(problem.gangs[1].demands[0].pod_class)
    assert residual.allowed(other).tolist() == [True, False, True]
    assert residual.allowed(mine).all()
    residual.undo(mark)
    assert residual.allowed(other).all()


def test_each_node_serves_one_of_many_domains() -> None:
    """Three of four gangs find one; of three gangs on two nodes two do, as a pair is one pod short
    of a node and no other gang may have the rest.
    """
    scenario = Scenario("x1=2 x2=2 x3=2")
    for name in "abcd":
        group = Group("w", pods=2, gpus=1, asks={"compute_domain": name})
        scenario = scenario.gang(name, group)
    placed = scenario.place().expect(admitted=6)
    assert all(len(placed.nodes(name)) == 1 for name in placed.placed)
    odd = Scenario("x1=3 x2=3")
    for name in "abc":
        odd = odd.gang(name, Group("w", pods=2, gpus=1, asks={"compute_domain": name}))
    odd.place().expect(admitted=4)


def test_pods_that_avoid_their_own_class_are_not_only_about_others() -> None:
    both = Exclusion(LevelIdx(0), np.array([True, True]), np.array([False, True]))
    assert [both.is_about_others(ClassIdx(s)) for s in (0, 1)] == [True, False]
    groups = ExclusiveGroups(LevelIdx(0), np.array([1, 2]))
    assert all(groups.is_about_others(ClassIdx(s)) for s in (0, 1))
    assert all(rule.closes_for_good for rule in (both, groups))
