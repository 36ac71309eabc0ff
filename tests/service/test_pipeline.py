"""The chain from question to answer, and what is left when a link breaks.

Problem, greedy answer, verifier and score are the real ones; the search is a
function in this process, because a process of its own is tested in `test_pool`
and the real engine in `test_rules`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.errors import DeadlineTooShort
from placement_service.entities.placement import (
    Placement,
    Progress,
    Reason,
    ReasonCode,
    Termination,
)
from placement_service.entities.progress import Interrupted, Switch
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PackingScope,
    PodTemplate,
    Policy,
    Request,
    Snapshot,
)
from placement_service.entities.solution import (
    Assignment,
    FewestDomains,
    Limit,
    Solution,
    Tier,
    TierName,
)
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.judge import Judge
from placement_service.judge.score import GangScore, ScopeUse, Score
from placement_service.judge.verify import verify
from placement_service.pipeline.candidates import recompute
from placement_service.pipeline.place import place
from placement_service.pipeline.results import placement_score
from placement_service.pipeline.stages import Budget, Stages
from placement_service.solver_process.pool import Found
from tests.service import engines
from tests.service.formulation.test_devices import pods_of
from tests.service.formulation.test_running_gangs import PREEMPT, cluster, running, urgent
from tests.service.questions import GPU, gang, node, open_snapshot, request, snapshot
from tests.waiting import LONG

Report = Callable[[Solution], None]


def nothing_found(problem: Problem, start: Solution, /, **_: Any) -> Found:
    return Found(start)


def ending_with(engine: Callable[..., Solution]) -> Callable[..., Found]:
    """A search that is one of the engines for the solver process, run here."""

    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        return Found(engine(problem, start, deadline=time.monotonic(), report=report))

    return search


def greedy(problem: Problem, previous: object, /, *, deadline: float) -> Solution:
    """A first answer that a search may better, though one gang alone needs none."""
    return replace(first_answer(problem), final=False)


def stages(search: Callable[..., Found] = nothing_found, **others: Any) -> Stages:
    usual = Stages(
        formulate=formulate,
        first_answer=greedy,
        search=search,
        judge=Judge,
        explain=explain,
        engine="test 1",
    )
    return replace(usual, **others)


class Defects(list[str]):
    """Takes note of defects."""

    def __call__(self, what: str, detail: str, /) -> str:
        self.append(what)
        return "dump.json"


def budget(seconds: float = LONG, deadline: float = float("inf")) -> Budget:
    now = time.monotonic()
    return Budget(now, now + seconds, now + deadline)


def ask(question: Request | None = None, /, **arguments: Any) -> Any:
    arguments.setdefault("budget", budget())
    arguments.setdefault("stages", stages())
    return place(question or request(), **arguments)


def nodes_of(placement: Any) -> set[str]:
    return {b.node for b in placement.bindings}


def test_the_answer_carries_what_was_asked_and_what_was_found() -> None:
    placement = ask(stages=stages(ending_with(engines.moving)))
    assert (placement.revision, placement.label) == ("7", "test")
    assert nodes_of(placement) == {"nodes/n2"}
    assert [g.placed for g in placement.gangs] == [True]
    assert placement.termination.optimal
    assert placement.termination.gap == 0
    assert placement.stats.engine == "test 1"
    assert placement.stats.proof_seconds is not None
    assert placement.stats.first_answer_seconds <= placement.stats.elapsed_seconds
    assert [t.name for t in placement.stats.first_tiers] == list(TierName)


def test_a_request_that_is_only_checked_gets_an_empty_answer() -> None:
    placement = ask(replace(request(), validate_only=True))
    assert placement.bindings == placement.gangs == ()
    assert placement.termination is None
    assert placement.revision == "7"


def test_a_first_answer_that_leaves_nothing_to_wish_for_is_not_searched_on() -> None:
    """The node is in use already, so that not even a whole node is lost."""

    def never(*_: object, **__: object) -> Found:
        raise AssertionError("searched")

    defects = Defects()
    question = snapshot(1, (gang("train", pods=1, gpus=4),))
    question = replace(question, nodes=(node("n0", used=2),))
    placement = ask(request(question), stages=stages(never), report_defect=defects)
    assert placement.termination.optimal
    assert defects == []


def test_a_proven_first_answer_is_searched_on_for_nodes_to_keep_whole() -> None:
    searched: list[bool] = []

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        searched.append(start.proven)
        return Found(start, Limit.TIME)

    placement = ask(stages=stages(search))
    assert searched == [True]
    assert placement.termination.optimal


@pytest.mark.parametrize(
    ("engine", "want_defect"),
    [
        pytest.param(engines.overfilling, "a plan breaks rules", id="it breaks a rule"),
        pytest.param(engines.inventing, "a plan is malformed", id="it is malformed"),
    ],
)
def test_a_plan_that_breaks_rules_is_never_the_answer(
    engine: Callable[..., Solution], want_defect: str
) -> None:
    """Three pods of 4 GPUs do not fit one node of 8, which the engine says they do."""
    defects = Defects()
    question = request(open_snapshot(2, pods=3))
    placement = ask(question, stages=stages(ending_with(engine)), report_defect=defects)
    assert want_defect in defects
    assert verify(question.snapshot, question.policy, placement.bindings) == ()
    assert len(placement.bindings) == 3, "the first answer stands"
    assert not placement.termination.optimal


def test_a_refused_last_word_leaves_the_last_plan_that_kept_the_rules() -> None:
    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        report(replace(engines.last_node(problem, start), tiers=start.tiers))
        return ending_with(engines.inventing)(problem, start, report=report)

    defects = Defects()
    placement = ask(stages=stages(search), report_defect=defects)
    assert nodes_of(placement) == {"nodes/n2"}
    assert len(defects) == 1


@pytest.mark.parametrize("broken", ["it raises", "it lies"])
def test_without_a_first_answer_the_empty_plan_is_improved(broken: str) -> None:
    def bad(problem: Problem, previous: object, /, *, deadline: float) -> Solution:
        if broken == "it raises":
            raise ZeroDivisionError
        return engines.inventing(problem, first_answer(problem), deadline=0, report=print)

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        assert start.assignments == ()
        return Found(first_answer(problem))

    defects = Defects()
    placement = ask(stages=stages(search, first_answer=bad), report_defect=defects)
    assert len(defects) == 1
    assert placement.gangs[0].placed


def test_when_everything_fails_the_answer_is_empty_and_says_so() -> None:
    def bad(*_: object, **__: object) -> Any:
        raise ZeroDivisionError

    defects = Defects()
    placement = ask(
        stages=stages(ending_with(engines.inventing), first_answer=bad, explain=bad),
        report_defect=defects,
    )
    assert len(defects) == 3
    assert placement.bindings == ()
    assert [r.code for r in placement.gangs[0].reasons] == [ReasonCode.NOT_SEARCHED]
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(0, 8), (0, 1), (0, 0)]


def test_claims_are_replaced_by_what_the_bindings_are_worth() -> None:
    defects = Defects()
    placement = ask(stages=stages(ending_with(engines.boasting)), report_defect=defects)
    assert defects == ["a claim is wrong"]
    assert placement.tiers[0].value == 8
    assert not placement.termination.optimal


def test_a_worse_last_word_does_not_replace_a_better_answer() -> None:
    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        return Found(replace(start, assignments=()))

    placement = ask(stages=stages(search), report_defect=Defects())
    assert placement.gangs[0].placed


@pytest.mark.parametrize(
    ("found_limit", "own_limit", "want_limit"),
    [
        pytest.param(Limit.NONE, Limit.NONE, Limit.EFFORT, id="nothing left to try"),
        pytest.param(Limit.NONE, Limit.TIME, Limit.TIME, id="the engine says why"),
        pytest.param(Limit.TIME, Limit.NONE, Limit.TIME, id="the engine was stopped"),
        pytest.param(Limit.SOLVER_LOST, Limit.NONE, Limit.SOLVER_LOST, id="the engine died"),
    ],
)
def test_the_answer_says_what_ended_the_search(
    found_limit: Limit, own_limit: Limit, want_limit: Limit
) -> None:
    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        return Found(replace(start, limit=own_limit), found_limit, 5)

    question = request(open_snapshot(), policy=Policy(deterministic=True))
    placement = ask(question, stages=stages(search))
    assert placement.termination.limit is want_limit
    assert placement.stats.solver_memory_bytes == 5
    assert placement.stats.deterministic == (want_limit is Limit.EFFORT)


@pytest.mark.parametrize("explaining_ends", ["in time", "late"])
def test_an_answer_that_was_explained_past_its_time_is_not_called_repeatable(
    explaining_ends: str,
) -> None:
    now = 0.0

    def clock() -> float:
        return now

    def offer(_: object) -> None:
        # Writing an answer takes a second, which explaining must leave.
        nonlocal now
        now += 1.0

    def explaining(*_: object, deadline: float, **_others: object) -> list[list[Reason]]:
        nonlocal now
        now = deadline if explaining_ends == "late" else deadline - 0.1
        return []

    placement = ask(
        request(open_snapshot(), policy=Policy(deterministic=True)),
        budget=Budget(0.0, LONG, float("inf")),
        stages=stages(ending_with(engines.moving), explain=explaining),
        clock=clock,
        offer=offer,
    )
    assert placement.stats.deterministic is (explaining_ends == "in time")


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_clock_but_the_limit_ends_the_first_of_repeatable_answers(deterministic: bool) -> None:
    given: list[float] = []

    def greedy(problem: Problem, previous: Any, /, *, deadline: float) -> Solution:
        given.append(deadline)
        return first_answer(problem, previous)

    limits = budget()
    question = request(open_snapshot(), policy=Policy(deterministic=deterministic))
    ask(question, budget=limits, stages=stages(first_answer=greedy))
    assert (given == [limits.answer_by]) is deterministic
    assert given[0] <= limits.answer_by


@pytest.mark.parametrize(
    ("processor", "share"), [(1.0, 0.5), (0.8, 0.625), (0.01, 0.65), (0, 0.65)]
)
def test_the_first_answer_gets_half_of_the_time_on_a_processor(
    processor: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others take of the processor meanwhile is not counted, up to a point."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: processor * next(ticks))
    given: list[float] = []

    def greedy(problem: Problem, previous: Any, /, *, deadline: float) -> Solution:
        given.append(deadline)
        return first_answer(problem, previous)

    # The clock stands still but for one second before the first answer.
    seconds = iter((0.0, 0.0))
    limits = Budget(0.0, 1001.0, float("inf"))
    ask(
        request(open_snapshot()),
        budget=limits,
        stages=stages(first_answer=greedy),
        clock=lambda: next(seconds, 1.0),
    )
    assert given[0] == pytest.approx(1.0 + 1000 * share)


def test_the_search_gets_a_deadline_that_leaves_time_for_the_rest() -> None:
    given: list[float] = []

    def search(problem: Problem, start: Solution, /, *, deadline: float, **_: Any) -> Found:
        given.append(deadline)
        return Found(start)

    limits = budget()
    ask(stages=stages(search), budget=limits)
    assert limits.arrival < given[0] < limits.answer_by


def test_without_time_the_first_answer_is_the_answer() -> None:
    """The time limit bounds the search; only the call's deadline makes an error."""
    placement = ask(request(open_snapshot()), budget=budget(0.0))
    assert placement.gangs[0].placed
    assert placement.termination.limit is Limit.TIME
    # Both gangs, all extras, no domain too many: more there is not.
    assert {t.name: (t.value, t.bound) for t in placement.tiers} == {
        **dict.fromkeys(TierName, (0, 0)),
        TierName.ADMITTED: (8, 17),
        TierName.WAITING: (1, 2),
        TierName.FRAGMENTATION: (1, None),
    }
    assert placement.termination.gap == 9 / 8


