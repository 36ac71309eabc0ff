"""From the counts of a prepared request back to names: bindings, evictions and moves.

The inverse of `prepare`. A running pod that is not at home in the plan is evicted or moved; among
pods that are alike, those with the last names leave first. A gang that keeps fewer pods than its
minimum moves whole, also the pods whose new node is the old one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placement_service.entities.eviction import Eviction, EvictionKind, EvictionPolicy
from placement_service.entities.naming.natural_order import natural_key
from placement_service.entities.naming.pod_assignment import Naming
from placement_service.entities.naming.reservation_users import use_reservations
from placement_service.entities.request import Binding, PodGang, Policy, Snapshot
from placement_service.entities.solution import Assignment
from placement_service.formulation.devices.names import name_devices
from placement_service.formulation.eviction.kept_places import kept_away
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.open_gangs import WAITING, is_otherwise, whole_name
from placement_service.formulation.prepared import GroupOf, Prepared, SetOf


class NamedPlan(NamedTuple):
    """A plan in names."""

    bindings: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]


class _SetOnNode(NamedTuple):
    """A pod set of the snapshot, and a node that some of its pods have."""

    gang: int
    group: int
    pod_set: int
    node: int


class _Lost(NamedTuple):
    """A running pod that leaves its node; `to` is where it runs again, "" for nowhere."""

    gang: int
    pod: str
    node: str
    to: str = ""


def name_plan(
    request: Snapshot, policy: Policy, prepared: Prepared, assignments: Sequence[Assignment]
) -> NamedPlan:
    """As `PlanNames.plan`, once."""
    return PlanNames(request, policy, prepared).plan(assignments)


class PlanNames:
    """Names the plans of one request; what these have in common is read once."""

    def __init__(self, request: Snapshot, policy: Policy, prepared: Prepared) -> None:
        self._request = request
        self._policy = policy
        self._prepared = prepared
        self._running = {(h.gang, h.group, h.pod_set) for h in prepared.homes}
        self._running |= {(g, r, s) for (g, r), s in prepared.comes.items()}
        # Devices and open gangs change templates, but reservations refer to those of the request.
        self._naming = Naming(replace(prepared.snapshot, reservations=()))

    def plan(self, assignments: Sequence[Assignment]) -> NamedPlan:
        """Bindings and evictions of a solution, in order of gang and pod name.

        Raises ValueError and IndexError like `Naming.bindings` and `name_devices`, and
        ValueError when a pod is evicted though no gang may take its room: all are defects of the
        engine.
        """
        request, policy, prepared = self._request, self._policy, self._prepared
        if not self._running:
            bindings = use_reservations(request, self._bindings(assignments))
            return NamedPlan(name_devices(request, policy, bindings), ())
        names = {prepared.snapshot.gangs[a.gang].name for a in assignments}
        otherwise = {whole_name(name): name for name in names if is_otherwise(name)}
        again = [a for a in assignments if a.gang in prepared.again]
        assignments = [a for a in assignments if a.gang not in prepared.again]
        new = [a for a in assignments if (a.gang, a.group, a.pod_set) not in self._running]
        bindings = self._bindings(new)
        placed = Counter[_SetOnNode]()
        for a in assignments:
            placed[_SetOnNode(a.gang, a.group, a.pod_set, a.node)] += a.pods
        if policy.eviction is EvictionPolicy.REPACK:
            lost = [*_moved(prepared, placed, again), *_moved_again(prepared, again)]
        else:
            lost = list(_gone(prepared, placed))
        asked = prepared.request or request
        evictions = tuple(_evictions(asked, policy, bindings, lost, otherwise))
        bindings = use_reservations(request, bindings, evictions)
        return _with_devices(request, policy, bindings, evictions)

    def _bindings(self, assignments: Sequence[Assignment]) -> tuple[Binding, ...]:
        bindings = self._naming.bindings(assignments)
        if self._running:
            bindings = tuple(
                b._replace(gang=whole_name(b.gang), group=b.group.removesuffix(WAITING))
                if b.group.endswith(WAITING) or b.gang != whole_name(b.gang)
                else b
                for b in bindings
            )
        return bindings


def _with_devices(
    request: Snapshot,
    policy: Policy,
    bindings: Sequence[Binding],
    evictions: Sequence[Eviction],
) -> NamedPlan:
    """The plan with devices for new pods and moved ones, once all that go have left theirs."""
    moved = [Binding(e.pod, e.to_node, e.gang, "") for e in evictions if e.to_node]
    gone = [e.pod for e in evictions]
    named = name_devices(request, policy, (*bindings, *moved), gone)
    devices = {b.pod: b.devices for b in named[len(bindings) :]}
    return NamedPlan(
        named[: len(bindings)],
        tuple(replace(e, to_devices=devices[e.pod]) if e.to_node else e for e in evictions),
    )


def _gone(prepared: Prepared, placed: Mapping[_SetOnNode, int]) -> Iterator[_Lost]:
    for home in prepared.homes:
        stay = placed.get(_SetOnNode(home.gang, home.group, home.pod_set, home.node), 0)
        if stay >= home.pods:
            continue
        group = prepared.snapshot.gangs[home.gang].groups[home.group]
        pods = sorted((p.name for p in group.pod_sets[home.pod_set].pods), key=natural_key)
        node = prepared.snapshot.columns.names[home.node]
        yield from (_Lost(home.gang, pod, node) for pod in pods[stay:])


def _moved_again(prepared: Prepared, again: Iterable[Assignment]) -> Iterator[_Lost]:
    """All pods of the gangs that come `again`."""
    gangs, names = prepared.snapshot.gangs, prepared.snapshot.columns.names
    by_name = {gang.name: g for g, gang in enumerate(gangs)}
    slots: defaultdict[SetOf, list[int]] = defaultdict(list)
    for a in again:
        running = by_name[whole_name(gangs[a.gang].name)]
        slots[SetOf(running, a.group, a.pod_set)] += [a.node] * a.pods
    homes: defaultdict[SetOf, list[int]] = defaultdict(list)
    for h in prepared.homes:
        homes[SetOf(h.gang, h.group, h.pod_set)] += [h.node] * h.pods
    for key, nodes in slots.items():
        # The pods of a set stand in the order of the homes.
        pods = gangs[key.gang].groups[key.group].pod_sets[key.pod_set].pods
        for pod, home, to in zip(pods, homes[key], _near(homes[key], nodes), strict=True):
            yield _Lost(key.gang, pod.name, names[home], names[to])


def _near(homes: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """These nodes in another order, so that as many as can be are where they are in `homes`."""
    left, stay = Counter(nodes), []
    for home in homes:
        stay.append(left[home] > 0)
        left[home] -= stay[-1]
    others = left.elements()
    return [home if stays else next(others) for home, stays in zip(homes, stay, strict=True)]


def _moved(
    prepared: Prepared, placed: Mapping[_SetOnNode, int], again: Iterable[Assignment]
) -> Iterator[_Lost]:
    """The pods that leave, except those of gangs that come `again`."""
    gangs = prepared.snapshot.gangs
    others = {whole_name(gangs[a.gang].name) for a in again}
    homes: defaultdict[int, list[Assignment]] = defaultdict(list)
    for home in prepared.homes:
        if gangs[home.gang].name not in others:
            homes[home.gang].append(home)
    now: defaultdict[int, dict[_SetOnNode, int]] = defaultdict(dict)
    for at, count in placed.items():
        now[at.gang][at] = count
    for gang, mine in homes.items():
        there = now[gang]
        at_home = {_SetOnNode(gang, h.group, h.pod_set, h.node): h.pods for h in mine}
        if there == at_home:
            continue
        kept = Counter[int]()
        for at, count in at_home.items():
            kept[at.group] += min(count, there.get(at, 0))
        whole = any(kept[h.group] < prepared.minimums[GroupOf(gang, h.group)] for h in mine)
        sets: defaultdict[SetOf, list[Assignment]] = defaultdict(list)
        for h in mine:
            comes = prepared.comes.get(GroupOf(gang, h.group), h.pod_set)
            sets[SetOf(gang, h.group, comes)].append(h)
        for comes_as, of_set in sets.items():
            yield from _moved_of_set(prepared, there, comes_as, of_set, whole=whole)


def _moved_of_set(
    prepared: Prepared,
    placed: Mapping[_SetOnNode, int],
    comes_as: SetOf,
    homes: Sequence[Assignment],
    *,
    whole: bool,
) -> Iterator[_Lost]:
    """The pods of one set that leave; `placed` is where its gang is, `homes` where the set ran, and
    what comes is of the set that it `comes_as`.
    """
    names = prepared.snapshot.columns.names
    gang, group, _ = comes_as
    at_home: dict[int, list[str]] = {}
    stays: dict[int, int] = {}
    pods_of = {
        s: iter(prepared.snapshot.gangs[gang].groups[group].pod_sets[s].pods)
        for s in {h.pod_set for h in homes}
    }
    for h in homes:
        # The pods of a set stand in the order of the homes.
        mine = (next(pods_of[h.pod_set]).name for _ in range(h.pods))
        at_home[h.node] = sorted(mine, key=natural_key)
        stays[h.node] = min(placed.get(_SetOnNode(gang, group, h.pod_set, h.node), 0), h.pods)
    leaving: list[tuple[str, int]] = []
    open_slots: list[int] = []
    undivided = comes_as.pod_set in pods_of
    for (_, r, s, node), count in sorted(placed.items()):
        if (r, s) == (group, comes_as.pod_set):
            open_slots += [node] * (count - (stays.get(node, 0) if undivided else 0))
    for node, here in sorted(at_home.items()):
        stay = stays[node]
        leaving += [(pod, node) for pod in here[stay:]]
        if whole:
            yield from (_Lost(gang, p, names[node], names[node]) for p in here[:stay])
    for (pod, node), to in zip(leaving, open_slots, strict=True):
        yield _Lost(gang, pod, names[node], names[to])


def _evictions(
    request: Snapshot,
    policy: Policy,
    bindings: Sequence[Binding],
    lost: Sequence[_Lost],
    otherwise: Mapping[str, str],
) -> Iterator[Eviction]:
    """`otherwise` are gangs that come the other way round, by their own names."""
    if not lost:
        return
    by_name = {gang.name: gang for gang in request.gangs}
    winners = list(dict.fromkeys(b.gang for b in bindings))
    here: defaultdict[str, list[str]] = defaultdict(list)
    for b in bindings:
        here[b.node].append(b.gang)
    rights = EvictionRights(request, policy, otherwise=bool(otherwise))

    def order(one: _Lost) -> tuple[object, ...]:
        return natural_key(whole_name(request.gangs[one.gang].name)), natural_key(one.pod)

    def kind(winner: str, victim: PodGang) -> EvictionKind | None:
        source = by_name[otherwise.get(winner, winner)]
        return rights.kind(rights.winner(source), rights.victim(victim))

    away: Mapping[str, Sequence[str]] = {}
    if policy.eviction is EvictionPolicy.RECLAIM:
        away = kept_away(request, bindings, (one.pod for one in lost))
    named: set[str] = set()
    for one in sorted(lost, key=order):
        victim = request.gangs[one.gang]
        there = dict.fromkeys((*here[one.node], *away.get(one.pod, ())))
        if one.to:
            winner = next(iter((*there, *winners)), None)
            yield Eviction(
                pod=one.pod,
                gang=victim.name,
                node=one.node,
                kind=EvictionKind.MOVE,
                for_gang=winner or "",
                to_node=one.to,
                reason=f"makes room for {_short(by_name[winner])}" if winner else "makes room",
            )
            continue
        # Gangs above a reclaimed pod may use its room, too, but those that reclaim not that of a
        # preempted one. So they are named before others, and each at least once.
        reclaiming_first = sorted(
            there, key=lambda w: (kind(w, victim) is not EvictionKind.RECLAIM, w in named)
        )
        for name in dict.fromkeys((*reclaiming_first, *winners)):
            found = kind(name, victim)
            if found is not None:
                named.add(name)
                yield Eviction(
                    pod=one.pod,
                    gang=whole_name(victim.name),
                    node=one.node,
                    kind=found,
                    for_gang=name,
                    reason=_reason(found, by_name[name], victim),
                )
                break
        else:
            raise ValueError(f"pod {one.pod} of {victim.name} is evicted for no gang")


def _reason(kind: EvictionKind, winner: PodGang, victim: PodGang) -> str:
    if kind is EvictionKind.PREEMPT:
        return (
            f"gives way to {_short(winner)} of priority {winner.priority}; "
            f"its own priority is {victim.priority}"
        )
    return (
        f"gives way to {_short(winner)}, whose {_queue(winner)} is below its guaranteed GPUs; "
        f"its own {_queue(victim)} is above"
    )


def _short(gang: PodGang) -> str:
    namespace, name = gang.name.split("/")[1], gang.name.split("/")[3]
    return f"gang {namespace}/{name}"


def _queue(gang: PodGang) -> str:
    return f"queue {gang.queue.removeprefix('queues/')}"
