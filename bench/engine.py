"""One instance through the stages in this process, each timed by itself.

The answer is judged here, whatever the engine says of it; `server` measures what users see.
"""

from __future__ import annotations

import time
from importlib import metadata

from bench.instances import Instance
from bench.judging import Judge
from bench.measurement import Answer, Line, Step, pending_pods
from bench.memory import forget_peak, peak_of
from placement_service.entities.solution import Solution


def engine_line(instance: Instance, *, time_limit: float) -> Line:
    """Measures one instance; best in a fresh process, for the peak of memory."""
    # Loading the solver does not belong to an answer.
    from placement_service.formulation.formulate import formulate
    from placement_service.formulation.named_plan import name_plan
    from placement_service.formulation.objective import to_solution
    from placement_service.formulation.plan import home_plan, oldest_first
    from placement_service.formulation.prepare import prepare
    from placement_service.heuristic.first_answer import first_answer
    from placement_service.heuristic.plan_builder import Builder
    from placement_service.search import engine

    snapshot, policy = instance.snapshot(), instance.policy()
    forget_peak("self")
    begin = time.monotonic()
    prepared = prepare(snapshot, policy)
    problem = formulate(snapshot, policy, prepared)
    formulated = time.monotonic() - begin
    greedy = first_answer(problem)
    first = time.monotonic() - begin
    steps: list[Step] = []
    proof: float | None = first if greedy.proven else None

    def report(solution: Solution) -> None:
        nonlocal proof
        seconds = time.monotonic() - begin
        if solution.proven and proof is None:
            proof = seconds
        admitted = solution.tiers[0]
        steps.append(Step(seconds, solution.phase, admitted.value, admitted.bound))

    final = engine.search(problem, greedy, deadline=begin + time_limit, report=report)
    total = time.monotonic() - begin
    if final.proven and proof is None:
        proof = total
    memory = peak_of("self")

    judge = Judge(snapshot, policy)

    def judged(which: str, solution: Solution) -> Answer:
        plan = name_plan(snapshot, policy, prepared, solution.assignments)
        return judge.answer(which, plan.bindings, solution.tiers, plan.evictions)

    begin = time.monotonic()
    before = judged("first answer", greedy)
    judging = time.monotonic() - begin
    after = judged("last answer", final)
    # Nobody gives way for gangs that are placed one after another.
    oldest = Builder(problem).build(oldest_first, start=home_plan(problem))
    in_turn = judged("in turn", to_solution(problem, oldest))
    return Line(
        family=instance.family,
        params=dict(instance.params),
        seed=instance.seed,
        path="engine",
        time_limit=time_limit,
        nodes=len(snapshot.nodes),
        gangs=len(snapshot.gangs),
        pods=pending_pods(snapshot),
        formulate=formulated,
        first=first,
        proof=proof,
        total=total,
        greedy=before,
        final=after,
        end="proven" if final.proven else final.limit.value,
        memory={"bench": memory},
        engine=_version(),
        judging=judging,
        steps=steps,
        faults=judge.faults,
        in_turn=in_turn,
    )


def _version() -> str:
    return f"placement-service {metadata.version('placement-service')}"
