"""Why a gang waits, and for each kind of remedy the least that lets it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from placement.planning.case import Case
from placement.planning.changes import copy_of, find_gang
from placement.planning.eviction import evict
from placement.planning.planner import OutOfTime, Planner, placed, settled
from placement.planning.remedies import Finder, Remedy, add_nodes, reduce, relax, uncordon
from placement.v1 import ComputePlacementRequest, Placement, Reason

#: How the least of each kind is found; the quick ones first, so that time is left for all.
KINDS: Sequence[Finder] = (uncordon, relax, reduce, add_nodes, evict)

#: The part of the time that is left that one kind may take.
_SHARE: Final = 0.4


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
        own = {gang, asked.base_gang} - {""}
        # What stood before is where the search for what would be starts.
        begun = copy_of(request)
        begun.previous_placement.extend(placement.bindings)
        after = settled(request, placement, own)
        case = Case(begun, after, asked, placed(placement) | own, levels, planner)
        for done, kind in enumerate(KINDS):
            # Most are quick and leave their time to the others.
            remedies += _last(kind, case.within(max(_SHARE, 1 / (len(KINDS) - done))))
    return Explanation(gang, result.placed, tuple(result.reasons), tuple(remedies), placement)


def _last(kind: Finder, case: Case) -> list[Remedy]:
    """The best remedy that one kind comes to in its time, if any."""
    found: list[Remedy] = []
    try:
        for remedy in kind(case):
            found = [remedy]
    except OutOfTime:
        pass
    return found
