"""The question as arrays: indices instead of names.

Rules about single nodes become one eligibility table, and rules about pods that share a node become
resource columns. So the engine knows only three things: amounts on nodes, domains at levels, and
the few rules that join pods across nodes (see `rules`). Pods that ask for the same are one
`pod_class`. See `formulate` for how a snapshot becomes a problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.request import CPU, Policy
from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.guarantees import Guarantee
from placement_service.formulation.indices import (
    NO_DOMAIN,
    NO_GANG,
    NO_LEVEL,
    ClassIdx,
    DemandIdx,
    DomainIdx,
    GangIdx,
    GroupIdx,
    LevelIdx,
    NodeIdx,
    PodSetIdx,
)
from placement_service.formulation.levels import Level
from placement_service.formulation.rules.draft import is_rule
from placement_service.formulation.rules.protocol import Rule
from placement_service.formulation.rules.queues import QueueRow

#: The column of CPU, in thousandths of a core, where any pod asks for it.
CPU_COLUMN = CPU


class Member(NamedTuple):
    """So many pods of one pod set of the snapshot's gang."""

    group: GroupIdx
    pod_set: PodSetIdx
    pods: int


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` interchangeable units of one pod class.

    A unit is one pod, or the pods of a bundle.
    """

    pod_class: ClassIdx
    count: int
    members: tuple[Member, ...]

    def __reduce__(self) -> tuple[type[Demand], tuple[object, ...]]:
        # There are many, and pickle would look up the fields of each.
        return Demand, (self.pod_class, self.count, self.members)


class GroupRequirement(NamedTuple):
    """Of these demands together, `missing` units are the minimum."""

    demands: tuple[int, ...]
    missing: int
    pending: int


class Scope(NamedTuple):
    """A packing scope over demands of a gang.

    Levels are indices into `Problem.levels`, -1 for none. `pin` is the domain
    that running pods hold a required level to, -1 for none. `running` are the
    places at the preferred level that running pods use; numbers below -1 are
    nodes that are not in the snapshot.
    """

    demands: tuple[int, ...]
    required: LevelIdx = NO_LEVEL
    preferred: LevelIdx = NO_LEVEL
    pin: DomainIdx = NO_DOMAIN
    running: tuple[int, ...] = ()


class UnitsOnNode(NamedTuple):
    """So many units of one demand of a gang on one node."""

    demand: DemandIdx
    node: NodeIdx
    units: int


class DemandUnits(NamedTuple):
    """So many units of one demand of a gang, wherever they are."""

    demand: DemandIdx
    units: int


class Precedence(NamedTuple):
    """Whether some pods of a gang run, whether its minimum does not, and the guarantee that counts
    for it, -1 for none.
    """

    runs: bool
    waits: bool
    guarantee: int


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """A gang as the engine sees it.

    A running gang that may give way (see `running_gangs`) is pending, too. A gang that begins anew
    (see `beginning_anew`), or comes the other way round (see `reclaim_ways`), is a second way to
    run one of the request.
    """

    #: Its place in the snapshot.
    index: GangIdx
    priority: int
    value: int
    #: Whether its minimum is not met.
    pending: bool
    #: False for one that gets no new pods whatever room there is.
    placeable: bool
    demands: tuple[Demand, ...]
    requirements: tuple[GroupRequirement, ...]
    scopes: tuple[Scope, ...]
    base: GangIdx
    #: The base of its set, mostly `base`.
    set_base: GangIdx
    #: The level at which a base and the gangs based on it should be near.
    set_level: LevelIdx
    #: The domains of `set_level` that its running pods use.
    set_running: tuple[int, ...]
    #: Nodes that it prefers because it used them before.
    previous: frozenset[NodeIdx]
    #: Seconds, 0 for a gang that has just arrived.
    waited: int
    #: Whether its minimum is not met though some of its pods run.
    runs_in_part: bool
    #: The units of a gang that may give way, where they run.
    home: tuple[UnitsOnNode, ...] = ()
    #: The gang that its running pods are where they may be evicted (see `running_parts`).
    part: GangIdx = NO_GANG
    #: The gang of the request that this one is another way to run of.
    anew_of: GangIdx = NO_GANG
    #: The gang of what runs of `anew_of`, and this one for that: only one of the two is placed.
    not_with: GangIdx = NO_GANG
    #: False for one whose minimum runs.
    waits: bool = True
    #: What has to stay at home of each requirement for the rest to stay; only of a gang that may
    #: be moved.
    keeps: tuple[int, ...] = ()
    #: Whether what it keeps stays in any case, and only the rest may move.
    only_extras: bool = False
    #: Extras that go only with all the rest of it, because it lacks pods of its minimum.
    surplus: int = 0
    #: Demands whose units are at home where they stay, and never where the gang moves.
    only_stays: frozenset[DemandIdx] = frozenset()
    #: Demands whose units are those at home of the same requirement where they come: these are
    #: nowhere else, and come under other rules.
    instead: frozenset[DemandIdx] = frozenset()
    #: The rows of queues that count its pods.
    queue_rows: tuple[int, ...] = ()
    #: The guaranteed GPUs of its queue, by their place in the problem; -1 for none.
    guarantee: int = -1

    def __reduce__(self) -> tuple[type[Gang], tuple[object, ...]]:
        # As of `Demand`.
        return Gang, _content_of(self)

    @property
    def runs(self) -> bool:
        """Whether some of its pods run."""
        return self.runs_in_part or bool(self.home)

    @property
    def begins_anew(self) -> bool:
        """Whether it is another way to run a gang of which pods run already."""
        return self.anew_of >= 0

    @property
    def rests_on(self) -> tuple[GangIdx, ...]:
        """The gangs without which it gets no pods, and does not stay."""
        return tuple(g for g in (self.base, self.part) if g >= 0)

    @property
    def asks(self) -> Hashable:
        """What decides where its minimum fits: where that of one gang fits, that of another with
        the same does.
        """
        demands = tuple((d.pod_class, d.count) for d in self.demands)
        return demands, self.requirements, self.scopes

    @property
    def precedence(self) -> Precedence:
        """What decides the order among gangs of its priority, apart from its age."""
        return Precedence(self.runs, self.waits, self.guarantee)

    def pod_classes(self, requirement: GroupRequirement) -> tuple[ClassIdx, ...]:
        """The pod class of each demand of one of its requirements."""
        return tuple(self.demands[d].pod_class for d in requirement.demands)

    @property
    def missing(self) -> int:
        """Units that its minimum lacks."""
        return sum(q.missing for q in self.requirements)

    @property
    def extras(self) -> int:
        """Units beyond the minimum that could be placed."""
        return sum(q.pending - q.missing for q in self.requirements)


_content_of = attrgetter(*[f.name for f in fields(Gang)])


class OpenDemand(NamedTuple):
    """A demand of a running gang that may give way."""

    gang: GangIdx
    demand: DemandIdx


@dataclass(frozen=True, slots=True)
class Budget:
    """Of the pods at home of these demands, at least `least` stay."""

    demands: frozenset[OpenDemand]
    least: int


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arrays over N nodes, S pod classes, R resource columns.

    `free[N, R]` is what is left, never negative. `request[S, R]` is what a unit
    takes. `eligible[S, N]` folds all rules about single nodes. `gpus[S]` and
    `node_gpus[N]`, `node_gpus_free[N]` count GPUs (see `whole_free`), `pods_without_gpus[S]`
    the pods without GPUs in a unit, which belong on nodes without.
    `special[S]` marks pod classes under a rule that joins pods across nodes.
    """

    policy: Policy
    columns: tuple[str, ...]
    free: Ints
    request: Ints
    eligible: Bools
    levels: tuple[Level, ...]
    gangs: tuple[Gang, ...]
    rules: tuple[Rule, ...]
    queue_rows: tuple[QueueRow, ...]
    guarantees: tuple[Guarantee, ...]
    special: Bools
    gpus: Ints
    pods_without_gpus: Ints
    node_gpus: Ints
    node_gpus_free: Ints
    whole_free: Bools
    budgets: tuple[Budget, ...] = ()
    #: By open gang those that may take its room.
    winners: Mapping[GangIdx, frozenset[GangIdx]] = field(default_factory=dict)
    exact: bool = True
    #: How often each gang may be placed, by those who place some several times.
    repeats: int = 1
    #: Levels that scopes of the request name, also of gangs whose scopes are left out here.
    named_levels: frozenset[LevelIdx] = frozenset()
    #: Some gang that may not get pods here could after moves that are no part of the problem, or
    #: pods of the request are none of it.
    mends: bool = False
    #: What models count in `topology` is what it is worth (see `running_topology`).
    bounds_topology: bool = True
    #: It is a relaxation with other gangs, so plans of it are none of the question (see
    #: `looser_gangs`).
    apart: bool = False
    #: Whether columns say that fewer pods fit the devices of nodes than do, and those of the
    #: relaxation that more do.
    few_devices: bool = False
    #: The same question where gangs also move to other devices of their own nodes, or it is open
    #: which of them reclaim, for which it is asked last. It is exact where it may be.
    again: Problem | None = None
    #: The same question with looser columns, whose bounds hold for this one where it is not exact.
    relaxation: Problem | None = None
    #: The same question but for queues above their limits, into which something new may come there,
    #: if enough of what runs in them goes.
    loosened: Problem | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # `eligible` is most of a large problem, so it is pickled as bits.
        return _unpacked, (self.node_count, np.packbits(self.eligible), *_all_but_eligible(self))

    @property
    def loosest(self) -> Problem | None:
        """The question of which bounds hold for this one: itself where it is exact, else one that
        allows more; None where there is none.
        """
        found = self if self.exact else self.relaxation
        return found if found is not None and found.exact else None

    @property
    def node_count(self) -> int:
        """N."""
        return len(self.free)

    @property
    def class_count(self) -> int:
        """S."""
        return len(self.request)

    @property
    def asked(self) -> Ints:
        """All that is asked for of each column [R], as often as gangs may be placed; so much room
        is no limit.
        """
        demand = np.zeros(self.class_count, dtype=np.int64)
        for gang in self.gangs:
            for d in gang.demands if gang.placeable else ():
                demand[d.pod_class] += d.count
        # As floats first: sums may be beyond any whole number.
        small = demand @ self.request.astype(float) * self.repeats < UNLIMITED
        asked: Ints = demand @ np.where(small, self.request, 0) * self.repeats
        return np.where(small, asked, UNLIMITED)

    @property
    def rule_columns(self) -> Bools:
        """Columns that rules about pods on one node have become, not resources [R]."""
        return np.array([is_rule(name) for name in self.columns], dtype=bool)

    @property
    def partial_columns(self) -> Bools:
        """Columns of rules that do not limit every node [R]."""
        rules = self.rule_columns
        return rules & (self.free >= self.asked).any(axis=0) if rules.any() else rules

    @property
    def pending(self) -> tuple[Gang, ...]:
        """The gangs that wait and may get pods."""
        return tuple(g for g in self.gangs if g.pending and g.placeable)

    @property
    def scope_levels(self) -> tuple[LevelIdx, ...]:
        """Levels named in any scope, whichever gang."""
        used = {level for g in self.gangs for s in g.scopes for level in (s.required, s.preferred)}
        return tuple(sorted((used | self.named_levels) - {NO_LEVEL}))


_OTHERS = tuple(f.name for f in fields(Problem) if f.name != "eligible")
_all_but_eligible = attrgetter(*_OTHERS)


def _unpacked(nodes: int, bits: NDArray[np.uint8], *others: Any) -> Problem:
    """The problem that was pickled."""
    content = dict(zip(_OTHERS, others, strict=True))
    shape = len(content["request"]), nodes
    eligible = np.unpackbits(bits, count=shape[0] * nodes).view(np.bool_).reshape(shape)
    return Problem(eligible=eligible, **content)
