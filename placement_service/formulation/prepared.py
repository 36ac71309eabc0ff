"""The step between the request and the arrays: some rules expressed by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placement_service.entities.request import Resources, Snapshot
from placement_service.entities.solution import Assignment


class GroupOf(NamedTuple):
    """A group of a gang of the snapshot."""

    gang: int
    group: int


class SetOf(NamedTuple):
    """A pod set of a gang of the snapshot."""

    gang: int
    group: int
    pod_set: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A snapshot whose gangs, in the order of the request, are those to decide about.

    Gangs that the request does not name stand behind those of it. Indices are of `snapshot`, in
    which new groups stand behind the old ones.
    """

    snapshot: Snapshot
    #: The running pods of gangs that may give way: the plan in which nothing moves.
    homes: tuple[Assignment, ...] = ()
    #: Where gangs are moved and not evicted, the pods of each group that have to stay at home for
    #: the rest of the gang to stay.
    minimums: Mapping[GroupOf, int] = field(default_factory=dict)
    #: By group the set that is the pods at home of it where they come (see `ruled_pods`).
    comes: Mapping[GroupOf, int] = field(default_factory=dict)
    #: Gangs of which only these sets are in scopes.
    scattered: frozenset[int] = frozenset()
    #: Gangs of which the minimums stay at home in any case.
    only_extras: frozenset[int] = frozenset()
    #: Sets whose pods are at home where they stay, and nowhere where their gang moves: pods with
    #: devices that their node gives nobody now, and those of a group in `comes`.
    only_stays: frozenset[SetOf] = frozenset()
    #: Sets of one pod where a gang that stays or moves whole has several pods with devices on the
    #: node: columns count what they hold there together.
    tied: frozenset[SetOf] = frozenset()
    #: Nodes, by their rows, that the waiting pods of a set do not get: gangs hold them that may not
    #: be evicted for these pods.
    closed: Mapping[SetOf, frozenset[int]] = field(default_factory=dict)
    #: What the pods of a set have at home where that is not what they ask for.
    held: Mapping[SetOf, Resources] = field(default_factory=dict)
    #: Gangs that are others which come to new places as a whole, also to those that they have.
    again: frozenset[int] = frozenset()
    #: Whether all gangs may come so for which that could make a difference.
    all_again: bool = False
    #: The same question with gangs that reclaim, or do not, against their turn (see
    #: `reclaim_ways`).
    otherwise: Prepared | None = None
    #: By name of a running pod of an open gang, the reservation that it uses.
    users: Mapping[str, str] = field(default_factory=dict)
    #: False where a rule is expressed more strictly than it is, or a gang that may give way is not
    #: open: then no bound holds.
    exact: bool = True
    #: Whether a gang that may give way is not open that waits for more pods and breaks its required
    #: levels only by where it runs: the problem refuses it whatever it could gain.
    mends: bool = False
    #: Whether pods of the request are left out that `relaxed` has, so that no bound of this holds.
    part: bool = False
    #: False where running gangs count in models otherwise than in the tier `topology`.
    bounds_topology: bool = True
    #: The same snapshot with looser columns, where devices are expressed too strictly: its bounds
    #: hold.
    relaxed: Snapshot | None = None
    #: Whether gangs may reclaim that may not all do so together: once this is about `relaxed`.
    each_alone: bool = False
    #: Whether devices are all that differs in `relaxed`.
    few_devices: bool = False
    #: What was prepared, where gangs stand behind those of the request (see `running_parts` and
    #: `beginning_anew`).
    request: Snapshot | None = None
    #: Names of gangs that may give way by the rules, but not here.
    missed: frozenset[str] = frozenset()
    #: A question in which they do (see `looser_gangs`).
    looser: Prepared | None = None
    #: In a looser question, the snapshot of which the sets count.
    sets_of: Snapshot | None = None

    @property
    def moves(self) -> bool:
        """Whether pods of open gangs may run elsewhere; else they stay at home or go."""
        return bool(self.minimums)

    @property
    def opened(self) -> frozenset[int]:
        """The running gangs that may give way."""
        return frozenset(home.gang for home in self.homes)
