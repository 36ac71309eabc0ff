"""CEL expressions over devices, as DeviceClasses and claims use them to choose.

The language comes from a library; what Kubernetes adds (quantities, versions) is added here.
Anything that this cannot evaluate as Kubernetes would is refused by name and never guessed:
optional fields (`.?`), `cel.bind`, functions that are not known, and expressions that are too
long or nest loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from placement.kubernetes.values.quantities import QuantityError, parse

#: The longest expression that the API server takes.
_LONGEST: Final = 10 * 1024
#: Loops cost time that nobody bounds here.
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
_LOOP: Final = re.compile(rf"\.({'|'.join(sorted(_LOOPS))})\s*\(")
_MOST_LOOPS: Final = 1

#: Marks of values that CEL itself does not have.
_QUANTITY: Final = "$quantity"
_VERSION: Final = "$version"

_DOMAIN: Final = re.compile(r"""\b(attributes|capacity)\s*\[\s*(?:"([^"]*)"|'([^']*)')\s*\]""")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


class CelError(ValueError):
    """This is not an expression, or not one that is evaluated here."""


class NoAnswerError(ValueError):
    """The expression has no value for this device, such as for an attribute that it lacks."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. `domains` are the tables that it looks into."""

    source: str
    program: Any
    domains: frozenset[tuple[str, str]]

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Whether a device (see `device_value`) is chosen. Raises `NoAnswerError`."""
        value = {**device, **{table: dict(device[table]) for table in ("attributes", "capacity")}}
        for table, domain in self.domains:
            # A domain without values is an empty table to Kubernetes.
            value[table].setdefault(domain, {})
        context = _library().Context()
        context.update({"device": value, **_FUNCTIONS})
        try:
            answer = self.program.execute(context)
        except Exception as error:
            raise NoAnswerError(str(error).splitlines()[0][:200] if str(error) else "") from error
        if not isinstance(answer, bool):
            raise NoAnswerError("its value is neither true nor false")
        return answer


@lru_cache(maxsize=1024)
def compiled(source: str) -> Selector:
    """The selector of an expression. Raises `CelError`."""
    if len(source) > _LONGEST:
        raise CelError(f"is longer than {_LONGEST} characters")
    library = _library()
    try:
        program = library.compile(source)
        functions = set(program.functions())
    except Exception as error:
        raise CelError("is not understood") from error
    unknown = {name for name in functions if name[:1].isalpha()} - _KNOWN
    if unknown:
        raise CelError(f"uses {min(unknown)}(), which is not supported")
    if len(_LOOP.findall(source)) > _MOST_LOOPS:
        raise CelError("has more than one loop")
    found = _DOMAIN.findall(source)
    return Selector(source, program, frozenset((table, a or b) for table, a, b in found))


@lru_cache(maxsize=1)
def _library() -> Any:
    # The import takes a while, and hardly any input has expressions.
    import cel

    return cel


def device_value(
    driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any]
) -> dict[str, Any]:
    """A device as expressions see it.

    `attributes` are the values as written, such as ``{"int": 3}``, `capacity` quantities as
    text. Names without a domain are of the driver's. Values that make no sense are left out.
    """
    tables: dict[str, dict[str, dict[str, Any]]] = {"attributes": {}, "capacity": {}}
    for name, text in capacity.items():
        domain, _, own = name.rpartition("/")
        try:
            tables["capacity"].setdefault(domain or driver, {})[own] = _quantity(text)
        except QuantityError:
            continue
    for name, told in attributes.items():
        domain, _, own = name.rpartition("/")
        for kind, value in told.items() if isinstance(told, dict) else ():
            if kind == "version":
                if (version := _version(str(value))) is not None:
                    tables["attributes"].setdefault(domain or driver, {})[own] = version
            elif isinstance(value, (bool, int, str)) and not _is_huge(value):
                tables["attributes"].setdefault(domain or driver, {})[own] = value
    return {"driver": driver, "allowMultipleAllocations": False, **tables}


def _is_huge(value: bool | int | str) -> bool:
    return isinstance(value, int) and abs(value) >= 2**63


def _quantity(text: Any) -> dict[str, str]:
    # As a text, since CEL has no integers of this size.
    value = parse(str(text))
    return {_QUANTITY: f"{value.numerator}/{value.denominator}"}


def _version(text: str) -> dict[str, str] | None:
    return {_VERSION: text} if _SEMVER.fullmatch(text) else None


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    if normalize:
        text = text.removeprefix("v")
        numbers, dash, rest = text.partition("-")
        parts = [part.lstrip("0") or "0" for part in numbers.split(".")]
        text = ".".join([*parts, "0", "0"][:3]) + dash + rest
    version = _version(text)
    if version is None:
        raise ValueError(f"{text!r} is no version")
    return version


def _is(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Whether a text can be read in this way."""

    def known(text: Any) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return known


def _summed(sign: int) -> Callable[[Any, Any], dict[str, str]]:
    """A quantity and another one, or a whole number, added or subtracted."""

    def summed(one: Any, other: Any) -> dict[str, str]:
        second = _amount(other[_QUANTITY]) if isinstance(other, dict) else Fraction(other)
        value = _amount(one[_QUANTITY]) + sign * second
        return {_QUANTITY: f"{value.numerator}/{value.denominator}"}

    return summed


def _whole(one: Any) -> int:
    value = _amount(one[_QUANTITY])
    if value.denominator != 1 or _is_huge(value.numerator):
        raise ValueError("is no whole number of 64 bits")
    return value.numerator


def _part_of_version(number: int) -> Callable[[Any], int]:
    return lambda one: int(_precedence(one[_VERSION])[number])


def _compared(one: Any, other: Any) -> int:
    for mark, read in ((_QUANTITY, _amount), (_VERSION, _precedence)):
        if isinstance(one, dict) and isinstance(other, dict) and mark in one and mark in other:
            a, b = read(one[mark]), read(other[mark])
            return (a > b) - (a < b)
    raise ValueError("only quantities, and versions, can be compared")


def _amount(text: str) -> Fraction:
    return Fraction(text)


def _precedence(text: str) -> Any:
    """A key in the order of versions: those without a pre-release come last."""
    match = _SEMVER.fullmatch(text)
    assert match is not None
    numbers = tuple(int(match[i]) for i in (1, 2, 3))
    if match[4] is None:
        return (*numbers, 1, ())
    parts = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in match[4].split("."))
    return (*numbers, 0, parts)


_FUNCTIONS: Final = {
    "quantity": _quantity,
    "semver": _semver,
    "compareTo": _compared,
    "isGreaterThan": lambda one, other: _compared(one, other) > 0,
    "isLessThan": lambda one, other: _compared(one, other) < 0,
    "isQuantity": _is(_quantity),
    "isSemver": _is(_semver),
    "add": _summed(1),
    "sub": _summed(-1),
    "sign": lambda one: (_amount(one[_QUANTITY]) > 0) - (_amount(one[_QUANTITY]) < 0),
    "isInteger": _is(_whole),
    "asInteger": _whole,
    "asApproximateFloat": lambda one: float(_amount(one[_QUANTITY])),
    "major": _part_of_version(0),
    "minor": _part_of_version(1),
    "patch": _part_of_version(2),
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
}
_KNOWN: Final = frozenset({
    *_FUNCTIONS, *_LOOPS, "size", "has", "contains", "startsWith", "endsWith", "matches", "int",
    "uint", "double", "string", "bool", "in",
})  # fmt: skip
