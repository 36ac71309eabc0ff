"""Tighter linear programs: no whole solution is lost, and less is left of others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_service.cp_sat import probing
from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.linear_program import LinearProgram, Matrix
from placement_service.cp_sat.probing import impossible
from placement_service.cp_sat.tightening import tightened

#: Weights of variables by their number, and the least and the most of the sum.
Row = tuple[dict[int, float], float, float]


def program(most: Sequence[float], *rows: Row, whole: Sequence[bool] = ()) -> LinearProgram:
    entries = [(r, v, w) for r, (weights, _, _) in enumerate(rows) for v, w in weights.items()]
    return LinearProgram(
        np.ones(len(most)),
        Matrix.of(entries),
        np.array([least for _, least, _ in rows]),
        np.array([above for _, _, above in rows]),
        np.array(most, dtype=np.float64),
        np.array(whole or [True] * len(most), dtype=np.bool_),
    )


def weights(of: LinearProgram) -> list[list[float]]:
    table = np.zeros((len(of.row_most), len(of.goal)))
    table[of.matrix.rows, of.matrix.columns] = of.matrix.weights
    found: list[list[float]] = table.tolist()
    return found


def holds(of: LinearProgram, values: Sequence[float]) -> bool:
    x = np.array(values, dtype=np.float64)
    sums = np.array(weights(of)) @ x
    inside = (x <= of.most + 1e-9).all() and (sums <= of.row_most + 1e-9).all()
    return bool(inside and (sums >= of.row_least - 1e-9).all())


def test_a_whole_variable_ends_at_a_whole_number() -> None:
    found = tightened(program([9, 9], ({0: 2, 1: 2}, -math.inf, 5), whole=[True, False]))
    assert found.most.tolist() == [2, 2.5]


def test_what_others_need_is_not_left_to_a_variable() -> None:
    rows: list[Row] = [({0: 1, 1: 1}, -math.inf, 4), ({1: 1}, 3, math.inf)]
    assert tightened(program([4, 4], *rows)).most.tolist() == [1, 4]


def test_bounds_follow_from_bounds() -> None:
    rows: list[Row] = [({0: 1}, -math.inf, 0.5), ({1: 1, 0: -3}, -math.inf, 0)]
    assert tightened(program([1, 3], *rows)).most.tolist() == [0, 0]


def test_weights_say_no_more_than_they_must() -> None:
    # A node of 8 with 7 in use: who comes needs all of it.
    found = tightened(program([1, 7], ({0: 8, 1: 1}, -math.inf, 8)))
    assert weights(found) == [[7, 1]]
    assert found.row_most.tolist() == [7]


def test_weights_of_rows_from_below_change_too() -> None:
    found = tightened(program([1, 7], ({0: 5, 1: 1}, 3, math.inf)))
    assert weights(found) == [[3, 1]]
    assert found.row_least.tolist() == [3]


def test_a_smaller_weight_counts_from_the_bound_of_its_variable() -> None:
    """With 1, which is the least, no more than 7 may come."""
    rows: list[Row] = [({0: 1}, 1, math.inf), ({0: -5, 1: 1}, -math.inf, 2)]
    found = tightened(program([3, 9], *rows))
    assert weights(found)[1] == [-2, 1]
    assert found.row_most.tolist() == [math.inf, 5]


def test_weights_of_parts_of_variables_stay() -> None:
    found = tightened(program([1, 7], ({0: 8, 1: 1}, -math.inf, 8), whole=[False, True]))
    assert weights(found) == [[8, 1]]


def test_weights_of_rows_with_two_sides_stay() -> None:
    found = tightened(program([1, 7], ({0: 8, 1: 1}, 1, 8)))
    assert weights(found) == [[8, 1]]


def test_what_has_no_whole_solution_stays() -> None:
    one = program([1], ({0: 2}, 1, 1))
    assert tightened(one) is one


NUMBERS = st.integers(-4, 4)
ROWS = st.tuples(
    st.dictionaries(st.integers(0, 3), NUMBERS.filter(bool).map(float), min_size=1),
    st.one_of(NUMBERS.map(float), st.just(-math.inf)),
    st.one_of(st.integers(0, 8).map(float), st.just(math.inf)),
)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.lists(ROWS, min_size=1, max_size=5))
def test_no_whole_solution_is_lost(most: list[int], rows: list[Row]) -> None:
    old = program(most, *rows)
    new = tightened(old)
    for values in itertools.product(*(range(n + 1) for n in most)):
        assert not holds(old, values) or holds(new, values)


@pytest.mark.parametrize("maximize", [True, False])
def test_a_relaxed_model_knows_what_follows_from_whole_numbers(maximize: bool) -> None:
    model = LinearModel()
    load, kept = model.variable(1), model.variable(7)
    model.row([(load, 8), (kept, 1)], most=8)
    model.row([(kept, 2)], least=3, most=13)
    found = model.relaxed([(load, 7), (kept, 1)], maximize=maximize, seconds=10)
    assert found.bound == (6 if maximize else 2)


def test_what_does_not_count_in_a_row_is_no_part_of_it() -> None:
    model = LinearModel()
    x, y = model.variable(3), model.variable(2)
    model.row([(x, 1), (y, 0)], most=1)
    with np.errstate(all="raise"):
        assert model.relaxed([(x, 1), (y, 1)], maximize=True, seconds=10).bound == 3


#: A part needs both nodes of a domain, and a gang that stays keeps two of its four pods, which are
#: on these nodes by twos.
NODES: list[Row] = [
    ({1: 1, 2: 1, 0: -2}, 0, math.inf),
    ({1: 2, 3: 1}, -math.inf, 2),
    ({2: 2, 4: 1}, -math.inf, 2),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("kept", "found"), [(0, []), (1, [0])])
def test_what_follows_may_not_be_possible(kept: int, found: list[int], turned: bool) -> None:
    rows = [*NODES, ({3: 1.0, 4: 1.0}, kept, math.inf)]
    if turned:
        rows = [({v: -w for v, w in terms.items()}, -most, -least) for terms, least, most in rows]
    assert impossible(program([1, 1, 1, 2, 2], *rows), np.array([0])) == found


def test_no_more_than_the_most_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "MOST", 0)
    rows = [*NODES, ({3: 1.0, 4: 1.0}, 1.0, math.inf)]
    assert not impossible(program([1, 1, 1, 2, 2], *rows), np.array([0]))


def test_nothing_is_looked_at_once_time_is_up() -> None:
    rows = [*NODES, ({3: 1.0, 4: 1.0}, 1.0, math.inf)]
    assert not impossible(program([1, 1, 1, 2, 2], *rows), np.array([0]), until=0.0)


def test_each_is_looked_at_by_itself() -> None:
    """The first one leaves nothing of what the second one needs, at the end of a chain."""
    first, second, chain = 0, 1, range(2, 2 + probing.STEPS)
    rows: list[Row] = [
        ({first: 1, chain[0]: 1}, -math.inf, 1),
        *(({v + 1: 1.0, v: -1.0}, -math.inf, 0.0) for v in chain[:-1]),
        ({chain[-1]: 1, second: -1}, 0, math.inf),
    ]
    assert not impossible(program([1] * (2 + len(chain)), *rows), np.array([first, second]))


def test_what_leaves_a_choice_is_not_looked_at() -> None:
    """With a third node there is a way."""
    rows: list[Row] = [({1: 1, 2: 1, 5: 1, 0: -2}, 0, math.inf), *NODES[1:]]
    rows.append(({3: 1, 4: 1}, 1, math.inf))
    assert not impossible(program([1, 1, 1, 2, 2, 1], *rows), np.array([0]))


def test_what_has_no_whole_solution_says_nothing_of_a_variable() -> None:
    assert not impossible(program([1], ({0: 2}, 1, 1)), np.array([0]))


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.lists(ROWS, min_size=1, max_size=5))
def test_no_whole_solution_has_what_is_not_possible(most: list[int], rows: list[Row]) -> None:
    one = program(most, *rows)
    for v in impossible(one, np.arange(4)):
        for values in itertools.product(*(range(n + 1) for n in most)):
            assert not values[v] or not holds(one, values)
