"""PodCliqueSets to the PodGangs and pods that Grove would make of them.

Grove's rule: each replica of a set has a base PodGang, of the standalone cliques
and of the first `minAvailable` replicas of each scaling group. Every further
replica of a scaling group is a scaled PodGang, whose pods name the base.

    set  replicas 1, router, decode group with replicas 3 and minAvailable 1

    serve-0            base    router, decode-0
    serve-0-decode-0   scaled  decode-1         (numbered from the first beyond
    serve-0-decode-1   scaled  decode-2          the minimum)

Pods are named ``<podclique>-<index>``, where Grove leaves the end of the name to
the API server; they carry no gate, and each PodGang says that it is initialized.
What Grove adds for the pods' own use (environment, init containers, hashes) does not matter to
placement and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from placement.kubernetes.gangs import BASE_POD_GANG
from placement.kubernetes.grove.cliquesets import (
    Clique,
    CliqueSet,
    Constraint,
    ScalingGroup,
    SharedClaim,
    read_clique_set,
)
from placement.kubernetes.grove.levels import Levels, read_levels
from placement.kubernetes.objects import POD, POD_CLIQUE_SET, POD_GANG, Object, Objects
from placement.kubernetes.pods.claims.compute_domains import GROVE_CLAIM
from placement.kubernetes.pods.podspec import PodSpecReader
from placement.kubernetes.problems import InputError, Problem
from placement.kubernetes.schema.kinds import COMPUTE_DOMAINS
from placement.kubernetes.values.reading import At, Findings

_PART_OF: Final = "app.kubernetes.io/part-of"
_GPU: Final = "nvidia.com/gpu"
_NO_MNNVL: Final = "none"
_TOPOLOGY_NAME: Final = "grove.io/topology-name"
#: Schedulers for which Grove has a profile; pods of any other run under the default one.
_PROFILES: Final = {"kai-scheduler": "kai-scheduler"}
_DEFAULT_PROFILE: Final = "default-scheduler"

#: A set of more pods is a typing error, and would fill the memory.
_MOST_PODS: Final = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """The gangs and pods that the sets of an input stand for, with problems and warnings."""

    pod_gangs: tuple[Object, ...]
    pods: tuple[Object, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def expand(objects: Objects) -> list[dict[str, Any]]:
    """The PodGangs and pods of all PodCliqueSets that have none in the input.

    The ComputeDomains that they need come first; each gang is followed by its pods. Raises
    `InputError` with every problem of the sets and their topology, those of loading first.
    """
    expansion = expand_all(objects)
    problems = (*objects.problems, *expansion.problems)
    if problems:
        raise InputError(problems)
    pods: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pod in expansion.pods:
        body = dict(pod.body)
        gang = pod.namespace, body["metadata"]["labels"]["grove.io/podgang"]
        pods.setdefault(gang, []).append(body)
    there = {domain.key for domain in objects.of_kind(COMPUTE_DOMAINS)}
    return [
        *(_compute_domain(*key) for key in _domains(expansion.pods) if key not in there),
        *(
            body
            for gang in expansion.pod_gangs
            for body in (dict(gang.body), *pods.get(gang.key, ()))
        ),
    ]


def _domains(pods: Iterable[Object]) -> dict[tuple[str, str], None]:
    """Namespace and name of the domains that pods are made for, one for all of a replica."""
    found: dict[tuple[str, str], None] = {}
    for pod in pods:
        for claim in pod.body["spec"].get("resourceClaims") or ():
            if claim["name"] == GROVE_CLAIM and "resourceClaimTemplateName" in claim:
                found[pod.namespace, claim["resourceClaimTemplateName"]] = None
    return found


def _compute_domain(namespace: str, name: str) -> dict[str, Any]:
    """A domain of any number of nodes, whose claim template has its own name."""
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "grove-operator"},
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }


def expand_all(objects: Objects) -> Expansion:
    """`expand` with its warnings, and with problems as values."""
    if not objects.pod_clique_sets:
        return Expansion((), (), (), ())
    problems: list[Problem] = []
    warnings: list[Problem] = []
    levels = read_levels(objects, problems)
    pod_specs = PodSpecReader()
    given_pods = {pod.key: pod for pod in objects.pods}
    owners = _owners(objects.pod_gangs)
    with_pods = _owners(objects.pods)
    gangs: list[Object] = []
    pods: list[Object] = []
    for one in objects.pod_clique_sets:
        findings: Findings = {}
        clique_set = read_clique_set(one, At(one.body, findings), pod_specs)
        problems += [one.problem(*finding) for finding in findings]
        if findings or one.key in owners:
            continue
        if (size := _pod_count(clique_set)) > _MOST_PODS:
            problems.append(
                one.problem(
                    "spec.replicas", f"makes {size:,} pods, at most {_MOST_PODS:,} are made"
                )
            )
            continue
        if clique_set.replicas == 0:
            warnings.append(one.problem("spec.replicas", "has no replicas"))
        if one.key in with_pods:
            warnings.append(
                one.problem(
                    "",
                    "has pods in the input but no PodGangs: it is planned anew beside them",
                )
            )
        taken = {gang.key for gang in (*objects.pod_gangs, *gangs)}
        every = (_Replica(clique_set, levels, i).gangs() for i in range(clique_set.replicas))
        for gang, members in chain.from_iterable(every):
            made = _object(one, gang)
            if made.key in taken:
                problems.append(one.problem("", f"needs the name of {made}, which is taken"))
            gangs.append(made)
            pods += [p for p in (_object(one, m) for m in members) if p.key not in given_pods]
    return Expansion(tuple(gangs), tuple(pods), tuple(problems), (*warnings, *levels.warnings))


def _owners(objects: Iterable[Object]) -> set[tuple[str, str]]:
    """Namespace and name of the sets that objects say they belong to."""
    found = set()
    for one in objects:
        # Anything wrong with it is noted where the object itself is read.
        metadata = At(one.body, {}).get("metadata")
        found.add((one.namespace, metadata.get("labels").labels().get(_PART_OF, "")))
        for owner in metadata.get("ownerReferences").items():
            if owner.get("kind").value == POD_CLIQUE_SET:
                found.add((one.namespace, owner.get("name").text()))
    return found


def _pod_count(whole: CliqueSet) -> int:
    standalone = sum(clique.replicas for clique in whole.standalone)
    scaled = sum(g.replicas * sum(c.replicas for c in g.cliques) for g in whole.scaling_groups)
    return whole.replicas * (standalone + scaled)


def _object(origin: Object, body: Mapping[str, Any]) -> Object:
    metadata = body["metadata"]
    return Object(
        body["kind"], origin.namespace, metadata["name"], body, origin.file, origin.document, origin
    )


@dataclass(frozen=True, slots=True, eq=False)
class _PodClique:
    """One clique of one replica, `scaling_replica` of its group (None: standalone)."""

    name: str
    clique: Clique
    group: ScalingGroup | None = None
    scaling_replica: int = 0


_Made = tuple[dict[str, Any], list[dict[str, Any]]]


class _Replica:
    """One replica of a PodCliqueSet, as the PodGangs and pods that Grove makes of it."""

    def __init__(self, whole: CliqueSet, levels: Levels, number: int) -> None:
        self._whole, self._levels, self._number = whole, levels, number
        self._name = f"{whole.object.name}-{number}"

    def gangs(self) -> Iterator[_Made]:
        """Every PodGang with its pods, the base before its scaled ones."""
        base, whole = self._name, self._whole
        cliques = [_PodClique(f"{base}-{c.name}", c) for c in whole.standalone]
        configs = []
        for group in whole.scaling_groups:
            pack = self._pack(group.constraint)
            for index in range(group.min_available):
                members = _scaled_cliques(base, group, index)
                cliques += members
                if group.constraint:
                    # If its domain is unknown it stays, without a constraint.
                    configs.append(
                        {
                            "name": f"{base}-{group.name}-{index}",
                            "podGroupNames": [member.name for member in members],
                            **({"topologyConstraint": pack} if pack else {}),
                        }
                    )
        yield self._gang(base, "", cliques, whole.constraint, configs)
        for group in whole.scaling_groups:
            for index in range(group.min_available, group.replicas):
                yield self._gang(
                    f"{base}-{group.name}-{index - group.min_available}",
                    base,
                    _scaled_cliques(base, group, index),
                    group.constraint or whole.constraint,
                    [],
                )

    def _gang(
        self,
        name: str,
        base: str,
        cliques: list[_PodClique],
        constraint: Constraint,
        configs: list[dict[str, Any]],
    ) -> _Made:
        whole = self._whole
        namespace = whole.object.namespace
        groups = []
        pods = []
        for podclique in cliques:
            members = [
                self._pod(name, base, podclique, index)
                for index in range(podclique.clique.replicas)
            ]
            pods += members
            group: dict[str, Any] = {
                "name": podclique.name,
                "minReplicas": podclique.clique.min_available,
                "podReferences": [
                    {"namespace": namespace, "name": member["metadata"]["name"]}
                    for member in members
                ],
            }
            if pack := self._pack(podclique.clique.constraint):
                group["topologyConstraint"] = pack
            groups.append(group)
        spec: dict[str, Any] = {"podgroups": groups}
        if pack := self._pack(constraint):
            spec["topologyConstraint"] = pack
        if configs:
            spec["topologyConstraintGroupConfigs"] = configs
        if whole.priority_class:
            spec["priorityClassName"] = whole.priority_class
        packed = [constraint, *(podclique.clique.constraint for podclique in cliques)]
        packed += [podclique.group.constraint for podclique in cliques if podclique.group]
        has_pack = any("topologyConstraint" in part for part in (spec, *groups, *configs))
        topology = next((c.topology for c in packed if c and c.topology), "") or self._levels.only
        scheduler = (
            At(cliques[0].clique.pod_spec, {}).get("schedulerName").text() if cliques else ""
        )
        gang = {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": POD_GANG,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {
                    **whole.labels,
                    "app.kubernetes.io/managed-by": "grove-operator",
                    _PART_OF: whole.object.name,
                    "app.kubernetes.io/component": "podgang",
                    "grove.io/scheduler-name": _PROFILES.get(scheduler, _DEFAULT_PROFILE),
                },
                **({"annotations": {_TOPOLOGY_NAME: topology}} if has_pack else {}),
            },
            "spec": spec,
            "status": {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "Initialized",
                        "status": "True",
                        "reason": "PodGangPodsCreated",
                        "message": "PodGang is fully initialized",
                    }
                ],
            },
        }
        return gang, pods

    def _pack(self, constraint: Constraint) -> dict[str, Any]:
        """A topologyConstraint with labels in place of domains; empty when nothing is left."""
        domains = {"required": constraint.required, "preferred": constraint.preferred}
        topology = constraint.topology
        keys = {
            strength: self._levels.key(self._whole.object, topology, domain)
            for strength, domain in domains.items()
            if domain
        }
        kept = {strength: key for strength, key in keys.items() if key}
        return {"packConstraint": kept} if kept else {}

    def _pod(self, gang: str, base: str, podclique: _PodClique, index: int) -> dict[str, Any]:
        clique, group = podclique.clique, podclique.group
        name = f"{podclique.name}-{index}"
        labels = {
            **clique.labels,
            "app.kubernetes.io/managed-by": "grove-operator",
            _PART_OF: self._whole.object.name,
            "app.kubernetes.io/name": podclique.name,
            "app.kubernetes.io/component": "pcsg-podclique" if group else "pcs-podclique",
            "grove.io/podclique": podclique.name,
            "grove.io/podgang": gang,
            "grove.io/podcliqueset-replica-index": str(self._number),
            "grove.io/podclique-pod-index": str(index),
        }
        if group:
            labels["grove.io/podcliquescalinggroup"] = f"{self._name}-{group.name}"
            labels["grove.io/podcliquescalinggroup-replica-index"] = str(podclique.scaling_replica)
        if base:
            labels[BASE_POD_GANG] = base
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": self._whole.object.namespace,
            "labels": labels,
        }
        if clique.annotations:
            metadata["annotations"] = dict(clique.annotations)
        spec = {
            **clique.pod_spec,
            "hostname": name,
            "subdomain": self._name,
        }
        # Grove sets its own gate and removes it again.
        spec.pop("schedulingGates", None)
        claims = self._shared_claims(podclique, index)
        mnnvl = self._mnnvl_claim(podclique)
        if claims or mnnvl:
            own = spec.get("resourceClaims")
            spec["resourceClaims"] = [*(own if isinstance(own, list) else ()), *claims, *mnnvl]
            spec["containers"] = [
                _with_claims(container, [*claims, *(mnnvl if _gpus_of(container) else ())])
                for container in At(clique.pod_spec, {}).get("containers").items()
            ]
        return {"apiVersion": "v1", "kind": POD, "metadata": metadata, "spec": spec}

    def _shared_claims(self, podclique: _PodClique, index: int) -> list[dict[str, str]]:
        """The claims that a pod shares with others: those of its set, of its scaling group, and of
        its clique; in each case those of all replicas first.
        """
        clique, group = podclique.clique, podclique.group
        names = []
        for claim in _wide_first(self._whole.claims):
            everyone = not claim.cliques and not claim.scaling_groups
            in_group = group is not None and group.name in claim.scaling_groups
            if everyone or in_group or (group is None and clique.name in claim.cliques):
                names.append(_claim_name(claim, self._whole.object.name, self._number))
        if group:
            owner = f"{self._name}-{group.name}"
            names += [
                _claim_name(claim, owner, podclique.scaling_replica)
                for claim in _wide_first(group.claims)
                if not claim.cliques or clique.name in claim.cliques
            ]
        names += [_claim_name(claim, podclique.name, index) for claim in _wide_first(clique.claims)]
        return [{"name": name, "resourceClaimName": name} for name in names]

    def _mnnvl_claim(self, podclique: _PodClique) -> list[dict[str, str]]:
        """The claim of an NVLink domain that spans nodes, where the pod asks for GPUs and one."""
        clique, group = podclique.clique, podclique.group
        asked = (clique.mnnvl_group, group.mnnvl_group if group else None, self._whole.mnnvl_group)
        nearest = next((g for g in asked if g is not None), _NO_MNNVL)
        if nearest == _NO_MNNVL or not _asks_for_gpus(clique):
            return []
        template = f"{self._name}-{nearest}"
        return [{"name": GROVE_CLAIM, "resourceClaimTemplateName": template}]


def _scaled_cliques(base: str, group: ScalingGroup, index: int) -> list[_PodClique]:
    prefix = f"{base}-{group.name}-{index}"
    return [_PodClique(f"{prefix}-{c.name}", c, group, index) for c in group.cliques]


def _wide_first(claims: Iterable[SharedClaim]) -> list[SharedClaim]:
    return sorted(claims, key=lambda claim: claim.per_replica)


def _with_claims(container: At, claims: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    resources = container.get("resources").value
    own = dict(resources) if isinstance(resources, dict) else {}
    listed = own.get("claims")
    names = [{"name": claim["name"]} for claim in claims]
    if names:
        own["claims"] = [*(listed if isinstance(listed, list) else ()), *names]
    return {**container.value, "resources": own} if own else container.value


def _claim_name(claim: SharedClaim, owner: str, replica: int) -> str:
    return f"{owner}-{replica if claim.per_replica else 'all'}-{claim.name}"


def _asks_for_gpus(clique: Clique) -> bool:
    at = At(clique.pod_spec, {})
    return any(
        _gpus_of(container)
        for field in ("containers", "initContainers")
        for container in at.get(field).items()
    )


def _gpus_of(container: At) -> bool:
    resources = container.get("resources")
    return any(resources.get(kind).amounts().get(_GPU) for kind in ("requests", "limits"))
