"""What pods want of single devices, as numbers: the kinds of a question that boards serve."""

from __future__ import annotations

from typing import NamedTuple

from placement_service.entities.request import PodTemplate, Policy

#: A whole GPU, in thousandths.
WHOLE = 1000


class Load(NamedTuple):
    """Compute and memory of one device, in thousandths of it."""

    compute: int
    memory: int

    def fits(self, left: Load) -> bool:
        """Whether it fits into what is left of a device."""
        return self.compute <= left.compute and self.memory <= left.memory

    def off(self, left: Load) -> Load:
        """What is left of a device when this is taken."""
        return Load(left.compute - self.compute, left.memory - self.memory)


#: All of a device.
ALL = Load(WHOLE, WHOLE)
NONE = Load(0, 0)


class Want(NamedTuple):
    """`number` different devices and so much of each, and network devices on their switches."""

    number: int
    compute: int = WHOLE
    memory: int = WHOLE
    memory_bytes: int = 0
    whole: bool = True
    nics: int = 0

    def load(self, memory_bytes: int) -> Load | None:
        """What it takes of a device with so much memory; None where that is not known."""
        if not self.memory_bytes:
            return Load(self.compute, self.memory)
        if not memory_bytes:
            return None
        return Load(self.compute, -(-self.memory_bytes * WHOLE // memory_bytes))


def want_of(template: PodTemplate, policy: Policy) -> Want | None:
    """What a pod wants of single devices; None for nothing."""
    share, nics = template.device_share, template.same_pcie_nics
    if share is not None:
        return Want(
            share.count, share.compute_milli, share.memory_milli, share.memory_bytes, False, nics
        )
    count = policy.whole_gpus(template.requests)
    return Want(count, nics=nics) if count or nics else None
