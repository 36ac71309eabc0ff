"""Resource claims of pods (dynamic resource allocation), counted like resources.

A request of a claim asks for an exact count of devices that some expressions choose: one kind
of request is one list of expressions. Each kind becomes a resource; a node has as many of it
as devices that are chosen there, a pod asks for as many as it claims.

A running pod asks for what its claims ask for, and holds, of each resource, the devices that it was
given; if these are unknown, what it asks for. A pod that waits with an allocated claim asks for
these devices. A claim that is allocated ties its pod to the node, except that of one running pod:
its allocation ends with the pod. The devices of an allocated claim of several pods, or of none, are
not there for others.

Refused by name: alternatives (`firstAvailable`), all devices of a kind, constraints between
devices, parts of devices, administrative access, claims that several pods share, and
expressions that cannot be evaluated here. A claim that stands for a ComputeDomain is that and
no device (see `compute_domains`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.claims.cel_selectors import CelError, compiled
from placement.kubernetes.pods.claims.claim_resources import ClaimResources, Kind, as_resources
from placement.kubernetes.pods.claims.compute_domains import ComputeDomains
from placement.kubernetes.pods.claims.resource_slices import (
    TAINT_EFFECTS,
    ClaimableDevice,
    DeviceId,
    DeviceToleration,
)
from placement.kubernetes.pods.podspec import ClaimUse, read_node_selector
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.values.reading import At, Findings

_FINISHED: Final = ("Succeeded", "Failed")


class ClaimNeeds(NamedTuple):
    """The needs of all claims of a pod.

    `requests` are devices that are counted like resources, `held` those that a running pod has
    where they are others, `nodes` where allocated claims are. `unsupported` keeps a pod from being
    placed; `unknown` is what a running one may hold.
    """

    compute_domain: str = ""
    requests: Mapping[str, int] = {}
    held: Mapping[str, int] | None = None
    nodes: v1.NodeSelector | None = None
    unsupported: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class _Spec:
    """What a claim asks for: how many of each kind; or why it cannot be honoured."""

    counts: tuple[tuple[Kind, int], ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Claim:
    spec: _Spec
    devices: tuple[DeviceId, ...] | None
    nodes: v1.NodeSelector | None
    #: Whether it is the claim of one pod. What others hold is taken from the node.
    is_of_one_pod: bool = True


class Claims:
    """The claims of an input, and the devices of its nodes."""

    def __init__(
        self,
        domains: ComputeDomains,
        claims: Mapping[tuple[str, str], _Claim],
        templates: Mapping[tuple[str, str], _Spec],
        resources: ClaimResources,
    ) -> None:
        self._domains = domains
        self._claims = claims
        self._templates = templates
        self._resources = resources

    @property
    def on_nodes(self) -> Mapping[str, Mapping[str, int]]:
        """Devices of each node, by the resource that stands for them."""
        return self._resources.nodes

    @property
    def gpus(self) -> tuple[str, ...]:
        """The resources among them that are GPUs."""
        return self._resources.gpus

    def of(
        self, namespace: str, uses: Iterable[ClaimUse], made: Mapping[str, str], *, runs: bool
    ) -> ClaimNeeds:
        """What the claims of a pod ask for; `made` are the claims made for it, by name in it."""
        found = _Sum()
        for use in uses:
            if domain := self._domains.of(namespace, use):
                found.domains[domain] = None
            else:
                name = use.claim or made.get(use.name, "")
                claim = self._claims.get((namespace, name)) if name else None
                where = f"spec.resourceClaims[{use.name}]"
                if claim is None:
                    self._add_template(found, where, namespace, use)
                elif claim.devices is None:
                    self._add_spec(found, where, claim.spec)
                elif runs and claim.is_of_one_pod:
                    _add(found.held, self._of_devices(claim.devices))
                    self._add_spec(found, where, claim.spec, is_held=False)
                else:
                    if claim.is_of_one_pod:
                        _add(found.requests, self._of_devices(claim.devices))
                    found.tie(where, claim.nodes)
        return found.needs()

    def _add_template(self, found: _Sum, where: str, namespace: str, use: ClaimUse) -> None:
        """A claim that is yet to be made."""
        spec = self._templates.get((namespace, use.template)) if use.template else None
        if spec is None:
            found.refuse(where, f"{use.claim or use.template} is not in the input")
        else:
            self._add_spec(found, where, spec)

    def _add_spec(self, found: _Sum, where: str, spec: _Spec, *, is_held: bool = True) -> None:
        """What a claim asks for, which a running pod holds unless it is known what it has."""
        of_kind, closed = self._resources.of_kind, self._resources.refused
        refused = spec.refused or next((closed[k] for k, _ in spec.counts if k in closed), "")
        if refused:
            found.refuse(where, refused, is_known=not is_held)
            return
        for kind, count in spec.counts:
            _add(found.requests, of_kind.get(kind, ()), count)
            if is_held:
                _add(found.held, of_kind.get(kind, ()), count)

    def _of_devices(self, devices: Iterable[DeviceId]) -> Iterator[str]:
        return (r for device in devices for r in self._resources.of_device.get(device, ()))


class _Sum:
    """The claims of one pod, added up."""

    def __init__(self) -> None:
        self.domains: dict[str, None] = {}
        self.requests: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self._nodes: v1.NodeSelector | None = None
        self._unsupported: list[str] = []
        self._unknown = ""

    def refuse(self, where: str, why: str, *, is_known: bool = False) -> None:
        """Notes a claim that cannot be honoured, and whether it is known what a pod holds by it."""
        self._unsupported.append(f"{where}: {why}")
        if not is_known:
            self._unknown = self._unknown or where

    def tie(self, where: str, nodes: v1.NodeSelector | None) -> None:
        """Ties the pod to the nodes of an allocated claim."""
        if self._nodes is not None and nodes is not None and nodes != self._nodes:
            self._unsupported.append(f"{where}: its claims are allocated in different places")
        self._nodes = self._nodes or nodes

    def needs(self) -> ClaimNeeds:
        """All of it."""
        unsupported = self._unsupported
        if len(self.domains) > 1:
            several = f"several ComputeDomains: {', '.join(self.domains)}"
            unsupported = [*unsupported, f"spec.resourceClaims: {several}"]
        return ClaimNeeds(
            next(iter(self.domains), ""),
            self.requests,
            None if self.held == self.requests else self.held,
            self._nodes,
            tuple(unsupported),
            self._unknown,
        )


def _add(total: dict[str, int], resources: Iterable[str], count: int = 1) -> None:
    for resource in resources:
        total[resource] = total.get(resource, 0) + count


def claim_users(pods: Iterable[Object]) -> Counter[tuple[str, str]]:
    """How many pods that have not finished use each claim."""
    users: Counter[tuple[str, str]] = Counter()
    for one in pods:
        spec = one.body.get("spec")
        if not isinstance(spec, dict) or not spec.get("resourceClaims"):
            continue
        # Anything wrong with it is noted where the pod is read.
        at = At(one.body, {})
        if at.get("status").get("phase").value in _FINISHED:
            continue
        made = at.get("status").get("resourceClaimStatuses").items()
        entries = (*at.get("spec").get("resourceClaims").items(), *made)
        named = (entry.get("resourceClaimName").value for entry in entries)
        users.update({(one.namespace, name) for name in named if isinstance(name, str)})
    return users


def read_claims(
    domains: ComputeDomains,
    claims: Iterable[Object],
    templates: Iterable[Object],
    classes: Iterable[Object],
    devices: Mapping[str, list[ClaimableDevice]],
    users: Mapping[tuple[str, str], int],
    diagnostics: Diagnostics,
) -> Claims:
    """All claims and templates; `users` is how many pods use each claim."""
    known_classes = {}
    for one in classes:
        findings: Findings = {}
        known_classes[one.name] = _expressions(At(one.body, findings).get("spec"))
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    known_claims: dict[tuple[str, str], _Claim] = {}
    for one in claims:
        findings = {}
        at = At(one.body, findings)
        spec = _spec(at.get("spec"), known_classes)
        if users.get(one.key, 0) > 1 and not spec.refused:
            spec = _Spec(refused="several pods share it")
        known_claims[one.key] = _claim(at.get("status"), spec, users.get(one.key, 0))
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    known_templates: dict[tuple[str, str], _Spec] = {}
    for one in templates:
        findings = {}
        spec = _spec(At(one.body, findings).get("spec").get("spec"), known_classes)
        known_templates[one.key] = spec
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    specs = [
        *sorted(known_templates.items()),
        *sorted((key, claim.spec) for key, claim in known_claims.items()),
    ]
    kinds: dict[Kind, str] = {}
    for (_, name), spec in specs:
        for kind, _ in spec.counts:
            kinds.setdefault(kind, name)
    resources = as_resources(kinds, devices, diagnostics.warnings)
    for claim in known_claims.values():
        for taken in (claim.devices or ()) if not claim.is_of_one_pod else ():
            for resource in resources.of_device.get(taken, ()):
                resources.nodes[resources.homes[taken]][resource] -= 1
    return Claims(domains, known_claims, known_templates, resources)


def _expressions(at: At) -> tuple[str, ...]:
    return tuple(
        entry.get("cel").get("expression").required_text() for entry in at.get("selectors").items()
    )


def _tolerations(at: At) -> tuple[DeviceToleration, ...]:
    return tuple(_toleration(entry) for entry in at.get("tolerations").items())


def _toleration(at: At) -> DeviceToleration:
    key, value, effect = at.get("key"), at.get("value"), at.get("effect")
    exists = at.get("operator").choice("Equal", ("Equal", "Exists")) == "Exists"
    if exists and value.value:
        value.problem("must be empty when the operator is Exists")
    if not (exists or key.value):
        at.get("operator").problem("must be Exists when the key is empty")
    which = effect.choice("", TAINT_EFFECTS) if effect.value else ""
    return DeviceToleration(key.text(), exists, value.text(), which)


def _spec(at: At, classes: Mapping[str, tuple[str, ...]]) -> _Spec:
    devices = at.get("devices")
    if devices.get("constraints").value:
        return _Spec(refused="constraints between devices")
    counts: dict[Kind, int] = {}
    for entry in devices.get("requests").items():
        if not entry.get("firstAvailable").absent:
            return _Spec(refused="firstAvailable")
        # Before the version v1beta2 the request itself held what is now in `exactly`.
        exact = entry if entry.get("exactly").absent else entry.get("exactly")
        mode = exact.get("allocationMode").text("ExactCount") or "ExactCount"
        name = exact.get("deviceClassName").required_text()
        for field_name, wrong in (
            ("adminAccess", exact.get("adminAccess").value),
            ("capacity", exact.get("capacity").value),
            (f"allocationMode {mode}", mode != "ExactCount"),
        ):
            if wrong:
                return _Spec(refused=field_name)
        if name not in classes:
            return _Spec(refused=f"DeviceClass {name} is not in the input")
        kind = Kind(name, classes[name], _expressions(exact), _tolerations(exact))
        for expression in kind.expressions:
            try:
                compiled(expression)
            except CelError as error:
                return _Spec(refused=f"the expression {expression[:80]!r} {error}")
        count = exact.get("count").integer(1, least=1, most=1024)
        counts[kind] = counts.get(kind, 0) + count
    return _Spec(tuple(counts.items()))


def _claim(status: At, spec: _Spec, users: int) -> _Claim:
    allocation = status.get("allocation")
    if allocation.absent:
        return _Claim(spec, None, None)
    devices = tuple(
        DeviceId(*(entry.get(part).text() for part in ("driver", "pool", "device")))
        for entry in allocation.get("devices").get("results").items()
        # With administrative access it is not taken.
        if not entry.get("adminAccess").value
    )
    nodes = read_node_selector(allocation.get("nodeSelector"))
    return _Claim(spec, devices, nodes, users == 1)
