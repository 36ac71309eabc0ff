"""Another choice of the gangs that reclaim, where their queues are not guaranteed enough for all.

By themselves the oldest reclaim first, each with all its pods (see `eviction_rights`). Here of each
priority those do whose minimums together are the most GPUs within the guarantee, the oldest of
equals, and only as many of their extras wait as are guaranteed, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import Final, NamedTuple

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import PodGang, PodGroup, Policy, Snapshot
from placement_service.formulation.eviction.reclaim_ways import without_other_ways
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.open_gangs import is_anew
from placement_service.formulation.prepared import Prepared

#: Amounts times gangs up to which the best sum is looked for; beyond, large gangs come first.
_MOST_STEPS: Final = 2_000_000
_MINUTE: Final = 60


class Turns(NamedTuple):
    """A snapshot in which others reclaim; `whole` if all pods of their gangs are in it."""

    snapshot: Snapshot
    whole: bool


class _Asking(NamedTuple):
    """A waiting gang, the GPUs of its minimum, and how much the queues on its way lack that may
    reclaim for it, all in thousandths."""

    place: int
    gang: PodGang
    least: int
    lacks: dict[str, int]


def other_turns(snapshot: Snapshot, policy: Policy) -> Turns | None:
    """The other choice, None where it is the same or there is none."""
    if policy.eviction is not EvictionPolicy.RECLAIM:
        return None
    rights = EvictionRights(snapshot, policy, each_alone=True)
    if not rights.in_turn:
        return None
    asking = list(_asking(snapshot, rights))
    taken: Counter[str] = Counter()
    chosen = list(_chosen(asking, taken, snapshot.as_of or 0))
    gangs = list(snapshot.gangs)
    for one in asking:
        gangs[one.place] = replace(one.gang, reclaims_later=True)
    whole = True
    for one in chosen:
        room = min(n - taken[queue] for queue, n in one.lacks.items())
        kept, extras = _with_extras(rights, one, room)
        taken.update(dict.fromkeys(one.lacks, extras))
        whole = whole and kept is one.gang
        gangs[one.place] = kept
    turned = replace(snapshot, gangs=tuple(gangs))
    if whole and EvictionRights(turned, policy).says_the_same(EvictionRights(snapshot, policy)):
        return None
    return Turns(turned, whole)


def bounded_by(whole: Prepared, part: Prepared) -> Prepared:
    """The question with some pods less, with the bounds of the `whole` one."""
    relaxed = whole.relaxed and without_other_ways(whole.relaxed)
    if relaxed is None or _shape(relaxed) != _shape(part.snapshot):
        # Without some pods other gangs may begin anew, or none of a group waits.
        return replace(part, relaxed=None, exact=False, part=True)
    return replace(part, relaxed=relaxed, exact=part.exact and whole.exact, part=True)


def _shape(snapshot: Snapshot) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Gangs, groups and their pod sets, however many pods."""
    return [
        (gang.name, tuple((group.name, len(group.pod_sets)) for group in gang.groups))
        for gang in snapshot.gangs
    ]


def _asking(snapshot: Snapshot, rights: EvictionRights) -> Iterator[_Asking]:
    for i, gang in enumerate(snapshot.gangs):
        reclaims = rights.winner(gang).reclaims_for and rights.takes_turn(gang)
        if reclaims and not is_anew(gang.name):
            least = rights.asked(gang).least
            lacks = {q: n for q, n in rights.guarantees.lacks(gang.queue).items() if n >= least}
            yield _Asking(i, gang, least, lacks)


def _chosen(asking: Iterable[_Asking], taken: Counter[str], now: int) -> Iterator[_Asking]:
    """Those whose minimums are the most GPUs; `taken` is what they have of each queue."""
    by_priority: defaultdict[int, list[_Asking]] = defaultdict(list)
    for one in sorted(asking, key=lambda one: _created(one, now)):
        by_priority[-one.gang.priority].append(one)
    for _, equals in sorted(by_priority.items()):
        alike: defaultdict[tuple[str, ...], list[_Asking]] = defaultdict(list)
        for one in equals:
            alike[tuple(one.lacks)].append(one)
        while alike:
            # Those in queues that together get most come first.
            best = {ways: _most(several, taken, now) for ways, several in alike.items()}
            ways = max(best, key=lambda ways: sum(one.least for one in best[ways]))
            for one in best[ways]:
                taken.update(dict.fromkeys(one.lacks, one.least))
                yield one
            del alike[ways]


def _most(several: Sequence[_Asking], taken: Counter[str], now: int) -> list[_Asking]:
    """Of gangs that the same queues reclaim for, the oldest first, those that are the most GPUs
    within what these lack, the oldest of equals.
    """
    room = min(n - taken[queue] for queue, n in several[0].lacks.items())
    if sum(one.least for one in several) <= room:
        return list(several)
    step = gcd(*(one.least for one in several))
    size = max(0, room) // step
    if size * len(several) > _MOST_STEPS:
        found = []
        for one in sorted(several, key=lambda one: -one.least):
            if one.least <= room:
                found.append(one)
                room -= one.least
        return found
    minutes = [max(1, (now - _created(one, now)) // _MINUTE) for one in several]
    weight = sum(minutes) + 1
    # For each amount the best value within it, and the gangs that make it up.
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())] * (size + 1)
    for i, one in enumerate(several):
        need = one.least // step
        for amount in range(size, need - 1, -1):
            value, members = best[amount - need]
            value += need * weight + minutes[i]
            if value > best[amount][0]:
                best[amount] = value, (*members, i)
    return [several[i] for i in best[size][1]]


def _created(one: _Asking, now: int) -> int:
    return now if one.gang.created is None else one.gang.created


def _with_extras(rights: EvictionRights, one: _Asking, room: int) -> tuple[PodGang, int]:
    """The gang with as many of its waiting extras as there is room for, and what these ask for."""
    left = room
    groups = []
    for group in one.gang.groups:
        kept, used = _cut(rights, group, left)
        left -= used
        groups.append(kept)
    if all(kept is group for kept, group in zip(groups, one.gang.groups, strict=True)):
        return one.gang, room - left
    return replace(one.gang, groups=tuple(groups)), room - left


def _cut(rights: EvictionRights, group: PodGroup, room: int) -> tuple[PodGroup, int]:
    sets = list(group.pod_sets)
    missing, left = group.missing, room
    # Pods of the minimum are those that ask for least.
    for i in sorted(range(len(sets)), key=lambda i: rights.guarantees.gpus(sets[i].template)):
        each, pods = rights.guarantees.gpus(sets[i].template), sets[i].pods
        least = min(missing, len(pods))
        missing -= least
        extras = len(pods) - least
        if each:
            extras = min(extras, max(0, left) // each)
        left -= extras * each
        if least + extras < len(pods):
            sets[i] = replace(sets[i], pods=pods[: least + extras])
    if all(kept is one for kept, one in zip(sets, group.pod_sets, strict=True)):
        return group, room - left
    return replace(group, pod_sets=tuple(sets)), room - left
