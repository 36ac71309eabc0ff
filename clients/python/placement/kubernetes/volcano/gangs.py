"""Volcano's gangs: Jobs, PodGroups, and HyperNodes as levels.

- A HyperNode is a domain of its tier; nodes get a label for each tier that they are in.
- A hard network topology is required packing at the highest tier that it allows, a soft one
  preferred.
- A PodGroup's pods name it in an annotation. With a minimum for each task the tasks are
  groups; otherwise all pods are one group. The same holds for the tasks of a Job. A minimum for
  all that is above those of the tasks raises them (`minimums`).
- A PodGroup or a Job names its queue; see `queues`.
- A gang is not preemptible when it or a pod of it says so, in an annotation or else in a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.nodes.label_paths import LabelPaths
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import LabelSelector, read_selector
from placement.kubernetes.values.times import is_deleted, read_time
from placement.kubernetes.volcano.minimums import raised
from placement.kubernetes.volcano.queues import VolcanoQueues
from placement.kubernetes.workloads.made_volumes import Volume, volume, with_volumes
from placement.kubernetes.workloads.workloads import (
    Made,
    Role,
    Terms,
    note,
    template_of,
    without_pods,
)

POD_GROUP: Final = "scheduling.k8s.io/group-name"
_TASK: Final = "volcano.sh/task-spec"
_JOB: Final = "volcano.sh/job-name"
_PREEMPTABLE: Final = "volcano.sh/preemptable"
#: What Go takes for true; Volcano takes all else for false.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_NUMA: Final = "volcano.sh/numa-topology-policy"
#: Policies for the NUMA nodes of a pod that have to hold.
_STRICT: Final = ("restricted", "single-numa-node")
#: Annotations of pods that are read here.
ANNOTATIONS: Final = (POD_GROUP, _TASK, _PREEMPTABLE, _NUMA)

#: The label that stands for a tier.
_TIER: Final = "topology.volcano.sh/tier-{}"
#: A repetition inside a repetition can take for ever to match.
_NESTED_REPEAT: Final = re.compile(r"\([^)]*[+*}][^)]*\)\s*[+*{]")
_LONGEST_PATTERN: Final = 256


def label_tiers(
    objects: Iterable[Object],
    nodes: Mapping[str, Mapping[str, str]],
    paths: LabelPaths,
    diagnostics: Diagnostics,
) -> None:
    """Gives nodes the label of each tier whose HyperNode they are in; `nodes` are labels by
    name."""
    tiers: dict[str, int] = {}
    members: dict[str, list[At]] = {}
    found: dict[str, set[str]] = {}
    known = {one.name: one for one in objects}
    noted: dict[str, Findings] = {name: {} for name in known}
    for name, one in known.items():
        spec = At(one.body, noted[name]).get("spec")
        tiers[name] = spec.get("tier").integer(1, least=0)
        members[name] = list(spec.get("members").items())

    def nodes_of(name: str, above: frozenset[str]) -> set[str]:
        if name in above or name not in members:
            return set()
        if name not in found:
            own: set[str] = set()
            for member in members[name]:
                if member.get("type").text("Node") == "HyperNode":
                    other = member.get("selector").get("exactMatch").get("name").text()
                    own |= nodes_of(other, above | {name})
                    if not other:
                        text = "is ignored: HyperNodes are members by their exact names alone"
                        at = member.get("selector").path
                        diagnostics.warnings.append(known[name].problem(at, text))
                else:
                    own |= _chosen(member, nodes)
            found[name] = own
        return found[name]

    for name in known:
        for node in nodes_of(name, frozenset()):
            paths.label(node, _TIER.format(tiers[name]), name)
    for name, one in known.items():
        note(one, noted[name], diagnostics.problems)


def _chosen(member: At, candidates: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The nodes that are a member; an expression may match any part of a name, as in Volcano."""
    selector = member.get("selector")
    exact = selector.get("exactMatch").get("name").text()
    if exact:
        return {exact} & candidates.keys()
    pattern = selector.get("regexMatch").get("pattern").text()
    if pattern:
        if len(pattern) > _LONGEST_PATTERN or _NESTED_REPEAT.search(pattern):
            selector.get("regexMatch").problem("is too complex")
            return set()
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            selector.get("regexMatch").problem(f"is not a regular expression: {error}")
            return set()
        return {name for name in candidates if compiled.search(name)}
    labels = read_selector(selector.get("labelMatch"))
    # One that asks for nothing chooses nothing here.
    if labels is None or labels == LabelSelector():
        return set()
    return {name for name, own in candidates.items() if labels.matches(own)}


def _levels(at: At, unsupported: list[str]) -> tuple[str, str]:
    """Required and preferred level of a network topology."""
    topology = at.get("networkTopology")
    if topology.absent:
        return "", ""
    if not topology.get("highestTierName").absent:
        unsupported.append(topology.get("highestTierName").path)
    level = _TIER.format(topology.get("highestTierAllowed").integer(1, least=0))
    return ("", level) if topology.get("mode").text("hard") == "soft" else (level, "")