def test_a_first_answer_that_places_everything_is_proven_without_a_search() -> None:
    placement = ask(budget=budget(0.0))
    assert placement.termination.optimal
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(8, 8), (1, 1), (0, 0)]


def test_without_a_search_what_cannot_be_placed_at_all_is_not_missing() -> None:
    """A gang whose pods are being made, and one that scales it out."""
    made = replace(gang("made", pods=1, gpus=1), uninitialized=True)
    follower = replace(gang("more", pods=1, gpus=1), base_gang=made.name)
    question = request(snapshot(1, (made, follower, gang("train", pods=2, gpus=4, minimum=1))))
    placement = ask(question, budget=budget(0.0))
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(4, 4), (1, 1), (1, 1)]


def test_a_deadline_that_passes_before_the_first_answer_is_an_error() -> None:
    with pytest.raises(DeadlineTooShort) as caught:
        ask(budget=budget(0.0, deadline=0.0))
    assert caught.value.elapsed_seconds > 0


def test_nothing_is_computed_for_a_caller_who_left() -> None:
    switch = Switch()
    switch.interrupt()
    with pytest.raises(Interrupted):
        ask(interrupter=switch)


def test_a_caller_who_leaves_during_the_search_gets_no_answer() -> None:
    switch = Switch()

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        switch.interrupt()
        return Found(start)

    with pytest.raises(Interrupted):
        ask(stages=stages(search), interrupter=switch)


