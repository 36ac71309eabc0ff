"""A value inside an object that remembers where it is.

To read a Kubernetes object is to walk nested dictionaries that anyone may have written. `At` walks
them, notes each problem under the exact path of the field, and continues with a harmless value, so
that one pass finds every problem. It checks what is read and nothing else: an object may hold any
number of fields that placement does not look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from placement.kubernetes.values.quantities import QuantityError, amount

#: Field path and message, relative to the object that is read.
Finding = tuple[str, str]
#: Findings in order, each once: a field may be looked at several times.
Findings = dict[Finding, None]


class At:
    """One value, its path and the list that findings go to.

    Paths are built only when there is something to say: most objects are fine.
    """

    __slots__ = ("_findings", "_key", "_parent", "value")

    def __init__(
        self,
        value: Any,
        findings: Findings,
        key: str | int = "",
        parent: At | None = None,
    ) -> None:
        self.value = value
        self._findings = findings
        self._key = key
        self._parent = parent

    @property
    def path(self) -> str:
        """For example ``spec.podgroups[2].minReplicas``; empty for the object itself."""
        above = self._parent.path if self._parent is not None else ""
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        if self._key.startswith("["):
            return f"{above}{self._key}"
        return f"{above}.{self._key}" if above and self._key else above or self._key

    @property
    def absent(self) -> bool:
        """Whether the field is missing or null, which Kubernetes treats alike."""
        return self.value is None

    @property
    def finding_count(self) -> int:
        """How many findings there are so far in the whole object."""
        return len(self._findings)

    def problem(self, message: str) -> None:
        """Notes that something is wrong with this value."""
        self._findings[self.path, message] = None

    def problem_under(self, key: str, message: str) -> None:
        """Notes that something is wrong with one entry of a map with free keys."""
        self._findings[f"{self.path}[{key}]", message] = None

    def entry(self, key: str) -> At:
        """One entry of a map with free keys, as ``labels[some.io/key]``."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return At(value, self._findings, f"[{key}]", self)

    def holding(self, value: Any) -> At:
        """The same place with another value, such as one that was parsed from it."""
        return At(value, self._findings, self._key, self._parent)

    def adopt(self, findings: Iterable[Finding]) -> None:
        """Takes over findings whose paths are relative to this value."""
        for path, message in findings:
            self._findings[f"{self.path}.{path}", message] = None

    def get(self, key: str) -> At:
        """A field of a mapping; absent when the mapping is."""
        value = self.value
        if value is None:
            return At(None, self._findings, key, self)
        if not isinstance(value, dict):
            self.must_be("a mapping")
            self.value = None
            return At(None, self._findings, key, self)
        return At(value.get(key), self._findings, key, self)

    def items(self) -> Iterator[At]:
        """The elements of a list; none when it is absent."""
        value = self.value
        if value is None:
            return
        if not isinstance(value, list):
            self.must_be("a list")
            self.value = None
            return
        for index, element in enumerate(value):
            if isinstance(element, dict):
                yield At(element, self._findings, index, self)
            else:
                At(element, self._findings, index, self).must_be("a mapping")

    def texts(self) -> tuple[str, ...]:
        """A list of strings; empty when it is absent."""
        value = self.value
        if value is None:
            return ()
        if not isinstance(value, list):
            self.must_be("a list")
            return ()
        for index, element in enumerate(value):
            if not isinstance(element, str):
                At(element, self._findings, index, self).must_be("a string")
        return tuple(e for e in value if isinstance(e, str))

    def labels(self) -> dict[str, str]:
        """A mapping of strings to strings; empty when it is absent."""
        value = self.value
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.must_be("a mapping")
            return {}
        for key, element in value.items():
            if type(key) is not str or type(element) is not str:
                break
        else:
            return value
        good = {}
        for key, element in value.items():
            if isinstance(key, str) and (element is None or isinstance(element, str)):
                # `key:` without a value is how YAML writes null, and means "" to Kubernetes.
                good[key] = element or ""
            elif not isinstance(key, str):
                self.problem(f"the key {key!r} must be a string; put it in quotes")
            else:
                self.problem_under(key, not_a("a string", element))
        return good

    def text(self, default: str = "") -> str:
        """A string."""
        value = self.value
        if value is None:
            return default
        if isinstance(value, str):
            return value
        self.must_be("a string")
        return default

    def required_text(self) -> str:
        """A string that must be there and not be empty."""
        if self.value is None or self.value == "":
            self.problem("is missing")
            return ""
        return self.text()

    def choice(self, default: str, choices: tuple[str, ...]) -> str:
        """One of some words; `default` when it is absent or none of them."""
        text = self.text(default)
        if text not in choices:
            self.problem(f"must be one of {', '.join(choices)}, not {text or 'empty'}")
            return default
        return text

    def condition(self, kind: str) -> str:
        """Of a status, whether the last condition of this type holds: True, False or Unknown; empty
        where it has none.
        """
        found = ""
        for condition in self.get("conditions").items():
            if condition.get("type").text() == kind:
                status = condition.get("status")
                found = status.choice("Unknown", ("True", "False", "Unknown"))
        return found

    def flag(self) -> bool:
        """A boolean; false when it is absent."""
        value = self.value
        if value is None or isinstance(value, bool):
            return bool(value)
        self.must_be("true or false")
        return False

    def integer(self, default: int = 0, *, least: int | None = None, most: int = 2**31 - 1) -> int:
        """A whole number within bounds; `default` when it is absent."""
        value = self.value
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.must_be("a whole number")
            return default
        if least is not None and value < least:
            self.problem(f"must be at least {least}, not {_shown(value)}")
            return default
        if value > most:
            self.problem(f"must be at most {most}, not {_shown(value)}")
            return default
        return value

    def amounts(self, *, round_up: bool = True, capped: bool = False) -> dict[str, int]:
        """A mapping of resources to quantities, each in its unit (see `amount`).

        Zeros are kept: a request of zero differs from none where a limit is set. `capped`
        ones may be larger than can be counted, as limits that limit nothing are, and parts of
        pieces, of which a limit allows, and a node offers, the whole ones.
        """
        value = self.value
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.must_be("a mapping")
            return {}
        result = {}
        for resource, quantity in value.items():
            if not isinstance(resource, str) or not resource:
                self.problem(f"the key {resource!r} must be a string")
            elif isinstance(quantity, bool) or not isinstance(quantity, (str, int, float)):
                self.problem_under(resource, not_a("a quantity", quantity))
            else:
                try:
                    text = str(quantity)
                    result[resource] = amount(resource, text, round_up=round_up, capped=capped)
                except QuantityError as error:
                    self.problem_under(resource, str(error))
        return result

    def quantity(self, resource: str, *, round_up: bool = True) -> int:
        """One quantity in the unit of a resource (see `amount`); 0 when it is absent."""
        value = self.value
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.must_be("a quantity")
            return 0
        try:
            return amount(resource, str(value), round_up=round_up)
        except QuantityError as error:
            self.problem(str(error))
            return 0

    def must_be(self, wanted: str) -> None:
        """Notes that the value is not of the wanted kind."""
        self.problem(not_a(wanted, self.value))


#: What values look like that are wanted without quotes.
_UNQUOTED: Final = {
    "a whole number": re.compile(r"-?[0-9]{1,19}", re.ASCII),
    "a number": re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?", re.ASCII),
    "true or false": re.compile("true|false"),
}


def not_a(wanted: str, value: object) -> str:
    """The words for a value that is not of the wanted kind."""
    if value is None:
        return f"must be {wanted}, not null"
    if value == "":
        return f"must be {wanted}, not empty"
    if isinstance(value, (dict, list)):
        return f"must be {wanted}, not a {'mapping' if isinstance(value, dict) else 'list'}"
    hint = ""
    if wanted == "a string":
        hint = "; put it in quotes"
    elif isinstance(value, str) and wanted in _UNQUOTED and _UNQUOTED[wanted].fullmatch(value):
        hint = "; leave out its quotes"
    return f"must be {wanted}, not {_shown(value)}{hint}"


def _shown(value: object) -> str:
    """A value for a message, cut where it is long."""
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
