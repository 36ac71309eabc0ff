"""What fits into a domain together, against trying every place for every unit."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.domain_packings import Budget, DomainPackings
from placement_service.cp_sat.node_classes import classify
from placement_service.entities.request import Policy
from placement_service.formulation.arrays import Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic.domain_facts import Topology
from tests.scenario import Group, Scenario

PLENTY = Budget(100_000, 10_000, float("inf"))

Parts = list[tuple[int, ...]]


def asked(drawing: str, pod_classes: list[tuple[int, int]], pods: int) -> Problem:
    """Nodes, and gangs of so many pods of each pod class: (GPUs, cores)."""
    scenario = Scenario(drawing)
    for i, (gpus, cpus) in enumerate(pod_classes):
        scenario = scenario.gang(f"g{i}", Group("w", pods=pods, gpus=gpus, cpus=cpus))
    return formulate(scenario.snapshot(), Policy())


def packings(problem: Problem) -> DomainPackings:
    pod_classes = list(range(problem.class_count))
    demand = [
        sum(d.count for g in problem.gangs for d in g.demands if d.pod_class == s)
        for s in pod_classes
    ]
    nodes = np.arange(problem.node_count)
    classes = classify(problem, problem.free, nodes, pod_classes, demand, (), ())
    return DomainPackings(Counting(Topology(problem)), pod_classes, classes)


def fits(problem: Problem, units: Ints) -> bool:
    """Whether the units fit, one after another on every node."""

    @cache
    def place(left: tuple[int, ...], free: tuple[tuple[int, ...], ...]) -> bool:
        s = next((s for s, count in enumerate(left) if count), None)
        if s is None:
            return True
        rest = tuple(count - (k == s) for k, count in enumerate(left))
        row = problem.request[s].tolist()
        return any(
            problem.eligible[s, n]
            and all(x <= y for x, y in zip(row, node, strict=True))
            and place(
                rest,
                tuple(
                    tuple(y - x for x, y in zip(row, other, strict=True)) if m == n else other
                    for m, other in enumerate(free)
                ),
            )
            for n, node in enumerate(free)
        )

    return place(tuple(units.tolist()), tuple(map(tuple, problem.free.tolist())))


def maximal(problem: Problem, parts: Parts, most: int) -> set[tuple[int, ...]]:
    """The maximal multisets, found by trying all."""
    able = {
        chosen
        for chosen in np.ndindex(*[most + 1] * len(parts))
        if fits(problem, np.array(chosen) @ np.array(parts))
    }
    return {
        a
        for a in able
        if not any(tuple(n + (i == k) for i, n in enumerate(a)) in able for k in range(len(parts)))
    }


@given(st.data())
def test_the_maximal_multisets_are_those_that_trying_finds(data: st.DataObject) -> None:
    gpus = data.draw(st.lists(st.integers(1, 4), max_size=2))
    sizes = st.tuples(st.integers(1, 3), st.sampled_from((8, 20, 30, 40)))
    pod_classes = data.draw(st.lists(sizes, min_size=2, max_size=2, unique=True))
    problem = asked(" ".join(f"x{i}={n}" for i, n in enumerate([4, *gpus])), pod_classes, pods=4)
    units = st.tuples(*[st.integers(0, 2)] * problem.class_count)
    parts = data.draw(st.lists(units.filter(any), min_size=1, max_size=3, unique=True))

    found = packings(problem).maximal(
        [np.array(p) for p in parts], [2] * len(parts), replace(PLENTY)
    )

    # What asks for more than there is at all may be left out.
    demand = np.array([4] * problem.class_count)
    want = {
        m for m in maximal(problem, parts, 2) if (np.array(m) @ np.array(parts) <= demand).all()
    }
    assert found is not None
    assert want <= set(found)
    assert all(fits(problem, np.array(m) @ np.array(parts)) for m in found)


def test_what_cannot_be_settled_counts_as_fitting() -> None:
    # Amounts allow four of both, nodes only two of each: two pods of 3 GPUs on no node.
    problem = asked("x0=4 x1=4", [(3, 40), (1, 20)], pods=4)
    one_and_one, lots = np.array([1, 1]), 4

    settled = packings(problem).maximal([one_and_one], [lots], replace(PLENTY))
    guessed = packings(problem).maximal([one_and_one], [lots], replace(PLENTY, proofs=0))

    assert settled == [(2,)]
    assert guessed is not None
    assert guessed[0] >= (2,)


def test_nothing_that_fits_is_lost_to_more_that_is_not_settled() -> None:
    # That two of the first part and one of the second do not fit is the one thing proven. With
    # another of the second they must not seem to fit, or one and two would not be maximal.
    problem = asked("x0=8 x1=8 x2=6", [(3, 16), (2, 40)], pods=4)
    parts = [np.array([2, 1]), np.array([1, 0])]

    found = packings(problem).maximal(parts, [2, 2], replace(PLENTY, proofs=1))

    assert found == [(2, 0), (1, 2)]


def test_there_is_no_answer_when_too_much_would_have_to_be_tried() -> None:
    problem = asked("x0=8 x1=8", [(1, 1), (2, 1)], pods=8)
    parts = [np.array([1, 0]), np.array([0, 1])]

    assert packings(problem).maximal(parts, [8, 8], replace(PLENTY, trials=3)) is None
    late = replace(PLENTY, deadline=time.monotonic() - 1)
    assert packings(problem).maximal(parts, [8, 8], late) is None
