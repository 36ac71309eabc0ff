"""What runs in queues without being part of a gang of the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement.kubernetes.gang_messages import gang_labels
from placement.kubernetes.gangs import Gang, Key
from placement.kubernetes.kueue.queues import KueueQueues
from placement.kubernetes.kueue.use import held_quotas
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.preemption import says_preemptible
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import Queues


def count_use(
    queues: Queues,
    gangs: Iterable[Gang],
    pods: Mapping[Key, Pod],
    members: Mapping[Key, Pod],
    workloads: Iterable[Object],
    cluster_queues: KueueQueues,
    problems: list[Problem],
) -> None:
    """A pod that is being deleted is in no gang, and counts in the queue until it is gone.

    `workloads` and `cluster_queues` are Kueue's.
    """
    if not queues:
        return
    leaving = {pod.key: gang for gang in gangs for pod in gang.members(pods) if pod.terminating}
    counted = {key for key, pod in members.items() if not pod.terminating}
    for pod in pods.values():
        if not pod.node or pod.key in counted:
            continue
        gang = leaving.get(pod.key)
        said = [pod.labels] if gang is None else [gang_labels(gang), pod.labels]
        naming = said if gang is None or not gang.pods_name_queues else [pod.labels]
        queue = queues.of(pod.namespace, naming, "" if gang is None else gang.queue)
        if queue:
            preemptible = None if gang is None else gang.preemptible
            if preemptible is None:
                preemptible = says_preemptible(said) is not False
            queues.count(queue, pod.queue_amounts, preemptible=preemptible)
            counted.add(pod.key)
    for queue, amounts in held_quotas(workloads, cluster_queues, pods, counted, problems):
        queues.count(queue, amounts, preemptible=True)
