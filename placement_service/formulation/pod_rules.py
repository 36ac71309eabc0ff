"""Rules between pods as arithmetic: columns on nodes, masks, rules on domains.

For an anti-affinity term let A be the pod classes that carry it and match it, B
those that only carry it, D those that only match it. In one domain A excludes
everything, and B and D exclude each other, so with a large K

    K * |A| + |B| <= K      K * |A| + |D| <= K      and B, D not both there.

The first two are knapsack rows, on a node simply a resource; only the last,
which needs pods that avoid others without being avoided, is a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.request import (
    HostPort,
    Node,
    PodAffinityTerm,
    PodTemplate,
    Snapshot,
    SpreadConstraint,
)
from placement_service.formulation.levels import Levels
from placement_service.formulation.node_eligibility import NodeMasks
from placement_service.formulation.pod_selectors import PodSelectors, Term
from placement_service.formulation.problem import (
    MANY,
    UNLIMITED,
    Affinity,
    Bools,
    DomainCapacity,
    Exclusion,
    Ints,
    Level,
    Rule,
    Spread,
)

Terms = tuple[PodAffinityTerm, ...]


class PodRules:
    """Rules between pods: columns on nodes, masks on nodes, rules on domains."""

    def __init__(
        self,
        snapshot: Snapshot,
        raw: Sequence[tuple[str, PodTemplate]],
        levels: Levels,
        eligible: Bools,
        masks: NodeMasks,
        selectors: PodSelectors,
    ) -> None:
        self._snapshot = snapshot
        self._raw = raw
        self._levels = levels
        self._eligible = eligible
        self._masks = masks
        self._selectors = selectors
        self._positions = np.array([selectors.position(ns, t) for ns, t in raw], dtype=np.int64)
        index = {n.name: i for i, n in enumerate(snapshot.nodes)}
        self._home = np.array([index.get(p.node, -1) for p in snapshot.running_pods], np.int64)
        self._arrays: dict[tuple[str, bytes], NDArray] = {}  # type: ignore[type-arg]
        self.columns: list[tuple[str, Ints, Ints]] = []
        self.rules: list[Rule] = []
        self.special = np.zeros(len(raw), dtype=bool)
        # Judged on the node rules alone, before other pods narrow them.
        self._spread()
        self._anti_affinity()
        self._affinity()

    def _matched(self, term: Term) -> Bools:
        matched: Bools = self._selectors.matched(term)[self._positions]
        return matched

    def _carriers(self, terms: Callable[[PodTemplate], Terms]) -> dict[PodAffinityTerm, Bools]:
        """The pod classes that carry each distinct term."""
        found: dict[PodAffinityTerm, Bools] = {}
        for s, (_, t) in enumerate(self._raw):
            for term in terms(t):
                found.setdefault(term, np.zeros(len(self._raw), dtype=bool))[s] = True
        return found

    def _running_domains(self, term: Term, level: Level) -> Ints:
        """Running pods that a term matches, per domain of its level; not to be changed."""
        homes = self._home[self._selectors.running(term)]
        domains = level.domain[homes[homes >= 0]]
        count = np.bincount(domains[domains >= 0], minlength=level.count).astype(np.int64)
        return self._shared(count)

    def _shared(self, array: NDArray) -> NDArray:  # type: ignore[type-arg]
        """The same array for equal ones: a thousand rules may count the same nothing."""
        array.flags.writeable = False
        return self._arrays.setdefault((array.dtype.char, array.tobytes()), array)

    def _anti_affinity(self) -> None:
        avoided: dict[PodAffinityTerm, list[int]] = {}
        for pod, home in zip(self._snapshot.running_pods, self._home.tolist(), strict=True):
            for term in pod.required_anti_affinity if home >= 0 else ():
                avoided.setdefault(term, []).append(home)
        for term, homes in avoided.items():
            level = self._levels[self._levels.index(term.topology_key)]
            taken = np.zeros(level.count + 1, dtype=bool)
            taken[level.domain[homes]] = True
            taken[-1] = False
            self._eligible[np.ix_(self._matched(term), taken[level.domain])] = False
        for term, carry in self._carriers(lambda t: t.required_anti_affinity).items():
            number = self._levels.index(term.topology_key)
            level = self._levels[number]
            match = self._matched(term)
            taken = self._running_domains(term, level) > 0
            if taken.any():
                near = np.append(taken, False)[level.domain]
                self._eligible[np.ix_(carry, near)] = False
            both, carry_only, match_only = carry & match, carry & ~match, match & ~carry
            if both.any():
                # One row suffices unless both kinds of bystanders exist.
                sides = [side for side in (carry_only, match_only) if side.any()] or [both & False]
                for side in sides:
                    self._limit(number, both * MANY + side * 1)
            if carry_only.any() and match_only.any():
                self.rules.append(Exclusion(number, carry_only, match_only))
                self.special |= carry_only | match_only

    def _limit(self, number: int, weight: Ints) -> None:
        level = self._levels[number]
        if level.is_host:
            room = np.where(level.domain >= 0, MANY, UNLIMITED).astype(np.int64)
            self.columns.append((f"anti-affinity {level.key}", room, weight.astype(np.int64)))
            return
        self.rules.append(DomainCapacity(number, weight.astype(np.int64), MANY))
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
        seen: dict[tuple[SpreadConstraint, int], Spread] = {}
        for s, (_, t) in enumerate(self._raw):
            for c in t.spread_constraints:
                number = self._levels.index(c.topology_key)
                level = self._levels[number]
                domains = self._counted_domains(t, c, level)
                match = self._matched(c)
                # Equal domains are one array.
                key = (c, id(domains))
                if key not in seen:
                    seen[key] = Spread(
                        level=number,
                        carriers=np.zeros(len(self._raw), dtype=bool),
                        counted=match,
                        base=self._running_domains(c, level),
                        eligible=domains,
                        max_skew=c.max_skew,
                        floor_is_zero=int(domains.sum()) < c.min_domains,
                        own=(~match).astype(np.int64),
                    )
                    self.rules.append(seen[key])
                seen[key].carriers[s] = True
                self._eligible[s, level.domain < 0] = False
                self.special |= match
                self.special[s] = True

    def _counted_domains(self, t: PodTemplate, c: SpreadConstraint, level: Level) -> Bools:
        """Domains whose least counts for a constraint [D]."""
        nodes = level.domain >= 0
        if not c.ignore_node_affinity:
            nodes = nodes & self._masks.selected(t)
        if c.honor_taints:
            nodes = nodes & self._masks.tolerated(t)
        domains = np.zeros(level.count, dtype=bool)
        domains[level.domain[nodes]] = True
        return self._shared(domains)


def port_columns(
    nodes: Sequence[Node], raw: Sequence[tuple[str, PodTemplate]]
) -> Iterable[tuple[str, Ints, Ints]]:
    """A column per (port, protocol, address): one pod at most.

    A pod that binds all addresses takes every address of the port, so it meets
    every other pod, while two pods on different addresses do not meet.
    """
    addresses: dict[tuple[int, str], dict[str, tuple[Ints, Ints]]] = {}
    asked = {p for _, t in raw for p in t.host_ports}
    for p in sorted(asked, key=lambda p: (p.port, p.protocol, p.host_ip)):
        room = np.ones(len(nodes), dtype=np.int64)
        take = np.zeros(len(raw), dtype=np.int64)
        addresses.setdefault((p.port, p.protocol), {})[p.host_ip] = (room, take)

    def columns(p: HostPort) -> Iterable[tuple[Ints, Ints]]:
        """The columns that a port of a pod or a node is counted in."""
        here = addresses.get((p.port, p.protocol), {})
        return here.values() if not p.host_ip else [c for a, c in here.items() if a == p.host_ip]

    for i, node in enumerate(nodes):
        for p in node.host_ports:
            for room, _ in columns(p):
                room[i] = 0
            # A pod that binds all addresses takes also those that no other pod asks for.
            if p.host_ip and "" in addresses.get((p.port, p.protocol), {}):
                addresses[p.port, p.protocol][""][0][i] = 0
    for s, (_, t) in enumerate(raw):
        for p in t.host_ports:
            for _, take in columns(p):
                take[s] += 1
    for (port, protocol), by_address in addresses.items():
        for address, (room, take) in by_address.items():
            yield f"{protocol} host port {port} {address}".rstrip(), room, take


def widen(rule: Rule, count: int) -> Rule:
    """The same rule over more pod classes, none of which it concerns."""

    def pad(mask: NDArray) -> NDArray:  # type: ignore[type-arg]
        return np.concatenate([mask, np.zeros(count - len(mask), dtype=mask.dtype)])

    match rule:
        case DomainCapacity(level, weight, capacity):
            return DomainCapacity(level, pad(weight), capacity)
        case Exclusion(level, left, right):
            return Exclusion(level, pad(left), pad(right))
        case Spread():
            return Spread(
                rule.level, pad(rule.carriers), pad(rule.counted), rule.base,
                rule.eligible, rule.max_skew, rule.floor_is_zero, pad(rule.own),
            )  # fmt: skip
        case Affinity():
            return Affinity(
                rule.level,
                pad(rule.carriers),
                pad(rule.anchors),
                pad(rule.self_matching),
                rule.running,
            )
