"""Kubernetes objects as they come: which kinds are read, and where each came from.

`Objects` is plain data. It is made from files by `loading.load`, or from what a
controller watches by `Objects.of`. The bodies are checked only as far as objects must be
distinguished: `translate` and `expand` check what they read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from placement.kubernetes.problems import Problem
from placement.kubernetes.schema import kinds
from placement.kubernetes.schema.kinds import (
    CLUSTER_TOPOLOGY_BINDING,
    NODE,
    POD,
    POD_CLIQUE_SET,
    POD_GANG,
    PRIORITY_CLASS,
    Kind,
    kind_of,
    meant,
)
from placement.kubernetes.schema.known_fields import is_from_a_server, unknown_fields

__all__ = [
    "CLUSTER_TOPOLOGY_BINDING",
    "NODE",
    "POD",
    "POD_CLIQUE_SET",
    "POD_GANG",
    "PRIORITY_CLASS",
    "Object",
    "Objects",
    "collect",
    "flatten",
    "is_name",
    "is_part_name",
    "not_a_name",
]

#: Kinds of which files often hold several versions side by side: the last one counts.
_LAST_COUNTS: Final = frozenset(
    {kinds.TOPOLOGY_BINDINGS, kinds.KAI_TOPOLOGIES, kinds.KUEUE_TOPOLOGIES, *kinds.PLAIN}
)

#: Kinds whose manifests often leave the end of the name to the server.
_MAY_BE_GENERATED: Final = frozenset({*kinds.PLAIN, kinds.JOB_SETS, kinds.VOLCANO_JOBS})

#: Fields of a placement request, and what is told of one among objects.
_OF_REQUESTS: Final = frozenset({"snapshot", "gangs"})
_REQUEST: Final = "is a placement request, no Kubernetes object: it is read alone, as JSON"

#: Fields that only a server writes.
_WRITTEN_BY_SERVERS: Final = ("metadata", "status")

_INDEX: Final = re.compile(r"\[[^]]*\]")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """One object: its `body` as parsed, and where it was found.

    `namespace` is empty for cluster-scoped kinds and "default" where a namespaced
    object names none. `document` counts the objects of the file from 0. `origin` is
    the workload that it was made for, if it was.
    """

    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    file: str
    document: int
    origin: Object | None = None

    def __str__(self) -> str:
        """The object as problems and warnings name it: "Pod ml/a", "Node n1"."""
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def problem(self, field: str, message: str) -> Problem:
        return Problem(self.file, str(self), field, message)


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects of the kinds that are read, each kind in input order.

    `problems` are those found while loading; `translate` and `expand` raise them
    together with their own. `warnings` are for people.
    """

    by_kind: Mapping[Kind, tuple[Object, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, bodies: Iterable[Any], *, file: str = "") -> Objects:
        """Objects from parsed bodies, lists of objects among them taken apart.

        Fields are not checked for typing mistakes: this is for objects from an API server.
        """
        return collect((file, index, body) for index, body in enumerate(flatten(bodies)))

    def of_kind(self, kind: Kind) -> tuple[Object, ...]:
        """All objects of a kind, in input order."""
        return self.by_kind.get(kind, ())

    @property
    def nodes(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.NODES)

    @property
    def pods(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.PODS)

    @property
    def priority_classes(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.PRIORITY_CLASSES)

    @property
    def pod_gangs(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.POD_GANGS)

    @property
    def pod_clique_sets(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.POD_CLIQUE_SETS)

    @property
    def topology_bindings(self) -> tuple[Object, ...]:
        return self.of_kind(kinds.TOPOLOGY_BINDINGS)


def flatten(bodies: Iterable[Any]) -> Iterable[Any]:
    """The objects themselves, where bodies may be ``List``, ``PodList`` and the like.

    As with `kubectl`, an element of a typed list may leave out kind and version.
    """
    for body in bodies:
        kind = body.get("kind") if isinstance(body, dict) else None
        if not (isinstance(kind, str) and kind.endswith("List") and isinstance(body, dict)):
            yield body
            continue
        items = body.get("items")
        if not isinstance(items, list):
            if items is not None or "items" not in body:
                yield body
            continue
        for item in items:
            if kind != "List" and isinstance(item, dict) and "kind" not in item:
                yield {
                    "kind": kind.removesuffix("List"),
                    "apiVersion": body.get("apiVersion"),
                    **item,
                }
            elif isinstance(item, dict) and str(item.get("kind")).endswith("List"):
                yield from flatten([item])
            else:
                yield item


def collect(
    found: Iterable[tuple[str, int, Any]],
    problems: Iterable[Problem] = (),
    warned: Iterable[Problem] = (),
    *,
    check_fields: bool = False,
    strict: bool = False,
) -> Objects:
    """Sorts (file, document, body) by kind; notes what is unknown, unnamed or double.

    With `check_fields` fields that no definition knows are warned of; with `strict` too
    they are problems, but for objects that an API server wrote.
    """
    by_kind: dict[Kind, dict[tuple[str, str], Object]] = {}
    unknown: Counter[_Unknown] = Counter()
    warnings = list(warned)
    noted = list(problems)
    slips = _Slips(strict)
    for file, document, body in found:
        kind = _kind(body, partial(Problem, file, f"document {document + 1}"), noted)
        if isinstance(kind, _Unknown):
            unknown[kind] += 1
            continue
        if kind is None:
            continue
        one = _identify(kind, body, file, document, noted)
        if one is None:
            continue
        if check_fields:
            slips.look(kind, one)
        known = by_kind.setdefault(kind, {})
        if (first := known.get(one.key)) is None:
            known[one.key] = one
        elif kind in _LAST_COUNTS:
            # People often keep several versions of such configuration side by side.
            known[one.key] = one
            warnings.append(one.problem("", "is there more than once; the last one counts"))
        else:
            noted.append(one.problem("", f"is there twice: {_place(first)} and {_place(one)}"))
    warnings += slips.warnings()
    warnings += [
        Problem("", f"{name} ({version})", "",
                f"{count} object{'s' if count > 1 else ''} of this kind skipped: it is not read"
                + (f"; is {near} meant?" if (near := meant(version, name)) else ""))
        for (name, version), count in sorted(unknown.items())
    ]  # fmt: skip
    return Objects(
        by_kind={kind: tuple(objects.values()) for kind, objects in by_kind.items()},
        problems=(*noted, *slips.problems()),
        warnings=tuple(warnings),
    )


class _Unknown(NamedTuple):
    """A kind of objects that is not read."""

    name: str
    version: str


def _kind(
    body: Any, problem: Callable[[str, str], Problem], problems: list[Problem]
) -> Kind | _Unknown | None:
    """The kind of an object; None where it is noted what is wrong, as the `problem` of a field."""
    if not isinstance(body, dict):
        problems.append(problem("", "is not a Kubernetes object"))
        return None
    if is_request(body):
        problems.append(problem("", _REQUEST))
        return None
    name, version = body.get("kind"), body.get("apiVersion")
    missing = [
        problem(field, "must be a text" if value else "is missing")
        for field, value in (("kind", name), ("apiVersion", version))
        if not (isinstance(value, str) and value)
    ]
    if missing:
        problems += missing
        return None
    kind = kind_of(version, name)
    if kind is None and _is_list(str(version), str(name)):
        # Else it would be taken apart by now.
        problems.append(problem("items", "must be a list"))
        return None
    return _Unknown(str(name), str(version)) if kind is None else kind


class _Slips:
    """Fields that are not known, each once for a kind: copies have the same error."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._first: dict[tuple[Kind, str, bool], Problem] = {}
        self._times: Counter[tuple[Kind, str, bool]] = Counter()

    def look(self, kind: Kind, one: Object) -> None:
        served = is_from_a_server(one.body)
        body = one.body
        if served:
            body = {name: body[name] for name in body if name not in _WRITTEN_BY_SERVERS}
        for path, nearest in unknown_fields(kind, body):
            if served and not nearest:
                continue
            key = kind, _INDEX.sub("[]", path), self._strict and not served
            self._times[key] += 1
            if key not in self._first:
                hint = f"; is {nearest} meant?" if nearest else " and is ignored"
                self._first[key] = one.problem(path, f"is not a known field{hint}")

    def problems(self) -> list[Problem]:
        return self._all(errors=True)

    def warnings(self) -> list[Problem]:
        return self._all(errors=False)

    def _all(self, *, errors: bool) -> list[Problem]:
        result = []
        for key, first in self._first.items():
            if key[2] == errors:
                more = self._times[key] - 1
                text = f" ({more} more like it)" if more else ""
                result.append(Problem(first.file, first.object, first.field, first.message + text))
        return result


def _is_list(version: str, name: str) -> bool:
    of = name.removesuffix("List")
    return name == "List" or (of != name and kind_of(version, of) is not None)


def is_request(body: object) -> bool:
    """Whether a parsed file holds a request of the service instead of an object."""
    return isinstance(body, dict) and "kind" not in body and not _OF_REQUESTS.isdisjoint(body)


def is_name(text: object) -> bool:
    """Whether a text can be the name of a Kubernetes object."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def not_a_name(text: object) -> str:
    """What is wrong with a text that is no name."""
    return f"{text!r} is not a Kubernetes name (lower-case letters, digits, '-' and '.')"


def is_part_name(text: str) -> bool:
    """Whether a text can name a part of an object, such as a group: capitals are allowed."""
    return is_name(text.lower().replace("_", "-"))


def _identify(
    kind: Kind, body: Mapping[str, Any], file: str, document: int, noted: list[Problem]
) -> Object | None:
    metadata = body.get("metadata")
    name, namespace = None, None
    if isinstance(metadata, dict):
        name, namespace = metadata.get("name"), metadata.get("namespace")
        if (
            name is None
            and kind in _MAY_BE_GENERATED
            and isinstance(metadata.get("generateName"), str)
        ):
            name = metadata["generateName"].rstrip("-.")
    if not kind.namespaced:
        namespace = ""
    elif namespace is None or namespace == "":
        namespace = "default"
    one = None
    if isinstance(name, str) and name and isinstance(namespace, str):
        # An object with a wrong name is still read: the user who corrects it wants to know all
        # problems.
        one = Object(kind.name, namespace, name, body, file, document)
    title = f"{kind.name} in document {document + 1}" if one is None else str(one)
    if metadata is not None and not isinstance(metadata, dict):
        noted.append(Problem(file, title, "metadata", "must be a mapping"))
    elif name is None or name == "":
        noted.append(Problem(file, title, "metadata.name", "is missing"))
    elif not is_name(name):
        noted.append(Problem(file, title, "metadata.name", not_a_name(name)))
    if namespace != "" and not is_name(namespace):
        noted.append(Problem(file, title, "metadata.namespace", not_a_name(namespace)))
    return one


def _place(one: Object) -> str:
    return f"document {one.document + 1} of {one.file or 'the input'}"
