"""Koordinator's Reservations: room on a node that is held for its owners.

- A reservation holds room while it is Available or Waiting and has a node, until it expires. One
  that is Waiting (`preAllocation`: not all of its room is there yet) serves nobody so far.
- What it still holds is computed from the pods that use it, because its own count lags behind.
- One that serves a single pod and has it no longer holds anything: what that pod left over is free
  for all.
- Owners that the service cannot match by itself (controllers, parts of a reference) and
  reservations with taints are resolved to the pods of the input that may use them. To the service
  the pods of a set are alike, so pods that are named together, or several times, get a label of
  each reservation that names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from placement import v1
from placement.kubernetes.nodes.device_annotations import read_allocated
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.needs import read_json
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.podspec import PodSpecReader, resources_message
from placement.kubernetes.pods.shares import read_shares
from placement.kubernetes.pods.taints import read_taint, tolerates
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import LabelSelector, read_selector
from placement.kubernetes.values.times import parse_duration, read_time

USED: Final = "scheduling.koordinator.sh/reservation-allocated"

_WAITING: Final = "Waiting"
_HOLDING: Final = ("Available", _WAITING)
_PHASES: Final = ("Pending", *_HOLDING, "Succeeded", "Failed")
_DEFAULT_TTL: Final = "24h"
_RESTRICTED: Final = "Restricted"
#: One without any may be topped up from the node, as an aligned one.
_POLICIES: Final = ("Aligned", _RESTRICTED, "")

Key = tuple[str, str]


class Reservations:
    """The reservations that hold room, and who uses them."""

    def __init__(
        self,
        messages: list[v1.Reservation],
        users: Mapping[Key, str],
        selectors: list[LabelSelector],
    ) -> None:
        self.messages = messages
        #: Further labels of pods, by their resource names.
        self.labels = _labels_of_owners(messages)
        #: Selectors that look at labels of pods.
        self.selectors = selectors
        self._users = users

    def used_by(self, pod: Key) -> str:
        """The reservation that a running pod uses, or empty."""
        return self._users.get(pod, "")


def read_reservations(
    objects: Iterable[Object],
    pods: Mapping[Key, Pod],
    nodes: Iterable[str],
    as_of: datetime | None,
    diagnostics: Diagnostics,
) -> Reservations:
    """All reservations that hold room now."""
    there = set(nodes)
    users: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.node and (name := _used(pod, diagnostics.problems)):
            users.setdefault(name, []).append(pod)
    messages = []
    selectors: list[LabelSelector] = []
    used_by: dict[Key, str] = {}
    reader = _Reader(pods.values(), as_of)
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        own = users.get(one.name, [])
        message = reader.read(one, at, own, selectors)
        diagnostics.problems += [one.problem(*finding) for finding in findings]
        if message is None:
            continue
        if message.node.removeprefix("nodes/") not in there:
            text = "the node is not in the input"
            diagnostics.warnings.append(one.problem("status.nodeName", text))
            continue
        messages.append(message)
        used_by.update((pod.key, message.name) for pod in own)
    return Reservations(messages, used_by, selectors)


def _used(pod: Pod, problems: list[Problem]) -> str:
    if USED not in pod.annotations:
        return ""
    findings: Findings = {}
    annotations = At(pod.object.body, findings).get("metadata").get("annotations")
    name = read_json(annotations, USED).get("name").text()
    problems += [pod.object.problem(*finding) for finding in findings]
    return name


class _Reader:
    """Reads reservations of an input with these pods."""

    def __init__(self, pods: Iterable[Pod], as_of: datetime | None) -> None:
        self._waiting = [pod for pod in pods if not pod.node and not pod.terminating]
        self._as_of = as_of
        self._specs = PodSpecReader()

    def read(
        self, one: Object, at: At, users: list[Pod], selectors: list[LabelSelector]
    ) -> v1.Reservation | None:
        spec, status = at.get("spec"), at.get("status")
        node = status.get("nodeName").text()
        phase = status.get("phase")
        told = phase.choice("", _PHASES) if phase.value else ""
        if told not in _HOLDING or not node or self._has_expired(at):
            return None
        once = spec.get("allocateOnce")
        allocate_once = once.absent or once.flag()
        if allocate_once and users:
            return None
        held = self._allocatable(spec, status)
        reserved = [resource for resource, amount in held.items() if amount]
        devices = set(read_allocated(at.get("metadata").get("annotations")).gpus)
        for pod in users:
            for resource, amount in pod.needs.taken.items():
                if resource in held:
                    held[resource] = max(0, held[resource] - amount)
            notes = At(pod.object.body, {}).get("metadata").get("annotations")
            devices -= set(read_allocated(notes).gpus)
        taints = [read_taint(taint) for taint in spec.get("taints").items()]
        owners = self._owners(spec.get("owners"), taints, selectors)
        waits = told == _WAITING
        policy = spec.get("allocatePolicy")
        restricted = policy.text() == _RESTRICTED
        if policy.text() not in _POLICIES:
            policy.problem(f"must be Aligned or Restricted, not {policy.text()[:40]}")
        return v1.Reservation(
            name=f"reservations/{one.name}",
            node=f"nodes/{node}",
            held=resources_message(held),
            owners=owners,
            restricted=restricted,
            allocate_once=allocate_once,
            labels=at.get("metadata").get("labels").labels(),
            closed=spec.get("unschedulable").flag() or not owners or waits,
            devices=sorted(devices),
            used_up=[r for r in reserved if restricted and not held[r]],
        )

    def _has_expired(self, at: At) -> bool:
        """Whether `expires` or `ttl` has passed; where `ttl` is zero, neither counts."""
        spec = at.get("spec")
        text = spec.get("ttl").text(_DEFAULT_TTL)
        ttl = parse_duration(text)
        if ttl is None:
            spec.get("ttl").problem(f"{text[:40]!r} is not a duration such as 1h30m")
        ends = [read_time(spec.get("expires"))]
        created = read_time(at.get("metadata").get("creationTimestamp"))
        if created is not None and ttl is not None:
            with suppress(OverflowError):
                ends.append(created + ttl)
        if self._as_of is None or ttl == timedelta():
            return False
        return any(end < self._as_of for end in ends if end is not None)

    def _allocatable(self, spec: At, status: At) -> dict[str, int]:
        told = status.get("allocatable")
        if not told.absent:
            amounts = told.amounts(round_up=False)
        else:
            template = spec.get("template").get("spec")
            facts = self._specs.read(template.value if isinstance(template.value, dict) else {})
            template.adopt(facts.findings)
            amounts = dict(facts.requests)
        amounts.pop("pods", None)
        return dict(read_shares(amounts, {}).requests)

    def _owners(
        self, at: At, taints: list[v1.Taint], selectors: list[LabelSelector]
    ) -> list[v1.ReservationOwner]:
        owners = []
        for entry in at.items():
            reference, controller = entry.get("object"), entry.get("controller")
            selector = read_selector(entry.get("labelSelector"))
            simple = not taints and controller.absent and reference.absent
            if simple:
                # What is not said matches all pods.
                selector = selector or LabelSelector()
                selectors.append(selector)
                owners.append(v1.ReservationOwner(selector=selector.message()))
            else:
                owners += [
                    v1.ReservationOwner(pod=pod.resource_name)
                    for pod in self._waiting
                    if _is(reference, pod)
                    and _is_controlled(controller, pod)
                    and (selector is None or selector.matches(pod.labels))
                    and all(tolerates(pod.spec.tolerations, taint) for taint in taints)
                ]
        return owners


def _labels_of_owners(messages: Sequence[v1.Reservation]) -> dict[str, dict[str, str]]:
    """Labels for pods that reservations name, which then know them by these."""
    named = [list(dict.fromkeys(o.pod for o in r.owners if o.pod)) for r in messages]
    times = Counter(pod for pods in named for pod in pods)
    labels: dict[str, dict[str, str]] = {}
    for reservation, pods in zip(messages, named, strict=True):
        alone = len(pods) == len(reservation.owners) and (
            reservation.allocate_once or len(pods) == 1
        )
        if not pods or (alone and all(times[pod] == 1 for pod in pods)):
            continue
        own = {reservation.name: "owner"}
        others = [owner for owner in reservation.owners if not owner.pod]
        del reservation.owners[:]
        reservation.owners.extend(others)
        reservation.owners.add().selector.match_labels.update(own)
        for pod in pods:
            labels.setdefault(pod, {}).update(own)
    return labels


def _is(reference: At, pod: Pod) -> bool:
    """Whether a reference to an object means a pod; parts that are not given match all."""
    if reference.absent:
        return True
    namespace, name = reference.get("namespace").text(), reference.get("name").text()
    return (
        reference.get("kind").text() in ("", "Pod")
        and namespace in ("", pod.namespace)
        and name in ("", pod.object.name)
        and reference.get("uid").text() in ("", pod.uid)
    )


def _is_controlled(controller: At, pod: Pod) -> bool:
    if controller.absent:
        return True
    if controller.get("namespace").text() not in ("", pod.namespace):
        return False
    for owner in At(pod.object.body, {}).get("metadata").get("ownerReferences").items():
        if owner.get("controller").value is True and all(
            controller.get(part).text() in ("", owner.get(part).value)
            for part in ("kind", "name", "uid")
        ):
            return True
    return False
