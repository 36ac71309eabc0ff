"""The same instances for the service and for the alternatives to it.

Every plan is judged as the service's own: by the verifier and the score. The gap of all is
against the bound that the service proves, which holds for every plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.table import Table

from bench.instances import Instance
from bench.judging import Judge
from bench.measurement import Answer
from bench.server import BenchServer
from bench.solvers import SOLVERS, PlainModel, TooLarge
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan, oldest_first
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.plan_builder import Builder


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one contender on an instance; `answer` None: nothing, and `note` says why."""

    instance: str
    contender: str
    seconds: float
    answer: Answer | None
    bound: float | None
    note: str = ""

    @property
    def gap(self) -> float | None:
        """How much more could be admitted at most, as a share of the bound."""
        if self.answer is None or self.bound is None:
            return None
        return (self.bound - self.answer.tiers["admitted"].value) / max(1.0, self.bound)


def compare(instance: Instance, server: BenchServer, *, time_limit: float) -> Iterator[Row]:
    """One row for each contender, each with the same time."""
    line = server.line(instance, time_limit=time_limit)
    bound = line.final.tiers["admitted"].bound
    note = "proven" if line.end == "proven" else line.end
    yield Row(str(instance), "service", line.total, line.final, bound, note)
    snapshot, policy = instance.snapshot(), instance.policy()

    def timed(name: str, plan: Callable[[Problem], Solution | None], note: str = "") -> Row:
        begin = time.monotonic()
        prepared = prepare(snapshot, policy)
        problem = formulate(snapshot, policy, prepared)
        try:
            found = plan(problem)
        except TooLarge as error:
            return Row(str(instance), name, 0.0, None, bound, f"not built: {error}")
        seconds = time.monotonic() - begin
        if found is None:
            return Row(str(instance), name, seconds, None, bound, "no plan in time")
        judge = Judge(snapshot, policy)
        named = name_plan(snapshot, policy, prepared, found.assignments)
        answer = judge.answer(name, named.bindings, (), named.evictions)
        note = note or "; ".join(judge.faults)
        return Row(str(instance), name, seconds, answer, bound, note)

    yield timed("first answer", first_answer)
    yield timed(
        "first come, best fit",
        lambda problem: to_solution(
            problem, Builder(problem).build(oldest_first, start=home_plan(problem))
        ),
    )
    for name, solver in SOLVERS.items():

        def solve(problem: Problem, solver: object = solver) -> Solution | None:
            begin = time.monotonic()
            model = PlainModel(problem)
            plan = model.solve(solver, time_limit - (time.monotonic() - begin))
            return None if plan is None else to_solution(problem, plan)

        yield timed(f"plain model, {name}", solve)


def table(rows: list[Row]) -> Table:
    """One row for each contender and instance."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("instance", no_wrap=True)
    result.add_column("contender", no_wrap=True)
    for name in ("s", "placed", "GPUs", "gap %", "minutes", "extras", "domains", "frag"):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("note", overflow="fold")
    for row in rows:
        cells = [row.instance, row.contender, f"{row.seconds:.2f}"]
        if row.answer is None:
            cells += ["–"] * 7
        else:
            tiers = row.answer.tiers
            cells += [f"{row.answer.placed}", f"{tiers['admitted'].value:,.10g}"]
            cells.append("–" if row.gap is None else f"{100 * row.gap:.3f}")
            cells += [
                f"{tiers[name].value:,.10g}"
                for name in ("waiting", "extra", "topology", "fragmentation")
            ]
        result.add_row(*cells, row.note)
    return result
