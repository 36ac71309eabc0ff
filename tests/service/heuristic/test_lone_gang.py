"""A gang that is alone: its best plan is proven by counting, or left to the search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import (
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.lone_gang import settle
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify
from tests.brute import TooLarge, no_bound_cuts_off, optimum
from tests.service.questions import GPU, node
from tests.strategies import EVERYTHING, PACKING_ONLY, TINY, snapshots

POLICY = Policy()
SIZE = replace(TINY, gangs=1)


@settings(max_examples=60)
@given(st.one_of(snapshots(SIZE, EVERYTHING), snapshots(SIZE, PACKING_ONLY)))
def test_what_is_settled_is_the_optimum(snapshot: Snapshot) -> None:
    solution = settle(formulate(snapshot, POLICY))
    event(f"settled: {solution is not None}")
    if solution is None:
        return
    try:
        best = optimum(snapshot, POLICY)
    except TooLarge:
        assume(False)
        raise
    assert solution.final
    assert solution.proven
    bindings = name_pods(snapshot, solution.assignments)
    assert verify(snapshot, POLICY, bindings) == ()
    found = score(snapshot, POLICY, bindings)
    no_bound_cuts_off(best, solution, found)
    for tier in TierName:
        if tier.provable:
            assert found.counts[tier] == best.counts[tier]


def gang(
    minimum: int, *asks: tuple[int, int], required: str = "rack", preferred: str = ""
) -> PodGang:
    """One group for each (pods, GPUs); the first has a minimum, the others need all."""
    groups = [
        PodGroup(
            f"r{i}",
            minimum if i == 0 else pods,
            (
                PodSet(
                    PodTemplate({GPU: gpus, "pods": 1}),
                    tuple(Pod(f"namespaces/ml/pods/{i}-{k}") for k in range(pods)),
                ),
            ),
        )
        for i, (pods, gpus) in enumerate(asks)
    ]
    names = tuple(group.name for group in groups)
    scope = PackingScope("all", names, required_level=required, preferred_level=preferred)
    return PodGang("namespaces/ml/podgangs/g", tuple(groups), packing_scopes=(scope,))


def cluster(**used: list[int]) -> tuple[Node, ...]:
    """Racks by name, with so many of eight GPUs in use on each of their nodes."""
    return tuple(
        node(f"{rack}{i}", used=n, rack=rack)
        for rack, nodes in used.items()
        for i, n in enumerate(nodes)
    )


def settled(snapshot: Snapshot) -> Score | None:
    solution = settle(formulate(snapshot, POLICY))
    if solution is None:
        return None
    assert solution.proven
    bindings = name_pods(snapshot, solution.assignments)
    assert verify(snapshot, POLICY, bindings) == ()
    return score(snapshot, POLICY, bindings)


@pytest.mark.parametrize(
    ("one", "used", "admitted", "extra", "fragmentation"),
    [
        # The rack in use is enough, and the free one stays whole.
        (gang(2, (2, 4)), {"a": [0, 0], "b": [4, 4]}, 8, 0, 0),
        # The tray in use takes one pod, so that one free tray is enough.
        (gang(3, (3, 4)), {"a": [0, 0, 0], "b": [4, 0, 0]}, 12, 0, 1),
        # No rack has room for three, though the cluster has.
        (gang(3, (3, 8)), {"a": [0, 0], "b": [0, 0]}, 0, 0, 0),
        # As many extras as the roomiest rack takes.
        (gang(1, (4, 8)), {"a": [0], "b": [0, 0, 0]}, 8, 2, 6),
        # Two kinds of pods.
        (gang(2, (2, 8), (2, 4)), {"a": [0, 0], "b": [0, 0, 4, 4]}, 24, 0, 2),
    ],
    ids=["rack in use", "tray in use", "nowhere", "extras", "two kinds"],
)
def test_the_plan_that_loses_least(
    one: PodGang, used: dict[str, list[int]], admitted: float, extra: float, fragmentation: float
) -> None:
    found = settled(Snapshot(cluster(**used), (one,)))
    assert found is not None
    tiers = (TierName.ADMITTED, TierName.EXTRA, TierName.FRAGMENTATION)
    assert [found.value(tier) for tier in tiers] == [admitted, extra, fragmentation]


def test_what_is_preferred_keeps_nobody_out() -> None:
    nodes = cluster(a=[0], b=[0])
    one = gang(2, (2, 8), required="", preferred="rack")
    # It fits, but not into one rack: which split is best is for the search.
    assert settled(Snapshot(nodes, (one,))) is None
    found = settled(Snapshot(cluster(a=[0], b=[0, 0]), (one,)))
    assert found is not None
    assert found.value(TierName.TOPOLOGY) == 0


def test_others_that_could_gain_are_for_the_search() -> None:
    other = replace(gang(1, (1, 1)), name="namespaces/ml/podgangs/other")
    pods = tuple(p._replace(name=p.name + "x") for p in other.groups[0].pod_sets[0].pods)
    sets = (replace(other.groups[0].pod_sets[0], pods=pods),)
    other = replace(other, groups=(replace(other.groups[0], pod_sets=sets),))
    assert settled(Snapshot(cluster(a=[0, 0]), (gang(1, (1, 1)), other))) is None


def test_hundreds_of_racks_are_filled_as_well_as_one_by_one() -> None:
    """One class of pods: the least loss over all racks, tried one by one."""
    rng = np.random.default_rng(7)
    for seed in range(20):
        used = {f"r{i}": rng.choice([0, 0, 1, 4, 8], 6).tolist() for i in range(12)}
        pods, gpus = int(rng.integers(1, 9)), int(rng.choice([1, 2, 4, 8]))
        one = gang(pods, (pods, gpus))
        found = settled(Snapshot(cluster(**used), (one,)))
        assert found is not None
        alone = [
            settled(Snapshot(cluster(**{rack: nodes}), (one,))) for rack, nodes in used.items()
        ]
        values = [s.value(TierName.FRAGMENTATION) for s in alone if s and s.gangs[0].placed]
        assert found.gangs[0].placed == bool(values), seed
        assert found.value(TierName.FRAGMENTATION) == min(values, default=0), seed
