"""What nodes, pods and PodGangs say, read from their plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from tests.cluster.api import Body

BASE: Final = "grove.io/base-podgang"
INITIALIZED: Final = "Initialized"
_SCHEDULED: Final = "Scheduled"
_SUFFIXES: Final = {
    "m": Decimal("0.001"),
    "Ki": Decimal(1024),
    "Mi": Decimal(1024**2),
    "Gi": Decimal(1024**3),
    "Ti": Decimal(1024**4),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
}

#: Namespace and name.
Key = tuple[str, str]


def quantity(text: str | int) -> Decimal:
    """A quantity as Kubernetes writes it, as a number."""
    text = str(text)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * factor
    return Decimal(text)


def requests_of(pod: Body) -> dict[str, Decimal]:
    """What a pod takes of its node, itself as one of its pods; nothing when it has ended."""
    if not lives(pod):
        return {}
    spec = pod["spec"]
    taken: dict[str, Decimal] = {"pods": Decimal(1)}
    for container in spec["containers"]:
        for resource, amount in _asked(container).items():
            taken[resource] = taken.get(resource, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _asked(container).items():
            taken[resource] = max(taken.get(resource, Decimal(0)), amount)
    return taken


def _asked(container: Body) -> dict[str, Decimal]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {resource: quantity(amount) for resource, amount in asked.items()}


def references_of(gang: Body) -> Iterator[tuple[Body, list[Key]]]:
    namespace = gang["metadata"]["namespace"]
    for group in gang["spec"].get("podgroups") or ():
        yield group, [(namespace, one["name"]) for one in group.get("podReferences") or ()]


def packings_of(gang: Body) -> Iterator[tuple[str, str, list[Key]]]:
    """What must be in one domain: in words, the label of the level, and the pods."""
    groups = {group["name"]: (group, pods) for group, pods in references_of(gang)}
    spec = gang["spec"]
    scopes: list[tuple[str, Body, list[str]]] = [("all", spec, list(groups))]
    for config in spec.get("topologyConstraintGroupConfigs") or ():
        scopes.append((config["name"], config, config["podGroupNames"]))
    scopes += [(name, group, [name]) for name, (group, _) in groups.items()]
    for what, holder, names in scopes:
        packing = (holder.get("topologyConstraint") or {}).get("packConstraint") or {}
        if label := packing.get("required"):
            yield what, label, [pod for name in names for pod in groups[name][1]]


def our_status(gang: Body) -> Body:
    """What schedulers write on a gang."""
    status = gang.get("status") or {}
    found: Body = {c["type"]: c for c in conditions_of(gang) if c["type"] == _SCHEDULED}
    if "placementScore" in status:
        found["placementScore"] = status["placementScore"]
    if status.get("phase") not in (None, "", "Pending"):
        found["phase"] = status["phase"]
    return found


def other_conditions(gang: Body) -> Body:
    return {c["type"]: c for c in conditions_of(gang) if c["type"] != _SCHEDULED}


def conditions_of(one: Body) -> Iterable[Body]:
    found: Iterable[Body] = (one.get("status") or {}).get("conditions") or ()
    return found


def is_true(one: Body, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in conditions_of(one))


def node_of(pod: Body) -> str:
    return str(pod["spec"].get("nodeName") or "")


def gates_of(pod: Body) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def is_ending(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def lives(pod: Body) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def uid_of(body: Body) -> str:
    return str(body["metadata"]["uid"])


def key_of(body: Body) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]
