"""The first answer evicts and moves no more pods of a disruption budget than this allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.request import Snapshot
from placement_service.entities.selectors import LabelSelector
from tests.service.evictions import PREEMPT, REPACK, cluster, running, urgent
from tests.service.heuristic.first_plans import evicted, first_plan
from tests.service.questions import gang, node


def allowing(question: Snapshot, **allowed: int) -> Snapshot:
    """The question where of some gangs only so many pods may go."""
    budgets = (
        DisruptionBudget(
            f"namespaces/ml/poddisruptionbudgets/{app}", LabelSelector((("app", app),)), most
        )
        for app, most in allowed.items()
    )
    return replace(question, disruption_budgets=tuple(budgets))


def test_a_dearer_gang_goes_where_a_budget_keeps_the_cheapest() -> None:
    question = cluster(
        running("few", "n0", "n0"), running("many", *["n1"] * 4, gpus=2), urgent(), nodes=2
    )
    assert evicted(first_plan(question, PREEMPT)) == ["few", "few"]
    assert evicted(first_plan(allowing(question, few=1), PREEMPT)) == ["many"] * 4
    assert not first_plan(allowing(question, few=1, many=3), PREEMPT).evictions


def test_extras_go_only_while_their_budget_lasts() -> None:
    """Two nodes hold extras of one gang, of which one may go; the third pod of the new gang costs
    another gang."""
    elastic = running("elastic", "n0", "n1", "n2", gpus=8, minimum=1)
    question = cluster(elastic, running("whole", "n3", gpus=8), nodes=4)
    new = replace(gang("new", pods=2, gpus=8), priority=100)
    question = replace(question, gangs=(*question.gangs, new))
    assert evicted(first_plan(question, PREEMPT)) == ["elastic", "elastic"]
    assert evicted(first_plan(allowing(question, elastic=1), PREEMPT)) == ["elastic", "whole"]


@pytest.mark.parametrize(("allowed", "moved"), [(1, ["kept"]), (0, ["other", "other"])])
def test_pods_that_move_are_of_their_budget(allowed: int, moved: list[str]) -> None:
    kept, other = running("kept", "n0"), running("other", "n1", "n1", gpus=2)
    nodes = (node("n0", used=4), node("n1", used=4))
    question = allowing(Snapshot(nodes, (kept, other, urgent())), kept=allowed)
    assert evicted(first_plan(question, REPACK)) == moved
