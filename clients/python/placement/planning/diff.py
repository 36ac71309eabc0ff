"""Two answers side by side: gangs won, lost and moved, and what each tier reaches.

Answers are compared as `placementctl plan -o json` prints them, so answers of other days and
versions can be compared, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Answer = Mapping[str, Any]

#: More than any plan reaches.
_MOST: Final = 2.0**64


@dataclass(frozen=True, slots=True)
class Moved:
    """A gang that both plans place, with pods on other nodes, or that run on in one answer."""

    gang: str
    pods: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stay:
    """Where a gang is in an answer: the domains of its scope, and the GPUs of its new pods."""

    domains: tuple[str, ...] = ()
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class RoomChange:
    """Something that both answers leave free: GPUs, or whole domains of a level."""

    what: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class TierChange:
    """A tier in both answers; None where an answer lacks it."""

    tier: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Open:
    """An answer that is not proven to be the best: the first or the second, and its gap, None
    where that is not known."""

    which: str
    gap: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """How the second answer differs from the first. Gangs are ``namespace/name``.

    `won` and `lost` gangs are placed in one answer only; `added` and `removed` ones are
    answered in one only. `reseated` gangs have pods that get other devices or reservations of the
    same nodes. `spared` and `evicted` pods run on, or move, in the second, or first, only.
    `stays_before` and `stays_after` tell where these gangs are; `room` is empty where an
    answer does not tell what is free. `unproven` answers may differ for lack of time alone.
    """

    won: tuple[str, ...]
    lost: tuple[str, ...]
    moved: tuple[Moved, ...]
    reseated: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    evicted: tuple[str, ...]
    spared: tuple[str, ...]
    tiers: tuple[TierChange, ...]
    stays_before: Mapping[str, Stay]
    stays_after: Mapping[str, Stay]
    room: tuple[RoomChange, ...]
    unproven: tuple[Open, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the two say the same about every pod, gang and tier."""
        return not (
            self.won
            or self.lost
            or self.moved
            or self.reseated
            or self.added
            or self.removed
            or self.evicted
            or self.spared
            or any(tier.before != tier.after for tier in self.tiers)
            or any(one.before != one.after for one in self.room)
        )

    def gpus(self, gangs: Iterable[str]) -> int:
        """GPUs of these gangs where they are placed."""
        none = Stay()
        return sum(
            (self.stays_after.get(gang) or self.stays_before.get(gang, none)).gpus for gang in gangs
        )


@dataclass(frozen=True, slots=True)
class Seats:
    """The new pods of each node in two answers, as (gang, pod), sorted."""

    before: Mapping[str, tuple[tuple[str, str], ...]]
    after: Mapping[str, tuple[tuple[str, str], ...]]


def seats(before: Answer, after: Answer) -> Seats:
    """Which pods are on which nodes in both answers. Raises ValueError for what is no answer."""
    return Seats(_by_node(before), _by_node(after))


def _by_node(answer: Answer) -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for gang, pods in _nodes(answer).items():
        for pod, node in pods.items():
            found[node].append((gang, pod))
    return {node: tuple(sorted(pods)) for node, pods in found.items()}


def difference(before: Answer, after: Answer) -> Difference:
    """What changed from one answer to the other. Raises ValueError for what is no answer."""
    check(before)
    check(after)
    first, second = _placed(before), _placed(after)
    nodes_before, nodes_after = _nodes(before), _nodes(after)
    moved = []
    for gang in sorted(first.keys() & second.keys()):
        if not (first[gang] and second[gang]):
            continue
        here, there = nodes_before.get(gang, {}), nodes_after.get(gang, {})
        pods = [pod for pod in {**here, **there} if here.get(pod) != there.get(pod)]
        if pods:
            moved.append(
                Moved(gang, len(pods), _used(here, pods), _used(there, pods)),
            )
    seats_before, seats_after = _devices(before), _devices(after)
    reseated = {
        gang
        for gang, pod, node in seats_before.keys() & seats_after.keys()
        if seats_before[gang, pod, node] != seats_after[gang, pod, node]
    }
    gone_before, gone_after = _evicted(before), _evicted(after)
    return Difference(
        won=tuple(sorted(g for g, is_in in second.items() if is_in and first.get(g) is False)),
        lost=tuple(sorted(g for g, is_in in first.items() if is_in and second.get(g) is False)),
        moved=tuple(moved),
        reseated=tuple(sorted(reseated)),
        added=tuple(sorted(second.keys() - first.keys())),
        removed=tuple(sorted(first.keys() - second.keys())),
        evicted=tuple(sorted(gone_after - gone_before)),
        spared=tuple(sorted(gone_before - gone_after)),
        tiers=_tiers(before, after),
        stays_before=_stays(before, first),
        stays_after=_stays(after, second),
        room=_room(before, after),
        unproven=(*_open("before", before), *_open("after", after)),
    )


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Where two plain values differ first, as a path and both values; "" when nowhere."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            where = f"{path}.{key}" if path else str(key)
            if key not in one or key not in other:
                return f"{where}: only in the {'first' if key in one else 'second'}"
            if found := first_difference(one[key], other[key], where):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if found := first_difference(left, right, f"{path}[{index}]"):
                return found
        if len(one) != len(other):
            return f"{path}: {len(one)} elements, {len(other)} elements"
        return ""
    return "" if one == other and type(one) is type(other) else f"{path}: {one!r}, {other!r}"


