"""Levels in an answer by the names that the input gives them.

A level whose domains are paths has a label of its own in the request (see `nodes.label_paths`),
which no reader of the answer knows. `own` are the labels of the input by those of the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from placement import v1

Own = Mapping[str, str]


def with_own_levels(placement: v1.Placement, own: Own) -> v1.Placement:
    """The placement with the input's names of levels in reasons and scopes."""
    if not own:
        return placement
    result = v1.Placement()
    result.CopyFrom(placement)
    for gang in result.gangs:
        for reason in gang.reasons:
            reason.message = spoken(reason.message, own)
            reason.level = own.get(reason.level, reason.level)
        for scope in gang.scopes:
            scope.level = own.get(scope.level, scope.level)
    for eviction in result.evictions:
        eviction.reason = spoken(eviction.reason, own)
    return result


def as_drawn(request: v1.ComputePlacementRequest, own: Own) -> v1.ComputePlacementRequest:
    """The request as people read it: the paths are the values of the input's labels.

    Where two topologies make paths of one label it cannot hold both, and stays as it is.
    """
    wanted = _only_ones(own)
    if not wanted:
        return request
    result = v1.ComputePlacementRequest()
    result.CopyFrom(request)
    for node in result.snapshot.nodes:
        for made, label in wanted.items():
            node.labels.pop(label, None)
            if made in node.labels:
                node.labels[label] = node.labels.pop(made)
    for gang in result.gangs:
        for scope in gang.packing_scopes:
            scope.required_level = wanted.get(scope.required_level, scope.required_level)
            scope.preferred_level = wanted.get(scope.preferred_level, scope.preferred_level)
    return result


def asked_level(request: v1.ComputePlacementRequest, level: str, own: Own) -> str:
    """The label in the request of a level that a person names by the label of the input."""
    used = {
        key
        for gang in request.gangs
        for scope in gang.packing_scopes
        for key in (scope.required_level, scope.preferred_level)
    }
    if level in used:
        # To these gangs the label's own values are the domains.
        return level
    return next((made for made, label in _only_ones(own).items() if label == level), level)


def asked_domain(request: v1.ComputePlacementRequest, level: str, domain: str, own: Own) -> str:
    """The path of a domain that a person may name by the value of the input's label alone.

    Raises ValueError, with the paths, where several domains have that value.
    """
    label = own.get(level)
    paths = {node.labels[level] for node in request.snapshot.nodes if level in node.labels}
    if label is None or domain in paths:
        return domain
    meant = sorted(
        {
            node.labels[level]
            for node in request.snapshot.nodes
            if level in node.labels and node.labels.get(label) == domain
        }
    )
    if len(meant) > 1:
        raise ValueError(f"{label} {domain} may be any of {', '.join(meant)}: name one of these")
    return meant[0] if meant else domain


def spoken(text: str, own: Own) -> str:
    """The text with the input's names of levels."""
    # Of names that begin alike the longest comes first.
    for made in sorted(own, key=len, reverse=True):
        text = text.replace(made, own[made])
    return text


def spoken_all(levels: Iterable[str], own: Own) -> list[str]:
    """The levels by the input's names, each once."""
    wanted = _only_ones(own)
    return list(dict.fromkeys(wanted.get(level, level) for level in levels))


def _only_ones(own: Own) -> dict[str, str]:
    """Those whose label stands for no other level."""
    times = Counter(own.values())
    return {made: label for made, label in own.items() if times[label] == 1}
