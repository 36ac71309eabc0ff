"""Which domains the pods of each packing scope are in, once the plan is carried out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.nodes import Bools, Ints
from placement_service.judge.question import GangScope, Question


class Uses(NamedTuple):
    """Each different domain of each scope, as two arrays [U].

    `domain` counts `values` first; beyond them every node without the label is one of its own.
    """

    scope: Ints
    domain: Ints
    values: tuple[str, ...]

    def counts(self, scopes: int) -> Ints:
        """Domains of each scope [scopes]."""
        return np.bincount(self.scope, minlength=scopes)


class Scopes:
    """The nodes under the pods of groups and of scopes, running ones and new ones."""

    def __init__(
        self, question: Question, new_group: Ints, new_node: Ints, evicted: Collection[str]
    ) -> None:
        """Of each new pod its group and its node; of evicted ones the names."""
        running = question.running
        group, node = running.group, running.node
        if evicted:
            stays = np.array([name not in evicted for name in running.names], dtype=bool)
            group, node = group[stays], node[stays]
        group = np.concatenate((new_group, group))
        node = np.concatenate((new_node, node))
        order = np.argsort(group, kind="stable")
        self._node = node[order]
        self._first = np.searchsorted(group[order], np.arange(len(question.groups) + 1))
        self._question = question
        scope, of_group = question.groups_of_scopes
        count = (self._first[1:] - self._first[:-1])[of_group]
        before = np.cumsum(count) - count
        at = np.repeat(self._first[of_group] - before, count) + np.arange(int(count.sum()))
        #: Each scope with each node under its pods.
        self.scope: Ints = np.repeat(scope, count)
        self.node: Ints = self._node[at]

    def nodes_of_groups(self, groups: Ints) -> Ints:
        """Different nodes under the pods of some groups."""
        parts = [self._node[self._first[g] : self._first[g + 1]] for g in groups.tolist()]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)

    def uses(self, level: str, scopes: Bools) -> Uses:
        """The domains at a level of those scopes."""
        chosen = scopes[self.scope]
        scope, (domain, values) = self.scope[chosen], self._domain_of(self.node[chosen], level)
        base = int(domain.max(initial=0)) + 1
        scope, domain = np.divmod(np.unique(scope * base + domain), base)
        return Uses(scope, domain, values)

    def count_domains(self, nodes: Ints, level: str) -> int:
        """Different domains of some nodes; a node without the label is one of its own."""
        return len(np.unique(self._domain_of(nodes, level)[0]))

    def _domain_of(self, node: Ints, level: str) -> tuple[Ints, tuple[str, ...]]:
        number, values = self._question.domains.of(level)
        domain = len(values) + node
        here = np.flatnonzero(node < len(number))
        known = here[number[node[here]] >= 0]
        domain[known] = number[node[known]]
        return domain, values


def scopes_by_level(scopes: Sequence[GangScope], *, required: bool) -> dict[str, list[int]]:
    """Scopes that have a level, by that level."""
    found: dict[str, list[int]] = {}
    for s, (_, scope) in enumerate(scopes):
        level = scope.required_level if required else scope.preferred_level
        if level:
            found.setdefault(level, []).append(s)
    return found
