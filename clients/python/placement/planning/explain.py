"""Why a gang waits, and for each kind of remedy the least that lets it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement.planning.changes import find_gang
from placement.planning.eviction import evict
from placement.planning.planner import Planner, placed
from placement.planning.remedies import Case, Remedy, add_nodes, reduce, relax, uncordon
from placement.v1 import ComputePlacementRequest, Placement, Reason

#: How the least of each kind is found; the quick ones first, so that time is left for all.
KINDS: Sequence[Callable[[Case], Remedy | None]] = (uncordon, relax, reduce, add_nodes, evict)


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One gang of the best plan. `remedies` is empty for a gang that is placed."""

    gang: str
    placed: bool
    reasons: tuple[Reason, ...]
    remedies: tuple[Remedy, ...]
    placement: Placement


def explain(
    request: ComputePlacementRequest, gang: str, *, planner: Planner, levels: Sequence[str]
) -> Explanation:
    """Explain one gang, ``namespaces/{namespace}/podgangs/{podgang}``.

    `levels` are the topology levels, coarse ones first. Raises ValueError when there is no
    such gang, and what asking raises.
    """
    asked = find_gang(request, gang)
    placement = planner.plan(request)
    (result,) = (one for one in placement.gangs if one.name == gang)
    remedies: list[Remedy] = []
    if not result.placed:
        wanted = placed(placement) | {gang}
        if asked.base_gang:
            wanted |= {asked.base_gang}
        case = Case(request, asked, wanted, levels, planner)
        remedies = [found for kind in KINDS if (found := kind(case)) is not None]
    return Explanation(gang, result.placed, tuple(result.reasons), tuple(remedies), placement)
