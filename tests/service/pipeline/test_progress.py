"""What callers learn on the way: progress, and the best answer so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.placement import (
    Placement,
    Progress,
    Reason,
    ReasonCode,
    Termination,
)
from placement_service.entities.request import (
    BoundPod,
    PackingScope,
    Policy,
)
from placement_service.entities.solution import (
    Assignment,
    FewestDomains,
    Limit,
    Solution,
)
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.judge.verify import verify
from placement_service.solver_process.pool import Found
from tests.service import engines
from tests.service.pipeline.asking import (
    Defects,
    Report,
    ask,
    nodes_of,
    stages,
)
from tests.service.questions import gang, node, open_snapshot, request, snapshot


def test_progress_tells_of_the_first_answer_and_of_every_better_one() -> None:
    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        bounded = tuple(replace(t, bound=t.value) for t in start.tiers)
        report(replace(start, tiers=bounded, phase="bound"))
        return Found(replace(start, tiers=bounded))

    seen: list[Progress] = []
    ask(request(open_snapshot()), stages=stages(search), observer=seen.append)
    assert [p.phase for p in seen] == ["greedy", "bound"]
    assert [p.tiers[0].bound for p in seen] == [32.0, 8.0]
    assert [p.placed_gang_count for p in seen] == [1, 1]


def test_a_repeatable_answer_does_not_depend_on_what_was_judged_on_the_way() -> None:
    """The clock decides what is; here it judged one plan that needs fewer domains, or not."""
    nodes = tuple(node(f"n{i}", rack=str(i)) for i in range(2))
    spread = replace(
        gang("train", pods=2, gpus=4),
        packing_scopes=(PackingScope("all", ("worker",), preferred_level="rack"),),
    )
    question = replace(snapshot(gangs=(spread, gang("huge", pods=1, gpus=9))), nodes=nodes)

    def search(judged: bool) -> Callable[..., Found]:
        def run(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
            together = (Assignment(0, 0, 0, 1, 2),)
            apart = tuple(Assignment(0, 0, 0, node, 1) for node in range(2))
            if judged:
                report(replace(start, assignments=together))
            return Found(replace(start, assignments=apart, fewest_domains=(FewestDomains(0, 1),)))

        return run

    def greedy(problem: Problem, previous: Any, /, *, deadline: float) -> Solution:
        return to_solution(problem, {})

    policy = Policy(deterministic=True)
    answers = [
        ask(request(question, policy=policy), stages=stages(search(judged), first_answer=greedy))
        for judged in (False, True)
    ]
    assert answers[0].gangs == answers[1].gangs
    assert answers[0].bindings == answers[1].bindings
    assert answers[0].tiers == answers[1].tiers


def test_the_best_answer_so_far_is_always_at_hand() -> None:
    """It is complete except for explanations, and verified, so the edge can send it."""
    offered: list[Placement] = []

    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        assert [nodes_of(placement) for placement in offered] == [set(), {"nodes/n0"}]
        report(replace(engines.last_node(problem, start), tiers=start.tiers))
        report(engines.overfilling(problem, start, deadline=0, report=report))
        assert nodes_of(offered[-1]) == {"nodes/n2"}
        return Found(start, Limit.TIME)

    def slow(*_: object, deadline: float, **_others: object) -> list[list[Reason]]:
        raise SystemExit

    question = request(open_snapshot())
    with pytest.raises(SystemExit):
        ask(
            question,
            stages=stages(search, explain=slow),
            offer=offered.append,
            report_defect=Defects(),
        )
    for placement in offered:
        assert verify(question.snapshot, question.policy, placement.bindings) == ()
        assert [r.code for r in placement.gangs[1].reasons] == [ReasonCode.NOT_SEARCHED]
        assert placement.termination is not None
        assert placement.termination.limit is Limit.TIME
        assert placement.stats is not None
        assert not placement.stats.deterministic


def test_before_anything_is_computed_the_empty_answer_is_at_hand() -> None:
    """It tells the truth of what runs already."""
    offered: list[Placement] = []

    def late(*_: object) -> Any:
        raise SystemExit

    runs = gang("runs", pods=1, gpus=1, minimum=1)
    (group,) = runs.groups
    bound = BoundPod("namespaces/ml/pods/old", "nodes/n0")
    runs = replace(runs, groups=(replace(group, fixed_pods=(bound,)),))
    question = request(snapshot(1, (runs, gang("waits", pods=1, gpus=1))))
    with pytest.raises(SystemExit):
        ask(question, stages=stages(formulate=late), offer=offered.append)
    (placement,) = offered
    assert [g.placed for g in placement.gangs] == [True, False]
    assert [[r.code for r in g.reasons] for g in placement.gangs] == [
        [],
        [ReasonCode.NOT_SEARCHED],
    ]
    assert placement.termination == Termination(
        False, Limit.TIME, None, "The time limit ended the computation."
    )
    assert (placement.revision, placement.label, placement.bindings) == ("7", "test", ())
