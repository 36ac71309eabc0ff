"""The input of the rules between pods, and what they have produced so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.request import PodAffinityTerm, PodTemplate, Snapshot
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import LevelIdx
from placement_service.formulation.levels import Level, Levels
from placement_service.formulation.matching.node_eligibility import NodeMasks
from placement_service.formulation.matching.pod_selectors import PodSelectors, Term
from placement_service.formulation.rules.protocol import Rule

Terms = tuple[PodAffinityTerm, ...]


class Column(NamedTuple):
    """A resource of nodes: what each has [N], and what a pod of each class takes [C]."""

    name: str
    capacity: Ints
    take: Ints


def is_rule(column: str) -> bool:
    """Whether a column is no resource, but a rule expressed as an amount: no resource of Kubernetes
    has a space in its name.
    """
    return " " in column


class RuleDraft:
    """Rules of one problem in the making.

    Each rule's `formulate` adds to `columns` and `rules`, closes nodes in
    `eligible[C, N]`, and marks in `special[C]` the classes under a rule across nodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        templates: Sequence[tuple[str, PodTemplate]],
        levels: Levels,
        eligible: Bools,
        masks: NodeMasks,
        selectors: PodSelectors,
        owned: Sequence[tuple[int, ...]],
        counts: Sequence[int],
        at: Ints,
        *,
        loose: bool = False,
    ) -> None:
        """Of each pod class: (namespace, template), reservations that it owns, its pods, and the
        one node where they may be, -1 for any. With `loose` the problem may allow plans that break
        rules, and has to allow all others.
        """
        self.snapshot = snapshot
        self.templates = templates
        self.levels = levels
        self.eligible = eligible
        self.masks = masks
        self._selectors = selectors
        self.owned = owned
        self.counts = counts
        self.at = at
        self.loose = loose
        self._positions = np.array(
            [selectors.position(ns, t) for ns, t in templates], dtype=np.int64
        )
        index = snapshot.columns.row_of
        #: The node of each running pod, -1 for one that is not in the snapshot.
        self.homes = np.array([index.get(p.node, -1) for p in snapshot.running_pods], np.int64)
        self._arrays: dict[tuple[str, bytes], NDArray[Any]] = {}
        self.columns: list[Column] = []
        #: What is to be taken off what is free, by resource [N].
        self.withheld: dict[str, Ints] = {}
        #: Whether every plan that the problem does not allow breaks a rule.
        self.is_exact = True
        self.rules: list[Rule] = []
        self.special = np.zeros(len(templates), dtype=bool)

    def level(self, key: str) -> tuple[LevelIdx, Level]:
        """The level of a node label key, with its index."""
        number = self.levels.index(key)
        return number, self.levels[number]

    def matched(self, term: Term) -> Bools:
        """The pod classes that a term matches [C]."""
        matched: Bools = self._selectors.matched(term)[self._positions]
        return matched

    def carriers(self, terms: Callable[[PodTemplate], Terms]) -> dict[PodAffinityTerm, Bools]:
        """The pod classes that carry each distinct term."""
        found: dict[PodAffinityTerm, Bools] = {}
        for s, (_, t) in enumerate(self.templates):
            for term in terms(t):
                found.setdefault(term, np.zeros(len(self.templates), dtype=bool))[s] = True
        return found

    def running_by_domain(self, term: Term, level: Level, nodes: Bools | None = None) -> Ints:
        """Running pods that a term matches, per domain of its level [D]; not to be changed.

        With `nodes[N]` only those on them.
        """
        homes = self.homes[self._selectors.running(term)]
        homes = homes[homes >= 0]
        if nodes is not None:
            homes = homes[nodes[homes]]
        domains = level.domain[homes]
        count = np.bincount(domains[domains >= 0], minlength=level.count).astype(np.int64)
        return self.shared(count)

    def shared(self, array: NDArray[Any]) -> NDArray[Any]:
        """The same array for equal ones: a thousand rules may count the same nothing."""
        array.flags.writeable = False
        return self._arrays.setdefault((array.dtype.char, array.tobytes()), array)
