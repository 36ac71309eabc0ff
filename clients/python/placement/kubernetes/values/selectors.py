"""Label selectors as values: read, matched and put on the wire.

The translation itself must match labels, to know which running pods and which
labels a request has to carry. The service matches by itself and shares no code
with this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from placement import v1
from placement.kubernetes.values.reading import At

_OPERATORS: Final[Mapping[str, v1.SelectorOperator]] = {
    "In": v1.SelectorOperator.SELECTOR_OPERATOR_IN,
    "NotIn": v1.SelectorOperator.SELECTOR_OPERATOR_NOT_IN,
    "Exists": v1.SelectorOperator.SELECTOR_OPERATOR_EXISTS,
    "DoesNotExist": v1.SelectorOperator.SELECTOR_OPERATOR_DOES_NOT_EXIST,
    "Gt": v1.SelectorOperator.SELECTOR_OPERATOR_GT,
    "Lt": v1.SelectorOperator.SELECTOR_OPERATOR_LT,
}
_NAMES: Final = {operator: name for name, operator in _OPERATORS.items()}
#: For labels of pods.
_SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comparison of a label; `operator` is Kubernetes' word for it."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; for the operators that labels of pods allow."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None

    def message(self) -> v1.SelectorRequirement:
        return v1.SelectorRequirement(
            key=self.key, operator=_OPERATORS[self.operator], values=self.values
        )


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All parts must hold; without any it matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    @classmethod
    def of(cls, message: v1.LabelSelector) -> LabelSelector:
        """What `message` put on the wire."""
        return cls(
            tuple(sorted(message.match_labels.items())),
            tuple(
                Requirement(e.key, _NAMES[e.operator], tuple(e.values))
                for e in message.match_expressions
            ),
        )

    @property
    def keys(self) -> frozenset[str]:
        """The labels that it looks at."""
        return frozenset(k for k, _ in self.match_labels) | {e.key for e in self.match_expressions}

    @property
    def anchors(self) -> tuple[tuple[str, str], ...] | None:
        """Labels of which a match has at least one; None when nothing can be said.

        Most selectors name a label with its value. With these candidates not every selector has to
        be compared with every pod.
        """
        if self.match_labels:
            return self.match_labels[:1]
        for expression in self.match_expressions:
            if expression.operator == "In":
                return tuple((expression.key, value) for value in expression.values)
        return None

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(k) == v for k, v in self.match_labels) and all(
            e.matches(labels) for e in self.match_expressions
        )

    def narrowed(self, requirements: Iterable[Requirement]) -> LabelSelector:
        """This selector and further requirements that it does not have yet."""
        new = tuple(r for r in requirements if r not in self.match_expressions)
        return LabelSelector(self.match_labels, self.match_expressions + new)

    def message(self) -> v1.LabelSelector:
        return v1.LabelSelector(
            match_labels=dict(self.match_labels),
            match_expressions=[e.message() for e in self.match_expressions],
        )


def read_selector(at: At) -> LabelSelector | None:
    """A label selector of pods; None when it is absent and so matches nothing."""
    if at.absent:
        return None
    labels = at.get("matchLabels").labels()
    expressions = tuple(
        r
        for r in (read_requirement(e, _SET_OPERATORS) for e in at.get("matchExpressions").items())
        if r is not None
    )
    return LabelSelector(tuple(sorted(labels.items())), expressions)


def read_requirement(at: At, operators: Iterable[str] = tuple(_OPERATORS)) -> Requirement | None:
    """One requirement; None when it makes no sense, which is noted."""
    key = at.get("key").required_text()
    operator = at.get("operator").required_text()
    values = at.get("values").texts()
    allowed = tuple(operators)
    if not key or not operator:
        return None
    if operator not in allowed:
        at.get("operator").problem(f"must be one of {', '.join(allowed)}, not {operator}")
        return None
    where = at.get("values")
    if operator in ("In", "NotIn") and not values:
        where.problem(f"must hold at least one value for {operator}")
        return None
    if operator in ("Exists", "DoesNotExist") and values:
        where.problem(f"must be empty for {operator}")
        return None
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _INTEGER.fullmatch(values[0])):
        where.problem(f"must be exactly one whole number for {operator}")
        return None
    return Requirement(key, operator, values)
