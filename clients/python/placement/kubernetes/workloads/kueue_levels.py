"""Topology levels in Kueue's words: in the annotations of a pod template, or in the request of a
pod set, which Kueue makes of them. Templates may name them in our own annotations, too.

A pod set has its levels as a whole, also where it stands for several Jobs of a JobSet. Pod sets of
one group share a domain. A pod set may be cut into slices of equal size that have a domain each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from placement.advice_marks import PREFERRED_LEVEL, REQUIRED_LEVEL
from placement.kubernetes.values.reading import At
from placement.kubernetes.workloads.workloads import Role

_PREFIX: Final = "kueue.x-k8s.io/podset-"


class Levels(NamedTuple):
    """What a pod set asks for; empty or zero where it says nothing. `slices` are the level and the
    size of its slices, `together` is the group that it is in. `unsupported` names the rest.
    """

    required: str = ""
    preferred: str = ""
    slices: tuple[str, int] = ("", 0)
    together: str = ""
    unsupported: tuple[str, ...] = ()

    @property
    def cut(self) -> str:
        return f"slices of {self.slices[1]} pods at {self.slices[0]}"


def levels_of(template: At, *, size: int = 0) -> Levels:
    """By the annotations of a pod template; a slice has `size` pods where none is given."""
    notes = template.get("metadata").get("annotations").labels()
    text = notes.get(f"{_PREFIX}slice-size", "")
    several = f"{_PREFIX}slice-required-topology-constraints"
    return Levels(
        notes.get(f"{_PREFIX}required-topology", "") or notes.get(REQUIRED_LEVEL, ""),
        notes.get(f"{_PREFIX}preferred-topology", "") or notes.get(PREFERRED_LEVEL, ""),
        (
            notes.get(f"{_PREFIX}slice-required-topology", ""),
            int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else size,
        ),
        notes.get(f"{_PREFIX}group-name", ""),
        (f"annotation {several}",) if several in notes else (),
    )


def levels_in(request: At) -> Levels:
    """By the topology request of a pod set."""
    several = request.get("podsetSliceRequiredTopologyConstraints")
    return Levels(
        request.get("required").text(),
        request.get("preferred").text(),
        (
            request.get("podSetSliceRequiredTopology").text(),
            request.get("podSetSliceSize").integer(least=0),
        ),
        request.get("podSetGroupName").text(),
        () if several.absent else (several.path,),
    )


def roles_of(
    name: str, template: Mapping[str, Any], count: int, minimum: int, levels: Levels
) -> tuple[list[Role], list[str]]:
    """The groups that a pod set makes, one for each slice, and what is not supported."""
    level, size = levels.slices
    unsupported = list(levels.unsupported)
    if level and (not size or count % size or minimum < count):
        unsupported.append(f"{levels.cut}, into which {name} cannot be cut")
        level = ""
    if not level:
        whole = Role(
            name, template, count, minimum, levels.required, levels.preferred, levels.together
        )
        return [whole], unsupported
    scope = levels.together or name
    return [
        Role(f"{name}-{i}", template, size, size, levels.required, levels.preferred, scope, level)
        for i in range(count // size)
    ], unsupported
