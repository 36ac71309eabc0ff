"""Gangs on the wire.

- The base of a scaled gang is named by its pods' label. A base that is not in the input puts no
  condition on the gang; a warning says so.
- A gang waits since its object was made; one without a time has just arrived.
- A gang is not preemptible when it or one of its pods says so, in KAI's words or
  Koordinator's; a gang of KAI that says nothing is not preemptible from a priority of 100 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from placement import v1
from placement.kubernetes.gangs import BASE_POD_GANG, Gang, Group, Key
from placement.kubernetes.koordinator.reservations import Reservations
from placement.kubernetes.objects import is_part_name
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.podspec import resources_message
from placement.kubernetes.pods.preemption import KAI_LABEL, KAI_WORDS, says_preemptible
from placement.kubernetes.pods.priorities import Priorities
from placement.kubernetes.pods.templates import Templates
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.queues import Queues
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import parse_time

_POD_INDEX: Final = "grove.io/podclique-pod-index"
#: The annotation of a gang that says when it began to run.
LAST_START: Final = "kai.scheduler/last-start-timestamp"


class GangMessages:
    """Puts gangs on the wire; needs all of them, for they refer to each other."""

    def __init__(
        self,
        gangs: Iterable[Gang],
        pods: Mapping[Key, Pod],
        templates: Templates,
        priorities: Priorities,
        queues: Queues,
        reservations: Reservations,
        devices: Mapping[Key, tuple[int, ...]],
    ) -> None:
        self._gangs = {gang.key: gang for gang in gangs}
        self._pods = pods
        self._templates = templates
        self._priorities = priorities
        self._queues = queues
        self._reservations = reservations
        self._devices = devices
        self._bases = {key: self._named_bases(gang) for key, gang in self._gangs.items()}

    def messages(self, diagnostics: Diagnostics) -> list[v1.PodGang]:
        """All gangs in input order."""
        lost: Counter[str] = Counter()
        result = [self._message(gang, lost, diagnostics) for gang in self._gangs.values()]
        diagnostics.warnings += [
            Problem(
                "",
                f"PodGang {base}",
                "",
                f"the base of {count} other gang{'s' if count > 1 else ''} is not in the input:"
                " placed without regard to it",
            )
            for base, count in sorted(lost.items())
        ]
        return result

    def _message(self, gang: Gang, lost: Counter[str], diagnostics: Diagnostics) -> v1.PodGang:
        """One gang; `lost` counts the gangs whose base is not in the input."""
        base, refusal = self._base(gang, lost)
        members = gang.members(self._pods)
        there = [pod for pod in members if not pod.terminating]
        labels = gang_labels(gang)
        diagnostics.problems += _wrong_texts(gang)
        diagnostics.warnings += _unknown_words(gang, labels, members)
        priority = self._priorities.of_gang(
            gang.object, gang.priority_class, members, diagnostics.problems, own=gang.priority
        )
        started, unread = _started(gang, members)
        diagnostics.warnings += unread
        queue, several = self._queue(gang, labels, members, diagnostics.warnings)
        if queue and not is_part_name(queue):
            text = f"{queue[:60]!r} is not a queue name"
            diagnostics.problems.append(gang.object.problem("", text))
        message = v1.PodGang(
            name=gang.resource_name,
            priority=priority,
            groups=[self._group(gang, group) for group in gang.groups],
            packing_scopes=gang.scopes,
            base_gang=base,
            uninitialized=not gang.initialized,
            previous_nodes=self._previous_nodes(gang),
            unsupported=[*refusal, *gang.unsupported, *_unsupported(gang, members), *several],
            queue=f"queues/{queue}" if queue else "",
            not_preemptible=not _is_preemptible(gang, labels, members, priority),
            never_preempts=self._priorities.never_preempts(gang.priority_class, members),
            volume_claims=dict.fromkeys(claim for pod in there for claim in pod.needs.tied_by),
        )
        _set(message.create_time, gang.created)
        if any(pod.node for pod in members):
            _set(message.start_time, started)
            safe = self._queues.preempt_run_time(queue)
            if safe is not None:
                message.minimum_run_time.FromTimedelta(safe)
        return message

    def _queue(
        self,
        gang: Gang,
        labels: Mapping[str, str],
        members: Sequence[Pod],
        warnings: list[Problem],
    ) -> tuple[str, list[str]]:
        """The queue of a gang, and what cannot be honoured of the queues that its pods name."""
        own = {} if gang.pods_name_queues else labels
        namespace = gang.object.namespace
        queue = self._queues.of(namespace, (own, *(pod.labels for pod in members)), gang.queue)
        there = [pod for pod in members if not pod.terminating]
        unlike = self._unlike_queues(gang, own, there)
        if unlike and any(pod.node for pod in there):
            text = f"its pods name several queues ({unlike}): all that run count in {queue}"
            warnings.append(gang.object.problem("", text))
        waits = any(not pod.node for pod in there)
        return queue, [f"pods in several queues: {unlike}"] if unlike and waits else []

    def _group(self, gang: Gang, group: Group) -> v1.PodGroup:
        sets: dict[int, v1.PodSet] = {}
        gated = 0
        for key in group.pods:
            pod = self._pods.get(key)
            if pod is None or pod.terminating or not gang.has_home(pod):
                continue
            if pod.gated and not pod.node:
                gated += 1
                continue
            template = self._templates.of(pod)
            alike = sets.setdefault(id(template), v1.PodSet())
            if pod.node:
                held = pod.needs.held
                alike.bound_pods.append(
                    v1.BoundPod(
                        name=pod.resource_name,
                        node=f"nodes/{pod.node}",
                        reservation=self._reservations.used_by(key),
                        devices=self._devices.get(key, ()),
                        held=None if held is None else resources_message(held),
                    )
                )
            else:
                alike.pods.append(v1.Pod(name=pod.resource_name, uid=pod.uid, rank=_rank(pod)))
            if not alike.HasField("template"):
                alike.template.CopyFrom(template)
        return v1.PodGroup(
            name=group.name,
            min_replicas=group.min_replicas,
            pod_sets=sets.values(),
            gated_count=gated,
        )

    def _unlike_queues(self, gang: Gang, labels: Mapping[str, str], there: Iterable[Pod]) -> str:
        """The queues that the pods of a gang name, where they are several: a gang is in one, so
        the limits of the others would not hold. `labels` are those that say where the gang is.
        """
        here = gang.object.namespace
        if gang.queue or self._queues.named(here, labels) or not self._queues:
            return ""
        names = self._queues.named_by_pods(here, [pod.labels for pod in there])
        return ", ".join(names) if len(names) > 1 else ""

    def _named_bases(self, gang: Gang) -> list[str]:
        labels = (pod.labels.get(BASE_POD_GANG) for pod in gang.members(self._pods))
        return sorted({name for name in labels if name})

    def _base(self, gang: Gang, lost: Counter[str]) -> tuple[str, list[str]]:
        """The resource name of the base, and why the gang must be refused because of it."""
        names = self._bases[gang.key]
        if not names:
            return "", []
        if len(names) > 1:
            return "", [f"label {BASE_POD_GANG}: its pods name several bases: {', '.join(names)}"]
        base = self._gangs.get((gang.object.namespace, names[0]))
        if base is None:
            lost[f"{gang.object.namespace}/{names[0]}"] += 1
            return "", []
        if self._bases[base.key]:
            return "", [f"label {BASE_POD_GANG}: its base {names[0]} has a base itself"]
        return base.resource_name, []

    def _previous_nodes(self, gang: Gang) -> list[str]:
        before = self._gangs.get(gang.reuses) if gang.reuses is not None else None
        if before is None:
            return []
        return sorted({f"nodes/{pod.node}" for pod in before.members(self._pods) if pod.node})


def gang_labels(gang: Gang) -> dict[str, str]:
    """The labels of a gang's object; what is wrong with them is noted with its message."""
    return At(gang.object.body, {}).get("metadata").get("labels").labels()


