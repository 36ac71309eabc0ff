"""Objects that cannot be read: which they are, and what follows. Nobody knows how much of their
node is taken."""

from __future__ import annotations

from collections.abc import Mapping

from controller.cluster.gang_state import Body, Key, node_of


def named_by(title: str) -> tuple[str, Key]:
    """The kind, and the namespace and name, of an object as problems name it.

    No namespace has a slash, but a gang that only pods name may be called anything.
    """
    kind, _, name = title.partition(" ")
    namespace, slash, own = name.partition("/")
    return kind, (namespace, own) if slash else ("", name)


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
