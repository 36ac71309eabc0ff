"""Whole gangs that add up to what domains have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.formulation.indices import GangIdx
from placement_service.search.incumbent import never
from placement_service.search.refill.domain_filling import (
    Content,
    Counted,
    DomainFilling,
    Part,
    domains_of,
)

SIZES = (1, 2, 4, 8)


def counted(gangs: list[tuple[int, int]], nodes: list[list[int]]) -> tuple[Counted, Content]:
    """Gangs of so many pods of a size, and domains of nodes that have so much: by each size, how
    many of it pods and nodes hold.
    """
    units = {
        Part(GangIdx(i), 0): np.array([size // by for by in SIZES], dtype=np.int64)
        for i, (_, size) in enumerate(gangs)
    }
    room = [[sum(node // by for node in mine) for by in SIZES] for mine in nodes]
    content = Counter({Part(GangIdx(i), 0): pods for i, (pods, _) in enumerate(gangs)})
    return Counted(units, np.array(room, dtype=np.int64).reshape(len(nodes), len(SIZES))), content


def filled(
    gangs: list[tuple[int, int]],
    nodes: list[list[int]],
    *,
    seed: int = 1,
    until: Callable[[], bool] = never,
) -> dict[int, Content] | None:
    all_there_is, content = counted(gangs, nodes)
    filling = DomainFilling(all_there_is, content, seed=seed)
    return filling.fill(range(len(nodes)), content, until=until)


@pytest.mark.parametrize("seed", range(5))
def test_gangs_that_add_up_lie_whole(seed: int) -> None:
    """Best fit would begin with 9 and 8 in one domain, and split what comes last."""
    found = filled([(9, 1), (8, 1), (7, 1), (6, 1), (5, 1), (5, 1)], [[20], [20]], seed=seed)
    assert found is not None
    assert domains_of(found) == 6


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_that_no_domain_holds_is_split_once(seed: int) -> None:
    """Its parts leave room for whole gangs."""
    found = filled([(15, 1), (3, 1), (2, 1)], [[10], [10]], seed=seed)
    assert found is not None
    assert domains_of(found) == 4


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_that_gives_a_few_pods_is_not_there_whole_as_well(seed: int) -> None:
    found = filled([(3, 1), (3, 1)], [[4], [2]], seed=seed)
    assert found is not None
    assert domains_of(found) == 3
    assert sum(found.values(), Counter()).total() == 6


@pytest.mark.parametrize("seed", range(5))
def test_a_few_small_pods_fill_a_gap(seed: int) -> None:
    """Nothing adds up to an odd number: one gang of small pods gives one to each."""
    found = filled([(2, 8), (2, 8), (2, 1)], [[8, 8, 1], [8, 8, 1]], seed=seed)
    assert found is not None
    assert domains_of(found) == 4


def test_large_pods_find_nodes_beside_small_ones() -> None:
    """By what all pods ask for, the small gang would fit beside none; it leaves a whole node."""
    found = filled([(8, 1), (1, 8)], [[4, 4], [8]])
    assert found is not None
    assert [set(found[d]) for d in (0, 1)] == [{Part(GangIdx(0), 0)}, {Part(GangIdx(1), 0)}]


def test_room_may_be_left_where_there_is_more_than_enough() -> None:
    found = filled([(7, 1), (7, 1)], [[10], [10]])
    assert found is not None
    assert domains_of(found) == 2


def test_nothing_is_found_once_time_is_up() -> None:
    assert filled([(3, 1)], [[3]], until=lambda: True) is None


@pytest.mark.parametrize(("room", "usable"), [([[20]], True), ([[1 << 40]], False), ([[]], False)])
def test_what_is_not_counted_or_too_finely_is_left_alone(
    room: list[list[int]], usable: bool
) -> None:
    part = Part(GangIdx(0), 0)
    counted = Counted({part: np.ones(len(room[0]), dtype=np.int64)}, np.array(room, dtype=np.int64))
    assert DomainFilling(counted, Counter({part: 3}), seed=1).usable is usable


def test_what_finds_no_room_is_told() -> None:
    assert filled([(3, 1)], [[2]]) is None
    assert filled([(1, 8)], [[4, 4]]) is None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(SIZES)), min_size=1, max_size=12),
    st.lists(st.lists(st.integers(0, 8), max_size=5), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_all_pods_lie_somewhere_and_no_domain_holds_too_much(
    gangs: list[tuple[int, int]], nodes: list[list[int]], seed: int
) -> None:
    """Sizes that divide each other fit into nodes exactly when all counts do."""
    all_there_is, content = counted(gangs, nodes)
    enough = (all_there_is.takes(content) <= all_there_is.room.sum(axis=0)).all()
    found = filled(gangs, nodes, seed=seed)
    event(f"found: {found is not None}, enough: {enough}")
    assert (found is not None) == enough
    if found is None:
        return
    assert sum(found.values(), Counter()) == content
    for domain, held in found.items():
        assert (all_there_is.takes(held) <= all_there_is.room[domain]).all()
