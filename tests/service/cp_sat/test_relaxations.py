"""Whatever claims to bound all plans must admit every valid one.

Random questions come with a plan that was made without the engine (`tests.planned`).
Of each model alone it is asked whether it admits that plan: rows must hold, bounds
must not pass it, and a model held to what the plan reaches must still have a
solution. ``--hypothesis-profile thorough`` asks twenty times as many, ``exhaustive`` a hundred.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from placement_service.bounds.ways_to_count import CountingParameters
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.search.parameters import SearchParameters
from tests.planned import Taste, planned
from tests.service.cp_sat.relaxation_case import (
    HASTY,
    Case,
    Met,
)
from tests.service.cp_sat.relaxation_checks import (
    ALWAYS,
    CHECKS,
    the_master_of_places_admits_it,
)

#: Of the profile in use, for each aim.
EXAMPLES = settings().max_examples // 5


@dataclass(frozen=True, slots=True)
class Aim:
    """Questions of a taste, which many times meet what is named.

    `parameters` are those of the search.
    """

    name: str
    taste: Taste
    meets: tuple[str, ...]
    parameters: SearchParameters = HASTY


CALM = Taste(host=0.03, rules=0, previous=0, running=0, others=0.05, crossing=0.05)

AIMS = (
    Aim("anything", Taste(), ("pooled", "exact", "neighbourhood", "row", "room counted")),
    Aim(
        "whole nodes",
        replace(CALM, whole=0.95, scopes=0.7, elastic=0.1, pods=60),
        (
            "patterns",
            "not everybody",
            "tight row",
            "class of several",
            "large part",
            "unlike nodes",
            "plan of a filling",
        ),
    ),
    Aim(
        "sets",
        replace(CALM, sets=1, scopes=0.15, running=0.15),
        ("set", "whole set", "sets alike", "guesses", "large part"),
    ),
    Aim(
        "parts",
        replace(CALM, scopes=0.9, elastic=0.6),
        ("whole or apart", "parts in parts", "gangs alike", "tight place"),
    ),
    Aim(
        "running",
        replace(CALM, scopes=0.8, elastic=0.3, running=0.6),
        ("pinned scope", "pinned part", "bound part", "beside others"),
    ),
    Aim(
        "crossing",
        replace(CALM, crossing=1, scopes=0.6),
        ("beside others", "whole or apart"),
    ),
    Aim("bare", replace(CALM, scopes=0.6, sets=0.4, running=0.15, bare=0.4), ("whole or apart",)),
    Aim(
        "nodes",
        replace(CALM, scopes=0.1, whole=0.2, others=0.4, elastic=0.4),
        (
            "choice of units",
            "nodes alike",
            "patterns of nodes",
            "the plan itself",
            "units on nodes",
            "plan of units on nodes",
        ),
    ),
    Aim(
        "rules",
        Taste(rules=0.7, previous=0.3, running=0.3, scopes=0.2),
        ("DomainCapacity", "Exclusion", "Spread", "Affinity", "previous nodes", "fewest"),
    ),
    Aim(
        "hosts",
        replace(CALM, host=0.6, scopes=0.7),
        ("bundle", "split that counting sees", "domains of the master"),
    ),
    Aim(
        "low limits",
        Taste(),
        ("no patterns of nodes",),
        replace(
            HASTY,
            aggregate_effort=0.0,
            exact_effort=0.0,
            exact_hard_effort=0.0,
            counting=CountingParameters(node_sets=2, references=2, roundings=1),
            model=ModelParameters(
                master_patterns=3,
                node_patterns=1,
                large_parts=2,
            ),
        ),
    ),
)


@pytest.mark.parametrize("aim", [pytest.param(aim, id=aim.name) for aim in AIMS])
def test_no_bound_cuts_off_a_valid_plan(aim: Aim) -> None:
    met: Met = Counter()

    # Seeds do not shrink, so no time is lost on trying.
    @settings(max_examples=EXAMPLES, phases=[Phase.generate])
    @given(st.integers(0, 2**32 - 1))
    def ask(seed: int) -> None:
        question = planned(random.Random(seed), aim.taste)
        case = Case(question, aim.parameters)
        for check in CHECKS if case.problem.exact else ALWAYS:
            check(case, met)

    ask()
    assert {name for name in aim.meets if not met[name]} == set()


def test_rows_in_which_gangs_weigh_the_same_may_count_other_parts() -> None:
    """Seldom drawn: two ways to count one class, each by another of its parts."""
    [aim] = [aim for aim in AIMS if aim.name == "sets"]
    case = Case(planned(random.Random(2290), aim.taste), aim.parameters)
    the_master_of_places_admits_it(case, Counter())
