"""All rules and policies at once on random questions: no broken rule, no false bound.

The oracle tries every plan and knows the optimum, also where later tiers may spend what
earlier ones have reached.
"""

from __future__ import annotations

from hypothesis import event, given

from placement_service.entities.request import Policy, Snapshot
from tests.judged import no_answer_is_false, oracle
from tests.questions.everything import policies, questions


@given(questions, policies)
def test_no_rule_is_broken_and_no_bound_is_false(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    proven = no_answer_is_false(best, snapshot, policy)
    event(f"proven: {proven}, {policy.eviction.value}")
