"""What runs in queues without being part of a gang of the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, MutableMapping

from placement import v1
from placement.kubernetes.gang_messages import gang_labels
from placement.kubernetes.gangs import Gang, Key
from placement.kubernetes.kueue.queues import KueueQueues
from placement.kubernetes.kueue.quota_use import flavored_queues, held_quotas
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.preemption import says_preemptible
from placement.kubernetes.pods.shares import GPU_RESOURCES, gpus_in, share_of_queue
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import GPUS, MILLIGPUS, WHOLE, Queues


def count_use(
    queues: Queues,
    gangs: Iterable[Gang],
    pods: Mapping[Key, Pod],
    members: Mapping[Key, Pod],
    workloads: Iterable[Object],
    cluster_queues: KueueQueues,
    gpu_resources: Collection[str],
    nodes: Iterable[v1.Node],
    problems: list[Problem],
) -> None:
    """A pod that is being deleted is in no gang, and counts in the queue until it is gone.

    `workloads` and `cluster_queues` are Kueue's, `gpu_resources` the names of GPUs.
    """
    if not queues:
        return
    memory = _least_memory(nodes)
    leaving = {pod.key: gang for gang in gangs for pod in gang.members(pods) if pod.terminating}
    counted = {key for key, pod in members.items() if not pod.terminating}
    loose = [pod for pod in pods.values() if pod.node and pod.key not in counted]
    flavored = flavored_queues(workloads, cluster_queues, loose)
    for pod in loose:
        gang = leaving.get(pod.key)
        said = [pod.labels] if gang is None else [gang_labels(gang), pod.labels]
        naming = said if gang is None or not gang.pods_name_queues else [pod.labels]
        queue = flavored.get(pod.key)
        if queue is None:
            queue = queues.of(pod.namespace, naming, "" if gang is None else gang.queue)
        if queue:
            preemptible = None if gang is None else gang.preemptible
            if preemptible is None:
                preemptible = says_preemptible(said) is not False
            amounts = pod.queue_amounts(gpu_resources, memory)
            queues.count(queue, amounts, preemptible=preemptible)
            counted.add(pod.key)
    for queue, held in held_quotas(
        workloads, cluster_queues, pods, counted, gpu_resources, memory, problems
    ):
        queues.count(queue, held, preemptible=True)


def count_left_out(request: v1.ComputePlacementRequest, gangs: Iterable[v1.PodGang]) -> None:
    """Counts what runs of gangs that were read and are not part of the request: as such they would
    count by themselves.
    """
    queues = {queue.name: queue for queue in request.snapshot.queues}
    if not queues:
        return
    gpus = frozenset(request.policy.gpu_resources or GPU_RESOURCES)
    memory = _least_memory(request.snapshot.nodes)
    counted = {name for queue in queues.values() for name in (*queue.limit, *queue.guaranteed)}
    for gang in gangs:
        queue = queues.get(gang.queue)
        if queue is None:
            continue
        amounts = Counter[str]()
        for pods in (one for group in gang.groups for one in group.pod_sets):
            for resource, amount in _amounts(pods.template, gpus, memory).items():
                amounts[resource] += amount * len(pods.bound_pods)
        for use in (queue.used, queue.used_not_preemptible)[: 1 + gang.not_preemptible]:
            _add(use, amounts, counted)


def _least_memory(nodes: Iterable[v1.Node]) -> int:
    """The memory of the smallest device there is, 0 where none is known."""
    devices = (device for node in nodes for device in node.devices)
    return min((d.memory_bytes for d in devices if d.memory_bytes), default=0)


def _amounts(template: v1.PodTemplate, names: Collection[str], memory: int) -> dict[str, int]:
    """What a pod takes of its queue, GPUs (of these `names`) in thousandths; the smallest device
    has this `memory`.
    """
    needs = template.requests
    amounts = dict(needs.extended)
    gpus = gpus_in(amounts, names) * WHOLE
    if template.HasField("device_share"):
        gpus += share_of_queue(template.device_share, memory)
    return {
        **amounts,
        "cpu": needs.cpu_millis,
        "memory": needs.memory_bytes,
        "ephemeral-storage": needs.ephemeral_storage_bytes,
        "pods": 1,
        GPUS: gpus,
    }


def _add(
    use: MutableMapping[str, int], amounts: Mapping[str, int], counted: Collection[str]
) -> None:
    for resource in sorted(amounts.keys() & counted):
        if not amounts[resource]:
            continue
        total = use.get(resource, 0) + amounts[resource]
        if resource == GPUS:
            parts = use.get(GPUS, 0) * WHOLE + use.get(MILLIGPUS, 0) + amounts[GPUS]
            total, rest = divmod(parts, WHOLE)
            if rest or MILLIGPUS in use:
                use[MILLIGPUS] = rest
        use[resource] = total
