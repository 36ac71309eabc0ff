"""The single GPUs of nodes: what is there, what is taken, and which form partitions.

Koordinator lists them in a Device object named after the node, and writes into the annotation
of each pod which it has. Partitions come from the object's annotation, else from the board of
known GPU models.

A node without such an object gets a list of GPUs only when pods share them, since shares have to
fit one GPU each; its GPUs then get arbitrary numbers, because it only matters which pods share one.
KAI keeps the shares of one GPU together by a label, and holds that GPU by a pod of its own.

If nothing says which GPUs a pod has, they are taken to be the first that are free, in a partition
where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from placement import v1
from placement.kubernetes.nodes.device_annotations import read_allocated
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.needs import read_json
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.shares import GPU, Share
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.reading import At, Findings

_PARTITIONS: Final = "scheduling.koordinator.sh/gpu-partitions"
_POLICY: Final = "node.koordinator.sh/gpu-partition-policy"
_MODEL: Final = "node.koordinator.sh/gpu-model"
#: Models whose eight GPUs hang on an NVSwitch, and the partitions that it allows.
_BOARD_MODELS: Final = ("H100", "H800", "H20")
_BOARD: Final = (
    *((i,) for i in range(8)), (0, 1), (2, 3), (4, 5), (6, 7), (0, 1, 2, 3), (4, 5, 6, 7),
    (0, 1, 2, 3, 4, 5, 6, 7),
)  # fmt: skip
_POLICIES: Final = {
    "Honor": v1.PartitionPolicy.PARTITION_POLICY_HONOR,
    "Prefer": v1.PartitionPolicy.PARTITION_POLICY_PREFER,
}

#: The namespace of the pods by which KAI holds GPUs that are shared.
KAI_HOLDERS: Final = "kai-resource-reservation"
#: Memory of each GPU of a node in MiB.
_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
_MIB: Final = 1 << 20
_MOST_LISTED: Final = 64

Key = tuple[str, str]


@dataclass(slots=True)
class _Gpu:
    """A GPU; `core` and `memory` in thousandths that are taken."""

    minor: int
    healthy: bool = True
    numa: int = -1
    pcie: str = ""
    memory_bytes: int = 0
    core: int = 0
    memory: int = 0

    @property
    def is_free(self) -> bool:
        return self.healthy and not (self.core or self.memory)

    def take(self, core: int, memory: int) -> None:
        self.core = min(1000, self.core + core)
        self.memory = min(1000, self.memory + memory)


@dataclass(frozen=True, slots=True)
class Board:
    """The devices of one node, for its message."""

    devices: Sequence[v1.Device] = ()
    partitions: Sequence[v1.DevicePartition] = ()
    policy: v1.PartitionPolicy = v1.PartitionPolicy.PARTITION_POLICY_UNSPECIFIED

    @property
    def healthy(self) -> int:
        """How many devices may be given out."""
        return sum(not device.unhealthy for device in self.devices)


@dataclass(slots=True)
class _Listed:
    """What a Device object says."""

    object: Object
    gpus: dict[int, _Gpu] = field(default_factory=dict)
    nics: dict[int, str] = field(default_factory=dict)
    partitions: tuple[v1.DevicePartition, ...] | None = None
    policy: str = ""
    #: GPUs of partitions that are not listed.
    lost: set[int] = field(default_factory=set)


class Devices:
    """The devices of all nodes, as far as they are known."""

    def __init__(
        self,
        listed: Mapping[str, _Listed],
        *,
        everywhere: bool,
        diagnostics: Diagnostics,
    ) -> None:
        self._listed = listed
        self._everywhere = everywhere
        self._problems = diagnostics.problems
        self._warnings = diagnostics.warnings
        #: The devices of pods, where they are known.
        self.given: dict[Key, tuple[int, ...]] = {}
        #: KAI's names of shared GPUs, by node and device.
        self.groups: dict[str, dict[int, str]] = {}

    def lists(self, node: str) -> bool:
        """Whether a Device lists the GPUs of a node."""
        return node in self._listed

    def board(
        self, node: str, labels: Mapping[str, str], gpu_count: int, pods: Sequence[Pod]
    ) -> Board:
        """The devices of a node that allocates so many GPUs and runs these pods."""
        listed = self._listed.get(node)
        if listed is not None:
            return self._of_listed(listed, labels, pods)
        shared = any(pod.needs.share is not None for pod in pods)
        if not (shared or self._everywhere) or not 0 < gpu_count <= _MOST_LISTED:
            return Board()
        memory = labels.get(_MEMORY_LABEL, "")
        size = int(memory) * _MIB if memory.isascii() and memory.isdecimal() else 0
        gpus = [_Gpu(minor, memory_bytes=size) for minor in range(gpu_count)]
        unknown = self._take_known(node, gpus, pods)
        # For a pod with whole GPUs any of them will do: here they have no other name. So it is with
        # shares of GPUs, where these can lie in one way only.
        shares = [pod for pod in pods if pod.needs.share is not None]
        whole = sum(p.needs.requests.get(GPU, 0) for p in pods if p.namespace != KAI_HOLDERS)
        told = len(shares) == 1 or gpu_count - whole == 1
        taken = _take_unknown(gpus, unknown, ())
        self.given |= {
            pod.key: taken[pod.key]
            for pod in unknown
            if pod.key in taken and (told or pod.needs.share is None)
        }
        return Board([_message(gpu, {}) for gpu in gpus])

    def _of_listed(self, listed: _Listed, labels: Mapping[str, str], pods: Sequence[Pod]) -> Board:
        gpus = list(listed.gpus.values())
        unknown = self._take_known(listed.object.name, gpus, pods)
        busy = self._busy_nics(pods)
        partitions = listed.partitions
        if partitions is None and any(m in labels.get(_MODEL, "") for m in _BOARD_MODELS):
            there = set(listed.gpus)
            partitions = tuple(v1.DevicePartition(devices=p) for p in _BOARD if there >= {*p})
        partitions = partitions or ()
        _take_unknown(gpus, unknown, [tuple(p.devices) for p in partitions])
        if unknown and partitions:
            self._warnings.append(
                listed.object.problem(
                    "",
                    f"nothing says which GPUs {unknown[0]}"
                    f"{f' and {len(unknown) - 1} more' if len(unknown) > 1 else ''}"
                    " have: taken to be the first that are free",
                )
            )
        free_nics: dict[str, int] = {}
        for minor, pcie in listed.nics.items():
            if minor not in busy:
                free_nics[pcie] = free_nics.get(pcie, 0) + 1
        if listed.lost:
            text = f"GPU {min(listed.lost)} of a partition is not there: the partition is left out"
            field = f"metadata.annotations[{_PARTITIONS}]"
            self._warnings.append(listed.object.problem(field, text))
        policy = labels.get(_POLICY) or listed.policy or "Prefer"
        if policy not in _POLICIES:
            text = f"must be one of {', '.join(_POLICIES)}, not {policy[:40]}: taken as Prefer"
            owner = f"Node {listed.object.name}" if labels.get(_POLICY) else str(listed.object)
            self._warnings.append(Problem("", owner, f"metadata.labels[{_POLICY}]", text))
        return Board(
            [_message(gpu, free_nics) for gpu in gpus],
            partitions,
            _POLICIES.get(policy, v1.PartitionPolicy.PARTITION_POLICY_PREFER),
        )

    def _take_known(self, node: str, gpus: Sequence[_Gpu], pods: Sequence[Pod]) -> list[Pod]:
        """Takes the devices that pods are known to have; returns the pods whose devices are
        unknown.
        """
        by_minor = {gpu.minor: gpu for gpu in gpus}
        groups: dict[str, _Gpu] = {}
        unknown = []
        for pod in pods:
            findings: Findings = {}
            notes = At(pod.object.body, findings).get("metadata").get("annotations")
            allocated = read_allocated(notes)
            self._problems.extend(pod.object.problem(*finding) for finding in findings)
            if allocated.gpus:
                for minor, part in allocated.gpus.items():
                    if minor in by_minor:
                        by_minor[minor].take(part.core * 10, part.memory * 10)
                self.given[pod.key] = tuple(sorted(m for m in allocated.gpus if m in by_minor))
            elif pod.gpu_groups:
                free = (gpu for gpu in gpus if gpu.is_free and gpu not in groups.values())
                for group in pod.gpu_groups:
                    if group not in groups and (found := next(free, None)) is not None:
                        groups[group] = found
                shared = [groups[group] for group in pod.gpu_groups if group in groups]
                if pod.needs.share is not None:
                    for gpu in shared:
                        gpu.take(*_milli(pod.needs.share, gpu))
                    self.given[pod.key] = tuple(sorted(gpu.minor for gpu in shared))
            elif pod.namespace != KAI_HOLDERS and (
                pod.needs.share is not None or pod.needs.requests.get(GPU)
            ):
                unknown.append(pod)
        if groups:
            self.groups[node] = {gpu.minor: group for group, gpu in groups.items()}
        return unknown

    def _busy_nics(self, pods: Iterable[Pod]) -> set[int]:
        busy: set[int] = set()
        for pod in pods:
            busy |= read_allocated(At(pod.object.body, {}).get("metadata").get("annotations")).nics
        return busy


def _take_unknown(
    gpus: Sequence[_Gpu], pods: Iterable[Pod], partitions: Iterable[tuple[int, ...]]
) -> dict[Key, tuple[int, ...]]:
    """Takes some devices for pods whose devices are unknown; shares come last. Returns those of
    pods that have all they need.
    """
    by_minor = {gpu.minor: gpu for gpu in gpus}
    several = sorted(pods, key=lambda pod: -pod.needs.requests.get(GPU, 0))
    taken: dict[Key, tuple[int, ...]] = {}
    for pod in several:
        whole = pod.needs.requests.get(GPU, 0)
        fitting = (
            [by_minor[m] for m in p]
            for p in partitions
            if len(p) == whole and all(by_minor[m].is_free for m in p if m in by_minor)
        )
        free = [gpu for gpu in gpus if gpu.is_free]
        chosen = list(next(fitting, free[:whole]))
        for gpu in chosen:
            gpu.take(1000, 1000)
        share, wanted = pod.needs.share, whole
        for _ in range(share.count if share is not None else 0):
            assert share is not None
            wanted += 1
            # The fullest device that has room, so that whole ones stay free.
            room = [g for g in gpus if g.healthy and g not in chosen and _fits(share, g)]
            if room:
                best = max(room, key=lambda g: g.core + g.memory)
                best.take(*_milli(share, best))
                chosen.append(best)
        if len(chosen) == wanted:
            taken[pod.key] = tuple(sorted(gpu.minor for gpu in chosen))
    return taken


def _fits(share: Share, gpu: _Gpu) -> bool:
    wanted = _milli(share, gpu)
    return gpu.core + wanted.compute <= 1000 and gpu.memory + wanted.memory <= 1000


class _Milli(NamedTuple):
    """Thousandths of a GPU."""

    compute: int
    memory: int


def _milli(share: Share, gpu: _Gpu) -> _Milli:
    """What a share takes of a GPU; all of its memory if that is not known."""
    memory = share.memory_milli
    if share.memory_bytes:
        memory = 1000
        if gpu.memory_bytes:
            memory = min(1000, -(-share.memory_bytes * 1000 // gpu.memory_bytes))
    return _Milli(share.compute_milli, memory)


def _message(gpu: _Gpu, free_nics: Mapping[str, int]) -> v1.Device:
    return v1.Device(
        index=gpu.minor,
        unhealthy=not gpu.healthy,
        used_milli=gpu.core,
        used_memory_milli=gpu.memory,
        memory_bytes=gpu.memory_bytes,
        numa_node=gpu.numa,
        pcie_switch=gpu.pcie,
        nics=free_nics.get(gpu.pcie, 0) if gpu.pcie else 0,
    )


def read_devices(objects: Iterable[Object], problems: list[Problem]) -> dict[str, _Listed]:
    """What the Device objects say, by node."""
    result = {}
    for one in objects:
        findings: Findings = {}
        result[one.name] = _read(one, At(one.body, findings))
        problems += [one.problem(*finding) for finding in findings]
    return result


def _read(one: Object, at: At) -> _Listed:
    listed = _Listed(one)
    for entry in at.get("spec").get("devices").items():
        kind = entry.get("type").text()
        minor = entry.get("minor").integer(least=0, most=1023)
        topology = entry.get("topology")
        pcie = _name(topology.get("pcieID"))
        healthy = entry.get("health").absent or entry.get("health").flag()
        if kind == "gpu":
            if minor in listed.gpus:
                entry.get("minor").problem(f"{minor} is there more than once")
            resources = entry.get("resources").amounts(round_up=False)
            listed.gpus[minor] = _Gpu(
                minor,
                healthy,
                topology.get("nodeID").integer(-1, least=-1),
                pcie,
                resources.get("koordinator.sh/gpu-memory", 0),
            )
        elif kind == "rdma" and healthy and pcie:
            listed.nics[minor] = pcie
    metadata = at.get("metadata")
    listed.policy = metadata.get("labels").labels().get(_POLICY, "")
    table = read_json(metadata.get("annotations"), _PARTITIONS)
    if not table.absent:
        listed.partitions = _partitions(table, listed)
    return listed


def _partitions(table: At, listed: _Listed) -> tuple[v1.DevicePartition, ...]:
    found: dict[tuple[int, ...], v1.DevicePartition] = {}
    for size in table.value:
        for entry in table.get(str(size)).items():
            minors = entry.get("minors")
            if not isinstance(minors.value, list) or not all(type(m) is int for m in minors.value):
                minors.must_be("a list of numbers")
                continue
            devices = tuple(sorted(set(minors.value)))
            if str(len(devices)) != str(size):
                minors.problem(f"must be {size} GPUs, as the key says, not {len(devices)}")
            elif lost := set(devices) - listed.gpus.keys():
                listed.lost |= lost
            else:
                found[devices] = v1.DevicePartition(
                    devices=devices,
                    score=entry.get("allocationScore").integer(least=-(2**31)),
                    ring_bandwidth=entry.get("ringBusBandwidth").quantity("memory", round_up=False),
                )
    return tuple(found.values())


def _name(at: At) -> str:
    """A name that some write as a number."""
    number = isinstance(at.value, int) and not isinstance(at.value, bool)
    return str(at.value) if number else at.text()
