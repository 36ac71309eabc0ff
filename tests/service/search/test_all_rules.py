"""All rules and policies at once on random questions: no broken rule, no false bound.

The oracle tries every plan and knows the optimum, also where later tiers may spend what
earlier ones have reached.
"""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import ExtrasPolicy, Policy, Snapshot, Tolerance
from placement_service.formulation.prepare import prepare
from tests.brute import no_bound_cuts_off
from tests.service.search.test_eviction_properties import answers, judged, oracle
from tests.strategies import EVERYTHING, Size, full_clusters, snapshots, with_reservations

TINY = Size(nodes=3, gangs=3, groups=2, pods=4)

anything = st.one_of(full_clusters(), snapshots(TINY, EVERYTHING))
questions = st.one_of(anything, with_reservations(anything))

tolerances = st.lists(
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
    tolerances=st.one_of(st.just(()), st.just(()), tolerances.map(tuple)),
)


@given(questions, policies)
def test_no_rule_is_broken_and_no_bound_is_false(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    prepared = prepare(snapshot, policy)
    found = answers(snapshot, policy, prepared)
    for answer in found:
        no_bound_cuts_off(best, answer, judged(snapshot, policy, prepared, answer))
    event(f"proven: {found[-1].proven}, {policy.eviction.value}")
