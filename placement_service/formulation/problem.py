"""The question as arrays: indices instead of names.

Everything that a rule says about single nodes is folded into one eligibility
table, and everything that it says about pods sharing a node into resource
columns, so that the engine knows only three things: amounts on nodes, domains
at levels, and the few rules that join pods across nodes (`DomainCapacity`, `Exclusion`,
`Spread`, `Affinity`). Pods that ask for the same are one `pod_class`. See
`formulate` for how a snapshot becomes a problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.request import CPU, Policy, Snapshot

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The column of CPU, in thousandths of a core, where any pod asks for it.
CPU_COLUMN = CPU

#: More pods than any domain can hold, so that one pod can fill a knapsack row.
MANY = 1 << 20

#: From here on an amount means that there is no limit.
UNLIMITED = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A node label key and its domains.

    `domain[N]` is the domain of each node, -1 without the label. `place_of[N]` is
    the same with every node without the label as a domain of its own, which is
    how preferred levels count. `is_host` is true when every domain is a single
    node.
    """

    key: str
    domain: Ints
    place_of: Ints
    values: tuple[str, ...]
    is_host: bool

    @property
    def count(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` interchangeable units of one pod class.

    A unit is one pod, or the pods of a bundle: `members` lists (group, pod set,
    pods) of one unit as indices into the snapshot's gang.
    """

    pod_class: int
    count: int
    members: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class GroupRequirement:
    """Of these demands together, `missing` units are the minimum."""

    demands: tuple[int, ...]
    missing: int
    pending: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A packing scope over demands of a gang.

    Levels are indices into `Problem.levels`, -1 for none. `pin` is the domain
    that running pods hold a required level to, -1 for none. `running` are the
    places at the preferred level that running pods use; numbers below -1 are
    nodes that are not in the snapshot.
    """

    demands: tuple[int, ...]
    required: int = -1
    preferred: int = -1
    pin: int = -1
    running: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """A gang as the engine sees it; `index` is its place in the snapshot.

    `placeable` is false for a gang that gets no new pods whatever room there
    is. `pending` is true while its minimum is not met. `base` is a gang index
    or -1. `set_level` is the level at which a base and the gangs based on it
    should be near, -1 for none, and `set_running` the places there that the
    gang's running pods use. `previous` are node indices that it would like again.
    """

    index: int
    priority: int
    value: int
    pending: bool
    placeable: bool
    demands: tuple[Demand, ...]
    requirements: tuple[GroupRequirement, ...]
    scopes: tuple[Scope, ...]
    base: int
    set_level: int
    set_running: tuple[int, ...]
    previous: frozenset[int]

    @property
    def missing(self) -> int:
        return sum(q.missing for q in self.requirements)

    @property
    def extras(self) -> int:
        return sum(q.pending - q.missing for q in self.requirements)


@dataclass(frozen=True, slots=True, eq=False)
class DomainCapacity:
    """In each domain, sum of weight[S] over its pods <= capacity."""

    level: int
    weight: Ints
    capacity: int


@dataclass(frozen=True, slots=True, eq=False)
class Exclusion:
    """No domain holds pods of both sides; both are masks over pod classes."""

    level: int
    left: Bools
    right: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """In a domain with a carrier, counted pods are at most skew above the least.

    `base[D]` are the running pods counted; `eligible[D]` the domains whose
    least counts; `floor_is_zero` when there are fewer than the minimum of
    domains; `own[S]` is 1 for a carrier that does not count itself.
    """

    level: int
    carriers: Bools
    counted: Bools
    base: Ints
    eligible: Bools
    max_skew: int
    floor_is_zero: bool
    own: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Affinity:
    """A carrier needs, in its domain, a running match or an anchor.

    `running[D]` marks domains with a running match; `anchors` are pod classes that
    match and do not carry the term. Without any of both anywhere, carriers
    that match themselves (`self_matching`) may share one domain.
    """

    level: int
    carriers: Bools
    anchors: Bools
    self_matching: Bools
    running: Bools


Rule = DomainCapacity | Exclusion | Spread | Affinity


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arrays over N nodes, S pod classes, R resource columns.

    `free[N, R]` is what is left, never negative. `request[S, R]` is what a unit
    takes. `eligible[S, N]` folds all rules about single nodes. `gpus[S]` and
    `node_gpus[N]`, `node_gpus_free[N]` count GPUs (see `whole_free`), `pods_without_gpus[S]`
    the pods without GPUs in a unit, which belong on nodes without.
    `demand_rank[N]` ranks nodes by the GPU demand that could use them.
    `special[S]` marks pod classes under a rule that joins pods across nodes.
    """

    snapshot: Snapshot
    policy: Policy
    columns: tuple[str, ...]
    free: Ints
    request: Ints
    eligible: Bools
    levels: tuple[Level, ...]
    gangs: tuple[Gang, ...]
    rules: tuple[Rule, ...]
    special: Bools
    gpus: Ints
    pods_without_gpus: Ints
    node_gpus: Ints
    node_gpus_free: Ints
    whole_free: Bools
    demand_rank: Ints

    @property
    def node_count(self) -> int:
        return len(self.free)

    @property
    def class_count(self) -> int:
        return len(self.request)

    @property
    def pending(self) -> tuple[Gang, ...]:
        return tuple(g for g in self.gangs if g.pending and g.placeable)

    @property
    def scope_levels(self) -> tuple[int, ...]:
        """Levels named in any scope, whichever gang."""
        used = {level for g in self.gangs for s in g.scopes for level in (s.required, s.preferred)}
        return tuple(sorted(used - {-1}))


def fit(free: Ints, request: Ints) -> Ints:
    """How many units of one request[R] fit in each row of free[N, R]; pod class [N].

    A request of nothing fits MANY times.
    """
    used = np.flatnonzero(request)
    if not len(used):
        return np.full(len(free), MANY, dtype=np.int64)
    result: Ints = free[:, used[0]] // request[used[0]]
    for r in used[1:]:
        np.minimum(result, free[:, r] // request[r], out=result)
    return result


def pods_that_fit(free: Ints, request: Ints) -> Ints:
    """As `fit`, and at most MANY, so that sums over nodes stay small."""
    return np.minimum(fit(free, request), MANY)
