"""Classes of nodes: what is told apart, and what is not."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from placement_service.cp_sat.node_classes import NodeClass, classify
from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from tests.placed import solve
from tests.scenario import Group, Scenario

#: What pods ask for, (GPUs, cores); some hundred mixtures of them fill a node.
SHAPES = ((1, 2), (1, 3), (1, 7), (1, 9), (2, 17), (2, 28), (4, 31))
POLICY = Policy(deterministic=True)


def cluster(nodes: int) -> Scenario:
    return Scenario(" ".join(f"x{i}=8" for i in range(nodes)))


def classes_of(
    nodes: int,
    until: float = math.inf,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    more_cpu: Sequence[int] = (0,),
) -> tuple[NodeClass, ...]:
    """Classes of nodes alike, but for some more CPU in thousandths of a core, with pods of all pod
    classes to place on them.
    """
    scenario = cluster(nodes)
    for i, (gpus, cpus) in enumerate(shapes):
        scenario = scenario.gang(f"g{i}", Group("w", pods=50, gpus=gpus, cpus=cpus))
    problem = formulate(scenario.snapshot(), POLICY)
    pod_classes = list(range(problem.class_count))
    free = problem.free.copy()
    free[:, problem.columns.index("cpu")] += more_cpu
    return classify(
        problem,
        free,
        np.arange(nodes),
        pod_classes,
        [50] * len(pod_classes),
        (),
        (),
        until=until,
    )


@pytest.mark.parametrize(("nodes", "classes"), [(1, 1), (4, 4), (40, 1)])
def test_many_nodes_alike_are_one_class_though_many_patterns_fill_them(
    nodes: int, classes: int
) -> None:
    found = classes_of(nodes)

    assert len(found) == classes
    assert all((c.patterns is None) == (classes == nodes) for c in found)


def test_no_pattern_is_sought_once_time_is_up() -> None:
    with pytest.raises(OutOfTime):
        classes_of(40, until=0.0)


def test_no_pattern_is_sought_once_time_is_up_though_few_are_found_for_each_node() -> None:
    with pytest.raises(OutOfTime):
        classes_of(40, until=0.0, shapes=[(1, 2)], more_cpu=[1000 * i for i in range(-40, 0)])


def test_room_that_no_pod_uses_tells_no_nodes_apart() -> None:
    # All pods ask for whole cores.
    assert len(classes_of(40, more_cpu=range(-960, -920))) == 1


def test_nodes_are_filled_to_the_brim_in_two_resources() -> None:
    # Gangs of the pods that fill every node exactly, shuffled.
    rng = random.Random(7)
    fillings = [
        Counter(p)
        for p in (
            [(4, 31), (2, 17), (1, 7), (1, 9)],
            [(2, 28), (2, 28), (1, 2), (1, 2), (1, 2), (1, 2)],
            [(4, 31), (2, 28), (1, 2), (1, 3)],
            [(2, 17), (2, 17), (1, 9), (1, 9), (1, 9), (1, 3)],
            [(1, 7), (1, 7), (1, 9), (1, 9), (1, 9), (1, 9), (1, 7), (1, 7)],
        )
    ]
    assert all(sum(c * n for (_, c), n in f.items()) == 64 for f in fillings)
    left = Counter[tuple[int, int]]()
    for _ in range(30):
        left += rng.choice(fillings)
    scenario = cluster(30)
    while left:
        pod_class = rng.choice(sorted(left))
        pods = min(left[pod_class], rng.randint(1, 6))
        left -= Counter({pod_class: pods})
        gpus, cpus = pod_class
        scenario = scenario.gang(
            f"g{len(scenario.gangs)}", Group("w", pods=pods, gpus=gpus, cpus=cpus)
        )

    *_, last = solve(scenario.snapshot(), POLICY)

    assert last.proven
    assert last.tiers[0].value == 240
