"""Gives gangs that are one in a request their own names again. Koordinator runs the gangs of a gang
group only together, so they are one gang of the request, with a group for each. Readers of the
answer know them as separate gangs.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement import v1

#: The gang of each group, by the name of the gang that they are in the request.
Parts = Mapping[str, Mapping[str, tuple[str, str]]]


def whole_of(parts: Parts, name: str) -> str:
    """The gang of the request that a name means: the whole, where it is that of a part."""
    wholes = (whole for whole, own in parts.items() if name in map(_name, own.values()))
    return next(wholes, name)


def own_gangs(parts: Parts, request: v1.ComputePlacementRequest) -> dict[str, str]:
    """The own gang of each running pod that is in a part."""
    return {
        pod.name: _name(parts[gang.name][group.name])
        for gang in request.gangs
        if gang.name in parts
        for group in gang.groups
        for pod in (*group.bound_pods, *(p for s in group.pod_sets for p in s.bound_pods))
    }


def in_parts(
    placement: v1.Placement, parts: Parts, own_gang: Mapping[str, str] | None = None
) -> v1.Placement:
    """The placement with a result for each part, and with the part in place of the whole.

    `own_gang` tells the part of each running pod, for evictions.
    """
    if not parts:
        return placement
    result = v1.Placement()
    result.CopyFrom(placement)
    for binding in result.bindings:
        own = parts.get(binding.gang, {}).get(binding.group)
        if own is not None:
            binding.gang = _name(own)
    for eviction in result.evictions:
        eviction.gang = (own_gang or {}).get(eviction.pod, eviction.gang)
    del result.gangs[:]
    for gang in placement.gangs:
        for own in dict.fromkeys(parts.get(gang.name, {"": ("", "")}).values()):
            added = result.gangs.add()
            added.CopyFrom(gang)
            if any(own):
                added.name = _name(own)
    return result


def _name(key: tuple[str, str]) -> str:
    return f"namespaces/{key[0]}/podgangs/{key[1]}"
