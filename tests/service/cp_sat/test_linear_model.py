"""Solves in whole numbers: what is looked for, and what may be said when nothing is found."""

from __future__ import annotations

import numpy as np
import pytest

from placement_service.cp_sat import linear_model
from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.linear_program import LinearProgram, Matrix
from placement_service.formulation.tiers.goal import Terms


def three() -> tuple[LinearModel, Terms[int]]:
    """At most two of three; the best have a value of 5000."""
    model = LinearModel()
    x, y, z = (model.variable(1) for _ in range(3))
    model.row([(x, 1), (y, 1), (z, 1)], most=2)
    return model, [(x, 1000), (y, 2000), (z, 3000)]


@pytest.mark.parametrize("beyond", [None, 0, 4000, 4999])
def test_a_better_solution_is_found(beyond: int | None) -> None:
    model, terms = three()
    found = model.whole(terms, maximize=True, seconds=10, beyond=beyond)
    assert found.values is not None
    assert found.values.round().tolist() == [0, 1, 1]
    assert found.bound == 5000


@pytest.mark.parametrize("read", [None, [0.0, 0.0, 1.0]])
def test_what_the_solver_finds_and_is_not_better_is_nothing(
    read: list[float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, terms = three()
    values = None if read is None else np.array(read)
    monkeypatch.setattr(linear_model, "values_of", lambda *_: values)
    found = model.whole(terms, maximize=True, seconds=10, beyond=4000)
    assert found.values is None
    assert found.bound == 5000


@pytest.mark.parametrize("beyond", [5000, 6000])
def test_where_nothing_is_better_that_is_the_bound(beyond: int) -> None:
    model, terms = three()
    found = model.whole(terms, maximize=True, seconds=10, beyond=beyond)
    assert found.values is None
    assert found.bound == beyond


@pytest.mark.parametrize(("beyond", "least"), [(3000, 2000), (2000, None), (1000, None)])
def test_less_is_better_where_it_is_minimised(beyond: int, least: int | None) -> None:
    model, terms = three()
    model.row([(v, 1) for v, _ in terms], least=1)
    model.row([(0, 1)], most=0)
    found = model.whole(terms, maximize=False, seconds=10, beyond=beyond)
    assert (found.values is not None) == (least is not None)
    assert found.bound == (beyond if least is None else least)


def test_fixed_variables_keep_their_values_and_count() -> None:
    model, terms = three()
    found = model.whole(terms, maximize=True, seconds=10, beyond=3000, fixed={0: 1.0})
    assert found.values is not None
    assert found.values.round().tolist() == [1, 0, 1]
    assert found.bound == 4000
    assert model.whole(terms, maximize=True, seconds=10, beyond=4000, fixed={0: 1.0}).values is None


def test_a_question_is_about_the_model_as_it_was_when_it_was_asked() -> None:
    model, terms = three()
    mark = model.mark()
    model.row([(2, 1)], most=0)
    without = model.ask_whole(terms, maximize=True, seconds=10)
    relaxed = model.ask_relaxed(terms, maximize=True, seconds=10)
    model.undo(mark)
    assert model.whole(terms, maximize=True, seconds=10).bound == 5000
    model.row([(1, 1)], most=0)
    assert without().bound == relaxed().bound == 3000
    assert model.whole(terms, maximize=True, seconds=10).bound == 4000


def test_a_copy_goes_its_own_way() -> None:
    model, terms = three()
    other = model.copy()
    more = other.variable(1)
    other.row([(2, 1), (more, 1)], most=1)
    other.row([(more, 1)], least=1)
    assert other.whole(terms, maximize=True, seconds=10).bound == 3000
    assert model.size == 3
    assert model.variable(1) == more
    assert model.whole(terms, maximize=True, seconds=10).bound == 5000


def test_a_row_without_a_bound_has_no_price() -> None:
    """A solver may give it one, as large as its rounding, and infinity would be paid for it."""
    endless = np.array([-np.inf, -np.inf, 1.0]), np.array([np.inf, 1.0, np.inf])
    matrix = Matrix.of([(row, 0, 1.0) for row in range(3)])
    program = LinearProgram(np.ones(1), matrix, *endless, np.ones(1), np.ones(1, dtype=np.bool_))
    assert program.prices(np.array([1e-9, -1e-9, 1e-9])).tolist() == [0, 0, 0]
    assert program.prices(np.array([-1e-9, 1e-9, -1e-9])).tolist() == [0, 1e-9, -1e-9]
    assert np.isfinite(program.bound(program.prices(np.ones(3))))