def _wrong_texts(gang: Gang) -> list[Problem]:
    """Labels and annotations that are no texts: `queue: 5` without quotes names no queue."""
    findings: Findings = {}
    metadata = At(gang.object.body, findings).get("metadata")
    for field in ("labels", "annotations"):
        metadata.get(field).labels()
    return [gang.object.problem(*finding) for finding in findings]


def _is_preemptible(
    gang: Gang, labels: Mapping[str, str], members: Iterable[Pod], priority: int
) -> bool:
    if gang.preemptible is not None:
        return gang.preemptible
    said = says_preemptible([labels, *(pod.labels for pod in members)])
    if said is not None:
        return said
    return gang.fixed_from is None or priority < gang.fixed_from


def _unknown_words(
    gang: Gang, labels: Mapping[str, str], members: Iterable[Pod]
) -> Iterator[Problem]:
    """Words of KAI's label that it does not know."""
    named = ((gang.object, labels), *((pod.object, pod.labels) for pod in members))
    for one, own in named:
        word = own.get(KAI_LABEL, "")
        if word and word not in KAI_WORDS:
            text = f"must be one of {', '.join(KAI_WORDS)}, not {word}: taken as not preemptible"
            yield one.problem(f"metadata.labels[{KAI_LABEL}]", text)


def _started(gang: Gang, members: Iterable[Pod]) -> tuple[datetime | None, list[Problem]]:
    """When a gang began to run: the time that KAI noted, else the start of its youngest pod.

    A note that cannot be read is warned of.
    """
    notes = At(gang.object.body, {}).get("metadata").get("annotations").labels()
    if text := notes.get(LAST_START):
        if noted := parse_time(text):
            return noted, []
        what = f"{text[:40]!r} is not a time: the start of its youngest pod counts"
        unread = [gang.object.problem(f"metadata.annotations[{LAST_START}]", what)]
    else:
        unread = []
    starts = (pod.started for pod in members if pod.node and pod.started is not None)
    return max(starts, default=None), unread


def _set(field: Timestamp, moment: datetime | None) -> None:
    if moment is not None:
        field.FromDatetime(moment)


def _rank(pod: Pod) -> int | None:
    """The index that Grove gives a pod in its clique; its name ends in random letters."""
    text = pod.labels.get(_POD_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _unsupported(gang: Gang, members: Iterable[Pod]) -> list[str]:
    """What the waiting pods of a gang use that cannot be honoured, each thing once."""
    result = []
    if gang.terminating:
        result.append("metadata.deletionTimestamp: the gang is being deleted")
    users: dict[str, list[Pod]] = {}
    for pod in members:
        if not gang.has_home(pod):
            users.setdefault("a pod of another namespace", []).append(pod)
        if pod.node or pod.terminating:
            continue
        for field in pod.unsupported:
            users.setdefault(field, []).append(pod)
    for field, pods in users.items():
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        result.append(f"{pods[0]}{more}: {field}")
    return result
