"""What a pod asks of the cluster, read from its PodSpec.

Every field of a PodSpec that affects where a pod may run is in one of three classes; no other field
is read:

Honoured
    Requests of containers, init containers and sidecars, `resources` of the pod
    and `overhead`, counted as the kubelet does (limits stand in for requests
    that are absent). `nodeName`, `schedulingGates`, `nodeSelector`, required
    node affinity, `tolerations`, required pod affinity and anti-affinity with
    `namespaces`, `namespaceSelector` (of labels other than the name only when the
    Namespace objects are in the input), `matchLabelKeys` and `mismatchLabelKeys`;
    `topologySpreadConstraints` with `DoNotSchedule`,
    including `minDomains`, `matchLabelKeys` and both policies; host ports, and
    the container ports of pods with `hostNetwork`; `priority`, `priorityClassName` and
    `preemptionPolicy`, where the PodGang names no class. `resourceClaims` (see
    `claims`), `persistentVolumeClaim` and `ephemeral` volumes (see `volumes`),
    `schedulingGroup` and `workloadRef` (see `native_gangs`), and what annotations say
    of shares of GPUs (see `shares`).

Refused by name
    In-tree disks; toleration operators beyond `Exists` and `Equal`; and what the
    modules named above refuse. A gang with such a pod is not placed, and the answer
    says why.

Ignored, since it is soft or harmless
    Preferred node affinity, preferred pod affinity and anti-affinity, spread
    constraints with `ScheduleAnyway`, `PreferNoSchedule` taints;
    `runtimeClassName` (its overhead is already in `overhead`);
    `schedulerName` (the scheduler that is asked decides);
    `tolerationSeconds`; `os` (say it in the node selector); volumes that any
    node can mount (`emptyDir`, `hostPath`, `configMap`, `secret`, `projected`,
    `downwardAPI`, inline `csi`, `image` and network file systems); resizes in
    progress (a running pod counts with what its spec says).
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from placement import v1
from placement.kubernetes.pods.namespaces import Namespaces
from placement.kubernetes.pods.pod_rules import AffinityTerm, Spread, read_spread, read_terms
from placement.kubernetes.pods.taints import read_tolerations
from placement.kubernetes.values.reading import At, Finding, Findings
from placement.kubernetes.values.selectors import read_requirement

#: Volumes that do not tie a pod to a node.
_MOUNTABLE_ANYWHERE: Final = frozenset({
    "emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI", "csi", "image",
    "nfs", "cephfs", "glusterfs", "azureFile", "gitRepo",
})  # fmt: skip

#: Volumes whose location a claim decides.
_CLAIMED: Final = ("persistentVolumeClaim", "ephemeral")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
#: Resources that `spec.resources` of a whole pod may name.
_POD_LEVEL: Final = ("cpu", "memory")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_ALL_ADDRESSES: Final = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class HostPort:
    """`host_ip` is empty for all addresses."""

    port: int
    protocol: str
    host_ip: str

    def message(self) -> v1.HostPort:
        return v1.HostPort(port=self.port, protocol=self.protocol, host_ip=self.host_ip)


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """A volume whose location the cluster decides.

    `claim` names a PersistentVolumeClaim. It is empty for an ephemeral volume, whose claim
    is named after the pod and `volume`, and has the class `storage_class` until it is made.
    """

    claim: str
    volume: str = ""
    storage_class: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """An entry of `resourceClaims`: a claim by name, or one made from a template."""

    name: str
    claim: str
    template: str


@dataclass(frozen=True, slots=True, eq=False)
class PodSpec:
    """What the scheduling part of a PodSpec says. Shared by all pods that say the same.

    `unsupported` and `findings` hold field paths relative to the spec.
    """

    requests: Mapping[str, int]
    node_selector: Mapping[str, str]
    node_affinity: v1.NodeSelector | None
    tolerations: tuple[v1.Toleration, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    spread: tuple[Spread, ...]
    host_ports: tuple[HostPort, ...]
    volumes: tuple[VolumeUse, ...]
    claims: tuple[ClaimUse, ...]
    unsupported: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def has_rules_between_pods(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread)


class PodSpecReader:
    """Reads PodSpecs, each different one once: thousands of pods share a few."""

    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces = namespaces or Namespaces()
        self._known: dict[bytes, PodSpec] = {}

    def read(self, spec: Mapping[str, Any]) -> PodSpec:
        """What a PodSpec says. What is wrong with it is in `findings`."""
        facts = relevant(spec)
        try:
            # Version 2 has no references to equal objects, so that equal specs
            # give equal bytes.
            key = marshal.dumps(facts, 2)
        except ValueError:
            return _read(facts, self._namespaces)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _read(facts, self._namespaces)
        return known


def resources_message(amounts: Mapping[str, int]) -> v1.Resources:
    """Amounts by resource name (see `quantities.amount`) on the wire; zeros are left out."""
    return v1.Resources(
        cpu_millis=amounts.get("cpu", 0),
        memory_bytes=amounts.get("memory", 0),
        ephemeral_storage_bytes=amounts.get("ephemeral-storage", 0),
        pod_count=amounts.get("pods", 0),
        extended={k: v for k, v in amounts.items() if v and k not in _OWN_FIELDS},
    )


_OWN_FIELDS: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_CONTAINER_FIELDS: Final = ("resources", "ports", "restartPolicy")
_FIELDS: Final = (
    "overhead", "resources", "hostNetwork", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "resourceClaims",
)  # fmt: skip


def relevant(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A PodSpec without what placement does not look at.

    Generated names of volumes and mounts make the specs of equal pods differ;
    without them the specs are equal.
    """
    result = {field: spec[field] for field in _FIELDS if field in spec}
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            containers = [
                {f: c[f] for f in _CONTAINER_FIELDS if f in c} if isinstance(c, dict) else c
                for c in containers
            ]
        if containers is not None:
            result[field] = containers
    volumes = spec.get("volumes")
    if isinstance(volumes, list):
        volumes = [_relevant_volume(v) if isinstance(v, dict) else v for v in volumes]
        # Most pods mount only what any node has: nothing to say about those.
        volumes = volumes if any(volumes) else None
    if volumes is not None:
        result["volumes"] = volumes
    return result


