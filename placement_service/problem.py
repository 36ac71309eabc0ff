"""The question as arrays: from names to indices.

`formulate` folds everything that a rule says about single nodes into one
eligibility table, and everything that it says about pods sharing a node into
resource columns, so that the engine knows only three things: amounts on nodes,
domains at levels, and the few rules that join pods across nodes (`Limit`,
`Bipartite`, `Spread`, `Affinity`). Pods that ask for the same are one `shape`.

Anti-affinity becomes arithmetic. For a term let A be the shapes that carry it
and match it, B those that only carry it, D those that only match it. In one
domain A excludes everything, and B and D exclude each other, so with a large K

    K * |A| + |B| <= K      K * |A| + |D| <= K      and B, D not both there.

The first two are knapsack rows, on a node simply a resource; only the last,
which needs pods that avoid others without being avoided, is a rule of its own.

A scope that requires one host for all its pods is a `bundle`: one demand whose
shape is the sum of its pods, when all its pods are mandatory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_service.snapshot import (
    CPU,
    PODS,
    HostPort,
    Node,
    PodAffinityTerm,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
    SpreadConstraint,
)
from placement_service.value import gang_value, largest_node

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Terms = tuple[PodAffinityTerm, ...]

#: The column of CPU, in thousandths of a core, where any pod asks for it.
CPU_COLUMN = CPU

#: More pods than any domain can hold, so that one pod can fill a knapsack row.
MANY = 1 << 20

#: From here on an amount means that there is no limit.
UNLIMITED = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A node label key and its domains.

    `domain[N]` is the domain of each node, -1 without the label. `place[N]` is
    the same with every node without the label as a domain of its own, which is
    how preferred levels count.
    """

    key: str
    domain: Ints
    place: Ints
    values: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def is_host(self) -> bool:
        """Whether every domain is a single node."""
        return int((self.domain >= 0).sum()) == self.count


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` interchangeable units of one shape.

    A unit is one pod, or the pods of a bundle: `members` lists (group, pod set,
    pods) of one unit as indices into the snapshot's gang.
    """

    shape: int
    count: int
    members: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """Of these demands together, `missing` units are the minimum."""

    demands: tuple[int, ...]
    missing: int
    pending: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A packing scope over demands of a gang.

    Levels are indices into `Problem.levels`, -1 for none. `pin` is the domain
    that running pods hold a required level to, -1 for none. `bound` are the
    places at the preferred level that running pods use; numbers below -1 are
    nodes that are not in the snapshot.
    """

    demands: tuple[int, ...]
    required: int = -1
    preferred: int = -1
    pin: int = -1
    bound: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """A gang as the engine sees it; `index` is its place in the snapshot.

    `placeable` is false for a gang that gets no new pods whatever room there
    is. `pending` is true while its minimum is not met. `base` is a gang index
    or -1. `set_level` is the level at which a base and the gangs based on it
    should be near, -1 for none, and `set_bound` the places there that the
    gang's running pods use. `previous` are node indices that it would like again.
    """

    index: int
    priority: int
    value: int
    pending: bool
    placeable: bool
    demands: tuple[Demand, ...]
    quotas: tuple[Quota, ...]
    scopes: tuple[Scope, ...]
    base: int
    set_level: int
    set_bound: tuple[int, ...]
    previous: frozenset[int]

    @property
    def missing(self) -> int:
        return sum(q.missing for q in self.quotas)

    @property
    def extras(self) -> int:
        return sum(q.pending - q.missing for q in self.quotas)


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """In each domain, sum of weight[S] over its pods <= capacity."""

    level: int
    weight: Ints
    capacity: int


@dataclass(frozen=True, slots=True, eq=False)
class Bipartite:
    """No domain holds pods of both sides; both are masks over shapes."""

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

    `running[D]` marks domains with a running match; `anchors` are shapes that
    match and do not carry the term. Without any of both anywhere, carriers
    that match themselves (`selfish`) may share one domain.
    """

    level: int
    carriers: Bools
    anchors: Bools
    selfish: Bools
    running: Bools


Rule = Limit | Bipartite | Spread | Affinity


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arrays over N nodes, S shapes, R resource columns.

    `free[N, R]` is what is left, never negative. `request[S, R]` is what a unit
    takes. `eligible[S, N]` folds all rules about single nodes. `gpus[S]` and
    `node_gpus[N]`, `node_gpus_free[N]` count GPUs (see `whole_free`).
    `wanted[N]` ranks nodes by the GPU demand that could use them.
    `special[S]` marks shapes under a rule that joins pods across nodes.
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
    node_gpus: Ints
    node_gpus_free: Ints
    whole_free: Bools
    wanted: Ints

    @property
    def node_count(self) -> int:
        return len(self.free)

    @property
    def shape_count(self) -> int:
        return len(self.request)

    @property
    def pending(self) -> tuple[Gang, ...]:
        return tuple(g for g in self.gangs if g.pending and g.placeable)

    @property
    def scope_levels(self) -> tuple[int, ...]:
        """Levels named in any scope, whichever gang."""
        used = {level for g in self.gangs for s in g.scopes for level in (s.required, s.preferred)}
        return tuple(sorted(used - {-1}))


def formulate(snapshot: Snapshot, policy: Policy) -> Problem:
    """Arrays of a valid snapshot (see `validation`)."""
    levels = _Levels(snapshot.nodes)
    shapes = _Shapes(snapshot, levels)
    index = {n.name: i for i, n in enumerate(snapshot.nodes)}
    value_of = largest_node(snapshot)
    by_name = {g.name: i for i, g in enumerate(snapshot.gangs)}
    gone = _gone_nodes(snapshot, index)
    drafts = [_Draft(i, g, levels, index, gone) for i, g in enumerate(snapshot.gangs)]
    _spread_refusal(drafts, by_name)
    for draft in drafts:
        draft.make_demands(shapes)
    table = shapes.table(levels)
    gangs = tuple(
        draft.finish(gang_value(draft.gang, policy, value_of), drafts, by_name, table.bundle_of)
        for draft in drafts
    )
    gpu_counts = np.array([policy.gpus(n.allocatable) for n in snapshot.nodes], dtype=np.int64)
    if gpu_counts.any():
        gpus_used = [policy.gpus(n.requested) for n in snapshot.nodes]
        gpus_free = gpu_counts - np.array(gpus_used, dtype=np.int64)
        shape_gpus = np.array([policy.gpus(r) for r in table.requests], dtype=np.int64)
        whole = (gpu_counts > 0) & (gpus_free == gpu_counts)
    else:
        # A cluster without GPUs: every node counts, and is free when empty.
        gpu_counts = np.ones(len(snapshot.nodes), dtype=np.int64)
        gpus_free = gpu_counts
        shape_gpus = np.ones(len(table.requests), dtype=np.int64)
        whole = np.array([not n.requested.get(PODS, 0) for n in snapshot.nodes], dtype=bool)
    problem = Problem(
        snapshot=snapshot,
        policy=policy,
        columns=table.columns,
        free=table.free,
        request=table.request,
        eligible=table.eligible,
        levels=levels.all(),
        gangs=gangs,
        rules=table.rules,
        special=table.special,
        gpus=shape_gpus,
        node_gpus=gpu_counts,
        node_gpus_free=gpus_free,
        whole_free=whole,
        wanted=_wanted(table, gangs, shape_gpus),
    )
    for array in (problem.free, problem.request, problem.eligible, problem.wanted):
        array.flags.writeable = False
    return problem


def _gone_nodes(snapshot: Snapshot, index: dict[str, int]) -> dict[str, int]:
    """Nodes of running pods that are not in the snapshot, each a place of its own below -1."""
    gone: dict[str, int] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod in group.bound_pods:
                if pod.node not in index:
                    gone.setdefault(pod.node, -2 - len(gone))
    return gone


def fit(free: Ints, request: Ints) -> Ints:
    """How many units of one request[R] fit in each row of free[N, R]; shape [N].

    A request of nothing fits MANY times.
    """
    used = np.flatnonzero(request)
    if not len(used):
        return np.full(len(free), MANY, dtype=np.int64)
    result: Ints = free[:, used[0]] // request[used[0]]
    for r in used[1:]:
        np.minimum(result, free[:, r] // request[r], out=result)
    return result


def _wanted(table: _Table, gangs: Sequence[Gang], gpus: Ints) -> Ints:
    """Rank of each node by the GPU demand that could use it as it is now."""
    demand = np.zeros(len(table.request), dtype=np.int64)
    for gang in gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.shape] += d.count * gpus[d.shape]
    score = np.zeros(len(table.free), dtype=np.int64)
    for s in np.flatnonzero(demand):
        usable = table.eligible[s] & (fit(table.free, table.request[s]) > 0)
        score[usable] += demand[s]
    return np.unique(score, return_inverse=True)[1].astype(np.int64)


# --- levels -------------------------------------------------------------------


class _Levels:
    """Levels by key, made when first asked for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._index: dict[str, int] = {}
        self._levels: list[Level] = []

    def index(self, key: str) -> int:
        if key not in self._index:
            self._index[key] = len(self._levels)
            self._levels.append(_make_level(key, self._nodes))
        return self._index[key]

    def __getitem__(self, index: int) -> Level:
        return self._levels[index]

    def all(self) -> tuple[Level, ...]:
        return tuple(self._levels)


def _make_level(key: str, nodes: Sequence[Node]) -> Level:
    labels = [n.labels.get(key) for n in nodes]
    values = tuple(sorted({v for v in labels if v is not None}))
    number = {v: i for i, v in enumerate(values)}
    domain = np.array([-1 if v is None else number[v] for v in labels], dtype=np.int64)
    alone = domain < 0
    place = domain.copy()
    place[alone] = len(values) + np.arange(int(alone.sum()))
    domain.flags.writeable = place.flags.writeable = False
    return Level(key, domain, place, values)


# --- shapes -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    columns: tuple[str, ...]
    requests: list[dict[str, int]]
    free: Ints
    request: Ints
    eligible: Bools
    rules: tuple[Rule, ...]
    special: Bools
    bundle_of: dict[tuple[tuple[int, int], ...], int]


class _Shapes:
    """Collects what pods ask for, then lays it out as arrays."""

    def __init__(self, snapshot: Snapshot, levels: _Levels) -> None:
        self.snapshot = snapshot
        self._levels = levels
        self._count: dict[int, int] = {}
        self._by_identity: dict[tuple[str, int], int] = {}
        self._raw: list[tuple[str, PodTemplate]] = []
        self._merged: dict[object, int] = {}
        self._selectors = _pod_selectors(snapshot)
        self._bundles: dict[tuple[tuple[int, int], ...], None] = {}

    def add(self, namespace: str, template: PodTemplate, count: int) -> int:
        """The shape of some pods that are to be placed."""
        shape = self.of(namespace, template)
        self._count[shape] = self._count.get(shape, 0) + count
        return shape

    def of(self, namespace: str, template: PodTemplate) -> int:
        """The number of the shape of a pod, the same for equal needs."""
        key = (namespace, id(template))
        if key not in self._by_identity:
            signature = self._signature(namespace, template)
            if signature not in self._merged:
                self._merged[signature] = len(self._raw)
                self._raw.append((namespace, template))
            self._by_identity[key] = self._merged[signature]
        return self._by_identity[key]

    def _signature(self, namespace: str, t: PodTemplate) -> object:
        """Equal for pods that no rule can tell apart: labels count only as seen by selectors."""
        seen = tuple(term.matches(namespace, t.labels) for term in self._selectors)
        terms = t.required_affinity + t.required_anti_affinity
        inner: object = (
            (namespace, t.required_affinity, t.required_anti_affinity, t.spread_constraints)
            if terms or t.spread_constraints
            else None
        )
        return (
            tuple(sorted((k, v) for k, v in t.requests.items() if v)),
            t.node_selector,
            t.required_node_affinity,
            t.tolerations,
            t.host_ports,
            inner,
            seen,
        )

    def plain(self, shape: int) -> bool:
        """Whether no rule between pods names or sees the shape."""
        namespace, t = self._raw[shape]
        return not (
            t.required_affinity
            or t.required_anti_affinity
            or t.spread_constraints
            or t.host_ports
            or any(term.matches(namespace, t.labels) for term in self._selectors)
        )

    def bundle(self, content: tuple[tuple[int, int], ...]) -> None:
        """Register a bundle of (shape, pods), sorted by shape."""
        self._bundles.setdefault(content)

    def table(self, levels: _Levels) -> _Table:
        nodes = self.snapshot.nodes
        raw = self._raw
        eligible = _node_rules(nodes, [t for _, t in raw])
        terms = _Terms(self.snapshot, raw, levels, eligible)
        names = sorted({r for _, t in raw for r, v in t.requests.items() if v})
        requests = [dict(t.requests) for _, t in raw]
        free = [np.array([max(0, n.free(r)) for n in nodes], dtype=np.int64) for r in names]
        need = [np.array([q.get(r, 0) for q in requests], dtype=np.int64) for r in names]
        for label, room, take in (*_port_columns(nodes, raw), *terms.columns):
            names.append(label)
            free.append(room)
            need.append(take)
        request = np.stack(need, axis=1) if need else np.zeros((len(raw), 0), dtype=np.int64)
        bundle_of: dict[tuple[tuple[int, int], ...], int] = {}
        rows, masks = [request], [eligible]
        special = terms.special
        for content in self._bundles:
            bundle_of[content] = len(requests)
            members = [s for s, _ in content]
            counts = np.array([k for _, k in content], dtype=np.int64)
            rows.append((counts @ request[members])[None, :])
            masks.append(np.all(eligible[members], axis=0)[None, :])
            special = np.append(special, False)
            total: dict[str, int] = {}
            for s, k in content:
                for r, v in requests[s].items():
                    total[r] = total.get(r, 0) + k * v
            requests.append(total)
        demand = np.array([self._count[s] for s in range(len(raw))], dtype=np.int64)
        for room, take in zip(free, need, strict=True):
            # As much as all pods together ask for is as good as no limit.
            room[room >= UNLIMITED] = int(demand @ take)
        return _Table(
            tuple(names),
            requests,
            np.stack(free, axis=1) if free else np.zeros((len(nodes), 0), dtype=np.int64),
            np.concatenate(rows),
            np.concatenate(masks),
            tuple(_widen(rule, len(requests)) for rule in terms.rules),
            special,
            bundle_of,
        )


def _widen(rule: Rule, count: int) -> Rule:
    """The same rule over more shapes, none of which it concerns."""

    def pad(mask: NDArray) -> NDArray:  # type: ignore[type-arg]
        return np.concatenate([mask, np.zeros(count - len(mask), dtype=mask.dtype)])

    match rule:
        case Limit(level, weight, capacity):
            return Limit(level, pad(weight), capacity)
        case Bipartite(level, left, right):
            return Bipartite(level, pad(left), pad(right))
        case Spread():
            return Spread(
                rule.level, pad(rule.carriers), pad(rule.counted), rule.base,
                rule.eligible, rule.max_skew, rule.floor_is_zero, pad(rule.own),
            )  # fmt: skip
        case Affinity():
            return Affinity(
                rule.level, pad(rule.carriers), pad(rule.anchors), pad(rule.selfish), rule.running
            )


def _pod_selectors(snapshot: Snapshot) -> list[PodAffinityTerm | SpreadConstraint]:
    """Every distinct selector over pods that some rule uses."""
    found: dict[PodAffinityTerm | SpreadConstraint, None] = {}
    templates = {
        id(s.template): s.template
        for g in snapshot.gangs
        for group in g.groups
        for s in group.pod_sets
    }
    for t in templates.values():
        found.update(dict.fromkeys(t.required_affinity))
        found.update(dict.fromkeys(t.required_anti_affinity))
        found.update(dict.fromkeys(t.spread_constraints))
    for pod in snapshot.running_pods:
        found.update(dict.fromkeys(pod.required_anti_affinity))
    return list(found)


def _node_rules(nodes: Sequence[Node], templates: Sequence[PodTemplate]) -> Bools:
    """eligible[S, N] by selector, affinity, taints, cordon and readiness.

    Nodes that no template can tell apart are judged once.
    """
    keys: set[str] = set()
    by_name = False
    for t in templates:
        keys.update(k for k, _ in t.node_selector)
        for term in t.required_node_affinity or ():
            keys.update(e.key for e in term.match_expressions)
            by_name = by_name or bool(term.match_fields)
    ordered = sorted(keys)
    kinds: dict[object, int] = {}
    kind = np.empty(len(nodes), dtype=np.int64)
    samples: list[Node] = []
    for i, n in enumerate(nodes):
        signature = (
            n.unschedulable,
            n.ready,
            n.taints,
            tuple(n.labels.get(k) for k in ordered),
            n.name if by_name else None,
        )
        if signature not in kinds:
            kinds[signature] = len(samples)
            samples.append(n)
        kind[i] = kinds[signature]
    verdict = np.array(
        [
            [n.ready and not n.unschedulable and t.selects(n) and t.tolerates(n) for n in samples]
            for t in templates
        ],
        dtype=bool,
    ).reshape(len(templates), len(samples))
    return verdict[:, kind]


def _port_columns(
    nodes: Sequence[Node], raw: Sequence[tuple[str, PodTemplate]]
) -> Iterable[tuple[str, Ints, Ints]]:
    """A column per (port, protocol, address): one pod at most.

    A pod that binds all addresses takes every address of the port, so it meets
    every other pod, while two pods on different addresses do not meet.
    """
    asked = {p for _, t in raw for p in t.host_ports}
    for port, protocol in sorted({(p.port, p.protocol) for p in asked}):
        addresses = {p.host_ip for p in asked if (p.port, p.protocol) == (port, protocol)}
        for address in sorted(addresses):
            column = HostPort(port, protocol, address)
            room = np.array(
                [not any(column.conflicts(p) for p in n.host_ports) for n in nodes], dtype=np.int64
            )
            take = np.array(
                [
                    sum(
                        (p.port, p.protocol) == (port, protocol) and p.host_ip in ("", address)
                        for p in t.host_ports
                    )
                    for _, t in raw
                ],
                dtype=np.int64,
            )
            yield f"{protocol} host port {port} {address}".rstrip(), room, take


class _Terms:
    """Rules between pods: columns on nodes, masks on nodes, rules on domains."""

    def __init__(
        self,
        snapshot: Snapshot,
        raw: Sequence[tuple[str, PodTemplate]],
        levels: _Levels,
        eligible: Bools,
    ) -> None:
        self._snapshot = snapshot
        self._raw = raw
        self._levels = levels
        self._eligible = eligible
        self._index = {n.name: i for i, n in enumerate(snapshot.nodes)}
        self.columns: list[tuple[str, Ints, Ints]] = []
        self.rules: list[Rule] = []
        self.special = np.zeros(len(raw), dtype=bool)
        # Judged on the node rules alone, before other pods narrow them.
        self._spread()
        self._anti_affinity()
        self._affinity()

    def _matched(self, term: PodAffinityTerm | SpreadConstraint) -> Bools:
        return np.array([term.matches(ns, t.labels) for ns, t in self._raw], dtype=bool)

    def _carriers(self, terms: Callable[[PodTemplate], Terms]) -> dict[PodAffinityTerm, Bools]:
        """The shapes that carry each distinct term."""
        found: dict[PodAffinityTerm, Bools] = {}
        for s, (_, t) in enumerate(self._raw):
            for term in terms(t):
                found.setdefault(term, np.zeros(len(self._raw), dtype=bool))[s] = True
        return found

    def _running_domains(self, term: PodAffinityTerm | SpreadConstraint, level: Level) -> Ints:
        """Running pods that a term matches, per domain of its level."""
        count = np.zeros(level.count, dtype=np.int64)
        for pod in self._snapshot.running_pods:
            node = self._index.get(pod.node)
            if node is not None and level.domain[node] >= 0:
                count[level.domain[node]] += term.matches(pod.namespace, pod.labels)
        return count

    def _anti_affinity(self) -> None:
        for pod in self._snapshot.running_pods:
            node = self._index.get(pod.node)
            for term in pod.required_anti_affinity:
                if node is None:
                    continue
                level = self._levels[self._levels.index(term.topology_key)]
                if level.domain[node] >= 0:
                    near = level.domain == level.domain[node]
                    self._eligible[np.ix_(self._matched(term), near)] = False
        for term, carry in self._carriers(lambda t: t.required_anti_affinity).items():
            number = self._levels.index(term.topology_key)
            level = self._levels[number]
            match = self._matched(term)
            taken = self._running_domains(term, level) > 0
            near = np.append(taken, False)[level.domain]
            self._eligible[np.ix_(carry, near)] = False
            both, carry_only, match_only = carry & match, carry & ~match, match & ~carry
            if both.any():
                # One row suffices unless both kinds of bystanders exist.
                sides = [side for side in (carry_only, match_only) if side.any()] or [both & False]
                for side in sides:
                    self._limit(number, both * MANY + side * 1)
            if carry_only.any() and match_only.any():
                self.rules.append(Bipartite(number, carry_only, match_only))
                self.special |= carry_only | match_only

    def _limit(self, number: int, weight: Ints) -> None:
        level = self._levels[number]
        if level.is_host:
            room = np.where(level.domain >= 0, MANY, UNLIMITED).astype(np.int64)
            self.columns.append((f"anti-affinity {level.key}", room, weight.astype(np.int64)))
            return
        self.rules.append(Limit(number, weight.astype(np.int64), MANY))
        self.special |= weight > 0

    def _affinity(self) -> None:
        for term, carry in self._carriers(lambda t: t.required_affinity).items():
            number = self._levels.index(term.topology_key)
            level = self._levels[number]
            match = self._matched(term)
            running = self._running_domains(term, level) > 0
            anchors = match & ~carry
            self._eligible[np.ix_(carry, level.domain < 0)] = False
            if not anchors.any() and running.any():
                self._eligible[np.ix_(carry, ~np.append(running, False)[level.domain])] = False
                continue
            self.rules.append(Affinity(number, carry, anchors, carry & match, running))
            self.special |= carry | anchors

    def _spread(self) -> None:
        seen: dict[tuple[SpreadConstraint, bytes], int] = {}
        for s, (_, t) in enumerate(self._raw):
            for c in t.spread_constraints:
                number = self._levels.index(c.topology_key)
                level = self._levels[number]
                counts = self._counted_nodes(t, c) & (level.domain >= 0)
                domains = np.zeros(level.count, dtype=bool)
                domains[level.domain[counts]] = True
                key = (c, domains.tobytes())
                match = self._matched(c)
                if key not in seen:
                    seen[key] = len(self.rules)
                    self.rules.append(
                        Spread(
                            level=number,
                            carriers=np.zeros(len(self._raw), dtype=bool),
                            counted=match,
                            base=self._running_domains(c, level),
                            eligible=domains,
                            max_skew=c.max_skew,
                            floor_is_zero=int(domains.sum()) < c.min_domains,
                            own=(~match).astype(np.int64),
                        )
                    )
                rule = self.rules[seen[key]]
                assert isinstance(rule, Spread)
                rule.carriers[s] = True
                self._eligible[s, level.domain < 0] = False
                self.special |= match
                self.special[s] = True

    def _counted_nodes(self, t: PodTemplate, c: SpreadConstraint) -> Bools:
        return np.array(
            [
                (c.ignore_node_affinity or t.selects(n)) and (not c.honor_taints or t.tolerates(n))
                for n in self._snapshot.nodes
            ],
            dtype=bool,
        )


# --- gangs --------------------------------------------------------------------


class _Draft:
    """A gang on its way from names to indices."""

    def __init__(
        self,
        index: int,
        gang: PodGang,
        levels: _Levels,
        node: dict[str, int],
        gone: dict[str, int],
    ) -> None:
        self.index = index
        self._gone = gone
        self.gang = gang
        self._levels = levels
        self._node = node
        self._group = {g.name: i for i, g in enumerate(gang.groups)}
        self._scopes = [
            (
                frozenset(self._group[name] for name in scope.groups),
                levels.index(scope.required_level) if scope.required_level else -1,
                levels.index(scope.preferred_level) if scope.preferred_level else -1,
            )
            for scope in gang.packing_scopes
        ]
        self.refused = (
            gang.uninitialized
            or bool(gang.unsupported)
            or any(g.missing > g.pending_count for g in gang.groups)
            or any(self._pin(groups, level) is None for groups, level, _ in self._scopes)
        )

    def _bound(self, groups: frozenset[int], places: Ints) -> tuple[int, ...]:
        """Places of the running pods of some groups, as in `Scope.bound`."""
        found: list[int] = []
        for i in sorted(groups):
            for pod in self.gang.groups[i].bound_pods:
                node = self._node.get(pod.node)
                found.append(self._gone[pod.node] if node is None else int(places[node]))
        return tuple(sorted(set(found)))

    def _pin(self, groups: frozenset[int], level: int) -> int | None:
        """The domain that running pods hold a scope to, -1 for none, None when broken."""
        if level < 0:
            return -1
        bound = self._bound(groups, self._levels[level].domain)
        if not bound:
            return -1
        return bound[0] if len(bound) == 1 and bound[0] >= 0 else None

    def make_demands(self, shapes: _Shapes) -> None:
        """One demand per pod set, and one per bundle."""
        namespace = self.gang.namespace
        bundles = self._bundles(shapes)
        in_bundle = {i for groups in bundles for i in groups}
        self._demands: list[
            tuple[int | tuple[tuple[int, int], ...], int, list[tuple[int, int, int]]]
        ] = []
        self._quotas: list[Quota] = []
        self._of_group: dict[int, list[int]] = {}
        for i, group in enumerate(self.gang.groups):
            if i in in_bundle:
                continue
            first = len(self._demands)
            for k, pod_set in enumerate(group.pod_sets):
                shape = shapes.add(namespace, pod_set.template, len(pod_set.pods))
                self._demands.append((shape, len(pod_set.pods), [(i, k, 1)]))
            mine = tuple(range(first, len(self._demands)))
            self._of_group[i] = list(mine)
            if mine:
                self._quotas.append(Quota(mine, group.missing, group.pending_count))
        for groups in bundles:
            members = [
                (i, k, len(s.pods))
                for i in sorted(groups)
                for k, s in enumerate(self.gang.groups[i].pod_sets)
            ]
            content: dict[int, int] = {}
            for i, k, count in members:
                template = self.gang.groups[i].pod_sets[k].template
                shape = shapes.add(namespace, template, count)
                content[shape] = content.get(shape, 0) + count
            key = tuple(sorted(content.items()))
            shapes.bundle(key)
            number = len(self._demands)
            self._demands.append((key, 1, members))
            self._quotas.append(Quota((number,), 1, 1))
            for i in groups:
                self._of_group[i] = [number]

    def _bundles(self, shapes: _Shapes) -> list[frozenset[int]]:
        """Disjoint sets of groups, all mandatory and unbound, that share a host."""
        found: list[frozenset[int]] = []
        hosts = {g for g, level, _ in self._scopes if level >= 0 and self._levels[level].is_host}
        for groups in sorted(hosts, key=lambda g: (-len(g), sorted(g))):
            if any(groups <= other for other in found):
                continue
            fixed = all(
                not (g := self.gang.groups[i]).bound_pods
                and g.pod_sets
                and g.missing == g.pending_count
                and all(
                    shapes.plain(shapes.of(self.gang.namespace, s.template)) for s in g.pod_sets
                )
                for i in groups
            )
            # A scope that cuts across the bundle could not be said of it.
            whole = all(groups <= s or not groups & s or s < groups for s, _, _ in self._scopes)
            if fixed and whole and not any(groups & other for other in found):
                found.append(groups)
        return found

    def finish(
        self,
        value: int,
        drafts: Sequence[_Draft],
        by_name: dict[str, int],
        bundle_of: dict[tuple[tuple[int, int], ...], int],
    ) -> Gang:
        demands = tuple(
            Demand(shape if isinstance(shape, int) else bundle_of[shape], count, tuple(members))
            for shape, count, members in self._demands
        )
        scopes = []
        for groups, required, preferred in self._scopes:
            mine = tuple(sorted({d for i in groups for d in self._of_group[i]}))
            pin = self._pin(groups, required)
            bound = self._bound(groups, self._levels[preferred].place) if preferred >= 0 else ()
            if required >= 0 or preferred >= 0:
                scopes.append(Scope(mine, required, preferred, -1 if pin is None else pin, bound))
        base = by_name[self.gang.base_gang] if self.gang.base_gang else -1
        set_level = (drafts[base] if base >= 0 else self).set_level()
        return Gang(
            index=self.index,
            priority=self.gang.priority,
            value=value,
            pending=self.gang.is_pending,
            placeable=not self.refused,
            demands=demands,
            quotas=tuple(self._quotas),
            scopes=tuple(scopes),
            base=base,
            set_level=set_level,
            set_bound=self._own_bound(set_level),
            previous=frozenset(self._node[n] for n in self.gang.previous_nodes if n in self._node),
        )

    def set_level(self) -> int:
        """Where gangs based on this one should be near, -1 for nowhere."""
        everything = frozenset(range(len(self.gang.groups)))
        whole = [(r, p) for groups, r, p in self._scopes if groups == everything]
        return next((r for r, _ in whole if r >= 0), next((p for _, p in whole if p >= 0), -1))

    def _own_bound(self, level: int) -> tuple[int, ...]:
        if level < 0:
            return ()
        return self._bound(frozenset(range(len(self.gang.groups))), self._levels[level].place)


def _spread_refusal(drafts: Sequence[_Draft], by_name: dict[str, int]) -> None:
    """A gang whose base cannot be placed cannot be placed either."""
    for draft in drafts:
        if draft.gang.base_gang:
            base = drafts[by_name[draft.gang.base_gang]]
            draft.refused = draft.refused or (base.refused and base.gang.is_pending)
