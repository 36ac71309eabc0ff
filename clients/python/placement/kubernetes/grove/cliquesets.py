"""PodCliqueSets as written: read, given Grove's defaults, and checked as Grove checks them.

A PodCliqueSet that Grove would refuse must not be planned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from placement.kubernetes.objects import Object, is_name, not_a_name
from placement.kubernetes.pods.podspec import PodSpecReader
from placement.kubernetes.values.reading import At

_MNNVL_GROUP: Final = "grove.io/mnnvl-group"

#: A DNS-1123 label, the form that Grove checks the group for.
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

#: What Grove refuses in a clique's pod spec.
_REFUSED_IN_PODS: Final = ("topologySpreadConstraints", "nodeName")


@dataclass(frozen=True, slots=True)
class Constraint:
    """Domains, not labels; `topology` names the ClusterTopologyBinding or is empty."""

    topology: str = ""
    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


@dataclass(frozen=True, slots=True)
class SharedClaim:
    """A `resourceSharing` entry; empty filters cover all children."""

    name: str
    per_replica: bool
    cliques: tuple[str, ...]
    scaling_groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Clique:
    """One role. `mnnvl_group` is None where nothing is said."""

    name: str
    replicas: int
    min_available: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_spec: Mapping[str, Any]
    constraint: Constraint
    mnnvl_group: str | None
    claims: tuple[SharedClaim, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ScalingGroup:
    """Cliques that scale together."""

    name: str
    cliques: tuple[Clique, ...]
    replicas: int
    min_available: int
    constraint: Constraint
    mnnvl_group: str | None
    claims: tuple[SharedClaim, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CliqueSet:
    """A whole set. `standalone` are the cliques in no scaling group."""

    object: Object
    replicas: int
    standalone: tuple[Clique, ...]
    scaling_groups: tuple[ScalingGroup, ...]
    priority_class: str
    constraint: Constraint
    mnnvl_group: str | None
    claims: tuple[SharedClaim, ...]
    labels: Mapping[str, str]


def read_clique_set(one: Object, at: At, pod_specs: PodSpecReader) -> CliqueSet:
    """A PodCliqueSet with all defaults filled in."""
    spec = at.get("spec")
    template = spec.get("template")
    topology = _Topology()
    constraint = topology.read(template.get("topologyConstraint"))
    cliques = _cliques(template.get("cliques"), topology, pod_specs)
    scaling_groups = _scaling_groups(template.get("podCliqueScalingGroups"), cliques, topology)
    scaled = {clique.name for group in scaling_groups for clique in group.cliques}
    return CliqueSet(
        object=one,
        replicas=spec.get("replicas").integer(0, least=0),
        standalone=tuple(c for c in cliques.values() if c.name not in scaled),
        scaling_groups=scaling_groups,
        priority_class=template.get("priorityClassName").text(),
        constraint=constraint,
        mnnvl_group=_mnnvl_group(at.get("metadata").get("annotations")),
        claims=_claims(template.get("resourceSharing")),
        labels=at.get("metadata").get("labels").labels(),
    )


def _cliques(at: At, topology: _Topology, pod_specs: PodSpecReader) -> dict[str, Clique]:
    if not at.value:
        at.problem("must hold at least one clique")
    cliques: dict[str, Clique] = {}
    for entry in at.items():
        name = _name(entry.get("name"), cliques)
        spec = entry.get("spec")
        replicas, minimum = _sizes(spec, default=None)
        pod_spec = spec.get("podSpec")
        for field in _REFUSED_IN_PODS:
            if pod_spec.get(field).value:
                pod_spec.get(field).problem("Grove allows none here")
        if not isinstance(pod_spec.value, dict):
            pod_spec.problem("is missing")
        else:
            pod_spec.adopt(pod_specs.read(pod_spec.value).findings)
        cliques[name] = Clique(
            name=name,
            replicas=replicas,
            min_available=minimum,
            labels=entry.get("labels").labels(),
            annotations=entry.get("annotations").labels(),
            pod_spec=pod_spec.value if isinstance(pod_spec.value, dict) else {},
            constraint=topology.read(entry.get("topologyConstraint")),
            mnnvl_group=_mnnvl_group(entry.get("annotations")),
            claims=_claims(entry.get("resourceSharing")),
        )
    return cliques


def _scaling_groups(
    at: At, cliques: Mapping[str, Clique], topology: _Topology
) -> tuple[ScalingGroup, ...]:
    groups: dict[str, ScalingGroup] = {}
    owners: dict[str, str] = {}
    for entry in at.items():
        name = _name(entry.get("name"), groups)
        names = entry.get("cliqueNames")
        members = tuple(dict.fromkeys(names.texts()))
        if not members:
            names.problem("must name at least one clique")
        for member in members:
            if member not in cliques:
                names.problem(f"there is no clique {member}")
            elif member in owners:
                names.problem(f"clique {member} already belongs to {owners[member]}")
            owners.setdefault(member, name)
        replicas, minimum = _sizes(entry, default=1)
        groups[name] = ScalingGroup(
            name=name,
            cliques=tuple(cliques[m] for m in members if m in cliques),
            replicas=replicas,
            min_available=minimum,
            constraint=topology.read(entry.get("topologyConstraint")),
            mnnvl_group=_mnnvl_group(entry.get("annotations")),
            claims=_claims(entry.get("resourceSharing")),
        )
    return tuple(groups.values())


class _Sizes(NamedTuple):
    """How many replicas there should be, and at least."""

    replicas: int
    least: int


def _sizes(at: At, *, default: int | None) -> _Sizes:
    """Replicas and minAvailable; without `default` replicas must be there and are the minimum."""
    replicas, minimum = at.get("replicas"), at.get("minAvailable")
    if replicas.absent and default is None:
        replicas.problem("is missing")
    count = replicas.integer(default or 1, least=1)
    least = minimum.integer(count if default is None else default, least=1)
    # Replicas that are no number have been reported already.
    if least > count and (replicas.absent or replicas.value == count):
        where = replicas if minimum.absent else minimum
        where.problem(f"minAvailable {least} is more than replicas {count}")
    return _Sizes(count, least)


def _name(at: At, others: Mapping[str, object]) -> str:
    name = at.required_text()
    if name in others:
        at.problem(f"{name} is there more than once")
    elif name and not is_name(name):
        at.problem(not_a_name(name))
    return name


class _Topology:
    """Reads constraints; the nearest name counts, and a set has only one."""

    def __init__(self) -> None:
        self._name = ""

    def read(self, at: At) -> Constraint:
        pack, legacy = at.get("pack"), at.get("packDomain").text()
        required, preferred = pack.get("required").text(), pack.get("preferred").text()
        named = at.get("topologyName").text()
        if self._name and named and named != self._name:
            at.get("topologyName").problem(f"is not {self._name}: a set uses one topology")
        self._name = self._name or named
        if legacy and required:
            at.get("packDomain").problem("says the same as pack.required; give one of them")
        if not (at.absent or legacy or required or preferred or named):
            at.problem("must hold pack.required or pack.preferred")
        return Constraint(self._name, required or legacy, preferred)


def _mnnvl_group(annotations: At) -> str | None:
    group = annotations.labels().get(_MNNVL_GROUP)
    if group is not None and not _LABEL.fullmatch(group):
        annotations.problem_under(
            _MNNVL_GROUP, f"must be lower-case letters, digits and '-', not {group!r}"
        )
    return group


def _claims(at: At) -> tuple[SharedClaim, ...]:
    result = []
    for entry in at.items():
        scope = entry.get("scope").required_text()
        if scope and scope not in ("AllReplicas", "PerReplica"):
            entry.get("scope").problem(f"must be AllReplicas or PerReplica, not {scope}")
        chosen = entry.get("filter")
        result.append(
            SharedClaim(
                name=entry.get("name").required_text(),
                per_replica=scope == "PerReplica",
                cliques=chosen.get("childCliqueNames").texts(),
                scaling_groups=chosen.get("childScalingGroupNames").texts(),
            )
        )
    return tuple(result)
