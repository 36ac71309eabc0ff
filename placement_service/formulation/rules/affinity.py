"""Required pod affinity: some pods only where others are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.draft import RuleDraft
from placement_service.formulation.rules.protocol import NO_CEILING, Bundle, Ceiling, Rule, pad


@dataclass(frozen=True, slots=True, eq=False)
class Affinity(Rule):
    """A carrier needs, in its domain, a running match or an anchor.

    `running[D]` marks domains with a running match; `anchors[C]` are pod classes that
    match and do not carry the term. If there is neither anywhere, carriers that match themselves
    (`self_matching`) may share one domain.
    """

    carriers: Bools
    anchors: Bools
    self_matching: Bools
    running: Bools

    def tracked(self) -> tuple[Bools, Bools, Bools]:
        return (self.carriers, self.anchors, self.self_matching)

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        if not self.carriers[pod_class]:
            return None
        able = self.running | (pods[1] > 0)
        if not able.any() and self.self_matching[pod_class]:
            able = pods[0] > 0
            able = able if able.any() else ~able
        return np.append(able, False)

    def holds(self, pods: Ints) -> bool:
        there = (pods[0] > 0) & ~self.running & (pods[1] == 0)
        has_elsewhere = self.running.any() or pods[1].any() or (pods[0] > 0).sum() > 1
        return not (there.any() and (has_elsewhere or pods[0].sum() != pods[2].sum()))

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        if not self.carriers[pod_class] or any(self.anchors[c] for c in company):
            return None
        near = self.running | (pods[1] > 0)
        together = not near.any() and bool(self.self_matching[pod_class])
        if together:
            near = pods[0] > 0 if pods[0].any() else ~near
        return Ceiling(np.append(np.where(near, NO_CEILING, 0), 0), together)

    def surely(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        if self.carriers[pod_class]:
            return None
        return np.full(pods.shape[1] + 1, NO_CEILING)

    def comes_late(self, pod_class: ClassIdx) -> bool:
        return bool(self.carriers[pod_class])

    def shares_one_domain(self, pods: Ints, pod_class: ClassIdx) -> bool:
        return bool(self.carriers[pod_class]) and not (self.running.any() or pods[:2].any())

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return type(self)(
            self.level,
            pad(self.carriers, bundles),
            pad(self.anchors, bundles),
            pad(self.self_matching, bundles),
            self.running,
        )


def formulate(draft: RuleDraft) -> None:
    """One rule for each distinct term; none where only running pods can satisfy it."""
    for term, carry in draft.carriers(lambda t: t.required_affinity).items():
        number, level = draft.level(term.topology_key)
        match = draft.matched(term)
        running = draft.running_by_domain(term, level) > 0
        anchors = match & ~carry
        draft.eligible[np.ix_(carry, level.domain < 0)] = False
        if not anchors.any() and running.any():
            draft.eligible[np.ix_(carry, ~np.append(running, False)[level.domain])] = False
            continue
        draft.rules.append(Affinity(number, carry, anchors, carry & match, running))
        draft.special |= carry | anchors
