"""What holds for every question, tried on random small ones.

Four oracles: the verifier accepts every answer; `score` finds what the engine
claims; on tiny instances `brute` knows the optimum, which no bound may cut off and
every proof must have met; and changes that cannot matter, or can only help, do just
that. ``--hypothesis-profile thorough`` tries many more.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import HOSTNAME, ExtrasPolicy, Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from tests.brute import TooLarge, fewest_domains, optimum, rank
from tests.judged import judged, no_answer_is_false, oracle
from tests.placed import solve
from tests.scenario import Group, Scenario
from tests.service.search.small_questions import small, tiny
from tests.strategies import (
    EVERYTHING,
    SMALL,
    Feature,
    permuted,
    renamed,
    snapshots,
)

POLICY = Policy(starvation_after=1000)

#: What changes the order of goals.
POLICIES = (POLICY, Policy(starvation_after=1000, extras=ExtrasPolicy.WITH_PRIORITY))
EPSILON = 5e-7

#: Of the profile in use; the properties that solve twice try fewer.
EXAMPLES = settings().max_examples


@given(small)
def test_the_first_answer_from_an_earlier_one_is_no_worse(snapshot: Snapshot) -> None:
    problem = formulate(snapshot, POLICY)
    earlier = first_answer(problem)
    again = first_answer(problem, earlier.assignments)
    before, after = judged(snapshot, POLICY, earlier), judged(snapshot, POLICY, again)
    assert rank(after) >= rank(before)


@given(small)
def test_every_answer_keeps_the_rules_and_is_no_worse_than_the_one_before(
    snapshot: Snapshot,
) -> None:
    """From the first, greedy one on; and claims what it is worth."""
    scores = [judged(snapshot, POLICY, answer) for answer in solve(snapshot, POLICY)]
    ranks = [rank(result) for result in scores]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.extras.value)
@given(tiny)
def test_bounds_never_cut_off_the_optimum_and_proofs_have_met_it(
    policy: Policy, snapshot: Snapshot
) -> None:
    best = oracle(snapshot, policy)
    assert rank(score(snapshot, policy, best.plan)) == best.rank
    assert rank(judged(snapshot, policy, first_answer(formulate(snapshot, policy)))) <= best.rank
    event(f"proven: {no_answer_is_false(best, snapshot, policy)}")


@given(tiny)
def test_fewest_domains_are_never_more_than_needed(snapshot: Snapshot) -> None:
    final = solve(snapshot, POLICY)[-1]
    result = judged(snapshot, POLICY, final)
    for index, fewest in final.fewest_domains:
        gang = result.gangs[index]
        if gang.placed and gang.preferred_domains is not None:
            assert fewest <= gang.preferred_domains
        try:
            alone = fewest_domains(snapshot, POLICY, index)
        except TooLarge:
            continue
        # With affinity another gang may have to lead the way, or lead a better one.
        affine = any(
            pod_set.template.required_affinity
            for group in snapshot.gangs[index].groups
            for pod_set in group.pod_sets
        )
        if alone is not None and not affine:
            assert fewest <= alone


@settings(max_examples=EXAMPLES // 2)
@given(small, st.data())
def test_neither_order_nor_names_matter(snapshot: Snapshot, data: st.DataObject) -> None:
    same_objective(snapshot, data.draw(permuted(renamed(snapshot))))


def same_objective(one: Snapshot, other: Snapshot) -> None:
    """Whether both proven answers are worth the same."""
    first, second = solve(one, POLICY)[-1], solve(other, POLICY)[-1]
    if first.proven and second.proven:
        assert rank(judged(one, POLICY, first)) == rank(judged(other, POLICY, second))


@settings(max_examples=EXAMPLES // 2)
@given(snapshots(SMALL, EVERYTHING - {Feature.SPREAD}), st.data())
def test_an_empty_node_never_lowers_what_is_admitted(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    # Spread is left out: a new, empty domain lowers what the others may hold.
    model = data.draw(st.sampled_from(snapshot.nodes))
    labels = {**model.labels, HOSTNAME: "fresh"}
    fresh = replace(
        model, name="nodes/fresh", labels=labels, requested={}, host_ports=(), taints=()
    )
    more = replace(snapshot, nodes=(*snapshot.nodes, fresh))
    before, after = solve(snapshot, POLICY)[-1], solve(more, POLICY)[-1]
    if before.tiers[0].proven and after.tiers[0].proven:
        # Shares of a larger cluster are smaller: both plans in the terms of the larger one.
        bindings = name_pods(snapshot, before.assignments)
        first = TierName.ADMITTED
        best = judged(more, POLICY, after).counts[first]
        assert best >= score(more, POLICY, bindings).counts[first]


@settings(max_examples=EXAMPLES // 4)
@given(small)
def test_the_same_question_gets_the_same_answer(snapshot: Snapshot) -> None:
    policy = Policy(deterministic=True)
    first, second = (solve(snapshot, policy)[-1] for _ in range(2))
    assert first == second


class TestTheOracle:
    """The oracle itself, on instances whose optimum is plain to see."""

    @pytest.mark.parametrize(
        ("scenario", "want"),
        [
            pytest.param(
                Scenario("x1=8").gang("a", pods=2, gpus=8, min=1),
                ((8_000_000,), 0, 0),
                id="one fits",
            ),
            pytest.param(
                Scenario("x1=8").gang("a", pods=3, gpus=4), ((0,), 0, 0), id="all or nothing"
            ),
            pytest.param(
                Scenario("x1=4 x2=4").gang("a", pods=3, gpus=2, min=1),
                ((2_000_000,), 2, 0),
                id="extras",
            ),
            pytest.param(
                Scenario("x1=8 x2=8")
                .gang("low", pods=2, gpus=8)
                .gang("high", pods=1, gpus=1, priority=1),
                ((1_000_000, 0), 0, 0),
                id="priority before value",
            ),
            pytest.param(
                Scenario("r1: x1=8 | r2: x2=8 x3=8").gang("a", pods=2, gpus=8, prefer="rack"),
                ((16_000_000,), 0, 0),
                id="one rack",
            ),
            pytest.param(
                Scenario("r1: x1=8 | r2: x2=8").gang("a", pods=2, gpus=8, prefer="rack"),
                ((16_000_000,), 0, 1000),
                id="two racks",
            ),
            pytest.param(
                Scenario("r1: x1=8 x2=8 | r2: x3=8")
                .gang("a", pods=1, gpus=8, pack="rack")
                .gang("b", Group("w", pods=1, gpus=8), base="a", prefer="rack"),
                ((16_000_000,), 0, 0),
                id="a set in one rack",
            ),
        ],
    )
    def test_it_finds_the_optimum(
        self, scenario: Scenario, want: tuple[tuple[int, ...], int, int]
    ) -> None:
        best = optimum(scenario.snapshot(), POLICY)
        counts = (best.counts[t] for t in (TierName.ADMITTED, TierName.EXTRA, TierName.TOPOLOGY))
        assert tuple(counts) == (want[0], want[1:2], want[2:])