def _relevant_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in volume.items() if k != "name" and k not in _MOUNTABLE_ANYWHERE}
    if "ephemeral" in kept:
        kept["name"] = volume.get("name")
    return {k: v if k in (*_CLAIMED, "name") else None for k, v in kept.items()}


def _read(spec: Mapping[str, Any], namespaces: Namespaces) -> PodSpec:
    findings: Findings = {}
    unsupported: list[str] = []
    at = At(spec, findings)
    affinity = at.get("affinity")
    return PodSpec(
        requests=effective_requests(at),
        node_selector=at.get("nodeSelector").labels(),
        node_affinity=read_node_selector(affinity.get("nodeAffinity").get(_REQUIRED)),
        tolerations=read_tolerations(at.get("tolerations"), unsupported),
        affinity=read_terms(affinity.get("podAffinity").get(_REQUIRED), namespaces, unsupported),
        anti_affinity=read_terms(
            affinity.get("podAntiAffinity").get(_REQUIRED), namespaces, unsupported
        ),
        spread=read_spread(at.get("topologySpreadConstraints")),
        host_ports=_host_ports(at),
        volumes=_volumes(at.get("volumes")),
        claims=_claims(at.get("resourceClaims")),
        unsupported=(*unsupported, *_disks(at.get("volumes"))),
        findings=tuple(findings),
    )


