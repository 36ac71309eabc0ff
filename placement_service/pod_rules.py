"""Rules between pods as arithmetic: columns on nodes, masks, rules on domains.

For an anti-affinity term let A be the shapes that carry it and match it, B
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

from placement_service.levels import Levels
from placement_service.problem import (
    MANY,
    UNLIMITED,
    Affinity,
    Bipartite,
    Bools,
    Ints,
    Level,
    Limit,
    Rule,
    Spread,
)
from placement_service.snapshot import (
    HostPort,
    Node,
    PodAffinityTerm,
    PodTemplate,
    RunningPod,
    Snapshot,
    SpreadConstraint,
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
    ) -> None:
        self._snapshot = snapshot
        self._raw = raw
        self._levels = levels
        self._eligible = eligible
        self._index = {n.name: i for i, n in enumerate(snapshot.nodes)}
        self._with_label: dict[tuple[str, str], list[RunningPod]] = {}
        for pod in snapshot.running_pods:
            for pair in pod.labels.items():
                self._with_label.setdefault(pair, []).append(pod)
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

    def _candidates(self, term: PodAffinityTerm | SpreadConstraint) -> Sequence[RunningPod]:
        """Running pods among which all that a term matches are."""
        if term.selector is None:
            return ()
        pairs = term.selector.match_labels
        found = (self._with_label.get(pair, ()) for pair in pairs)
        return min(found, key=len) if pairs else self._snapshot.running_pods

    def _running_domains(self, term: PodAffinityTerm | SpreadConstraint, level: Level) -> Ints:
        """Running pods that a term matches, per domain of its level."""
        count = np.zeros(level.count, dtype=np.int64)
        for pod in self._candidates(term):
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


def port_columns(
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


def pod_selectors(snapshot: Snapshot) -> list[PodAffinityTerm | SpreadConstraint]:
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


def widen(rule: Rule, count: int) -> Rule:
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