def test_progress_tells_of_the_first_answer_and_of_every_better_one() -> None:
    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        bounded = tuple(replace(t, bound=t.value) for t in start.tiers)
        report(replace(start, tiers=bounded, phase="bound"))
        return Found(replace(start, tiers=bounded))

    seen: list[Progress] = []
    ask(request(open_snapshot()), stages=stages(search), observer=seen.append)
    assert [p.phase for p in seen] == ["greedy", "bound"]
    assert [p.tiers[0].bound for p in seen] == [17.0, 8.0]
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
    """Complete but for explanations, and verified: who must answer can send it."""
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


def test_an_unplaced_gang_has_a_reason_even_without_explanation() -> None:
    short = replace(gang("short", pods=1, gpus=1))
    short = replace(short, groups=(replace(short.groups[0], min_replicas=3),))
    question = request(snapshot(1, (short, gang("huge", pods=1, gpus=9))))
    placement = ask(question, stages=stages(explain=lambda *_, deadline: ()))
    assert [[r.code for r in g.reasons] for g in placement.gangs] == [
        [ReasonCode.PODS_MISSING],
        [ReasonCode.NOT_SEARCHED],
    ]


#: The tiers after `admitted` and before `topology`.
BETWEEN = tuple(TierName)[1 : tuple(TierName).index(TierName.TOPOLOGY)]


