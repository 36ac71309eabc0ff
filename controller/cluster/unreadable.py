"""Objects that cannot be read: which they are, and what follows. Nobody knows how much of their
node is taken."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.cluster.gang_state import Body, Key, node_of
from placement.kubernetes import Problem
from placement.kubernetes.closed_queues import closed_queue

#: A closed queue stands at its place in the tree, or at none.
_PLACES: Final = 2


def named_by(title: str) -> tuple[str, Key]:
    """The kind, and the namespace and name, of an object as problems name it.

    No namespace has a slash, but a gang that only pods name may be called anything.
    """
    kind, _, name = title.partition(" ")
    namespace, slash, own = name.partition("/")
    return kind, (namespace, own) if slash else ("", name)


def first_of_each(problems: Iterable[Problem]) -> Iterable[Problem]:
    """The first problem of each object: what follows from it is done once."""
    first: dict[str, Problem] = {}
    for problem in problems:
        first.setdefault(problem.object, problem)
    return first.values()


def are_the_same(some: Collection[Body], others: Collection[Body]) -> bool:
    """Whether nothing was left out or closed."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


class ClosedQueues:
    """Queues in the place of those that cannot be read: without these there would be no limit."""

    def __init__(self) -> None:
        self._tried = Counter[str]()

    def in_place_of(self, body: Body) -> Body | None:
        """A queue that lets nothing in, first at its place in the tree, then at none: the place may
        be what is wrong. None after that, and where an object is no queue.
        """
        name = body["metadata"]["name"]
        closed = closed_queue(body, below=not self._tried[name])
        if closed is None or self._tried[name] == _PLACES:
            return None
        self._tried[name] += 1
        return closed


def node_closed_by(kind: str, body: Body) -> str:
    """The node that gets no other pod without the object, empty if there is none."""
    if kind == "Pod":
        return node_of(body)
    if kind == "Device":
        return _text(body, "metadata", "name")
    if kind == "Reservation":
        return _text(body, "status", "nodeName")
    if kind == "BindRequest":
        return _text(body, "spec", "selectedNode")
    return ""


def _text(body: Body, part: str, name: str) -> str:
    inner = body.get(part)
    found = inner.get(name) if isinstance(inner, Mapping) else None
    return found if isinstance(found, str) else ""
