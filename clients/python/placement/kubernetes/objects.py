"""Kubernetes objects as they come: which kinds are read, and where each came from.

`Objects` is plain data. It is made from files by `loading.load`, or from what a
controller watches by `Objects.of`. The bodies are not checked here beyond what
it takes to tell objects apart: `translate` and `expand` check what they read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from placement.kubernetes.problems import Problem

NODE: Final = "Node"
POD: Final = "Pod"
PRIORITY_CLASS: Final = "PriorityClass"
POD_GANG: Final = "PodGang"
POD_CLIQUE_SET: Final = "PodCliqueSet"
CLUSTER_TOPOLOGY_BINDING: Final = "ClusterTopologyBinding"

#: Kind to API group, for every kind that is read.
GROUPS: Final[Mapping[str, str]] = {
    NODE: "",
    POD: "",
    PRIORITY_CLASS: "scheduling.k8s.io",
    POD_GANG: "scheduler.grove.io",
    POD_CLIQUE_SET: "grove.io",
    CLUSTER_TOPOLOGY_BINDING: "grove.io",
}
_CLUSTER_SCOPED: Final = frozenset({NODE, PRIORITY_CLASS, CLUSTER_TOPOLOGY_BINDING})

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """One object: its `body` as parsed, and where it was found.

    `namespace` is empty for cluster-scoped kinds and "default" where a namespaced
    object names none. `document` counts the objects of the file from 0. `origin` is
    the PodCliqueSet that it was expanded from, if it was.
    """

    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    file: str
    document: int
    origin: Object | None = None

    def __str__(self) -> str:
        """As problems and warnings name it: "Pod ml/a", "Node n1"."""
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

    nodes: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    priority_classes: tuple[Object, ...] = ()
    pod_gangs: tuple[Object, ...] = ()
    pod_clique_sets: tuple[Object, ...] = ()
    topology_bindings: tuple[Object, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, bodies: Iterable[Any], *, file: str = "") -> Objects:
        """Objects from parsed bodies, lists of objects among them taken apart."""
        return collect((file, index, body) for index, body in enumerate(flatten(bodies)))


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


def collect(found: Iterable[tuple[str, int, Any]], problems: Iterable[Problem] = ()) -> Objects:
    """Sorts (file, document, body) by kind; notes what is unknown, unnamed or double."""
    by_kind: dict[str, dict[tuple[str, str], Object]] = {kind: {} for kind in GROUPS}
    unknown: Counter[str] = Counter()
    warnings: list[str] = []
    noted = list(problems)
    for file, document, body in found:
        title = f"document {document + 1}"
        if not isinstance(body, dict):
            noted.append(Problem(file, title, "", "is not a Kubernetes object"))
            continue
        kind = body.get("kind")
        version = body.get("apiVersion")
        missing = [
            Problem(file, title, field, "is missing")
            for field, value in (("kind", kind), ("apiVersion", version))
            if not (isinstance(value, str) and value)
        ]
        if missing:
            noted += missing
            continue
        group, _, _ = str(version).rpartition("/")
        if GROUPS.get(str(kind)) != group:
            unknown[f"{kind} ({version})"] += 1
            continue
        one = _identify(str(kind), body, file, document, noted)
        if one is None:
            continue
        known = by_kind[one.kind]
        if (first := known.get(one.key)) is None:
            known[one.key] = one
        elif one.kind == CLUSTER_TOPOLOGY_BINDING:
            # Configuration that is often kept in several versions side by side.
            known[one.key] = one
            warnings.append(f"{one} is there more than once; the last one counts")
        else:
            noted.append(one.problem("", f"is there twice: {_place(first)} and {_place(one)}"))
    warnings += [
        f"{count} object{'s' if count > 1 else ''} of kind {kind} skipped: this kind is not read"
        for kind, count in sorted(unknown.items())
    ]
    return Objects(
        nodes=tuple(by_kind[NODE].values()),
        pods=tuple(by_kind[POD].values()),
        priority_classes=tuple(by_kind[PRIORITY_CLASS].values()),
        pod_gangs=tuple(by_kind[POD_GANG].values()),
        pod_clique_sets=tuple(by_kind[POD_CLIQUE_SET].values()),
        topology_bindings=tuple(by_kind[CLUSTER_TOPOLOGY_BINDING].values()),
        problems=tuple(noted),
        warnings=tuple(warnings),
    )


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
    kind: str, body: Mapping[str, Any], file: str, document: int, noted: list[Problem]
) -> Object | None:
    metadata = body.get("metadata")
    name, namespace = None, None
    if isinstance(metadata, dict):
        name, namespace = metadata.get("name"), metadata.get("namespace")
    if kind in _CLUSTER_SCOPED:
        namespace = ""
    elif namespace is None or namespace == "":
        namespace = "default"
    one = None
    if isinstance(name, str) and name and isinstance(namespace, str):
        # One with a wrong name is read on: whoever mends it wants to know of the rest too.
        one = Object(kind, namespace, name, body, file, document)
    title = f"{kind} in document {document + 1}" if one is None else str(one)
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
