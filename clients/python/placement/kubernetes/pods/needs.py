"""What a pod asks for beyond its PodSpec alone: shares, claims, volumes, reservations.

A PodSpec names things that other objects and annotations define. `NeedsReader` combines all that,
each different combination once, so that pods that need the same share one `Needs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods import shares
from placement.kubernetes.pods.claims.claims import ClaimNeeds, Claims
from placement.kubernetes.pods.podspec import PodSpec
from placement.kubernetes.pods.shares import GpuRequest, Share
from placement.kubernetes.pods.volumes import Volumes, both
from placement.kubernetes.values.reading import At
from placement.kubernetes.values.selectors import Requirement, read_requirement

_KOORDINATOR: Final = "scheduling.koordinator.sh/"
_RESERVATION_AFFINITY: Final = f"{_KOORDINATOR}reservation-affinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
#: The fields of a reservation affinity; what is preferred is ignored.
_AFFINITY: Final = ("name", "reservationSelector", _REQUIRED,
    "preferredDuringSchedulingIgnoredDuringExecution", "tolerations")  # fmt: skip
_JOINT: Final = f"{_KOORDINATOR}device-joint-allocate"
_HINT: Final = f"{_KOORDINATOR}device-allocate-hint"
_PARTITION: Final = f"{_KOORDINATOR}gpu-partition-spec"
_IGNORES: Final = f"{_KOORDINATOR}reservation-ignored"
_PARTITION_POLICIES: Final = ("Restricted", "BestEffort")
_RDMA: Final = "koordinator.sh/rdma"
#: Hundredths that make one network device.
_ONE_DEVICE: Final = 100

#: Annotations that say what a pod needs.
ANNOTATIONS: Final = (*shares.ANNOTATIONS, _RESERVATION_AFFINITY, _JOINT, _HINT, _PARTITION)

_TOO_MANY_TERMS: Final = "its node affinity and its volumes together have too many terms"

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """One combination. `template` holds what a pod template has beside what its spec says.

    `requests` are what a pod asks of a node's resources, `held` what a running one has of them
    where that is something else. `unsupported` names what cannot be honoured when the pod is to be
    placed; `unknown` what it may hold while it runs and cannot be counted. `tied_by` are the claims
    of volumes that say where it runs.
    """

    requests: Mapping[str, int]
    share: Share | None
    template: v1.PodTemplate
    compute_domain: str
    unsupported: tuple[str, ...]
    unknown: str
    tied_by: tuple[str, ...] = ()
    held: Mapping[str, int] | None = None

    @property
    def taken(self) -> Mapping[str, int]:
        """What a running pod takes of its node."""
        return self.requests if self.held is None else self.held


class NeedsReader:
    """Reads needs; the volumes and claims are those of the input.

    `by_name` where not all GPUs are managed by Koordinator: what is asked of its resources is told
    beside the GPUs and shares that these mean.
    """

    def __init__(self, volumes: Volumes, claims: Claims, *, by_name: bool) -> None:
        self._volumes = volumes
        self._claims = claims
        self._by_name = by_name
        self._known: dict[_Key, Needs] = {}

    def read(
        self,
        one: Object,
        spec: PodSpec,
        labels: Mapping[str, str],
        notes: Mapping[str, str],
        metadata: At,
        status: At,
        *,
        runs: bool,
    ) -> Needs:
        """The needs of a pod with these labels and annotations (`notes`).

        What is wrong with annotations is noted there.
        """
        said = tuple((key, notes[key]) for key in ANNOTATIONS if key in notes) if notes else ()
        ignores = labels.get(_IGNORES) == "true"
        made = _made_claims(status) if spec.claims else ()
        # Objects of other namespaces, and claims named after the pod, differ between pods.
        where = one.namespace if spec.claims or spec.volumes else ""
        owner = ""
        if spec.volumes and any(not use.claim for use in spec.volumes):
            owner = one.name
        key = (id(spec), said, ignores, made, where, owner, runs and bool(owner or spec.claims))
        known = self._known.get(key)
        if known is None:
            annotations = metadata.get("annotations")
            before = annotations.finding_count
            claims = self._claims.of(one.namespace, spec.claims, dict(made), runs=runs)
            known = self._combine(one, spec, dict(said), ignores, claims, annotations, runs=runs)
            if annotations.finding_count == before:
                self._known[key] = known
        return known

    def _combine(
        self,
        one: Object,
        spec: PodSpec,
        notes: Mapping[str, str],
        ignores: bool,
        claims: ClaimNeeds,
        annotations: At,
        *,
        runs: bool,
    ) -> Needs:
        gpus = shares.read_shares(spec.requests, notes)
        places = self._volumes.places(one.namespace, one.name, spec.volumes, runs=runs)
        parts = [s for s in (spec.node_affinity, places.nodes, claims.nodes) if s is not None]
        nodes = both(parts)
        nics, refused = _joint(annotations, gpus)
        template = v1.PodTemplate(
            same_pcie_nics=nics,
            compute_domain=claims.compute_domain,
            required_reservation=_reservation_affinity(annotations),
            ignores_reservations=ignores,
            required_node_affinity=nodes,
            required_partition=_required_partition(annotations, gpus.requests),
        )
        if gpus.share is not None:
            template.device_share.CopyFrom(gpus.share.message())
        requests = gpus.requests
        if self._by_name:
            named = {r: spec.requests[r] for r in shares.MANAGED if r in spec.requests}
            requests = {**requests, **named} if named else requests
        held = None if claims.held is None else _sum(requests, claims.held)
        requests = _sum(requests, claims.requests) if claims.requests else requests
        return Needs(
            requests=requests,
            share=gpus.share,
            template=template,
            compute_domain=claims.compute_domain,
            unsupported=(
                *gpus.unsupported,
                *claims.unsupported,
                *places.unsupported,
                *((_TOO_MANY_TERMS,) if parts and nodes is None else ()),
                *refused,
                *_refused_annotations(annotations),
            ),
            unknown=claims.unknown or _unknown_share(gpus),
            tied_by=places.claims,
            held=held,
        )


def _sum(amounts: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return {r: amounts.get(r, 0) + more.get(r, 0) for r in {**amounts, **more}}


def _unknown_share(gpus: GpuRequest) -> str:
    return gpus.unsupported[0] if gpus.unsupported else ""


def _made_claims(status: At) -> tuple[tuple[str, str], ...]:
    """The claims that were made for a pod from templates, by their name in the pod."""
    return tuple(
        (entry.get("name").text(), entry.get("resourceClaimName").text())
        for entry in status.get("resourceClaimStatuses").items()
        if not entry.get("resourceClaimName").absent
    )


def read_json(annotations: At, key: str) -> At:
    """The mapping that an annotation holds as JSON; absent when there is none.

    Findings in it are noted under the annotation.
    """
    text = annotations.labels().get(key)
    where = annotations.entry(key)
    if not text:
        return At(None, {})
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        where.problem("is not JSON")
        return At(None, {})
    if not isinstance(value, dict):
        where.problem("must be a mapping in JSON")
        return At(None, {})
    return where.holding(value)


def _reservation_affinity(annotations: At) -> v1.ReservationSelector | None:
    affinity = read_json(annotations, _RESERVATION_AFFINITY)
    if affinity.absent:
        return None
    if name := affinity.get("name").text():
        return v1.ReservationSelector(name=f"reservations/{name}")
    labels = [
        Requirement(key, "In", (value,)).message()
        for key, value in sorted(affinity.get("reservationSelector").labels().items())
    ]
    required = affinity.get(_REQUIRED)
    terms = []
    for term in required.get("reservationSelectorTerms").items():
        expressions = [read_requirement(e) for e in term.get("matchExpressions").items()]
        terms.append(
            v1.NodeSelectorTerm(
                match_expressions=[*labels, *(e.message() for e in expressions if e is not None)]
            )
        )
    if not terms and labels:
        terms.append(v1.NodeSelectorTerm(match_expressions=labels))
    return v1.ReservationSelector(terms=terms)


def _joint(annotations: At, gpus: GpuRequest) -> tuple[int, list[str]]:
    """Network devices that must hang on the PCIe switches of the pod's GPUs, if it has any."""
    joint = read_json(annotations, _JOINT)
    if joint.absent:
        return 0, []
    types = set(joint.get("deviceTypes").texts())
    scope = joint.get("requiredScope").text()
    if types <= {"gpu", "rdma"} and scope in ("", "SamePCIe"):
        wanted = gpus.share is not None or any(gpus.requests.get(r) for r in shares.GPU_RESOURCES)
        joined = bool(scope) and "rdma" in types and wanted
        return (-(-gpus.requests.get(_RDMA, 0) // _ONE_DEVICE) if joined else 0), []
    return 0, [f"metadata.annotations[{_JOINT}]: {scope or 'these'} devices"]


def _refused_annotations(annotations: At) -> list[str]:
    """Requirements on single devices, and of reservations, that have no counterpart."""
    hints = read_json(annotations, _HINT)
    refused = [
        f"metadata.annotations[{_RESERVATION_AFFINITY}]: {field}"
        for field in read_json(annotations, _RESERVATION_AFFINITY).value or ()
        if field not in _AFFINITY
    ]
    for kind in hints.value or ():
        hint = hints.get(kind)
        if not (hint.absent or isinstance(hint.value, dict)):
            hint.must_be("a mapping")
            continue
        told = [field for field, said in (hint.value or {}).items() if said]
        refused += [f"metadata.annotations[{_HINT}]: {kind}.{field}" for field in told]
    return refused


def _required_partition(
    annotations: At, requests: Mapping[str, int]
) -> v1.RequiredPartition | None:
    """The partitions that a pod of whole GPUs insists on; shares of GPUs need none."""
    spec = read_json(annotations, _PARTITION)
    policy = spec.get("allocatePolicy")
    restricted = bool(policy.value) and policy.choice("", _PARTITION_POLICIES) == "Restricted"
    bandwidth = spec.get("ringBusBandwidth").quantity("memory")
    if not (restricted or bandwidth) or not any(map(requests.get, shares.GPU_RESOURCES)):
        return None
    return v1.RequiredPartition(best_score=restricted, ring_bandwidth=bandwidth)
