"""Pods that avoid some nodes by name."""

from __future__ import annotations

from placement_service.entities.request import HOSTNAME
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement


def avoiding(*hosts: str) -> dict[str, object]:
    """Fields of a template that avoids some nodes."""
    avoid = Requirement(HOSTNAME, Operator.NOT_IN, hosts)
    return {"required_node_affinity": (NodeSelectorTerm((avoid,)),)}
