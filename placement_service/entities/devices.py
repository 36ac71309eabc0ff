"""Single GPUs: what a node has of each, and what a pod wants of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a node; amounts in use in thousandths of it.

    `memory_bytes` 0, `numa_node` -1 and `pcie_switch` "" mean: not known.
    """

    index: int
    healthy: bool = True
    used_milli: int = 0
    used_memory_milli: int = 0
    memory_bytes: int = 0
    numa_node: int = -1
    pcie_switch: str = ""
    nics: int = 0

    @property
    def whole(self) -> bool:
        """Whether a pod may get all of it."""
        return self.healthy and not self.used_milli and not self.used_memory_milli


@dataclass(frozen=True, slots=True)
class DevicePartition:
    """Devices, by their indices, that one pod may get as a whole.

    `ring_bandwidth` is in bytes per second, 0 when it is not known.
    """

    devices: tuple[int, ...]
    score: int = 0
    ring_bandwidth: int = 0


@dataclass(frozen=True, slots=True)
class RequiredPartition:
    """A pod gets a partition of exactly its size: of the highest score of that size on its node
    where `best_score`, and of no less than a ring bandwidth, in bytes per second.
    """

    best_score: bool = False
    ring_bandwidth: int = 0


class PartitionPolicy(Enum):
    """What the partitions of a node mean to a pod of whole GPUs."""

    #: It gets a partition where one is free, else any devices.
    PREFER = "PREFER"
    #: It gets a partition of exactly its size or does not run there.
    HONOR = "HONOR"


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A part of each of `count` devices, in thousandths; memory as a share or in bytes."""

    compute_milli: int = 0
    memory_milli: int = 0
    memory_bytes: int = 0
    count: int = 1
