"""What follows from an object that cannot be read: nobody knows how much of its node is taken."""

from __future__ import annotations

from collections.abc import Mapping

from controller.cluster.gang_state import Body, node_of


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
