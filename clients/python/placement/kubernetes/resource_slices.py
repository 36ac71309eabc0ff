"""Devices that drivers publish in ResourceSlices, node by node.

Only the newest generation of a pool counts, and only when all of its slices are in the input.
Left out, each with a warning: devices that do not belong to one node, that can be shared, or that
are counted in parts. Devices with taints serve claims that tolerate these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from placement.kubernetes.cel_selectors import device_value
from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings

#: Fields of a device that cannot simply be counted.
_NOT_COUNTED: Final = ("consumesCounters", "allowMultipleAllocations")
_KEEPS_PODS_OFF: Final = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """A device as allocations name it."""

    driver: str
    pool: str
    device: str


class DeviceTaint(NamedTuple):
    """A taint: it keeps away claims that do not tolerate it."""

    key: str
    value: str
    effect: str


class DeviceToleration(NamedTuple):
    """Which taints a request tolerates; of any key and effect when these are empty."""

    key: str
    exists: bool
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and (self.exists or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClaimableDevice:
    """A device of a node; `value` is what expressions read (see `device_value`)."""

    id: DeviceId
    value: Mapping[str, Any]
    taints: tuple[DeviceTaint, ...] = ()

    def is_open_to(self, tolerations: Iterable[DeviceToleration]) -> bool:
        """Whether each of its taints is tolerated."""
        given = tuple(tolerations)
        return all(any(t.tolerates(taint) for t in given) for taint in self.taints)


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    object: Object
    at: At
    driver: str
    pool: str
    generation: int
    count: int


def read_slices(
    objects: Iterable[Object], problems: list[Problem], warnings: list[Problem]
) -> dict[str, list[ClaimableDevice]]:
    """The devices of each node that claims can count on."""
    pools: dict[tuple[str, str], list[_Slice]] = {}
    noted: dict[Object, Findings] = {}
    for one in objects:
        findings = noted[one] = {}
        spec = At(one.body, findings).get("spec")
        pool = spec.get("pool")
        found = _Slice(
            one,
            spec,
            spec.get("driver").required_text(),
            pool.get("name").required_text(),
            pool.get("generation").integer(most=2**63 - 1),
            pool.get("resourceSliceCount").integer(1, least=1),
        )
        pools.setdefault((found.driver, found.pool), []).append(found)
    nodes: dict[str, list[ClaimableDevice]] = {}
    for slices in pools.values():
        newest = max(s.generation for s in slices)
        current = [s for s in slices if s.generation == newest]
        if len(current) < current[0].count:
            warnings.append(
                current[0].object.problem(
                    "spec.pool",
                    f"{len(current)} of {current[0].count} slices of the pool are in the input:"
                    " its devices are left out",
                )
            )
            continue
        for one_slice in current:
            _collect(one_slice, nodes, warnings)
    for one, findings in noted.items():
        problems += [one.problem(*finding) for finding in findings]
    return nodes


def _collect(
    found: _Slice, nodes: dict[str, list[ClaimableDevice]], warnings: list[Problem]
) -> None:
    spec, one = found.at, found.object
    node = spec.get("nodeName").text()
    if not node:
        warnings.append(one.problem("spec", "its devices are not of one node: left out"))
        return
    left_out: dict[str, None] = {}
    for entry in spec.get("devices").items():
        name = entry.get("name").required_text()
        # Before the version v1beta2 all fields were one level deeper.
        basic = entry.get("basic")
        device = entry if basic.absent else basic
        reason = _uncountable(device)
        if reason:
            left_out[reason] = None
            continue
        capacity = device.get("capacity").value
        attributes = device.get("attributes").value
        nodes.setdefault(node, []).append(
            ClaimableDevice(
                DeviceId(found.driver, found.pool, name),
                device_value(
                    found.driver,
                    attributes if isinstance(attributes, dict) else {},
                    _amounts(capacity if isinstance(capacity, dict) else {}),
                ),
                _taints(device),
            )
        )
    warnings += [one.problem("spec.devices", f"{what}: left out") for what in left_out]


def _uncountable(device: At) -> str:
    return next((f"devices with {f}" for f in _NOT_COUNTED if device.get(f).value), "")


def _taints(device: At) -> tuple[DeviceTaint, ...]:
    found = (
        DeviceTaint(*(entry.get(part).text() for part in ("key", "value", "effect")))
        for entry in device.get("taints").items()
    )
    return tuple(taint for taint in found if taint.effect in _KEEPS_PODS_OFF)


def _amounts(capacity: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(name): told.get("value") if isinstance(told, dict) else told
        for name, told in capacity.items()
    }
