"""No reason says what is not so, on random questions.

Whatever a reason rules out, no plan of `brute` does, and a gang that is said to fit without others
does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.placement import ReasonCode, ReasonState
from placement_service.entities.request import (
    Binding,
    Snapshot,
)
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from tests.brute import TooLarge, gang_plans
from tests.placed import solve
from tests.scenario import Scenario
from tests.service.explain.asking import POLICY, reasons_of
from tests.strategies import EVERYTHING, PACKING_ONLY, TINY, permuted, renamed, snapshots

Code, State = ReasonCode, ReasonState

EXAMPLES = settings().max_examples

#: Codes that say that something does not fit.
NO_ROOM = {
    Code.NO_ELIGIBLE_NODE,
    Code.INSUFFICIENT_RESOURCES,
    Code.NO_SUCH_LEVEL,
    Code.REQUIRED_DOMAIN_TOO_SMALL,
    Code.PINNED_DOMAIN_TOO_SMALL,
    Code.REQUIRED_DOMAIN_BROKEN,
    Code.POD_RULES,
    Code.NO_COMBINATION,
}


tiny = st.one_of(snapshots(TINY, EVERYTHING), snapshots(TINY, PACKING_ONLY))


def plans_of(snapshot: Snapshot, gang: int, rest: Sequence[Binding]) -> Iterator[list[Binding]]:
    """Every plan that gives the gang pods beside what others got, its base aside."""
    gangs = [replace(g, base_gang="") if i == gang else g for i, g in enumerate(snapshot.gangs)]
    alone = replace(snapshot, gangs=tuple(gangs))
    try:
        for plan in gang_plans(alone, gangs[gang], 3000):
            if plan and not verify(alone, POLICY, [*rest, *plan]):
                yield list(plan)
    except TooLarge:
        assume(False)


def fits(snapshot: Snapshot, gang: int, rest: Sequence[Binding]) -> bool:
    return next(plans_of(snapshot, gang, rest), None) is not None


def answers(snapshot: Snapshot, *, proven: bool) -> Solution:
    if proven:
        return solve(snapshot, POLICY)[-1]
    return first_answer(formulate(snapshot, POLICY))


@settings(max_examples=EXAMPLES)
@given(tiny, st.booleans())
def test_every_gang_that_waits_has_a_true_reason(snapshot: Snapshot, proven: bool) -> None:
    solution = answers(snapshot, proven=proven)
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    found = reasons_of(snapshot, solution)
    for i, (gang, outcome) in enumerate(zip(snapshot.gangs, result.gangs, strict=True)):
        reasons = found[gang.name]
        waiting = sum(g.pending_count for g in gang.groups) - outcome.new
        assert bool(reasons) == (waiting > 0 or not outcome.placed)
        rest = [b for b in bindings if b.gang != gang.name]
        for reason in reasons:
            assert re.fullmatch(r"[a-z0-9].*\.", reason.message)
            if reason.code in NO_ROOM and (reason.asked or reason.found):
                assert reason.asked > reason.found
            if outcome.placed:
                continue
            alone = reason.state is not State.AFTER_PLAN
            if reason.code in NO_ROOM and "no way" not in reason.message:
                assert not fits(snapshot, i, () if alone else rest)
            if reason.code is Code.OUTCOMPETED:
                named = set(re.findall(r"(\w+) \(priority", reason.message))
                assert named or "alone" in reason.message
                out = {g.name for g in snapshot.gangs if g.name.rpartition("/")[2] in named}
                left = [b for b in rest if named and b.gang not in out]
                assert fits(snapshot, i, left)


@settings(max_examples=EXAMPLES)
@given(tiny)
def test_what_is_said_to_fit_is_what_fits(snapshot: Snapshot) -> None:
    """Of a gang of one group, when it may be placed in part."""
    for i, gang in enumerate(snapshot.gangs):
        reasons = reasons_of(snapshot, Solution((), ()))[gang.name]
        required = [s for s in gang.packing_scopes if s.required_level]
        if len(gang.groups) > 1 or len(gang.groups[0].pod_sets) != 1 or len(required) > 1:
            continue
        free = replace(gang, groups=(replace(gang.groups[0], min_replicas=0),))
        gangs = tuple(free if k == i else g for k, g in enumerate(snapshot.gangs))
        for reason in reasons:
            if " has room for " in reason.message and " extra pod" not in reason.message:
                most = max(map(len, plans_of(replace(snapshot, gangs=gangs), i, ())), default=0)
                assert most <= reason.found
                assert most == reason.found or " at most " in reason.message


@settings(max_examples=EXAMPLES // 2)
@given(tiny)
def test_no_more_extras_fit_than_is_said(snapshot: Snapshot) -> None:
    solution = answers(snapshot, proven=False)
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    found = reasons_of(snapshot, solution)
    for i, (gang, outcome) in enumerate(zip(snapshot.gangs, result.gangs, strict=True)):
        if not outcome.placed:
            continue
        set_of = {p.name: (g.name, k) for g in gang.groups for k, s in enumerate(g.pod_sets)
                  for p in s.pods}  # fmt: skip
        mine = Counter((*set_of[b.pod], b.node) for b in bindings if b.gang == gang.name)
        rest = [b for b in bindings if b.gang != gang.name]
        for reason in found[gang.name]:
            if reason.code is Code.NOT_SEARCHED or reason.state is not State.AFTER_PLAN:
                continue
            for plan in plans_of(snapshot, i, rest):
                whole = Counter((*set_of[b.pod], b.node) for b in plan)
                if mine <= whole:
                    assert whole.total() - mine.total() <= reason.found


@settings(max_examples=EXAMPLES // 2)
@given(tiny, st.data())
def test_order_and_names_of_the_question_do_not_matter(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Codes and numbers stay; of equally good domains another may be named."""

    def numbers(question: Snapshot) -> dict[str, object]:
        found = reasons_of(question, Solution((), ()))
        return {
            name: sorted((r.code.value, r.level, r.asked, r.found) for r in reasons)
            for name, reasons in found.items()
        }

    before = numbers(snapshot)
    assert numbers(data.draw(permuted(snapshot))) == before
    after = numbers(renamed(snapshot))
    assert list(after.values()) == list(before.values())


def test_the_same_answer_has_the_same_reasons() -> None:
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8")
    for k in range(6):
        scenario = scenario.gang(f"g{k}", pods=2, gpus=8, pack="rack", priority=k % 3)
    snapshot = scenario.snapshot()
    solution = first_answer(formulate(snapshot, POLICY))
    assert reasons_of(snapshot, solution) == reasons_of(snapshot, solution)
