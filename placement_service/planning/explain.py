"""For each kind of remedy, the smallest that lets a waiting gang in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from placement_service.entities.eviction import Eviction, EvictionPolicy
from placement_service.entities.naming.pod_assignment import count_pods
from placement_service.entities.planning import Remedy
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.planning import changes
from placement_service.planning.add_nodes import add_nodes
from placement_service.planning.changes import Place
from placement_service.planning.eviction import evict
from placement_service.planning.helping_gangs import others_may_help
from placement_service.planning.levels import levels_of
from placement_service.planning.remedies import Finder, reduce, relax
from placement_service.planning.remedy_case import Case, Solver
from placement_service.planning.trial_snapshot import Trial, minimums
from placement_service.planning.uncordon import uncordon

#: How the least remedy of each kind is found; the quick kinds first, so that time is left for all.
KINDS: Final[Sequence[Finder]] = (uncordon, relax, reduce, add_nodes, evict)

#: The part of the time that is left that one kind may take.
_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True)
class Beside:
    """The plan beside which a gang is to get room; `placed` are the gangs that it places."""

    bindings: Sequence[Binding] = ()
    evictions: Sequence[Eviction] = ()
    placed: Collection[str] = ()


def remedies(
    snapshot: Snapshot,
    policy: Policy,
    gang: str,
    beside: Beside,
    *,
    solver: Solver,
    deadline: float,
    levels: Sequence[str] = (),
    report: Callable[[Sequence[Remedy]], None] = lambda found: None,
) -> tuple[Remedy, ...]:
    """What lets a gang in beside a plan that does not place it; at most one remedy of each kind.

    `levels` names topology levels, coarse ones first. `deadline` is in `time.monotonic` seconds.
    `report` is told what was found so far.
    """
    # 1. The snapshot after the plan's evictions, without gangs that wait besides, which would only
    # take room: unless some of them may be what lets others in.
    whole = carried_out(snapshot, beside.evictions)
    (asked,) = (one for one in whole.gangs if one.name == gang)
    wanted = frozenset(beside.placed) | {gang, asked.base_gang} - {""}
    helped = others_may_help(whole, wanted)
    snapshot = whole if helped else changes.only(whole, wanted)
    policy = replace(policy, eviction=EvictionPolicy.NONE)
    problem = formulate(snapshot, policy)
    earlier = minimums(snapshot, problem, count_pods(snapshot, beside.bindings))

    # 2. What each kind has to reach.
    case = Case(
        whole=whole,
        snapshot=snapshot,
        policy=policy,
        gang=asked,
        wanted=wanted,
        helped=helped,
        earlier=earlier,
        # Who names levels knows which labels are some.
        levels=levels_of(whole, levels, akin=not levels),
        solver=solver,
        deadline=deadline,
        here=Trial(snapshot, policy, gang, earlier, problem),
    )

    # 3. The least remedy of each kind.
    found: tuple[Remedy, ...] = ()
    for done, kind in enumerate(KINDS):
        # Most kinds are quick and leave their time to the others.
        share = max(_SHARE, 1 / (len(KINDS) - done))
        before = found
        for remedy in kind(case.within(share)):
            # After evictions: others might have been evicted instead.
            proven = remedy.proven and not beside.evictions
            found = (*before, replace(remedy, proven=proven))
            report(found)
    return found


def carried_out(snapshot: Snapshot, evictions: Sequence[Eviction]) -> Snapshot:
    """The snapshot after the evictions of a plan; what they move runs where it was moved to."""
    if not evictions:
        return snapshot
    moved = {one.pod: Place(one.to_node, one.to_devices) for one in evictions if one.to_node}
    gone = {one.pod for one in evictions}
    return changes.moved(changes.without_pods(snapshot, gone - moved.keys()), moved)
