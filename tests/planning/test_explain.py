"""Remedies: each kind on the smallest cluster where it is the way in."""

from __future__ import annotations

import pytest

from placement import v1
from placement.planning.case import least
from placement.planning.explain import Explanation, explain
from placement.planning.levels import levels_of
from placement.planning.planner import Fit, Planner
from placement.planning.remedies import AddNodes, Evict, Reduce, Relax, Uncordon
from placement.planning.victims import Budgets, victims
from tests.planning.clusters import BLOCK, RACK, gang, node, request, resource_name


def explained(asked: v1.ComputePlacementRequest, name: str, planner: Planner) -> Explanation:
    levels = levels_of(asked, [BLOCK, RACK])
    return explain(asked, resource_name(name), planner=planner, levels=levels)


def test_a_gang_that_is_placed_needs_no_remedy(planner: Planner) -> None:
    found = explained(request([node("n1")], [gang("a", 1)]), "a", planner)
    assert found.placed
    assert found.remedies == ()


def test_an_unknown_gang_is_answered_with_the_nearest_name(planner: Planner) -> None:
    with pytest.raises(ValueError, match="did you mean ml/serve"):
        explained(request([node("n1")], [gang("serve", 1)]), "sreve", planner)


def test_each_kind_of_remedy_is_the_least(planner: Planner) -> None:
    """Three whole nodes in one rack; rack r1 has three, of which n3 is closed."""
    nodes = [node(f"n{i}", block="b1", rack="r1", closed=i == 3) for i in (1, 2, 3)]
    nodes += [node(f"n{i}", block="b1", rack="r2") for i in (4, 5)]
    found = explained(request(nodes, [gang("a", 3, required=RACK)]), "a", planner)
    assert not found.placed
    assert found.reasons
    assert set(found.remedies) == {
        Uncordon(("nodes/n3",), True),
        Relax("gang", RACK, BLOCK, True),
        Reduce("w", 3, 2, True),
        AddNodes("nodes/n1", 1, True),
    }


def test_relaxing_skips_levels_that_do_not_help(planner: Planner) -> None:
    nodes = [node("n1", block="b1", rack="r1"), node("n2", block="b2", rack="r2")]
    found = explained(request(nodes, [gang("a", 2, required=RACK)]), "a", planner)
    assert Relax("gang", RACK, "", True) in found.remedies


def test_nothing_helps_a_pod_that_is_larger_than_every_node(planner: Planner) -> None:
    found = explained(request([node("n1")], [gang("a", 1, gpus=16)]), "a", planner)
    assert found.remedies == ()


def test_the_fewest_pods_are_evicted_and_only_of_lower_priority(planner: Planner) -> None:
    """n1 holds two pods of "two", n2 four of "four", n3 one of "equal" and n4 a fixed one."""
    gangs = [
        gang("two", 0, gpus=4, on=["n1"] * 2),
        gang("four", 0, gpus=2, on=["n2"] * 4),
        gang("equal", 0, on=["n3"], priority=10),
        gang("fixed", 0, on=["n4"], fixed=True),
        gang("urgent", 1, priority=10),
    ]
    nodes = [node(f"n{i}") for i in (1, 2, 3, 4)]
    found = explained(request(nodes, gangs), "urgent", planner)
    [remedy] = [r for r in found.remedies if isinstance(r, Evict)]
    assert remedy == Evict((resource_name("two"),), 2, True)


def test_extras_go_before_whole_gangs(planner: Planner) -> None:
    gangs = [
        gang("whole", 0, gpus=4, on=["n1"] * 2),
        gang("extras", 0, on=["n2", "n3"], minimum=1),
        gang("urgent", 1, priority=10),
    ]
    found = explained(request([node("n1"), node("n2"), node("n3")], gangs), "urgent", planner)
    [remedy] = [r for r in found.remedies if isinstance(r, Evict)]
    assert remedy == Evict((resource_name("extras"),), 1, True)


def test_a_disruption_budget_protects_the_pods_that_it_selects() -> None:
    asked = request([node("n1"), node("n2")], [gang("kept", 0, on=["n1", "n2"])])
    asked.gangs[0].groups[0].pod_sets[0].template.labels["app"] = "kept"
    budget = asked.snapshot.disruption_budgets.add(
        name="namespaces/ml/poddisruptionbudgets/b", allowed=1
    )
    budget.selector.match_labels["app"] = "kept"
    pods = [f"namespaces/ml/pods/kept-r{i}" for i in range(2)]
    assert Budgets(asked).allow(pods[:1])
    assert not Budgets(asked).allow(pods)
    budget.selector.match_labels["app"] = "other"
    assert Budgets(asked).allow(pods)


def test_a_gang_is_protected_until_its_minimum_run_time_is_over() -> None:
    asked = request([node("n1")], [gang("runs", 0, on=["n1"]), gang("urgent", 1, priority=1)])
    runs, urgent = asked.gangs
    runs.minimum_run_time.seconds = 60
    assert victims(asked, urgent) == []
    runs.start_time.seconds = 1000
    asked.snapshot.as_of.seconds = 1059
    assert victims(asked, urgent) == []
    asked.snapshot.as_of.seconds = 1060
    assert len(victims(asked, urgent)) == 1


def test_a_remedy_displaces_no_gang_that_the_plan_places(planner: Planner) -> None:
    """One more node lets "a" in only if "b", which is placed now, still has its own."""
    gangs = [gang("b", 1), gang("a", 2)]
    found = explained(request([node("n1", rack="r1")], gangs), "a", planner)
    assert AddNodes("nodes/n1", 2, True) in found.remedies
    assert not any(isinstance(r, Reduce) for r in found.remedies)


def test_several_closed_nodes_are_opened_only_as_far_as_needed(planner: Planner) -> None:
    nodes = [node("n1"), *(node(f"c{i}", closed=True) for i in range(4))]
    found = explained(request(nodes, [gang("a", 3)]), "a", planner)
    [remedy] = [r for r in found.remedies if isinstance(r, Uncordon)]
    assert len(remedy.nodes) == 2
    assert remedy.proven


@pytest.mark.parametrize("quick_says", [set(), {5, 6, 7, 8}, {3, 4, 5, 6, 7, 8}])
def test_the_least_number_is_found_whatever_the_quick_look_says(quick_says: set[int]) -> None:
    asked: list[int] = []

    def fit(count: int) -> Fit:
        asked.append(count)
        return Fit.YES if count >= 3 else Fit.NO

    assert least(8, lambda n: n in quick_says, fit) == (3, True)
    assert len(asked) <= 6


def test_a_proof_is_lost_where_the_answer_next_to_it_is_not_known() -> None:
    def fit(count: int) -> Fit:
        return Fit.YES if count >= 3 else Fit.UNKNOWN

    assert least(8, lambda n: n >= 3, fit) == (3, False)
    assert least(0, lambda n: True, fit) == (None, True)
    assert least(2, lambda n: False, lambda n: Fit.NO) == (None, True)
