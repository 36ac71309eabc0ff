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

    `homes` are the running pods of gangs that may give way, in the indices of `snapshot`:
    the plan in which nothing moves. New groups stand behind the old ones. `minimums` are,
    only where gangs are moved and not evicted, the pods of each group that have to
    stay at home for the rest of the gang to stay; of the gangs `only_extras` so many stay in any
    case. `only_stays` are sets of one pod that has
    devices which its node gives nobody now: it is at home where it stays, and not where its gang
    moves. So are the pods at home of a group in `comes`, which names the set that is the same pods
    where they come (see `ruled_pods`); of `scattered` gangs only these are in scopes. `tied` are
    sets of one pod where a gang that stays or moves whole has several pods with devices on the
    node: columns count what they hold there together.
    `closed` are nodes, by their rows, that the waiting pods of a set do not get: gangs hold them
    that may not be evicted for these pods. `held` is what the pods of a set have at home where that
    is not what they ask for.
    Gangs `again` are others that come to new places as a whole, also to those that they have;
    `all_again`: so may all gangs for which that could make a difference. In `otherwise` they are
    gangs that reclaim, or do not, against their turn (see `reclaim_ways`).
    `users` are the reservations that running pods of open gangs use, by their names. `exact` is
    false where a rule is expressed more strictly than it is, or where a gang
    that may give way is not open, so that no bound holds. `mends` says that such a gang waits for
    more pods and breaks its required levels only by where it runs: the problem refuses it whatever
    it could gain. `part`: pods of the request are left out that `relaxed` has, so that no bound of
    this one holds. Where devices are expressed too strictly, `relaxed` is the same snapshot with
    looser columns: its bounds hold; `few_devices` where nothing else differs there. `each_alone`:
    gangs may reclaim there that may not all do so together.
    `bounds_topology` is false where running gangs count in models otherwise than in that tier.
    `request` is what was prepared where gangs stand behind those of
    the request (see `running_parts` and `beginning_anew`). `missed` are gangs that may give way by
    the rules, but not here; `looser` is a question in which they do (see `looser_gangs`), and
    `sets_of` there the snapshot of which the sets count.
    """

    snapshot: Snapshot
    homes: tuple[Assignment, ...] = ()
    minimums: Mapping[GroupOf, int] = field(default_factory=dict)
    comes: Mapping[GroupOf, int] = field(default_factory=dict)
    scattered: frozenset[int] = frozenset()
    only_extras: frozenset[int] = frozenset()
    only_stays: frozenset[SetOf] = frozenset()
    tied: frozenset[SetOf] = frozenset()
    closed: Mapping[SetOf, frozenset[int]] = field(default_factory=dict)
    held: Mapping[SetOf, Resources] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    all_again: bool = False
    otherwise: Prepared | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True
    mends: bool = False
    part: bool = False
    bounds_topology: bool = True
    relaxed: Snapshot | None = None
    each_alone: bool = False
    few_devices: bool = False
    request: Snapshot | None = None
    missed: frozenset[str] = frozenset()
    looser: Prepared | None = None
    sets_of: Snapshot | None = None

    @property
    def moves(self) -> bool:
        """Whether pods of open gangs may run elsewhere; else they stay at home or go."""
        return bool(self.minimums)

    @property
    def opened(self) -> frozenset[int]:
        """The running gangs that may give way."""
        return frozenset(home.gang for home in self.homes)
