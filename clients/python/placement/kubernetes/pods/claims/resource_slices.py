"""Devices that drivers publish in ResourceSlices, node by node.

Only the newest generation of a pool counts, and only when all of its slices are in the input and
no two of its devices have one name. Left out, each with a warning: devices that do not belong to
one node, that can be shared, or that are counted in parts. Devices with taints serve claims that
tolerate these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.pods.claims.cel_selectors import device_value
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.quantities import QuantityError, parse
from placement.kubernetes.values.reading import At, Findings, not_a

#: Fields of a device that cannot simply be counted.
_NOT_COUNTED: Final = ("consumesCounters", "allowMultipleAllocations")
_KEEPS_PODS_OFF: Final = ("NoSchedule", "NoExecute")
#: All effects of taints; the last has none.
TAINT_EFFECTS: Final = (*_KEEPS_PODS_OFF, "None")
#: What an attribute can be. Newer versions may know others.
_ATTRIBUTES: Final[Mapping[str, tuple[type, str]]] = {
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "string": (str, "a string"),
    "version": (str, "a string"),
}


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
    objects: Iterable[Object],
    known: Collection[str],
    diagnostics: Diagnostics,
) -> dict[str, list[ClaimableDevice]]:
    """The devices of each node that claims can count on; `known` are the nodes of the input."""
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
    lost: list[_Slice] = []
    for slices in pools.values():
        newest = max(s.generation for s in slices)
        current = [s for s in slices if s.generation == newest]
        if wrong := _unusable(current):
            text = f"{wrong}: its devices are left out"
            diagnostics.warnings.append(current[0].object.problem("spec.pool", text))
            continue
        for one_slice in current:
            _collect(one_slice, nodes, diagnostics.warnings)
        lost += (s for s in current if (node := s.at.get("nodeName").text()) and node not in known)
    for one, findings in noted.items():
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    if lost and known:
        more = f" ({len(lost) - 1} more like it)" if len(lost) > 1 else ""
        text = f"Node {lost[0].at.get('nodeName').value} is not in the input{more}"
        diagnostics.warnings.append(lost[0].object.problem("spec.nodeName", text))
    return nodes


def _unusable(slices: list[_Slice]) -> str:
    """Why nobody gets devices of a pool with these slices, as Kubernetes sees it."""
    counts = sorted({s.count for s in slices})
    if len(counts) > 1:
        return f"its slices do not agree on how many there are ({', '.join(map(str, counts))})"
    if len(slices) < counts[0]:
        return f"{len(slices)} of {counts[0]} slices of the pool are in the input"
    if len(slices) > counts[0]:
        return f"the input has {len(slices)} slices of the pool, which says that it has {counts[0]}"
    homes: dict[str, _Slice] = {}
    for one in slices:
        for entry in one.at.get("devices").items():
            name = entry.get("name").value
            if isinstance(name, str) and homes.setdefault(name, one) is not one:
                return f"device {name} is in several of its slices"
    return ""


def _collect(
    found: _Slice, nodes: dict[str, list[ClaimableDevice]], warnings: list[Problem]
) -> None:
    spec, one = found.at, found.object
    node = spec.get("nodeName").text()
    if not node:
        warnings.append(one.problem("spec", "its devices are not of one node: left out"))
        return
    left_out: dict[str, None] = {}
    names = set[str]()
    for entry in spec.get("devices").items():
        name = entry.get("name").required_text()
        if name in names:
            entry.get("name").problem(f"{name} is there more than once")
        names.add(name)
        # Before the version v1beta2 all fields were one level deeper.
        basic = entry.get("basic")
        device = entry if basic.absent else basic
        reason = _uncountable(device)
        if reason:
            left_out[reason] = None
            continue
        nodes.setdefault(node, []).append(
            ClaimableDevice(
                DeviceId(found.driver, found.pool, name),
                device_value(
                    found.driver,
                    _attributes(device.get("attributes")),
                    _amounts(device.get("capacity")),
                ),
                _taints(device),
            )
        )
    warnings += [one.problem("spec.devices", f"{what}: left out") for what in left_out]


def _uncountable(device: At) -> str:
    return next((f"devices with {f}" for f in _NOT_COUNTED if device.get(f).value), "")


def _taints(device: At) -> tuple[DeviceTaint, ...]:
    found = (
        DeviceTaint(
            entry.get("key").required_text(),
            entry.get("value").text(),
            entry.get("effect").choice("", TAINT_EFFECTS),
        )
        for entry in device.get("taints").items()
    )
    return tuple(taint for taint in found if taint.effect in _KEEPS_PODS_OFF)


def _attributes(at: At) -> Mapping[str, Any]:
    """The attributes of a device, each as a mapping with one value."""
    for name, told in _entries(at).items():
        if not isinstance(told, dict):
            at.problem_under(name, not_a("a mapping", told))
            continue
        if len(told) != 1:
            at.problem_under(name, f"must hold one of {', '.join(_ATTRIBUTES)}")
        for kind, value in told.items():
            wanted, words = _ATTRIBUTES.get(kind, (type(value), ""))
            if type(value) is not wanted:
                at.entry(name).get(kind).must_be(words)
    return _entries(at)


def _amounts(at: At) -> dict[str, Any]:
    """The capacities of a device as they are written."""
    found = {}
    for name, told in _entries(at).items():
        text = told.get("value") if isinstance(told, dict) else told
        try:
            parse(str(text))
        except QuantityError as error:
            at.problem_under(name, str(error))
        else:
            found[name] = text
    return found


def _entries(at: At) -> Mapping[str, Any]:
    """A map with free keys; none where it is something else."""
    if at.absent or isinstance(at.value, dict):
        return {str(name): told for name, told in (at.value or {}).items()}
    at.must_be("a mapping")
    return {}
