"""Names and numbers: their forms, and how long and large they may be."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from placement_service.entities.errors import Violation

#: Above this, sums of amounts over a cluster could leave 64 bits.
MAX_AMOUNT = 2**53

#: The range of google.protobuf.Duration, in seconds.
MAX_DURATION_SECONDS = 315_576_000_000

#: The range of google.protobuf.Timestamp, in seconds.
TIMES = range(-62_135_596_800, 253_402_300_800)

#: A label key is a prefix, a slash and a name; a name of a resource is the same.
MAX_KEY = 253 + 1 + 63

#: A label value has 63 characters at most; a domain may be a path of several.
MAX_VALUE = 512

#: Texts that are only returned, or shown in explanations.
MAX_TEXT = 1024

# One segment of a name. Wider than Kubernetes (capitals, underscores), because
# other schedulers name things too; narrow enough to print and to split.
_SEGMENT = r"[A-Za-z0-9](?:[-A-Za-z0-9._]{0,251}[A-Za-z0-9])?"

#: Characters of a bad name that an error message repeats.
_SHOWN = 60

#: Where something is wrong, below the thing that was asked about, and what.
Problem = tuple[str, str]


class Form(NamedTuple):
    """How names of a kind look, in words and as an expression."""

    words: str
    pattern: re.Pattern[str]

    def problem(self, name: str) -> str:
        """What is wrong with a name, "" if nothing."""
        return "" if self.pattern.fullmatch(name) else f"{self.words}, is {show(name)}"


NODE = Form('must have the form "nodes/{node}"', re.compile(f"nodes/{_SEGMENT}"))
POD = Form(
    'must have the form "namespaces/{namespace}/pods/{pod}"',
    re.compile(f"namespaces/{_SEGMENT}/pods/{_SEGMENT}"),
)
GANG = Form(
    'must have the form "namespaces/{namespace}/podgangs/{podgang}"',
    re.compile(f"namespaces/{_SEGMENT}/podgangs/{_SEGMENT}"),
)
QUEUE = Form('must have the form "queues/{queue}"', re.compile(f"queues/{_SEGMENT}"))
RESERVATION = Form(
    'must have the form "reservations/{reservation}"', re.compile(f"reservations/{_SEGMENT}")
)
BUDGET = Form(
    'must have the form "namespaces/{namespace}/poddisruptionbudgets/{budget}"',
    re.compile(f"namespaces/{_SEGMENT}/poddisruptionbudgets/{_SEGMENT}"),
)
SEGMENT = Form("must be a name", re.compile(_SEGMENT))


def namespace_in(name: str) -> str:
    """The namespace in a resource name, "" when the name is malformed."""
    parts = name.split("/", 2)
    return parts[1] if len(parts) == 3 else ""


def show(text: str) -> str:
    """Text for an error message: quoted, printable, of bounded length."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...").replace("'", '"')


def template_path(name: str) -> str:
    """The path of a template that pod sets name."""
    return f"pod_templates[{show(name)}]"


def named_and_unique(path: str, names: Iterable[str], form: Form) -> Iterator[Violation]:
    """Each name of a list has the form and occurs once."""
    names = tuple(names)
    if len(set(names)) == len(names) and all(map(form.pattern.fullmatch, names)):
        return
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        problem = form.problem(name)
        if problem:
            yield Violation(f"{path}[{i}].name", problem)
        first = seen.setdefault(name, i)
        if first != i:
            yield Violation(
                f"{path}[{i}].name", f"{show(name)} is also the name of {path}[{first}]"
            )


def too_long(text: str, most: int) -> str:
    """What is wrong with the length of a text, "" if nothing."""
    return f"has {len(text):,} characters, at most {most:,}" if len(text) > most else ""


def time_problem(time: int | None) -> str:
    """What is wrong with a time in seconds since 1970, "" if nothing."""
    return "" if time is None or time in TIMES else f"is no time of the years 1 to 9999: {time}"


def duration_problem(seconds: float) -> str:
    """What is wrong with a duration that may be zero, "" if nothing."""
    if seconds < 0:
        return f"must not be negative, is {seconds:g} s"
    if seconds > MAX_DURATION_SECONDS:
        return f"must be at most 10,000 years, is {seconds:g} s"
    return ""


class Lengths:
    """Finds texts that are too long; each text is looked at once, however often it comes."""

    def __init__(self) -> None:
        self._known: defaultdict[int, set[str]] = defaultdict(set)

    def problem(self, text: str, most: int) -> str:
        known = self._known[most]
        if text in known:
            return ""
        found = too_long(text, most)
        if not found:
            known.add(text)
        return found

    def labels(self, path: str, labels: Mapping[str, str]) -> Iterator[Problem]:
        """Keys and values of labels, or of a selector."""
        # In one go, because there are many nodes with many labels.
        longest = max(map(len, labels), default=0), max(map(len, labels.values()), default=0)
        if longest[0] <= MAX_KEY and longest[1] <= MAX_VALUE:
            return
        for key, value in labels.items():
            for text, most, what in ((key, MAX_KEY, "key"), (value, MAX_VALUE, "value")):
                problem = self.problem(text, most)
                if problem:
                    yield f"{path}[{show(key)}]", f"the {what} {problem}"
