"""Running gangs that may give way become gangs to decide about.

Where the policy allows evictions, a running gang that may be disturbed enters the
problem as if it waited, with its pods at home: the node that each runs on. Its room is
free, and the plan in which nothing moves takes all of it again. So every model and every bound
covers evictions without code of its own:

    PREEMPT, RECLAIM   a pod stays at home or goes: one pod set for each node
    REPACK             every pod runs after the plan, at home or elsewhere

Which gang may use the room of which victim is a matter of `eviction_rights`; it becomes
columns of room here, one for each group of gangs that may not use all of it.

A gang stays as it is, and cannot give way, when it must not be disturbed (not preemptible, a
disruption budget that allows nothing for all of it, or for any of it where it has no extras), when
it lacks a pod of its minimum (but see `running_parts`), when not every pod of it is told with its
node, when it is the base of a gang that stays, when its queue is not there and it waits for more or
would move, when nothing says which of the listed devices of its nodes it has, or what is left
beside those that stay (`devices`), when its nodes hold more than they have or more for owners, when
one of its pods breaks a rule about other pods or ports where it is (`running_rules`), when its pods
require reservations or want network devices, and when they use reservations of which it is not
simply said what these hold once they have gone (`rules.reservations.take_back`), or are beside a
reservation and hold something else than they ask for. Where gangs are evicted, most pods on nodes
that are only overbooked go all the same (see `overbooked_nodes`). Where extras come
with their priority it stays, too, if it has extras and its minimum must run: that is a priority
above all others, which its extras do not have.

Pods are not moved in a ComputeDomain that may share a node with another one (see `implied_rules`),
nor with required anti-affinity where there are many unlike terms: each that moves would be a kind
of pods of its own for every model. Nor are pods that ignore reservations: these hold their room
beside such a pod while it stays, but not where it comes. Nor are gangs near which others that wait
prefer to be. Pods with required affinity, pods that are spread, and pods that their nodes would not
take again are moved where they run in few places and are told by these alone (see `ruled_pods`). A
gang that is not initialized gets no pod: it may go, where none of its pods waits.

Where a gang that may be disturbed stays all the same, no bound is claimed (`exact`). `mends` tells
where its own waiting pods are refused because its running ones break its required levels.

Preferred levels of open gangs are left out where no pods wait near them: what runs already costs
nothing (see `running_topology`). So are required ones where none of their pods can get another
node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import (
    BoundPod,
    ExtrasPolicy,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.devices.wants import Want, want_of
from placement_service.formulation.eviction.beginning_anew import may_begin_anew
from placement_service.formulation.eviction.overbooked_nodes import without_overbooking
from placement_service.formulation.eviction.reclaim_limits import with_reclaim_limits
from placement_service.formulation.eviction.reclaim_ways import all_come_both_ways
from placement_service.formulation.eviction.ruled_pods import (
    can_be_divided,
    has_many_homes,
    may_come_together,
    ruled_sets,
)
from placement_service.formulation.eviction.running_rules import (
    has_many_terms,
    out_of_place,
    unwelcome,
    with_all_terms,
)
from placement_service.formulation.eviction.running_topology import (
    RunningOn,
    adds_topology,
    growing,
    keeps_its_levels,
    named,
    pending,
    running,
)
from placement_service.formulation.eviction.staying_or_going import open_for_evictions
from placement_service.formulation.eviction.staying_or_moving import open_for_moves
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.open_gangs import (
    anew_name,
    has_extras,
    is_otherwise,
    part_name,
    stays_in_place,
    whole_name,
)
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.rules.reservations import take_back


def open_running_gangs(
    snapshot: Snapshot,
    policy: Policy,
    *,
    closed: Collection[int] = (),
    otherwise: bool = False,
) -> Prepared:
    """The snapshot with all gangs open that the policy allows to disturb, except `closed`.

    With `otherwise` gangs the other way round come, too (see `reclaim_ways`).
    """
    if policy.eviction is EvictionPolicy.NONE:
        return Prepared(snapshot)
    moves = policy.eviction is EvictionPolicy.REPACK
    losing: frozenset[str] = frozenset()
    if moves:
        snapshot = with_all_terms(snapshot)
    else:
        snapshot, losing = without_overbooking(snapshot, policy)
    rights = EvictionRights(snapshot, policy, each_alone=True)
    on = RunningOn.of(snapshot.columns)
    refused = unwelcome(snapshot) if moves else frozenset()
    staying = out_of_place(snapshot)
    if refused and has_many_homes(snapshot, on, refused):
        staying, refused = staying | refused, frozenset()
    able = frozenset(_able(snapshot, policy, rights, on, staying, refused)) - frozenset(closed)
    extras_first = policy.extras is ExtrasPolicy.WITH_PRIORITY
    bases = frozenset() if moves else _bases_of_others(snapshot, able)
    # A base that stays may lose its extras, unless these came before all others (see below).
    kept = frozenset(i for i in bases if has_extras(snapshot.gangs[i]))
    chosen = able - bases | (frozenset() if extras_first else kept)
    names = {gang.name for gang in snapshot.gangs}
    # Those of which the problem does not know that they may begin anew.
    unsaid = {
        n
        for g in snapshot.gangs
        if may_begin_anew(g, names) and anew_name(n := g.name) not in names
    }
    if not chosen:
        opened = Prepared(snapshot)
    elif moves:
        young = {i for i in chosen if rights.keeps_its_minimum(snapshot.gangs[i])}
        scattered = frozenset(i for i in chosen if not keeps_its_levels(snapshot.gangs[i], on))
        opened = open_for_moves(snapshot, policy, chosen, scattered, refused)
        opened = replace(opened, only_extras=frozenset(young))
    else:
        alike = any(snapshot.gangs[i].name in unsaid for i in chosen)
        opened = _open_for_evictions(
            snapshot, policy, rights, chosen, kept, alike=alike, otherwise=otherwise
        )
    held = frozenset() if moves else _held_by_others(snapshot, rights)
    missed = [
        gang
        for i, gang in enumerate(snapshot.gangs)
        if (i not in able or i in kept - chosen)
        and gang.name not in held
        and _could_give_way(gang, snapshot, rights)
    ]
    stays = frozenset(gang.name for gang in missed)
    stays |= losing.intersection(snapshot.gangs[i].name for i in chosen)
    if not moves:
        missed += [g for g in snapshot.gangs if g.name in unsaid and part_name(g.name) in names]
    grows = growing(snapshot)
    return replace(
        opened,
        exact=opened.exact and not (missed or stays),
        missed=stays,
        mends=any((g.base_gang or g.name) in grows and not keeps_its_levels(g, on) for g in missed),
    )


def _open_for_evictions(
    snapshot: Snapshot,
    policy: Policy,
    rights: EvictionRights,
    chosen: frozenset[int],
    kept: frozenset[int],
    *,
    alike: bool,
    otherwise: bool,
) -> Prepared:
    """The `chosen` gangs open, and where the columns of that leave plans out, also another snapshot
    that leaves out none. `alike`: some of them might begin anew, and the problem does not say so.
    """
    # Together gangs may not reclaim as much as each may alone: bounds are about the latter.
    strict = EvictionRights(snapshot, policy, otherwise=otherwise)
    opened = open_for_evictions(snapshot, chosen, strict, kept)
    loosened = alike or not all(rights.are_all_said(snapshot.gangs[i]) for i in chosen)
    if otherwise:
        every = enumerate(snapshot.gangs)
        return replace(
            opened,
            again=frozenset(i for i, gang in every if is_otherwise(gang.name)),
            exact=opened.exact and not loosened and all_come_both_ways(snapshot, rights),
        )
    if opened.exact and not (rights.in_turn or loosened):
        return opened
    # Where reservations hold room beside victims, columns may leave plans out.
    limited = with_reclaim_limits(snapshot, policy, rights)
    loose = open_for_evictions(limited, chosen, rights, kept, alike=alike, shares=not opened.exact)
    return replace(opened, relaxed=loose.snapshot, exact=loose.exact)


def gangs_that_may_go(snapshot: Snapshot, policy: Policy) -> frozenset[int]:
    """The gangs that a policy which evicts opens."""
    snapshot, _ = without_overbooking(snapshot, policy)
    rights = EvictionRights(snapshot, policy, each_alone=True)
    on, staying = RunningOn.of(snapshot.columns), out_of_place(snapshot)
    able = frozenset(_able(snapshot, policy, rights, on, staying, frozenset()))
    return able - _bases_of_others(snapshot, able)


# --- who may be disturbed --------------------------------------------------------


def _could_give_way(gang: PodGang, snapshot: Snapshot, rights: EvictionRights) -> bool:
    """Whether the rules let some pod of a gang go, whether or not the problem can express it."""
    return rights.may_be_disturbed(gang) and _is_let_go(gang, snapshot)


def _is_let_go(gang: PodGang, snapshot: Snapshot) -> bool:
    """Whether disruption budgets let some pod of a gang go."""
    told = (s for group in gang.groups for s in group.pod_sets if s.bound_pods)
    may_go = [not _in_closed_budget(gang, s.template, snapshot) for s in told]
    # Without extras, or where it lacks pods, all of it goes or nothing.
    some = has_extras(gang) and not gang.is_pending
    return any(may_go) and (some or all(may_go))


def _held_by_others(snapshot: Snapshot, rights: EvictionRights) -> frozenset[str]:
    """Bases that lack pods of their minimum and stay by the rules, with what is based on them."""
    holding = {
        gang.base_gang
        for gang in snapshot.gangs
        if gang.base_gang and any(running(gang)) and not _could_give_way(gang, snapshot, rights)
    }
    names = {gang.name for gang in snapshot.gangs} if holding else set()
    return frozenset(
        gang.name
        for gang in snapshot.gangs
        if gang.name in holding and gang.is_pending and not may_begin_anew(gang, names)
    )


def _able(
    snapshot: Snapshot,
    policy: Policy,
    rights: EvictionRights,
    nodes: RunningOn,
    staying: frozenset[str],
    refused: frozenset[str],
) -> Iterator[int]:
    """Those that may give way and of which the problem can say so; `staying` pods do not, and
    `refused` ones are those that their nodes would not take again.
    """
    moves = policy.eviction is EvictionPolicy.REPACK
    overbooked = _overbooked(snapshot)
    queues = {"", *(queue.name for queue in snapshot.queues)}
    grows = growing(snapshot)
    short = {other.name for other in snapshot.gangs if other.is_pending}
    by_priority = policy.extras is ExtrasPolicy.WITH_PRIORITY
    taking_back = frozenset() if moves else take_back(snapshot)
    keeps_apart = moves and has_many_terms(snapshot)
    in_many_places = moves and has_many_homes(snapshot, nodes)
    reserved = {reservation.node for reservation in snapshot.reservations}
    for index, gang in enumerate(snapshot.gangs):
        if (
            (gang.queue in queues or stays_in_place(gang, moves=moves))
            and not (moves and adds_topology(gang, grows))
            and not (gang.base_gang in short and any(pending(gang)))
            and not (by_priority and _places_extras_first(gang, rights, moves=moves))
            and rights.may_be_disturbed(gang)
            # Without a minimum its last pod may not go before its time, and those before may.
            and (_has_minimum(gang) or not rights.keeps_its_minimum(gang))
            and _is_told(gang, nodes, moves=moves)
            and all(
                p.reservation in taking_back and not p.devices
                for p in running(gang)
                if p.reservation
            )
            and not any(p.held is not None and p.node in reserved for p in running(gang))
            and not (staying and any(p.name in staying for p in running(gang)))
            and not (keeps_apart and _avoids_others(gang))
            # Where there are so many, none is `refused`.
            and not (in_many_places and any(ruled_sets(gang)))
            and (not moves or can_be_divided(gang, refused))
            and _tells_devices(gang, nodes, policy)
            and not (overbooked and any(p.node in overbooked for p in running(gang)))
            and (
                stays_in_place(gang, moves=moves)
                or keeps_its_levels(gang, nodes)
                or (moves and not in_many_places and may_come_together(gang))
            )
            and _is_let_go(gang, snapshot)
        ):
            yield index


def _has_minimum(gang: PodGang) -> bool:
    return any(group.min_replicas for group in gang.groups)


def _places_extras_first(gang: PodGang, rights: EvictionRights, *, moves: bool) -> bool:
    """Whether extras of a gang would come before all others because its minimum has to run."""
    # Of a gang that keeps its minimum extras are all that may go.
    return any(pending(gang)) if moves else rights.keeps_its_minimum(gang)


def _bases_of_others(snapshot: Snapshot, able: frozenset[int]) -> frozenset[int]:
    """Those that stay: a base goes only with all that is based on it."""
    names = {gang.name for gang in snapshot.gangs}
    staying = {
        whole_name(gang.base_gang)
        for i, gang in enumerate(snapshot.gangs)
        # What runs of a gang that is divided is in another one.
        if i not in able and any(running(gang)) and part_name(gang.name) not in names
    }
    return frozenset(i for i in able if whole_name(snapshot.gangs[i].name) in staying)


def _overbooked(snapshot: Snapshot) -> frozenset[str]:
    """Nodes where more is used and held for owners than they have: one victim is not enough."""
    nodes = snapshot.columns
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reservation in snapshot.reservations:
        held[reservation.node].update(reservation.held)
    over = np.zeros(len(nodes), dtype=bool)
    for resource in nodes.requested:
        over |= nodes.free(resource) < 0
    return named(nodes, over) | {
        name
        for name, amounts in held.items()
        if (row := nodes.row_of.get(name)) is not None
        if any(nodes[row].free(r) < a for r, a in amounts.items())
    }


def _is_told(gang: PodGang, nodes: RunningOn, *, moves: bool) -> bool:
    """Whether the problem can express all about the running pods of a gang."""
    pods = list(running(gang))
    return (
        bool(pods)
        and not gang.is_pending
        and not gang.refusals
        and (not gang.uninitialized or stays_in_place(gang, moves=moves))
        and not any(group.fixed_pods for group in gang.groups)
        and all(p.node in nodes.nodes.row_of for p in pods)
        and not any(
            s.bound_pods and _has_other_rules(s.template, moves=moves)
            for group in gang.groups
            for s in group.pod_sets
        )
    )


def _tells_devices(gang: PodGang, nodes: RunningOn, policy: Policy) -> bool:
    """Whether the devices of all running pods are known where their nodes list them."""
    for s in (s for group in gang.groups for s in group.pod_sets if s.bound_pods):
        want = want_of(s.template, policy)
        if want is None or (want.whole and not nodes.listing):
            continue
        if not all(_has_what_it_wants(pod, nodes, want) for pod in s.bound_pods):
            return False
    return True


def _has_what_it_wants(pod: BoundPod, nodes: RunningOn, want: Want) -> bool:
    if want.whole and pod.node not in nodes.listing:
        return True
    devices = nodes.nodes.parts[nodes.nodes.row_of[pod.node]].devices
    memory = {d.index: d.memory_bytes for d in devices}
    has = set(pod.devices)
    return (
        len(has) == len(pod.devices) == want.number
        and has <= memory.keys()
        and all(want.load(memory[d]) is not None for d in has)
    )


def _avoids_others(gang: PodGang) -> bool:
    return any(
        s.template.required_anti_affinity
        for group in gang.groups
        for s in group.pod_sets
        if s.bound_pods
    )


def _has_other_rules(template: PodTemplate, *, moves: bool) -> bool:
    """Whether the problem cannot express all rules of pods that run."""
    return bool(
        template.same_pcie_nics
        or (
            moves
            and (
                template.required_reservation
                or template.compute_domain
                or template.ignores_reservations
            )
        )
    )


def _in_closed_budget(gang: PodGang, template: PodTemplate, snapshot: Snapshot) -> bool:
    return any(
        budget.allowed <= 0 and budget.matches(gang.namespace, template.labels)
        for budget in snapshot.disruption_budgets
    )