def a_score(admitted: int, topology: int = 0) -> Score:
    counts = {**dict.fromkeys(TierName, (0,)), TierName.ADMITTED: (admitted * 1_000_000,)}
    return Score({**counts, TierName.TOPOLOGY: (topology * 1000,)}, (), ())


@pytest.mark.parametrize(
    ("claimed", "want_bounds", "want_problem"),
    [
        pytest.param((8, 8, 1, 1), (8, 1), False, id="all is well"),
        pytest.param((8, 9, 1, 0), (9, 0), False, id="bounds that leave a gap"),
        pytest.param((8, 7, 1, 1), (None, None), True, id="passed by the value"),
        pytest.param((8, 8, 1, 2), (8, None), True, id="passed by a value to minimise"),
        pytest.param((9, 9, 1, 1), (9, None), True, id="after a wrong claim"),
    ],
)
def test_bounds_are_kept_as_far_as_they_hold(
    claimed: tuple[float, ...], want_bounds: tuple[float | None, ...], want_problem: bool
) -> None:
    admitted, admitted_bound, topology, topology_bound = claimed
    tiers, problem = recompute(
        (
            Tier(TierName.ADMITTED, admitted, admitted_bound),
            *(Tier(name, 0.0, 0.0) for name in BETWEEN),
            Tier(TierName.TOPOLOGY, topology, topology_bound),
        ),
        a_score(8, 1),
    )
    found = {t.name: t for t in tiers}
    assert {t.name: t.value for t in tiers if t.value} == {
        TierName.ADMITTED: 8,
        TierName.TOPOLOGY: 1,
    }
    assert (found[TierName.ADMITTED].bound, found[TierName.TOPOLOGY].bound) == want_bounds
    assert bool(problem) == want_problem


