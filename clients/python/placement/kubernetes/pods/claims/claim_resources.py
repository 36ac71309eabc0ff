"""Kinds of requests of claims as resources: the devices that each chooses, node by node.

Kinds may choose the same devices. By Hall's theorem a node can serve its pods when for every
set of kinds, no more devices are asked for than the set chooses together. So sets of kinds that
overlap are resources too, of which a request of any kind in it takes one: those that are linked
by devices which two of them choose, and that no kind can join without choosing more. Of others
the same follows, so that is exact. There are about as many as kinds where each chooses a part of
what a broader one does. Where there are more than `_MOST_SETS` the claims are refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from placement.kubernetes.pods.claims.cel_selectors import NoAnswerError, compiled
from placement.kubernetes.pods.claims.resource_slices import (
    ClaimableDevice,
    DeviceId,
    DeviceToleration,
)
from placement.kubernetes.problems import Problem

#: Sets of kinds that choose the same devices in part, for each family of kinds.
_MOST_SETS: Final = 64
#: Drivers whose devices are GPUs begin so.
_GPU_DRIVERS: Final = "gpu."
_PREFIX: Final = "claims.resource.k8s.io/"
_LONGEST: Final = 63


class Kind(NamedTuple):
    """Devices that a request asks for: those that all expressions choose."""

    device_class: str
    of_class: tuple[str, ...]
    of_request: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...] = ()

    @property
    def expressions(self) -> tuple[str, ...]:
        return (*self.of_class, *self.of_request)


@dataclass(slots=True)
class ClaimResources:
    """The kinds of an input as resources."""

    #: Node -> resource -> how many.
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    #: The resources that a request of a kind takes one of.
    of_kind: dict[Kind, tuple[str, ...]] = field(default_factory=dict)
    #: The resources that a device counts in.
    of_device: dict[DeviceId, tuple[str, ...]] = field(default_factory=dict)
    #: The node of each device.
    homes: dict[DeviceId, str] = field(default_factory=dict)
    refused: dict[Kind, str] = field(default_factory=dict)
    #: Resources of single kinds that choose GPUs.
    gpus: tuple[str, ...] = ()


def as_resources(
    kinds: Mapping[Kind, str],
    devices: Mapping[str, list[ClaimableDevice]],
    warnings: list[Problem],
) -> ClaimResources:
    """Every kind, and sets of kinds that overlap, as a resource of each node.

    `kinds` has the template or claim of each that comes first.
    """
    chosen = _chosen(kinds, devices, warnings)
    result = ClaimResources()
    result.homes = {device.id: node for node, on_node in devices.items() for device in on_node}
    names = _names(kinds)
    for family in _families(kinds, chosen):
        sets = _linked_sets(family, chosen)
        if sets is None:
            text = f"{len(family)} kinds of requests choose the same devices in too many ways"
            result.refused.update(dict.fromkeys(family, text))
            continue
        for several in [*((kind,) for kind in family), *sets]:
            name = _PREFIX + _bounded(".or.".join(names[kind] for kind in several))
            for kind in several:
                result.of_kind[kind] = (*result.of_kind.get(kind, ()), name)
            for node, on_node in devices.items():
                together = [d.id for d in on_node if any(d.id in chosen[k] for k in several)]
                if together:
                    result.nodes.setdefault(node, {})[name] = len(together)
                for one in together:
                    result.of_device[one] = (*result.of_device.get(one, ()), name)
    drivers = {
        kind: {one.driver for one in chosen[kind]} for kind in kinds if kind not in result.refused
    }
    result.gpus = tuple(
        _PREFIX + _bounded(names[kind])
        for kind, found in drivers.items()
        if found and all(driver.startswith(_GPU_DRIVERS) for driver in found)
    )
    return result


def _chosen(
    kinds: Iterable[Kind],
    devices: Mapping[str, list[ClaimableDevice]],
    warnings: list[Problem],
) -> dict[Kind, set[DeviceId]]:
    """The devices of all nodes that each kind chooses."""
    chosen: dict[Kind, set[DeviceId]] = {kind: set() for kind in kinds}
    for kind, found in chosen.items():
        failed: dict[str, DeviceId] = {}
        selectors = [compiled(expression) for expression in kind.expressions]
        for on_node in devices.values():
            for device in on_node:
                try:
                    if device.is_open_to(kind.tolerations) and all(
                        selector.matches(device.value) for selector in selectors
                    ):
                        found.add(device.id)
                except NoAnswerError as error:
                    failed.setdefault(str(error), device.id)
        warnings += [
            Problem(
                "",
                f"DeviceClass {kind.device_class}",
                "",
                f"an expression of it or of a request has no value for device {one.device} of pool"
                f" {one.pool} ({text}): not chosen",
            )
            for text, one in failed.items()
        ]
    return chosen


def _families(kinds: Iterable[Kind], chosen: Mapping[Kind, set[DeviceId]]) -> list[list[Kind]]:
    """The kinds, in families that are linked by devices that two of them choose."""
    families: list[tuple[list[Kind], set[DeviceId]]] = []
    for kind in kinds:
        members, devices = [kind], set(chosen[kind])
        apart = []
        for other in families:
            if devices.isdisjoint(other[1]):
                apart.append(other)
            else:
                members = [*other[0], *members]
                devices |= other[1]
        families = [*apart, (members, devices)]
    return [members for members, _ in families]


def _linked_sets(
    family: Sequence[Kind], chosen: Mapping[Kind, set[DeviceId]]
) -> list[tuple[Kind, ...]] | None:
    """Sets of at least two kinds of a family that overlap, each with all kinds that choose no more
    than it does; None where there are too many.
    """
    found: dict[frozenset[DeviceId], tuple[Kind, ...]] = {}
    unlike = list({frozenset(chosen[kind]): None for kind in family if chosen[kind]})
    waiting = unlike[: _MOST_SETS + 1]
    while waiting:
        devices = waiting.pop()
        if devices in found:
            continue
        found[devices] = tuple(kind for kind in family if chosen[kind] and chosen[kind] <= devices)
        if len(found) > _MOST_SETS:
            return None
        waiting += (devices | other for other in unlike if not devices.isdisjoint(other))
    return [kinds for kinds in found.values() if len(kinds) > 1]


def _names(kinds: Mapping[Kind, str]) -> dict[Kind, str]:
    """A name for each kind: its class, and where requests narrow that in several ways, whose
    request it is."""
    of_class = Counter(kind.device_class for kind in kinds)
    names: dict[Kind, str] = {}
    used: set[str] = set()
    for kind, asker in kinds.items():
        is_whole = of_class[kind.device_class] == 1 or not (kind.of_request or kind.tolerations)
        name = kind.device_class if is_whole else f"{kind.device_class}.{asker}"
        unique, number = name, 1
        while unique in used:
            number += 1
            unique = f"{name}.{number}"
        used.add(unique)
        names[kind] = unique
    return names


def _bounded(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: _LONGEST - 17]}-{digest}"
