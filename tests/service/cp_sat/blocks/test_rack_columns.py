"""Columns of racks with nodes of several pools, against all that such a rack may hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from placement_service.cp_sat.blocks.parts import Kind, RackSort
from placement_service.cp_sat.blocks.rack_columns import Column, RackColumns
from placement_service.cp_sat.blocks.shapes import Blocks


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_no_content_of_a_rack_is_worth_more_than_the_best_column(seed: int, luck: int) -> None:
    rng = random.Random(luck)
    pools = [(0, 1, 2), (1, 2), (2,)] if rng.random() < 0.7 else [(0, 1), (1, 2), (0, 2)]
    kinds = sorted({Kind(rng.choice(pools), rng.randint(1, 4)) for _ in range(4)})
    sort = RackSort(0, tuple((q, rng.randint(1, 3)) for q in range(3)))
    blocks = SimpleNamespace(order=[0], racks={sort: [0]}, choosiness={0: 0, 1: 1, 2: 2})
    prices = {kind: float(rng.randint(1, 9)) for kind in kinds}
    columns = RackColumns(cast("Blocks", blocks), kinds)
    (best,) = columns.worths(prices).values()
    sets = [frozenset(q for k in some for q in k.pools) for some in subsets(kinds)]
    held = [
        (sum(prices[k] * n for k, n in zip(kinds, times, strict=True)), times)
        for times in product(range(10), repeat=len(kinds))
        if all(
            sum(k.size * n for k, n in zip(kinds, times, strict=True) if s.issuperset(k.pools))
            <= sort.within(s)
            for s in sets
        )
    ]
    assert max(held)[0] <= best
    if pools[0] == (0, 1, 2):
        assert max(held)[0] == best


@given(st.integers(0, 10_000))
def test_what_was_asked_before_changes_no_answer(luck: int) -> None:
    rng = random.Random(luck)
    pools = [(0, 1, 2), (1, 2), (2,)]
    kinds = sorted({Kind(rng.choice(pools), rng.randint(1, 4)) for _ in range(4)})
    racks = {RackSort(0, tuple((q, rng.randint(1, 3)) for q in range(3))): [0, 1] for _ in range(2)}
    blocks = cast("Blocks", SimpleNamespace(order=[0], racks=racks, choosiness={0: 0, 1: 1, 2: 2}))
    columns = RackColumns(blocks, kinds)
    for _ in range(4):
        asked = {kind: rng.randint(0, 3) for kind in kinds}
        prices = columns.prices_against(0, asked)
        alone = RackColumns(blocks, kinds).prices_against(0, asked)
        assert (prices is None) == (alone is None)
        for sort, known in columns.known.items():
            assert all(fits(column, sort) for column in known)
        if prices is not None:
            (most,) = columns.worths(prices).values()
            assert sum(prices.get(kind, 0.0) * n for kind, n in asked.items()) > most


def fits(column: Column, sort: RackSort) -> bool:
    """Whether a rack holds parts whose pools nest."""
    pools = [frozenset(kind.pools) for kind, _ in column]
    return all(
        sum(kind.size * n for kind, n in column if some.issuperset(kind.pools)) <= sort.within(some)
        for some in pools
    )


def subsets(kinds: Sequence[Kind]) -> Iterator[Sequence[Kind]]:
    """All of some kinds together, in every way."""
    return chain.from_iterable(combinations(kinds, n) for n in range(len(kinds) + 1))
