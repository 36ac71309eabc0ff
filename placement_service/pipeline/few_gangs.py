"""A plan for the gangs that come first, for when there is no time for all.

On a machine that others use, too, reading thousands of gangs may take most of the time, and
what comes before the first answer takes as long again. Some gangs placed are better than none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.naming.pod_assignment import count_pods
from placement_service.entities.progress import Interrupted, Interrupter, heard
from placement_service.entities.request import PodGang, Request, Snapshot
from placement_service.entities.solution import Solution
from placement_service.entities.stages import Stage, stage
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import from_solution
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem
from placement_service.pipeline.candidates import Candidate, Candidates, Judging
from placement_service.pipeline.stages import Budget, Stages

logger = logging.getLogger(__name__)

#: What it takes to read a gang, and then to have it in a plan, as multiples of reading a node.
_READ_GANG, _PLAN_GANG = 2.0, 20.0
#: The share of the time that is left.
_SHARE = 1 / 3
#: So many gangs are worth it in any case.
_LEAST = 50


def few_first(
    request: Request,
    stages: Stages,
    judging: Judging,
    budget: Budget,
    interrupter: Interrupter,
    clock: Callable[[], float],
) -> Candidate | None:
    """A plan in which only gangs that come first get pods, without bounds; None where there is time
    for all of them, no clock may decide, or none is found.
    """
    policy = request.policy
    if policy.deterministic or policy.eviction is not EvictionPolicy.NONE:
        return None
    now = clock()
    reading, left = now - budget.arrival, budget.answer_by - now
    needed = reading * _rest(request.snapshot)
    if left <= 0 or needed <= left:
        return None
    part = _part(request.snapshot, _SHARE * left / needed)
    if part is None:
        return None
    try:
        with stage(Stage.FORMULATE), heard(interrupter):
            prepared = prepare(part, policy, until=-math.inf)
            problem = stages.formulate(part, policy, prepared)
        until = clock() + _SHARE * (budget.answer_by - clock())
        with stage(Stage.FIRST_ANSWER):
            found = stages.first_answer(problem, (), deadline=until)
    except Interrupted:
        raise
    except Exception:
        # The whole question says what is wrong.
        logger.warning("no plan for the gangs that come first", exc_info=True)
        return None
    # What is claimed is of these gangs alone.
    bare = replace(found, tiers=(), fewest_domains=(), final=False)
    return Candidates(judging, part, prepared).judged(bare)


def _rest(snapshot: Snapshot) -> float:
    """How many times as long as reading the request what comes before a first answer takes."""
    gangs = len(snapshot.gangs)
    read = _READ_GANG * gangs + len(snapshot.columns.names)
    return _PLAN_GANG * gangs / max(1.0, read)


def of_all(few: Candidate, request: Request, problem: Problem) -> Solution:
    """The plan as a solution of the whole question."""
    counts = count_pods(request.snapshot, few.plan.bindings)
    return to_solution(problem, from_solution(problem, Solution(counts, ())))


def _part(snapshot: Snapshot, share: float) -> Snapshot | None:
    """The snapshot with what runs and a share of the gangs of which nothing does, those first that
    come first, and what they are based on; None where that is most of them.
    """
    gangs = snapshot.gangs
    new = [i for i, gang in enumerate(gangs) if not any(g.running_count for g in gang.groups)]
    most = max(_LEAST, int(share * len(new)))
    if 2 * most > len(new):
        return None
    place = {gang.name: i for i, gang in enumerate(gangs)}
    chosen = set(range(len(gangs))).difference(new)
    for i in sorted(new, key=lambda i: _turn(gangs[i]))[:most]:
        at: int | None = i
        while at is not None and at not in chosen:
            chosen.add(at)
            at = place.get(gangs[at].base_gang)
    return replace(snapshot, gangs=tuple(gangs[i] for i in sorted(chosen)))


def _turn(gang: PodGang) -> tuple[int, float]:
    return -gang.priority, math.inf if gang.created is None else gang.created
