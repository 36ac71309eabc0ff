"""Namespaces and their labels, for the selectors of pod (anti-)affinity.

Every namespace has its name as a label; others are known from Namespace objects. A selector
that asks for more can be resolved only when those are in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import LabelSelector

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Namespaces:
    """The namespaces of an input, `used` those that its objects live in."""

    def __init__(
        self, labels: Mapping[str, Mapping[str, str]] | None = None, used: Iterable[str] = ()
    ) -> None:
        self._are_told = bool(labels)
        known = {name: {**(labels or {}).get(name, {})} for name in (*(labels or {}), *used)}
        self._labels = {name: {**own, _NAME_LABEL: name} for name, own in known.items()}

    def matching(self, selector: LabelSelector) -> tuple[str, ...] | None:
        """Names of the namespaces that a selector means, sorted; None when it is not known."""
        if not self._are_told and not selector.keys <= {_NAME_LABEL}:
            return None
        return tuple(sorted(n for n, labels in self._labels.items() if selector.matches(labels)))


def read_namespaces(
    objects: Iterable[Object], used: Iterable[str], problems: list[Problem]
) -> Namespaces:
    """The namespaces that the input describes, and those that it merely uses."""
    labels = {}
    for one in objects:
        findings: Findings = {}
        labels[one.name] = At(one.body, findings).get("metadata").get("labels").labels()
        problems += [one.problem(*finding) for finding in findings]
    return Namespaces(labels, used)
