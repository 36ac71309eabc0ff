"""What counting knows of gangs: what they ask for, cut into parts, and which are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Precedence, Scope
from placement_service.formulation.rules.queues import QueueRow


class UnitsOf(NamedTuple):
    """So many units, each of any of these pod classes: what a requirement contributes."""

    pod_classes: tuple[ClassIdx, ...]
    units: int


#: What requirements contribute together.
Content = tuple[UnitsOf, ...]


class PartTimes(NamedTuple):
    """Content that must share a domain, and how often it occurs."""

    content: Content
    times: int


Parts = tuple[PartTimes, ...]


@dataclass(frozen=True, slots=True)
class GangClass:
    """Pending gangs that are alike in rows, priority, `Counting.least_beyond` (`beyond`) and
    `Gang.precedence`; the oldest first.
    """

    gangs: tuple[GangIdx, ...]
    priority: int
    value: int
    parts: tuple[Parts, ...]
    extras: Content
    queue_rows: tuple[int, ...]
    beyond: int
    precedence: Precedence


def is_whole(gang: Gang, scope: Scope) -> bool:
    """Whether all that a gang needs is in a scope, and nothing of it runs."""
    needs = {d for q in gang.requirements if q.missing for d in q.demands}
    return not (gang.home or scope.running) and needs.issubset(scope.demands)


def least_of(row: QueueRow, content: Content) -> int:
    """The least that content can take of a queue."""
    return sum(
        count * min(int(row.weight[c]) for c in pod_classes) for pod_classes, count in content
    )