@pytest.mark.parametrize(
    ("used", "fewest", "reached", "want"),
    [
        pytest.param(2, 2, None, 1.0, id="at the bound"),
        pytest.param(1, None, None, 1.0, id="one domain for one scope"),
        pytest.param(4, 2, 2, 0.5, id="twice what was seen to be enough"),
        pytest.param(4, 2, 3, None, id="the bound was never reached"),
        pytest.param(4, None, 4, None, id="nothing is proven"),
        pytest.param(None, None, None, 1.0, id="no preferred scope"),
    ],
)
def test_placement_score(
    used: int | None, fewest: int | None, reached: int | None, want: float | None
) -> None:
    uses = () if used is None else (ScopeUse("all", "rack", False, (), used),)
    assert placement_score(GangScore("g", True, 1, uses), fewest, reached) == want
    assert placement_score(GangScore("g", False, 0, uses), fewest, reached) is None


def test_a_gang_that_is_evicted_is_told_for_whom() -> None:
    """Which other gang could have gone for it is no reason of its own."""
    others = running("other", "n0", "n0", gpus=1)
    question = cluster(running("old", "n0", gpus=6), others, urgent(gpus=6))
    placement = ask(replace(request(), snapshot=question, policy=PREEMPT))
    [reasons] = [g.reasons for g in placement.gangs if not g.placed]
    assert [(reason.code, reason.message) for reason in reasons] == [
        (
            ReasonCode.OUTCOMPETED,
            "the gang gives way to gang ml/urgent of priority 100; its own priority is 0.",
        )
    ]


def test_who_may_evict_nobody_hears_of_the_room_of_others() -> None:
    polite = replace(urgent(priority=200), never_preempts=True)
    polite = replace(polite, name="namespaces/ml/podgangs/polite")
    old = [running(f"old{i}", f"n{i}", gpus=8) for i in range(2)]
    placement = ask(
        replace(request(), snapshot=cluster(*old, polite, urgent(), nodes=2), policy=PREEMPT)
    )
    [message] = [r.message for g in placement.gangs if "polite" in g.name for r in g.reasons]
    assert message == (
        "the cluster has room for 0 of 1 pod of 8 nvidia.com/gpu; "
        "with the room of gangs that it may not evict, for 2."
    )


def test_a_compute_domain_is_named_and_not_the_rule_that_stands_for_it() -> None:
    busy = replace(node("n0"), compute_domain="ml/other")
    mine = pods_of("mine", 1, PodTemplate({GPU: 1, PODS: 1}, compute_domain="ml/mine"))
    placement = ask(request(Snapshot((busy,), (mine,))))
    [message] = [reason.message for g in placement.gangs for reason in g.reasons]
    assert message.endswith(
        ": 1 of 1 node: ComputeDomain ml/mine, which shares no node with another."
    )