def make_jobs(
    objects: Iterable[Object],
    pods: Iterable[Object],
    queues: VolcanoQueues,
    made: Made,
    problems: list[Problem],
) -> None:
    """Volcano's Jobs, each as a gang."""
    for one, at in without_pods(objects, pods, (_JOB,), problems):
        spec = at.get("spec")
        queue, refused = queues.home(spec.get("queue").text())
        unsupported: list[str] = []
        volumes = tuple(_volumes(spec, made.has_claim(one.namespace)))
        roles = []
        for index, task in enumerate(spec.get("tasks").items()):
            count = task.get("replicas").integer(1, least=0, most=100_000)
            if not task.get("partitionPolicy").absent:
                unsupported.append(task.get("partitionPolicy").path)
            if task.get("topologyPolicy").text() in _STRICT:
                unsupported.append(task.get("topologyPolicy").path)
            template = queues.template(queue, template_of(task.get("template")))
            roles.append(
                Role(
                    task.get("name").text() or f"default{index}",
                    with_volumes(template, volumes),
                    count,
                    task.get("minAvailable").integer(count, least=0),
                )
            )
        required, preferred = _levels(spec, unsupported)
        of_tasks = sum(role.minimum for role in roles)
        least = spec.get("minAvailable").integer(of_tasks, least=0)
        minimums = raised([role.minimum for role in roles], [role.count for role in roles], least)
        if minimums is None:
            unsupported.append(f"{spec.get('minAvailable').path} above that of its tasks")
        else:
            pairs = zip(roles, minimums, strict=True)
            roles = [replace(role, minimum=minimum) for role, minimum in pairs]
        terms = Terms(
            required,
            preferred,
            priority_class=spec.get("priorityClassName").text(),
            queue=queue,
            unsupported=(*unsupported, *refused),
            preemptible=_preemptible(
                _said(body.get("metadata"))
                for body in (at, *(task.get("template") for task in spec.get("tasks").items()))
            ),
            together=least if least < of_tasks else None,
        )
        made.add(one, at, one.name, roles, terms)


def _volumes(spec: At, is_there: Callable[[str], bool]) -> Iterator[Volume]:
    """What every pod of a Job mounts; without a claim it is a folder of its own."""
    for index, entry in enumerate(spec.get("volumes").items()):
        claim, wanted = entry.get("volumeClaimName").text(), entry.get("volumeClaim").value
        if claim or wanted is not None:
            yield volume(f"volcano-{index}", claim, is_there(claim), wanted)


def read_volcano_gangs(
    objects: Iterable[Object],
    pods: Mapping[Key, Pod],
    taken: Mapping[Key, Gang],
    queues: VolcanoQueues,
    problems: list[Problem],
) -> list[Gang]:
    """The gangs of Volcano's PodGroups. `taken` are the gangs that pods are in already."""
    members: dict[Key, list[Pod]] = {}
    for pod in pods.values():
        name = pod.annotations.get(POD_GROUP)
        if name and pod.key not in taken:
            members.setdefault((pod.namespace, name), []).append(pod)
    gangs = []
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        spec = at.get("spec")
        own = members.get(one.key, [])
        unsupported: list[str] = []
        required, preferred = _levels(spec, unsupported)
        if not spec.get("subGroupPolicy").absent:
            unsupported.append(spec.get("subGroupPolicy").path)
        if any(not pod.node and pod.annotations.get(_NUMA) in _STRICT for pod in own):
            unsupported.append(f"annotation {_NUMA} of its pods")
        queue, refused = queues.home(spec.get("queue").text())
        scope = v1.PackingScope(name=one.name, required_level=required, preferred_level=preferred)
        gangs.append(
            Gang(
                object=one,
                groups=_groups(spec, own, unsupported),
                scopes=(scope,) if required or preferred else (),
                priority_class=spec.get("priorityClassName").text(),
                queue=queue,
                preemptible=_preemptible(
                    [_said(at.get("metadata")), *((pod.annotations, pod.labels) for pod in own)]
                ),
                created=read_time(at.get("metadata").get("creationTimestamp")),
                terminating=is_deleted(at.get("metadata")),
                unsupported=(*unsupported, *refused),
            )
        )
        note(one, findings, problems)
    return gangs


def in_node_groups(
    pods: Sequence[Object], pod_groups: Iterable[Object], queues: VolcanoQueues
) -> Iterable[Object]:
    """The pods, those of PodGroups in a queue with node groups kept to these."""
    if not queues.node_groups:
        return pods
    queue_of = {
        one.key: queues.home(At(one.body, {}).get("spec").get("queue").text())[0]
        for one in pod_groups
    }
    kept = []
    for pod in pods:
        name = At(pod.body, {}).get("metadata").get("annotations").labels().get(POD_GROUP, "")
        queue = queue_of.get((pod.namespace, name), "")
        kept.append(replace(pod, body=queues.template(queue, pod.body)) if queue else pod)
    return kept


def _said(metadata: At) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Annotations and labels."""
    return metadata.get("annotations").labels(), metadata.get("labels").labels()


def _preemptible(said: Iterable[tuple[Mapping[str, str], Mapping[str, str]]]) -> bool | None:
    """False where the annotations or labels of any say so; None where they do not."""
    words = (notes.get(_PREEMPTABLE, labels.get(_PREEMPTABLE, "true")) for notes, labels in said)
    return None if all(word in _TRUE for word in words) else False


def _groups(spec: At, pods: list[Pod], unsupported: list[str]) -> tuple[Group, ...]:
    whole = spec.get("minMember").integer(1, least=0)
    told = spec.get("minTaskMember")
    minimums = {
        task: told.entry(task).integer(least=0)
        for task in (told.value if isinstance(told.value, dict) else ())
        if isinstance(task, str)
    }
    if not minimums or sum(minimums.values()) > whole:
        return (Group("pods", whole, tuple(pod.key for pod in pods)),)
    by_task: dict[str, list[Key]] = {task: [] for task in minimums}
    for pod in pods:
        by_task.setdefault(pod.annotations.get(_TASK, ""), []).append(pod.key)
    least = [minimums.get(task, 0) for task in by_task]
    enough = raised(least, [len(keys) for keys in by_task.values()], whole)
    if enough is None:
        unsupported.append(f"{spec.get('minMember').path} above the sum of minTaskMember")
    return tuple(
        Group(task or "pods", minimum, tuple(keys))
        for (task, keys), minimum in zip(by_task.items(), enough or least, strict=True)
    )
