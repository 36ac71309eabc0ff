"""Selectors of nodes, pods and reservations by their labels, as in Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

Labels = Mapping[str, str]

_WHOLE_NUMBER = re.compile("[+-]?0*[0-9]{1,19}")


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a label has to be; without `values` whether it is there."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet this requirement, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                have, want = whole_number(value or ""), whole_number(self.values[0])
                if have is None or want is None:
                    return False
                return have > want if self.operator is Operator.GT else have < want


def whole_number(text: str) -> int | None:
    """What `GT` and `LT` compare: decimal digits within 64 bits, with or without a sign.

    None for all else: Kubernetes reads labels with Go's ParseInt, which knows no 1_000 as Python's
    `int` does.
    """
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All parts must hold. The empty selector matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(labels.get(k) == v for k, v in self.match_labels) and all(
            e.matches(labels) for e in self.match_expressions
        )


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Matches when all its parts match; without any part it matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, short_name: str, labels: Labels) -> bool:
        """Whether it matches a node, or a reservation, by its Kubernetes name and labels."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": short_name}
        return all(e.matches(labels) for e in self.match_expressions) and all(
            e.matches(fields) for e in self.match_fields
        )
