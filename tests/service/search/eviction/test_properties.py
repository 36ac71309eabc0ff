"""Evictions on random questions: no broken rule, no false bound, no needless victim.

The oracle tries every way to take pods away and to place others, and knows the optimum. What
these few find is sought among thousands by ``python -m tests.questions``.
"""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.prepare import prepare
from placement_service.search.parameters import SearchParameters
from tests.judged import no_answer_is_false, oracle
from tests.strategies import (
    EVERYTHING,
    Feature,
    Size,
    contested_clusters,
    full_clusters,
    snapshots,
    with_lacking_gangs,
)

#: Half of the profile in use: the oracle takes longer for these than for any others.
EXAMPLES = settings().max_examples // 2

TINY = Size(nodes=3, gangs=3, groups=1, pods=4)

policies = st.builds(
    Policy, eviction=st.sampled_from([p for p in EvictionPolicy if p is not EvictionPolicy.NONE])
)

questions = st.one_of(
    full_clusters(),
    full_clusters(),
    full_clusters(),
    snapshots(TINY, frozenset({Feature.TOLD, Feature.PRIORITIES})),
    snapshots(TINY, frozenset({Feature.TOLD, Feature.PRIORITIES, Feature.QUEUES})),
    snapshots(TINY, EVERYTHING),
)


@settings(max_examples=EXAMPLES)
@given(questions, policies)
def test_bounds_never_cut_off_the_optimum_and_proofs_have_met_it(
    snapshot: Snapshot, policy: Policy
) -> None:
    best = oracle(snapshot, policy)
    event(f"evicted: {len(best.evictions)}")
    event(f"proven: {no_answer_is_false(best, snapshot, policy)}")


@settings(max_examples=EXAMPLES // 2)
@given(questions, policies)
def test_the_model_of_victims_cuts_off_no_optimum(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    no_answer_is_false(best, snapshot, policy, SearchParameters(victim_gangs=1))


@settings(max_examples=EXAMPLES)
@given(
    with_lacking_gangs(full_clusters()),
    st.sampled_from([EvictionPolicy.PREEMPT, EvictionPolicy.RECLAIM]),
)
def test_gangs_that_lack_pods_or_wait_for_more_stay_or_go(
    snapshot: Snapshot, kind: EvictionPolicy
) -> None:
    policy = Policy(eviction=kind)
    best = oracle(snapshot, policy)
    event(f"divided: {prepare(snapshot, policy).request is not None}")
    event(f"proven: {no_answer_is_false(best, snapshot, policy)}")


@settings(max_examples=EXAMPLES)
@given(contested_clusters())
def test_what_is_reclaimed_for_one_gang_may_serve_others(snapshot: Snapshot) -> None:
    policy = Policy(eviction=EvictionPolicy.RECLAIM)
    best = oracle(snapshot, policy)
    no_answer_is_false(best, snapshot, policy)
