"""Which waiting gangs may take the room of a running one.

Columns keep the room of a victim for those with a right to it. Other effects of the eviction, such
as room below the limit of a queue, may serve any gang; but some gang with a right must gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.eviction_rights import EvictionRights, Victim, Winner
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units, kept_by_demand, pods_of
from placement_service.formulation.problem import Gang, Problem


def winners(
    snapshot: Snapshot,
    policy: Policy,
    gangs: Sequence[Gang],
    *,
    each_alone: bool = False,
    otherwise: bool = False,
) -> Mapping[GangIdx, frozenset[GangIdx]]:
    """The gangs that may take the room of each open gang; empty where gangs are only moved.

    `each_alone` and `otherwise` as of `EvictionRights`.
    """
    homes = [gang.index for gang in gangs if gang.home]
    if not homes or policy.eviction is EvictionPolicy.REPACK:
        return {}
    rights = EvictionRights(snapshot, policy, each_alone=each_alone, otherwise=otherwise)
    able: defaultdict[Winner, set[GangIdx]] = defaultdict(set)
    for gang in gangs:
        source = snapshot.gangs[gang.index]
        if any(group.pending_count for group in source.groups):
            able[rights.winner(source)].add(gang.index)
    known: dict[Victim, frozenset[GangIdx]] = {}
    found: dict[GangIdx, frozenset[GangIdx]] = {}
    for index in homes:
        victim = rights.victim(snapshot.gangs[index])
        if victim not in known:
            mine = (able[w] for w in able if rights.kind(w, victim) is not None)
            known[victim] = frozenset().union(*mine)
        found[index] = known[victim]
    return found


def rights_hold(problem: Problem, plan: Plan) -> bool:
    """Whether for every gang that loses pods some gang gains that may take its room."""
    gained: dict[GangIdx, bool] = {}
    for victim, able in problem.winners.items():
        gang, units = problem.gangs[victim], plan.get(victim, ())
        if units == gang.home or _at_home(gang, units) == _at_home(gang, gang.home):
            continue
        for index in able - gained.keys():
            gained[index] = gains(problem.gangs[index], plan.get(index, ()))
        if not any(gained[index] for index in able):
            return False
    return True


def gains(gang: Gang, units: Units) -> bool:
    """Whether a gang gets new pods."""
    return sum(n * pods_of(gang, d) for d, _, n in units) > _at_home(gang, units)


def _at_home(gang: Gang, units: Units) -> int:
    """The pods that stay at home."""
    return sum(kept_by_demand(gang, units).values())
