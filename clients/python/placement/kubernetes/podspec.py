"""What a pod asks of the cluster, read from its PodSpec.

Every field of a PodSpec that bears on where a pod may run falls in one of three
classes, and nothing else is looked at:

Honoured
    Requests of containers, init containers and sidecars, `resources` of the pod
    and `overhead`, counted as the kubelet does (limits stand in for requests
    that are absent). `nodeName`, `schedulingGates`, `nodeSelector`, required
    node affinity, `tolerations`, required pod affinity and anti-affinity with
    `namespaces`, `namespaceSelector: {}`, `matchLabelKeys` and
    `mismatchLabelKeys`; `topologySpreadConstraints` with `DoNotSchedule`,
    including `minDomains`, `matchLabelKeys` and both policies; host ports, and
    the container ports of pods with `hostNetwork`; `priority` and
    `priorityClassName`, where the PodGang names no class.

Refused by name
    `resourceClaims` (dynamic resource allocation, and with it ComputeDomains);
    volumes whose place the cluster decides (`persistentVolumeClaim`,
    `ephemeral` and in-tree disks); `namespaceSelector` of labels, for
    namespaces are not read; toleration operators beyond `Exists` and `Equal`;
    `workloadRef` and `schedulingGroup`, which make the pod part of another gang;
    and the annotations of GPU sharing, ``gpu-fraction``, ``gpu-memory`` and
    ``gpu-fraction-num-devices``. A gang with such a pod is not placed, and the
    answer says why.

Ignored, since it is soft or harmless
    Preferred node affinity, preferred pod affinity and anti-affinity, spread
    constraints with `ScheduleAnyway`, `PreferNoSchedule` taints;
    `preemptionPolicy` (nothing is preempted); `runtimeClassName` (its overhead
    is already in `overhead`); `schedulerName` (whoever is asked decides);
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
from placement.kubernetes.reading import At, Finding, Findings
from placement.kubernetes.selectors import (
    LabelSelector,
    Requirement,
    read_requirement,
    read_selector,
)

#: Volumes that do not tie a pod to a node.
_MOUNTABLE_ANYWHERE: Final = frozenset({
    "emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI", "csi", "image",
    "nfs", "cephfs", "glusterfs", "azureFile", "gitRepo",
})  # fmt: skip

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TAINT_EFFECTS: Final[Mapping[str, v1.TaintEffect]] = {
    "NoSchedule": v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE,
    "PreferNoSchedule": v1.TaintEffect.TAINT_EFFECT_PREFER_NO_SCHEDULE,
    "NoExecute": v1.TaintEffect.TAINT_EFFECT_NO_EXECUTE,
}
#: Resources that `spec.resources` of a whole pod may name.
_POD_LEVEL: Final = ("cpu", "memory")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_ALL_ADDRESSES: Final = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required (anti-)affinity term; see `resolved` for the label keys."""

    selector: LabelSelector | None
    topology_key: str
    namespaces: tuple[str, ...]
    all_namespaces: bool
    match_label_keys: tuple[str, ...]
    mismatch_label_keys: tuple[str, ...]

    def resolved(self, labels: Mapping[str, str]) -> AffinityTerm:
        """The term of a pod with these labels, the label keys folded into the selector.

        As the API server does when a pod is created, so that doing it again to
        what it did changes nothing.
        """
        if self.selector is None or not (self.match_label_keys or self.mismatch_label_keys):
            return self
        selector = self.selector.narrowed(
            Requirement(key, operator, (labels[key],))
            for operator, keys in (
                ("In", self.match_label_keys),
                ("NotIn", self.mismatch_label_keys),
            )
            for key in keys
            if key in labels
        )
        return AffinityTerm(
            selector, self.topology_key, self.namespaces, self.all_namespaces, (), ()
        )

    def matches(self, own_namespace: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the term of a pod in `own_namespace` names a pod (once resolved)."""
        if self.selector is None:
            return False
        if not self.all_namespaces and namespace not in (self.namespaces or (own_namespace,)):
            return False
        return self.selector.matches(labels)

    def message(self) -> v1.PodAffinityTerm:
        return v1.PodAffinityTerm(
            selector=None if self.selector is None else self.selector.message(),
            topology_key=self.topology_key,
            namespaces=() if self.all_namespaces else self.namespaces,
            all_namespaces=self.all_namespaces,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint with DoNotSchedule."""

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    min_domains: int
    ignore_node_affinity: bool
    honor_taints: bool
    match_label_keys: tuple[str, ...]

    def resolved(self, labels: Mapping[str, str]) -> Spread:
        """The constraint of a pod with these labels; as for `AffinityTerm`."""
        if self.selector is None or not self.match_label_keys:
            return self
        selector = self.selector.narrowed(
            Requirement(key, "In", (labels[key],)) for key in self.match_label_keys if key in labels
        )
        return Spread(
            self.max_skew,
            self.topology_key,
            selector,
            self.min_domains,
            self.ignore_node_affinity,
            self.honor_taints,
            (),
        )

    def message(self) -> v1.SpreadConstraint:
        return v1.SpreadConstraint(
            max_skew=self.max_skew,
            topology_key=self.topology_key,
            selector=None if self.selector is None else self.selector.message(),
            min_domains=self.min_domains,
            ignore_node_affinity=self.ignore_node_affinity,
            honor_taints=self.honor_taints,
        )


@dataclass(frozen=True, slots=True)
class HostPort:
    """`host_ip` is empty for all addresses."""

    port: int
    protocol: str
    host_ip: str

    def message(self) -> v1.HostPort:
        return v1.HostPort(port=self.port, protocol=self.protocol, host_ip=self.host_ip)


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
    unsupported: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def has_rules_between_pods(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread)


class PodSpecReader:
    """Reads PodSpecs, each different one once: thousands of pods share a few."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodSpec] = {}

    def read(self, spec: Mapping[str, Any]) -> PodSpec:
        """What a PodSpec says. What is wrong with it is in `findings`."""
        facts = relevant(spec)
        try:
            # Version 2 has no references to equal objects, so that equal specs
            # give equal bytes.
            key = marshal.dumps(facts, 2)
        except ValueError:
            return _read(facts)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _read(facts)
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

_CONTAINER_FIELDS: Final = ("resources", "ports", "restartPolicy")
_FIELDS: Final = (
    "overhead", "resources", "hostNetwork", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "resourceClaims", "workloadRef", "schedulingGroup",
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
        volumes = [
            {k: None for k in v if k != "name" and k not in _MOUNTABLE_ANYWHERE}
            if isinstance(v, dict)
            else v
            for v in volumes
        ]
        # Most pods mount only what any node has: nothing to say about those.
        volumes = volumes if any(volumes) else None
    if volumes is not None:
        result["volumes"] = volumes
    return result


def _read(spec: Mapping[str, Any]) -> PodSpec:
    findings: Findings = {}
    unsupported: list[str] = []
    at = At(spec, findings)
    affinity = at.get("affinity")
    return PodSpec(
        requests=_requests(at),
        node_selector=at.get("nodeSelector").labels(),
        node_affinity=_node_affinity(affinity.get("nodeAffinity").get(_REQUIRED)),
        tolerations=_tolerations(at.get("tolerations"), unsupported),
        affinity=_terms(affinity.get("podAffinity").get(_REQUIRED), unsupported),
        anti_affinity=_terms(affinity.get("podAntiAffinity").get(_REQUIRED), unsupported),
        spread=_spread(at.get("topologySpreadConstraints")),
        host_ports=_host_ports(at),
        unsupported=(*unsupported, *_unsupported(at)),
        findings=tuple(findings),
    )


def _requests(at: At) -> dict[str, int]:
    """The effective request, as the kubelet counts it; resources of zero are left out.

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
        if container.get("restartPolicy").text() == "Always":
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


def _node_affinity(at: At) -> v1.NodeSelector | None:
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


def _tolerations(at: At, unsupported: list[str]) -> tuple[v1.Toleration, ...]:
    result = []
    for toleration in at.items():
        key = toleration.get("key").text()
        operator = toleration.get("operator").text("Equal") or "Equal"
        value = toleration.get("value").text()
        effect = _effect(toleration.get("effect"), none=v1.TaintEffect.TAINT_EFFECT_UNSPECIFIED)
        if operator in ("Lt", "Gt"):
            unsupported.append(toleration.get("operator").path + f" {operator}")
        elif operator not in ("Exists", "Equal"):
            toleration.get("operator").problem(f"must be Exists or Equal, not {operator}")
        elif operator == "Equal" and not key:
            toleration.get("operator").problem("must be Exists when the key is empty")
        else:
            exists = operator == "Exists"
            result.append(
                v1.Toleration(
                    key=key,
                    operator=v1.TolerationOperator.TOLERATION_OPERATOR_EXISTS
                    if exists
                    else v1.TolerationOperator.TOLERATION_OPERATOR_EQUAL,
                    value="" if exists else value,
                    effect=effect,
                )
            )
    return tuple(result)


def read_taint(at: At) -> v1.Taint:
    """A taint of a node."""
    return v1.Taint(
        key=at.get("key").required_text(),
        value=at.get("value").text(),
        effect=_effect(at.get("effect"), none=None),
    )


def _effect(at: At, *, none: v1.TaintEffect | None) -> v1.TaintEffect:
    """A taint effect; `none` stands for an absent one, which is wrong when it is None."""
    text = at.text()
    if not text and none is not None:
        return none
    effect = _TAINT_EFFECTS.get(text)
    if effect is None:
        at.problem(f"must be one of {', '.join(_TAINT_EFFECTS)}, not {text or 'empty'}")
        return v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE
    return effect


def _terms(at: At, unsupported: list[str]) -> tuple[AffinityTerm, ...]:
    result = []
    for term in at.items():
        namespaces = term.get("namespaceSelector")
        any_labels = namespaces.get("matchLabels").value or namespaces.get("matchExpressions").value
        if any_labels:
            unsupported.append(namespaces.path)
        result.append(
            AffinityTerm(
                selector=read_selector(term.get("labelSelector")),
                topology_key=term.get("topologyKey").required_text(),
                namespaces=tuple(sorted(set(term.get("namespaces").texts()))),
                # A running pod's term over some namespaces is taken to cover all:
                # that keeps away too many pods, but never lets one through.
                all_namespaces=not namespaces.absent,
                match_label_keys=term.get("matchLabelKeys").texts(),
                mismatch_label_keys=term.get("mismatchLabelKeys").texts(),
            )
        )
    return tuple(result)


def _spread(at: At) -> tuple[Spread, ...]:
    result = []
    for constraint in at.items():
        when = _choice(
            constraint.get("whenUnsatisfiable"),
            "DoNotSchedule",
            ("DoNotSchedule", "ScheduleAnyway"),
        )
        affinity = _choice(constraint.get("nodeAffinityPolicy"), "Honor", ("Honor", "Ignore"))
        taints = _choice(constraint.get("nodeTaintsPolicy"), "Ignore", ("Honor", "Ignore"))
        skew = constraint.get("maxSkew")
        if skew.absent:
            skew.problem("is missing")
        spread = Spread(
            max_skew=skew.integer(1, least=1),
            topology_key=constraint.get("topologyKey").required_text(),
            selector=read_selector(constraint.get("labelSelector")),
            min_domains=constraint.get("minDomains").integer(1, least=1),
            ignore_node_affinity=affinity == "Ignore",
            honor_taints=taints == "Honor",
            match_label_keys=constraint.get("matchLabelKeys").texts(),
        )
        if when == "DoNotSchedule":
            result.append(spread)
    return tuple(result)


def _choice(at: At, default: str, choices: tuple[str, ...]) -> str:
    text = at.text(default)
    if text not in choices:
        at.problem(f"must be one of {', '.join(choices)}, not {text or 'empty'}")
        return default
    return text


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
                protocol = _choice(port.get("protocol"), "TCP", _PROTOCOLS)
                address = port.get("hostIP").text()
                if number:
                    address = "" if address == _ALL_ADDRESSES else address
                    found[HostPort(number, protocol, address)] = None
    return tuple(found)


def _unsupported(at: At) -> list[str]:
    result = [
        field.path
        for field in map(at.get, ("resourceClaims", "workloadRef", "schedulingGroup"))
        if field.value
    ]
    for volume in at.get("volumes").items():
        result += [volume.get(kind).path for kind in volume.value]
    return result
