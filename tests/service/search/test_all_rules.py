"""All rules and policies at once on random questions: no broken rule, no false bound.

The oracle tries every plan and knows the optimum, also where later tiers may spend what
earlier ones have reached.
"""

from __future__ import annotations

from hypothesis import event, given

from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.prepare import prepare
from tests.brute import no_bound_cuts_off
from tests.questions.everything import policies, questions
from tests.service.search.test_eviction_properties import answers, judged, oracle


@given(questions, policies)
def test_no_rule_is_broken_and_no_bound_is_false(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    prepared = prepare(snapshot, policy)
    found = answers(snapshot, policy, prepared)
    for answer in found:
        no_bound_cuts_off(best, answer, judged(snapshot, policy, prepared, answer))
    event(f"proven: {found[-1].proven}, {policy.eviction.value}")
