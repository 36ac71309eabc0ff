"""Topology spread: no domain far fuller than the emptiest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from placement_service.entities.request import PodTemplate, SpreadConstraint
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.levels import Level
from placement_service.formulation.rules.draft import RuleDraft
from placement_service.formulation.rules.protocol import NO_CEILING, Bundle, Rule, pad


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Rule):
    """In a domain with a carrier, counted pods are at most skew above the least.

    `carriers[C]` carry the rule, `counted[C]` are counted: a carrier that is not counts nowhere,
    not even where it comes to itself. `base[D]` are the running pods counted; `eligible[D]` the
    domains whose least counts; `floor_is_zero` when there are fewer than the minimum of domains.
    """

    carriers: Bools
    counted: Bools
    base: Ints
    eligible: Bools
    max_skew: int
    floor_is_zero: bool

    def tracked(self) -> tuple[Bools, Bools]:
        return (self.counted, self.carriers)

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        if not (self.carriers[pod_class] or self.counted[pod_class]):
            return None
        counts = self.base + pods[0]
        able = counts + self.counted[pod_class] - self._floor(counts) <= self.max_skew
        if self.carriers[pod_class]:
            return np.append(able, False)
        # Others are only in the way of what is spread there.
        return np.append(able | ~(pods[1] > 0), True)

    def holds(self, pods: Ints) -> bool:
        counts = self.base + pods[0]
        return bool((counts[pods[1] > 0] - self._floor(counts) <= self.max_skew).all())

    def _floor(self, counts: Ints) -> int:
        if self.floor_is_zero:
            return 0
        least = int(counts.min(where=self.eligible, initial=NO_CEILING))
        return least if least < NO_CEILING else 0

    def surely(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        if self.carriers[pod_class]:
            # They are spread as evenly as that goes.
            return None
        counts = self.base + pods[0]
        # More pods elsewhere only raise the floor.
        left = np.maximum(0, self.max_skew + self._floor(counts) - counts)
        return np.append(np.where(pods[1] > 0, left, NO_CEILING), NO_CEILING)

    def spreads(self, pod_class: ClassIdx) -> bool:
        return bool(self.carriers[pod_class] and self.counted[pod_class])

    def crowding(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        return np.append(self.base + pods[0], 0) if self.carriers[pod_class] else None

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return type(self)(
            self.level, pad(self.carriers, bundles), pad(self.counted, bundles), self.base,
            self.eligible, self.max_skew, self.floor_is_zero,
        )  # fmt: skip


def formulate(draft: RuleDraft) -> None:
    """One rule for all pod classes with the same constraint over the same domains."""
    seen: dict[tuple[SpreadConstraint, int, int, int], Spread] = {}
    for s, (_, t) in enumerate(draft.templates):
        for c in t.spread_constraints:
            number, level = draft.level(c.topology_key)
            nodes = _counted_nodes(draft, t, c, level)
            domains = _domains(draft, nodes, level)
            match = draft.matched(c)
            left_out = (level.domain >= 0) & ~nodes
            if draft.eligible[np.ix_(match, left_out)].any():
                # New pods on nodes that are left out do not count either.
                number = draft.levels.restricted(number, nodes)
            base = draft.running_by_domain(c, level, nodes)
            # Equal arrays are one.
            key = (c, number, id(domains), id(base))
            if key not in seen:
                seen[key] = Spread(
                    level=number,
                    carriers=np.zeros(len(draft.templates), dtype=bool),
                    counted=match,
                    base=base,
                    eligible=domains,
                    max_skew=c.max_skew,
                    floor_is_zero=int(domains.sum()) < c.min_domains,
                )
                draft.rules.append(seen[key])
            seen[key].carriers[s] = True
            draft.eligible[s, level.domain < 0] = False
            draft.special |= match
            draft.special[s] = True


def _counted_nodes(draft: RuleDraft, t: PodTemplate, c: SpreadConstraint, level: Level) -> Bools:
    """The nodes that a constraint looks at [N]; pods on all others do not count."""
    nodes = level.domain >= 0
    if not c.ignore_node_affinity:
        nodes = nodes & draft.masks.selected(t)
    if c.honor_taints:
        nodes = nodes & draft.masks.tolerated(t)
    return nodes


def _domains(draft: RuleDraft, nodes: Bools, level: Level) -> Bools:
    """Domains whose least counts for a constraint [D]."""
    domains = np.zeros(level.count, dtype=bool)
    domains[level.domain[nodes]] = True
    return draft.shared(domains)
