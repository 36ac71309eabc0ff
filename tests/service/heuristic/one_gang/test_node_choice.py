"""Units go to the nodes that a plain sort of all nodes would give them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from bench.instances import Instance
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Problem
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.node_choice import NodeChoice
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.residual_capacity import ResidualCapacity

CROWDED = Instance("ragged", {"blocks": 2, "gangs": 20})


@pytest.fixture(scope="module")
def problem() -> Problem:
    return formulate(CROWDED.snapshot(), Policy())


def regions(topology: Topology) -> Iterator[Region]:
    """All nodes, a block, a rack, and nodes of several racks."""
    broad, narrow = sorted(
        topology.problem.scope_levels, key=lambda at: topology.problem.levels[at].count
    )
    yield EVERYWHERE
    yield topology.region(broad, 1)
    yield topology.region(narrow, 3)
    yield Region(np.arange(5, topology.problem.node_count, 7))


def sorted_plainly(
    choice: NodeChoice, residual: ResidualCapacity, pod_class: ClassIdx, region: Region, count: int
) -> list[tuple[int, int]]:
    """Nodes by their keys, each filled to the brim until all units are placed."""
    nodes = np.arange(len(residual.free)) if region.nodes is None else region.nodes
    keys = choice.keys(residual, pod_class, nodes).tolist()
    row = residual.row(pod_class)
    found = []
    for _, node in sorted(zip(keys, nodes.tolist(), strict=True)):
        units = min(count, int(row[node]))
        if units:
            found.append((node, units))
        count -= units
    return found


def test_the_best_nodes_are_the_first_of_all_by_their_keys(problem: Problem) -> None:
    topology, residual, rng = Topology(problem), ResidualCapacity(problem), random.Random(1)
    for count in (1, 2, 7, 40, 100_000):
        for region in regions(topology):
            for pod_class in map(ClassIdx, range(problem.class_count)):
                expected = sorted_plainly(topology.choice, residual, pod_class, region, count)
                nodes, counts = topology.choice.best(residual, pod_class, region, count)
                assert list(zip(nodes.tolist(), counts.tolist(), strict=True)) == expected
                if count < 100:
                    some = rng.randint(1, 3)
                    residual.take(pod_class, nodes[:some], counts[:some])


def test_several_regions_at_once_are_filled_as_one_by_one(problem: Problem) -> None:
    topology, residual = Topology(problem), ResidualCapacity(problem)
    for level in problem.scope_levels:
        for pod_class in map(ClassIdx, range(problem.class_count)):
            room = residual.slots(pod_class, level)
            domains = np.flatnonzero(room)[:3].tolist()
            counts = [max(1, int(room[domain]) // 2) for domain in domains]
            chosen = [topology.region(level, domain) for domain in domains]
            together = topology.choice.best_in_each(residual, pod_class, chosen, counts)
            apart = [
                topology.choice.best(residual, pod_class, region, count)
                for region, count in zip(chosen, counts, strict=True)
            ]
            assert together.nodes.tolist() == [n for one in apart for n in one.nodes.tolist()]
            assert together.counts.tolist() == [c for one in apart for c in one.counts.tolist()]
