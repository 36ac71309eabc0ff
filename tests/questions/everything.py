"""Questions in which every rule and every policy may occur, small enough for the oracle."""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import ExtrasPolicy, Policy, Snapshot, Tolerance
from tests.planned import Taste
from tests.planned import questions as planned
from tests.questions.widened import widened
from tests.strategies import (
    EVERYTHING,
    Size,
    contested_clusters,
    crossed,
    full_clusters,
    snapshots,
    with_more_room,
    with_reservations,
)

TINY = Size(nodes=3, gangs=3, groups=2, pods=4)
LARGER = Size(nodes=4, gangs=4, groups=2, pods=6)

_anything = st.one_of(full_clusters(), snapshots(TINY, EVERYTHING))
_hopeful = st.one_of(
    with_more_room(_anything),
    with_more_room(snapshots(LARGER, EVERYTHING)),
    # These have gangs that are alike, several sets of them, and a third resource.
    planned(Taste(nodes=4, pods=5)),
)
_either = st.one_of(_anything, _hopeful, contested_clusters())
_held = st.one_of(_either, with_reservations(_either))
questions = st.one_of(_held, crossed(_held))

_tolerances = st.lists(
    st.builds(
        Tolerance,
        st.sampled_from(["admitted", "waiting", "extra", "disruption", "topology"]),
        st.sampled_from([0.1, 0.5, 1.0]),
    ),
    max_size=2,
    unique_by=lambda tolerance: tolerance.tier,
)
policies = st.builds(
    Policy,
    eviction=st.sampled_from(EvictionPolicy),
    starvation_after=st.sampled_from([None, 1000]),
    extras=st.sampled_from(ExtrasPolicy),
    tolerances=st.one_of(st.just(()), st.just(()), _tolerances.map(tuple)),
)

#: More than any question takes to draw.
_CHOICES = 64 << 10


class Drawn(NamedTuple):
    """A question under a policy."""

    snapshot: Snapshot
    policy: Policy


def draw(seed: int, number: int, *, wide: bool = False) -> Drawn:
    """The question of that number; every seed has others. `wide` ones may have more rules.

    Each is drawn by itself, unlike those of a property test, which resemble each other.
    """
    found: list[Drawn] = []

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(questions, policies)
    def keep(snapshot: Snapshot, policy: Policy) -> None:
        found.append(Drawn(snapshot, policy))

    chance = random.Random(f"{seed}/{number}")
    while not found:
        keep.hypothesis.fuzz_one_input(chance.randbytes(_CHOICES))  # type: ignore[attr-defined]
    return Drawn(*widened(chance, *found[0])) if wide else found[0]
