"""Bounds from regions one by one: they hold, and say no less than the linear program."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from ortools.math_opt import result_pb2
from ortools.math_opt.python.parameters import SolveParameters
from ortools.math_opt.python.result import TerminationReason

from placement_service.cp_sat import decomposition
from placement_service.cp_sat.decomposition import NONE, Decomposition, grown
from placement_service.cp_sat.linear_model import LinearModel, Priced
from placement_service.formulation.tiers.goal import Terms


def priced(model: LinearModel, terms: Terms[int], *, maximize: bool = True) -> Priced:
    found = model.relaxed(terms, maximize=maximize, seconds=10).priced
    assert found is not None
    return found


def by_region(found: Priced, region: list[int], *, seconds: float = 10) -> int | None:
    until = time.monotonic() + seconds
    regions = Decomposition(found, np.array(region), until=until, nodes=500)
    return regions.bound([ask() for ask in regions.questions])


def knapsack(model: LinearModel) -> list[int]:
    """Three of a half of the room each, and a little more: two fill it, and one fits."""
    items = [model.variable(1) for _ in range(3)]
    model.row([(v, 6) for v in items], most=10)
    return items


def two_knapsacks(most: int) -> tuple[LinearModel, Terms[int], list[int]]:
    """Two regions, and a row that joins them."""
    model = LinearModel()
    first, second = knapsack(model), knapsack(model)
    model.row([(v, 1) for v in first + second], most=most)
    return model, [(v, 30) for v in first + second], [0] * 3 + [1] * 3


@pytest.mark.parametrize(("most", "simple", "regions"), [(4, 90, 60), (1, 30, 30)])
def test_regions_are_settled_in_whole_numbers(most: int, simple: int, regions: int) -> None:
    model, terms, region = two_knapsacks(most)
    assert model.relaxed(terms, maximize=True, seconds=10).bound == simple
    assert by_region(priced(model, terms), region) == regions


@pytest.mark.parametrize(
    ("first", "second"), [([1, 0, 0], [0, 0, 1]), ([0, 0, 0], [1, 0, 0]), ([0] * 3, [])]
)
def test_what_regions_lack_adds_up_to_the_gap(first: list[int], second: list[int]) -> None:
    """As many as the row that joins allows, or fewer, which costs nothing: it does not bind."""
    model, terms, region = two_knapsacks(4)
    found = priced(model, terms)
    until = time.monotonic() + 10
    regions = Decomposition(found, np.array(region), until=until, nodes=500)
    most = [ask() for ask in regions.questions]
    lacks = regions.shortfalls(most, np.array(first + second, dtype=np.float64))
    assert lacks.round() == pytest.approx([1 - sum(first), 1 - sum(second)])
    # What no region can have is no reason to look elsewhere.
    assert regions.shortfalls(most, np.ones(6)).min() == 0
    bound = regions.bound(most)
    assert bound is not None
    assert round(bound / 30 - sum(first + second)) == round(lacks.sum())


@pytest.mark.parametrize(
    "reason", [TerminationReason.NO_SOLUTION_FOUND, TerminationReason.FEASIBLE]
)
def test_a_region_that_is_not_settled_in_time_has_what_the_linear_program_says(
    reason: TerminationReason, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def solve(_: object, __: object, parameters: SolveParameters) -> result_pb2.SolveResultProto:
        assert parameters.time_limit is not None
        limits.append(parameters.time_limit.total_seconds())
        result = result_pb2.SolveResultProto()
        result.termination.reason = reason.value
        result.termination.objective_bounds.dual_bound = float("-inf")
        return result

    model, terms, region = two_knapsacks(4)
    found = priced(model, terms)
    monkeypatch.setattr(decomposition, "solve", solve)
    assert by_region(found, region, seconds=-1) == 90
    assert max(limits) < 1


def test_what_is_to_be_little_is_bounded_from_below() -> None:
    """Each of two regions needs one and a half of its items, so two."""
    model = LinearModel()
    items = [model.variable(1) for _ in range(4)]
    for pair in (items[:2], items[2:]):
        model.row([(v, 2) for v in pair], least=3)
    terms = [(v, 10) for v in items]
    assert model.relaxed(terms, maximize=False, seconds=10).bound == 30
    assert by_region(priced(model, terms, maximize=False), [0, 0, 1, 1]) == 40


def test_a_variable_of_no_region_has_a_copy_in_each() -> None:
    """Its rows are settled in whole numbers, too, though they stand in several regions."""
    model = LinearModel()
    stay, *come = (model.variable(1) for _ in range(5))
    for region in (come[:2], come[2:]):
        model.row([(v, 6) for v in (stay, *region)], most=10)
    terms = [(stay, 20), *((v, 10) for v in come)]
    assert model.relaxed(terms, maximize=True, seconds=10).bound == 30
    assert by_region(priced(model, terms), [NONE, 0, 0, 1, 1]) == 20


def random_model(seed: int) -> tuple[LinearModel, Terms[int], list[int]]:
    """Regions of a few variables, rows in them and across, and some variables of no region."""
    rng = random.Random(seed)
    model = LinearModel()
    region = [rng.choice((NONE, 0, 0, 1, 1, 2)) for _ in range(rng.randint(6, 16))]
    variables = [model.variable(rng.randint(1, 3)) for _ in region]
    for _ in range(rng.randint(2, 8)):
        among = rng.choice((None, 0, 0, 1, 1, 2, 2))
        mine = [v for v, r in zip(variables, region, strict=True) if among in (None, r)]
        terms = [(v, float(rng.choice((-2, 3, 5, 6, 7, 9)))) for v in mine[: rng.randint(1, 6)]]
        full = sum(max(w, 0) * model.most(v) for v, w in terms)
        least = -5.0 if rng.random() < 0.3 else float("-inf")
        model.row(terms, least=least, most=int(full * rng.uniform(0.2, 0.7)))
    return model, [(v, 10 * rng.randint(-3, 9)) for v in variables], region


@pytest.mark.parametrize("maximize", [True, False])
def test_no_solution_is_better_than_what_regions_say(maximize: bool) -> None:
    tighter = 0
    for seed in range(150):
        model, terms, region = random_model(seed)
        simple = model.relaxed(terms, maximize=maximize, seconds=10)
        best = model.whole(terms, maximize=maximize, seconds=10).bound
        if simple.priced is None or simple.bound is None or best is None:
            continue
        said = by_region(simple.priced, region)
        assert said is not None
        sign = 1 if maximize else -1
        assert sign * best <= sign * said <= sign * simple.bound
        tighter += said != simple.bound
    assert tighter > 5


def test_what_all_rows_of_a_variable_belong_to_is_its_region() -> None:
    model = LinearModel()
    known, follows, joins, other = (model.variable(1) for _ in range(4))
    model.row([(known, 1), (follows, 1)], most=1)
    model.row([(known, 1), (joins, 1)], most=1)
    model.row([(joins, 1), (other, 1)], most=1)
    matrix = priced(model, [(known, 1)]).program.matrix
    assert grown(matrix, np.array([0, NONE, NONE, 1]), 3).tolist() == [0, 0, NONE, 1]
