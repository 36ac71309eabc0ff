"""Which pods the rules between pods look at, by labels and namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from placement_service.entities.request import (
    PodAffinityTerm,
    PodTemplate,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.selectors import Labels, Operator, Requirement
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.matching.label_index import LabelTable, keys_of

Term = PodAffinityTerm | SpreadConstraint


class PodSelectors:
    """All distinct terms of a question, and whom each of them matches.

    A template stands for its pods, with the namespace of their gang.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        # Templates live as long as the snapshot, so each is mostly told by its identity.
        asked = {
            (gang.namespace, id(s.template)): s.template
            for gang in snapshot.gangs
            for group in gang.groups
            for s in group.pod_sets
        }
        templates = {(namespace, t): t for (namespace, _), t in asked.items()}
        self._index = {key: i for i, key in enumerate(templates)}
        self._by_identity = {key: self._index[key[0], t] for key, t in asked.items()}
        terms = dict.fromkeys(term for t in templates.values() for term in _terms(t))
        terms |= dict.fromkeys(t for p in snapshot.running_pods for t in p.required_anti_affinity)
        #: All labels that they look at.
        self.keys = {key for term in terms for key in keys_of(term.selector)}
        pods = _Pods([(namespace, t.labels) for (namespace, _), t in templates.items()], self.keys)
        self._matched = {term: pods.matched(term) for term in terms}
        table = np.array(list(self._matched.values()), dtype=bool).reshape(
            len(terms), len(templates)
        )
        self._sight = np.packbits(table, axis=0).T.copy()

    def sight(self, namespace: str, template: PodTemplate) -> bytes:
        """Equal for templates that the same terms match; all zero for one that none matches."""
        return bytes(self._sight[self.position(namespace, template)])

    def position(self, namespace: str, template: PodTemplate) -> int:
        """Where a template stands in `matched`."""
        known = self._by_identity.get((namespace, id(template)))
        return self._index[namespace, template] if known is None else known

    def matched(self, term: Term) -> Bools:
        """Which templates a term matches, by `position`."""
        return self._matched[term]

    def running(self, term: Term) -> Ints:
        """The running pods that a term matches, as indices into the snapshot's."""
        return np.flatnonzero(self._running.matched(term))

    @cached_property
    def _running(self) -> _Pods:
        return _Pods([(p.namespace, p.labels) for p in self._snapshot.running_pods], self.keys)


class _Pods:
    """Pods by namespace and labels."""

    def __init__(self, pods: Sequence[tuple[str, Labels]], keys: Iterable[str]) -> None:
        self._count = len(pods)
        self._labels = LabelTable([labels for _, labels in pods], keys)
        self._namespaces = LabelTable([{"": namespace} for namespace, _ in pods], [""])

    def matched(self, term: Term) -> Bools:
        """As `matches` of the term, for each pod."""
        if term.selector is None:
            return np.zeros(self._count, dtype=bool)
        found = self._labels.selected(term.selector)
        if isinstance(term, SpreadConstraint):
            found &= self._namespaces.having([("", term.namespace)])
        elif not term.all_namespaces:
            here = Requirement("", Operator.IN, term.namespaces)
            found &= self._namespaces.meeting([here])
        return found


def _terms(template: PodTemplate) -> Iterable[Term]:
    """Every term that a template carries."""
    yield from template.required_affinity
    yield from template.required_anti_affinity
    yield from template.spread_constraints