def effective_requests(at: At) -> dict[str, int]:
    """What a pod of a PodSpec asks of its node, as the kubelet counts it, each resource in its
    unit (see `quantities.amount`); those of zero are left out.

    Containers and sidecars run side by side. An init container runs beside the
    sidecars that started before it, and only the largest of these moments counts.
    """
    total: dict[str, int] = {}
    containers = at.get("containers")
    if not containers.value:
        containers.problem("is missing")
    for container in containers.items():
        _add(total, _container_requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in at.get("initContainers").items():
        own = _container_requests(container)
        _add(own, sidecars)
        policy = container.get("restartPolicy")
        if policy.value and policy.choice("", _RESTART_POLICIES) == "Always":
            sidecars = own
        _raise_to(peak, own)
    _add(total, sidecars)
    _raise_to(total, peak)
    resources = at.get("resources")
    whole = resources.get("requests").amounts()
    limits = resources.get("limits").amounts()
    for resource in {*whole, *limits}:
        if resource not in _POD_LEVEL and not resource.startswith("hugepages-"):
            continue
        if resource in whole:
            total[resource] = whole[resource]
        else:
            total.setdefault(resource, limits[resource])
    _add(total, at.get("overhead").amounts())
    total["pods"] = 1
    return {resource: amount for resource, amount in total.items() if amount}


def _container_requests(container: At) -> dict[str, int]:
    resources = container.get("resources")
    return {**resources.get("limits").amounts(), **resources.get("requests").amounts()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for resource, amount in least.items():
        total[resource] = max(total.get(resource, 0), amount)


def read_node_selector(at: At) -> v1.NodeSelector | None:
    """The terms of a node selector, of which one has to match; None where it is absent."""
    if at.absent:
        return None
    terms = at.get("nodeSelectorTerms")
    messages = []
    for term in terms.items():
        fields = []
        for requirement in term.get("matchFields").items():
            field = read_requirement(requirement, ("In", "NotIn"))
            if field is not None and field.key != "metadata.name":
                requirement.get("key").problem(f"must be metadata.name, not {field.key}")
            elif field is not None:
                fields.append(field.message())
        labels = [read_requirement(r) for r in term.get("matchExpressions").items()]
        messages.append(
            v1.NodeSelectorTerm(
                match_expressions=[r.message() for r in labels if r is not None],
                match_fields=fields,
            )
        )
    if not terms.value:
        terms.problem("must hold at least one term")
    return v1.NodeSelector(terms=messages)


def _host_ports(at: At) -> tuple[HostPort, ...]:
    """The node's ports that containers and sidecars occupy, each once."""
    on_host = at.get("hostNetwork").flag()
    found: dict[HostPort, None] = {}
    for field in ("containers", "initContainers"):
        for container in at.get(field).items():
            if field == "initContainers" and container.get("restartPolicy").value != "Always":
                continue
            for port in container.get("ports").items():
                number = port.get("hostPort").integer(least=0, most=65535)
                if on_host and not number:
                    number = port.get("containerPort").integer(least=1, most=65535)
                protocol = port.get("protocol").choice("TCP", _PROTOCOLS)
                address = port.get("hostIP").text()
                if number:
                    address = "" if address == _ALL_ADDRESSES else address
                    found[HostPort(number, protocol, address)] = None
    return tuple(found)


def _volumes(at: At) -> tuple[VolumeUse, ...]:
    result = []
    for volume in at.items():
        claim, own = volume.get("persistentVolumeClaim"), volume.get("ephemeral")
        if not claim.absent:
            result.append(VolumeUse(claim.get("claimName").required_text()))
        elif not own.absent:
            template = own.get("volumeClaimTemplate").get("spec").get("storageClassName")
            result.append(
                VolumeUse(
                    "",
                    volume.get("name").required_text(),
                    None if template.absent else template.text(),
                )
            )
    return tuple(result)


def _claims(at: At) -> tuple[ClaimUse, ...]:
    result = []
    for entry in at.items():
        claim = entry.get("resourceClaimName").text()
        template = entry.get("resourceClaimTemplateName").text()
        if bool(claim) == bool(template):
            entry.problem("must hold resourceClaimName or resourceClaimTemplateName")
        else:
            result.append(ClaimUse(entry.get("name").required_text(), claim, template))
    return tuple(result)


def _disks(at: At) -> list[str]:
    return [
        volume.get(kind).path
        for volume in at.items()
        for kind in volume.value
        if kind not in _CLAIMED and kind != "name"
    ]