def check(answer: Answer) -> None:
    """Raises ValueError, saying what is wrong, for what is no answer."""
    placed = _placed(answer)
    _nodes(answer)
    _stays(answer, placed)


def _placed(answer: Answer) -> dict[str, bool]:
    gangs = answer.get("podGangs") if isinstance(answer, Mapping) else None
    if not isinstance(gangs, list):
        raise ValueError("is not an answer of `placementctl plan -o json`: podGangs is missing")
    found = {}
    for where, gang in _entries(answer, "podGangs", "namespace", "name"):
        if not isinstance(gang.get("placed"), bool):
            raise ValueError(f"is not an answer: {where}.placed must be true or false")
        found[f"{gang['namespace']}/{gang['name']}"] = gang["placed"]
    return found


def _nodes(answer: Answer) -> dict[str, dict[str, str]]:
    """The node of each pod that is bound or moved, by gang."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for _, one in _entries(answer, "bindings", "namespace", "pod", "podGang", "node"):
        found[f"{one['namespace']}/{one['podGang']}"][str(one["pod"])] = str(one["node"])
    for _, one in _entries(answer, "evictions", "namespace", "pod", "podGang"):
        if one.get("toNode"):
            found[f"{one['namespace']}/{one['podGang']}"][str(one["pod"])] = str(one["toNode"])
    return dict(found)


def _devices(answer: Answer) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Devices and reservation of each bound pod, by its gang, name and node."""
    return {
        (f"{one['namespace']}/{one['podGang']}", str(one["pod"]), str(one["node"])): (
            str(one.get("devices")),
            str(one.get("reservation")),
        )
        for _, one in _entries(answer, "bindings", "namespace", "pod", "podGang", "node")
    }


def _evicted(answer: Answer) -> set[str]:
    """Pods that are evicted and come to no other node."""
    return {
        f"{one['namespace']}/{one['pod']}"
        for _, one in _entries(answer, "evictions", "namespace", "pod", "podGang")
        if not one.get("toNode")
    }


def _entries(answer: Answer, field: str, *names: str) -> Iterator[tuple[str, Answer]]:
    """The entries of a list and where they are; all of them have these names."""
    several = answer.get(field) or []
    if not isinstance(several, list):
        raise ValueError(f"is not an answer: {field} must be a list")
    for index, entry in enumerate(several):
        where = f"{field}[{index}]"
        if not isinstance(entry, Mapping):
            raise ValueError(f"is not an answer: {where} must be a mapping")
        for name in names:
            if not isinstance(entry.get(name), str | int):
                raise ValueError(f"is not an answer: {where}.{name} must be a text")
        yield where, entry


def _used(nodes: Mapping[str, str], pods: list[str]) -> tuple[str, ...]:
    return tuple(sorted({nodes[pod] for pod in pods if pod in nodes}))


def _stays(answer: Answer, placed: Mapping[str, bool]) -> dict[str, Stay]:
    """Where the placed gangs are, as far as the answer tells."""
    gpus = _numbers(_mapping(answer.get("room")).get("gpusOfGangs"))
    found = {}
    for gang in answer["podGangs"]:
        name = f"{gang['namespace']}/{gang['name']}"
        if placed[name]:
            # The gang's own scope comes first.
            own = next(iter(_entries(gang, "scopes")), ("", {}))[1].get("domains") or []
            if not isinstance(own, list):
                raise ValueError(f"is not an answer: the domains of {name} must be a list")
            domains = tuple(map(str, own))
            found[name] = Stay(domains, gpus.get(name, 0))
    return found


def _open(which: str, answer: Answer) -> Iterator[Open]:
    termination = answer.get("termination")
    if isinstance(termination, Mapping) and termination.get("gap") != 0:
        gap = termination.get("gap")
        yield Open(which, gap if _is_number(gap) else None)


def _room(before: Answer, after: Answer) -> tuple[RoomChange, ...]:
    first, second = _mapping(before.get("room")), _mapping(after.get("room"))
    here, there = _numbers(first), _numbers(second)
    found = []
    if "freeGpus" in here and "freeGpus" in there:
        found.append(RoomChange("GPUs", here["freeGpus"], there["freeGpus"]))
    here, there = _numbers(first.get("freeDomains")), _numbers(second.get("freeDomains"))
    found += [RoomChange(level, here[level], there[level]) for level in here if level in there]
    return tuple(found)


def _numbers(value: Any) -> dict[str, int]:
    numbers = _mapping(value).items()
    return {key: one for key, one in numbers if isinstance(one, int) and _is_number(one)}


def _is_number(value: Any) -> bool:
    """Whether it is a number that a plan can reach, and neither infinite nor none."""
    return isinstance(value, int | float) and abs(value) < _MOST


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tiers(before: Answer, after: Answer) -> tuple[TierChange, ...]:
    def values(answer: Answer) -> dict[str, float]:
        tiers = answer.get("objective")
        return {
            str(tier["tier"]): tier["value"]
            for tier in (tiers if isinstance(tiers, list) else ())
            if isinstance(tier, Mapping) and "tier" in tier and _is_number(tier.get("value"))
        }

    first, second = values(before), values(after)
    return tuple(TierChange(t, first.get(t), second.get(t)) for t in {**first, **second})
