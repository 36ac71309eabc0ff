"""What Kueue has given away: a Workload holds its quota until it has finished, whether or not its
pods run already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from placement.kubernetes.kueue.queues import KueueQueues, counted
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import Amounts
from placement.kubernetes.values.reading import At, Findings

Key = tuple[str, str]

#: The annotation of pods that names their Workload.
WORKLOAD: Final = "kueue.x-k8s.io/workload"
#: Labels of pods whose value is the name of the Workload, or of the object that it stands for.
_LABELS: Final = (
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
)


def flavored_queues(
    workloads: Iterable[Object], queues: KueueQueues, pods: Iterable[Pod]
) -> dict[Key, str]:
    """The queue of the flavor that its Workload has, for pods of Workloads that have quota of one
    which is told apart.
    """
    found: dict[Key, str] = {}
    if not queues.told:
        return found
    by_name = _by_name(pods)
    for one in workloads:
        held = {queue for queue, _ in quotas_of(one, queues, {})}
        if len(held) == 1:
            (queue,) = held
            keys = (pod.key for name in _names(one) for pod in by_name.get(name, ()))
            found.update(dict.fromkeys(keys, queue))
    return found


def held_quotas(
    workloads: Iterable[Object],
    queues: KueueQueues,
    pods: Mapping[Key, Pod],
    counted: Iterable[Key],
    gpu_resources: Collection[str],
    memory: int,
    problems: list[Problem],
) -> list[tuple[str, Amounts]]:
    """Queue and amounts for each Workload that has quota, without what pods of it that are
    `counted` already ask for; `gpu_resources` are the names of GPUs, of which the smallest has this
    `memory`.
    """
    found: list[tuple[str, Amounts]] = []
    by_name: dict[Key, list[Pod]] | None = None
    for one in workloads:
        findings: Findings = {}
        held = quotas_of(one, queues, findings)
        problems += [one.problem(*finding) for finding in findings]
        if not held:
            continue
        if by_name is None:
            by_name = _by_name(pods[key] for key in counted if key in pods)
        known: Counter[str] = Counter()
        for pod in {pod.key: pod for name in _names(one) for pod in by_name.get(name, ())}.values():
            known.update(pod.queue_amounts(gpu_resources, memory))
        for queue, amounts in held:
            found.append((queue, amounts - known))
            known -= amounts
    return found


def quotas_of(
    one: Object, queues: KueueQueues, findings: Findings
) -> list[tuple[str, Counter[str]]]:
    """Queues and amounts of the pod sets of a Workload that has quota, without the pods that need
    theirs no longer.
    """
    status = At(one.body, findings).get("status")
    admission = status.get("admission")
    queue = admission.get("clusterQueue").text()
    if not queue or not has_quota(status):
        return []
    spare = {
        entry.get("name").text(): entry.get("count").integer(least=0)
        for entry in status.get("reclaimablePods").items()
    }
    found = []
    for entry in admission.get("podSetAssignments").items():
        count = entry.get("count").integer(1, least=0)
        left = max(0, count - spare.get(entry.get("name").text(), 0))
        usage = counted(entry.get("resourceUsage").amounts(round_up=False, capped=True))
        amounts = Counter({key: amount * left // max(1, count) for key, amount in usage.items()})
        flavors = entry.get("flavors").labels().values()
        told = (name for f in flavors if (name := queues.name(queue, f)) != queue)
        found.append((next(told, queue), amounts))
    return found


def has_quota(status: At) -> bool:
    """Whether a Workload holds quota now."""
    return bool(_true(status) & {"QuotaReserved", "Admitted"}) and not has_finished(status)


def has_finished(status: At) -> bool:
    return "Finished" in _true(status)


def _true(status: At) -> set[str]:
    """The conditions that hold."""
    return {
        condition.get("type").text()
        for condition in status.get("conditions").items()
        if condition.get("status").text() == "True"
    }


def _names(one: Object) -> set[Key]:
    """The names by which pods may say that they belong to a Workload."""
    owners = At(one.body, {}).get("metadata").get("ownerReferences").items()
    names = {one.name, *(owner.get("name").text() for owner in owners)}
    return {(one.namespace, name) for name in names if name}


def _by_name(pods: Iterable[Pod]) -> dict[Key, list[Pod]]:
    result: dict[Key, list[Pod]] = {}
    for pod in pods:
        owners = At(pod.object.body, {}).get("metadata").get("ownerReferences").items()
        names = {pod.object.name, pod.annotations.get(WORKLOAD, "")}
        if pod.object.origin is not None:
            names.add(pod.object.origin.name)
        names |= {owner.get("name").text() for owner in owners}
        names |= {pod.labels[label] for label in _LABELS if label in pod.labels}
        for name in names:
            result.setdefault((pod.namespace, name), []).append(pod)
    return result
