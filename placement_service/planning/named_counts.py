"""Plans by the names of gangs, from one snapshot to another with the same nodes, and maybe more.

There gangs may stand elsewhere, and be counted in other units: pods that must share a host are one
unit only as long as no rule looks at them, and domains may be hosts that others with more nodes are
not.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from placement_service.entities.request import Snapshot
from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.plan import Plan, assignments, from_solution
from placement_service.formulation.problem import Problem

#: What each gang gets, by its name.
NamedCounts = Mapping[str, tuple[Assignment, ...]]


def by_name(snapshot: Snapshot, problem: Problem, plan: Plan) -> NamedCounts:
    """What a plan of the snapshot's problem gives to each gang."""
    found = groupby(assignments(problem, plan), key=attrgetter("gang"))
    return {snapshot.gangs[index].name: tuple(mine) for index, mine in found}


def in_snapshot(snapshot: Snapshot, counts: NamedCounts) -> tuple[Assignment, ...]:
    """The same in the order of a snapshot; gangs that it lacks get nothing."""
    return tuple(
        one._replace(gang=index)
        for index, gang in enumerate(snapshot.gangs)
        for one in counts.get(gang.name, ())
    )


def as_plan(snapshot: Snapshot, problem: Problem, counts: NamedCounts) -> Plan:
    """The same as a plan of a snapshot's problem."""
    return from_solution(problem, Solution(in_snapshot(snapshot, counts), ()))
