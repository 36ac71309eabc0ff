"""Questions to a solver process beyond the search for a placement, as arrays, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.devices.wants import Load
from placement_service.formulation.problem import Problem


class Freed(NamedTuple):
    """A row of `EvictionQuestion.amounts` that comes free on a node."""

    node: int
    row: int


@dataclass(frozen=True, slots=True)
class Leaver:
    """Pods that leave together, or one after another up to `most` times: `pods` each time.

    `frees` comes free each time. `part_of` is the leaver that all of these leave with, -1 for
    none.
    """

    pods: int
    most: int
    frees: tuple[Freed, ...]
    part_of: int = -1


class PodsOf(NamedTuple):
    """How many pods of a leaver count each time that it leaves."""

    leaver: int
    pods: int


@dataclass(frozen=True, slots=True)
class Together:
    """At most `most` of the pods of these leavers may leave."""

    leavers: tuple[PodsOf, ...]
    most: int


class Given(NamedTuple):
    """What a leaver gives back to a queue each time that it leaves."""

    leaver: int
    amount: int


class Closed(NamedTuple):
    """Nodes that take no unit of a demand until so many pods of these leavers have left."""

    demand: int
    nodes: Ints
    leavers: tuple[PodsOf, ...]
    pods: int


class OnDevice(NamedTuple):
    """What a leaver gives back of a device each time, in thousandths of it; devices are known by
    their place on the node.
    """

    leaver: int
    device: int
    compute: int
    memory: int


class DeviceWant(NamedTuple):
    """A unit of a demand, or so many `units` that stay where `demand` is -1, takes `number`
    different devices, of each its load, or one of the `partitions` if there are any to choose from.
    """

    demand: int
    units: int
    number: int
    loads: tuple[Load, ...]
    partitions: tuple[tuple[int, ...], ...] | None


class Devices(NamedTuple):
    """The devices of a node: what is left of each before anybody leaves."""

    node: int
    left: tuple[Load, ...]
    given: tuple[OnDevice, ...]
    wants: tuple[DeviceWant, ...]


class QueueRoom(NamedTuple):
    """One resource of a queue: what a unit of each demand takes [D], what is left before anybody
    leaves, below zero where more runs than the limit, and what leavers give back.
    """

    take: tuple[int, ...]
    left: int
    given: tuple[Given, ...]


class UnitsNeeded(NamedTuple):
    """So many units of some demands together."""

    demands: tuple[int, ...]
    units: int


class OneDomain(NamedTuple):
    """Units of these demands share a domain: `domain[N]` of each node, -1 for none."""

    demands: tuple[int, ...]
    domain: Ints


@dataclass(frozen=True, slots=True, eq=False)
class EvictionQuestion:
    """The fewest pods that leave, so that units of some demands fit.

    N nodes, D demands, R resources. `free[N, R]` is left before anybody leaves, `request[D, R]`
    is what a unit takes, `eligible[D, N]` where it may run, on some nodes only
    once they are not `closed` any longer. `queues` have to have room, too, and so have `devices` of
    nodes where it matters which of them come free. The sets in `forbidden`, leavers with the times
    that they leave, are not chosen again.
    """

    free: Ints
    request: Ints
    eligible: Bools
    amounts: Ints
    needs: tuple[UnitsNeeded, ...]
    scopes: tuple[OneDomain, ...]
    leavers: tuple[Leaver, ...]
    limits: tuple[Together, ...]
    queues: tuple[QueueRoom, ...] = ()
    closed: tuple[Closed, ...] = ()
    devices: tuple[Devices, ...] = ()
    forbidden: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """How often each leaver leaves, None when that cannot be enough; the least pods proven."""

    times: tuple[int, ...] | None
    bound: int


@dataclass(frozen=True, slots=True, eq=False)
class CopiesQuestion:
    """The most of some pending gangs (indices) that run beside all others of a problem."""

    problem: Problem
    copies: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class DomainsQuestion:
    """The fewest domains with which all pending gangs run; nodes from `first` on are one."""

    problem: Problem
    first: int


class Inside(NamedTuple):
    """So many GPU pods of one group of a gang in a domain."""

    domain: int
    group: int
    pods: int


@dataclass(frozen=True, slots=True)
class MovableGang:
    """A running gang of `pods` in all, which may move whole, or the `spare` pods of each group."""

    pods: int
    inside: tuple[Inside, ...]
    spare: tuple[int, ...]
    moves_whole: bool
    moves_extras: bool


@dataclass(frozen=True, slots=True)
class Spared:
    """What each of the domains `able` has of a kind of GPU, and the most that all others spare."""

    has: tuple[int, ...]
    most: int


@dataclass(frozen=True, slots=True)
class EmptyingQuestion:
    """The fewest pods that leave so that `count` of the domains `able` hold no GPU pod.

    `spared` has an entry for each kind of GPU. No set of `forbidden` is chosen.
    """

    gangs: tuple[MovableGang, ...]
    able: tuple[int, ...]
    count: int
    spared: tuple[Spared, ...] = ()
    forbidden: tuple[frozenset[int], ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyingAnswer:
    """The domains, None when there are none, and at least how many pods leave in any case."""

    domains: frozenset[int] | None
    bound: int
