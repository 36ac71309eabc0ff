"""Claims of the engine are kept as far as they can hold."""

from __future__ import annotations

import pytest

from placement_service.entities.solution import (
    Tier,
    TierName,
)
from placement_service.judge.score import Score
from placement_service.pipeline.candidates import recompute

#: The tiers after `admitted` and before `topology`.
BETWEEN = tuple(TierName)[1 : tuple(TierName).index(TierName.TOPOLOGY)]


def a_score(admitted: int, topology: int = 0) -> Score:
    counts = {**dict.fromkeys(TierName, (0,)), TierName.ADMITTED: (admitted * 1_000_000,)}
    return Score({**counts, TierName.TOPOLOGY: (topology * 1000,)}, (), ())


@pytest.mark.parametrize(
    ("claimed", "want_bounds", "want_problem"),
    [
        pytest.param((8, 8, 1, 1), (8, 1), False, id="all is well"),
        pytest.param((8, 9, 1, 0), (9, 0), False, id="bounds that leave a gap"),
        pytest.param((8, 7, 1, 1), (None, None), True, id="passed by the value"),
        pytest.param((8, 8, 1, 2), (8, None), True, id="passed by a value to minimise"),
        pytest.param((9, 9, 1, 1), (9, None), True, id="after a wrong claim"),
    ],
)
def test_bounds_are_kept_as_far_as_they_hold(
    claimed: tuple[float, ...], want_bounds: tuple[float | None, ...], want_problem: bool
) -> None:
    admitted, admitted_bound, topology, topology_bound = claimed
    tiers, problem = recompute(
        (
            Tier(TierName.ADMITTED, admitted, admitted_bound),
            *(Tier(name, 0.0, 0.0) for name in BETWEEN),
            Tier(TierName.TOPOLOGY, topology, topology_bound),
        ),
        a_score(8, 1),
    )
    found = {t.name: t for t in tiers}
    assert {t.name: t.value for t in tiers if t.value} == {
        TierName.ADMITTED: 8,
        TierName.TOPOLOGY: 1,
    }
    assert (found[TierName.ADMITTED].bound, found[TierName.TOPOLOGY].bound) == want_bounds
    assert bool(problem) == want_problem
