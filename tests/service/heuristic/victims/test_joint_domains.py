"""Domains are chosen for all gangs together, so that slots for all of them cost least."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.indices import GangIdx
from placement_service.heuristic.victims.joint_domains import Claim, JointDomains


def narrow(gang: int, slots: int) -> Claim:
    return Claim(GangIdx(gang), slots, broad=False)


def broad(gang: int, slots: int) -> Claim:
    return Claim(GangIdx(gang), slots, broad=True)


def joint(
    costs: Sequence[Sequence[float]], parents: Sequence[int] | None = None, price: float = 0.0
) -> JointDomains:
    around = range(len(costs)) if parents is None else parents
    return JointDomains(costs, np.array(list(around)), price, 12)


def test_the_gang_that_would_lose_most_goes_first() -> None:
    """The first domain is the cheapest for both, and the only cheap one for the larger gang."""
    found = joint([[0, 0, 0, 0], [0, 1, 1], [0, 9, 9, 9]])
    assert found.choose([narrow(0, 2), narrow(1, 3)]) == {0: 1, 1: 0}


def test_two_gangs_share_a_domain_where_that_costs_less() -> None:
    found = joint([[0, 0, 0, 1, 1], [0, 5, 5]])
    assert found.choose([narrow(0, 2), narrow(1, 2)]) == {0: 0, 1: 0}


def test_slots_that_are_left_are_sold() -> None:
    """The second domain costs more and has a slot left, which others need anywhere."""
    costs: list[list[float]] = [[0, 1.2, 2.4, 3.6], [0, 4, 4, 4, 4]]
    assert joint(costs).choose([narrow(0, 3)]) == {0: 0}
    assert joint(costs, price=1.05).choose([narrow(0, 3)]) == {0: 1}


def test_a_gang_keeps_clear_of_what_a_broad_one_needs() -> None:
    """Narrow domains 0 and 1 make up the broad one that has room for the large gang."""
    found = joint([[0, 0, 0], [0, 0, 0], [0, 1, 1]], parents=[0, 0, 1])
    assert found.choose([narrow(0, 2), broad(1, 4)]) == {0: 2, 1: 0}


def test_nothing_is_chosen_where_a_gang_finds_no_domain() -> None:
    assert joint([[0, 0]]).choose([narrow(0, 2)]) is None


def test_the_choice_ends_when_time_is_over() -> None:
    found = joint([[0, 0, 0], [0, 0, 0]])
    with pytest.raises(OutOfTime):
        found.choose([narrow(0, 2), narrow(1, 2)], until=time.monotonic() - 1)


def test_slots_are_taken_where_they_cost_least() -> None:
    found = joint([[0, 0, 2], [0, 1, 3], [0, 4]], parents=[0, 0, 1])
    assert found.choose([narrow(0, 1), broad(1, 1)]) == {0: 0, 1: 0}
    assert found.slots(0) == {0: 1, 1: 1, 2: 0}
    assert found.slots(1) in ({0: 2, 1: 1, 2: 0}, {0: 1, 1: 2, 2: 0})
    assert found.slots(3) == {0: 2, 1: 2, 2: 1}
    assert found.slots(4) is None


@pytest.mark.parametrize("seed", range(8))
def test_what_all_slots_cost_is_least(seed: int) -> None:
    rng = random.Random(seed)
    costs = [[0, *np.cumsum([rng.randint(0, 4) for _ in range(3)]).tolist()] for _ in range(4)]
    found = joint(costs, parents=[0, 0, 1, 1])
    chosen = found.choose([narrow(0, 2), broad(1, 3)])
    given = found.slots(2)
    assert chosen is not None
    assert given is not None
    inside = {0: (0, 1), 1: (2, 3)}[chosen[GangIdx(1)]]

    def fits(counts: Sequence[int]) -> bool:
        mine = [n - 2 * (d == chosen[GangIdx(0)]) for d, n in enumerate(counts)]
        return min(mine) >= 0 and sum(mine[d] for d in inside) >= 3 and sum(mine) >= 5

    best = min(
        sum(costs[d][n] for d, n in enumerate(counts))
        for counts in product(range(4), repeat=4)
        if fits(counts)
    )
    assert fits([given[d] for d in range(4)])
    assert sum(costs[d][n] for d, n in given.items()) == best
