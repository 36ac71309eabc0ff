"""What counts as a GPU: whole ones, MIG devices and shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from placement.v1 import Node, PodTemplate, Policy, Resources

#: What counts when the policy does not say.
_DEFAULT: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")
_MIG: Final = "nvidia.com/mig-"

#: The resource by which a queue counts all GPU resources together.
GPUS: Final = "gpus"
_MILLIGPUS: Final = "milligpus"


def is_gpu(resource: str, policy: Policy) -> bool:
    """Whether a resource of a queue counts GPUs or MIG devices."""
    names = tuple(policy.gpu_resources) or _DEFAULT
    return resource in (GPUS, _MILLIGPUS) or resource in names or resource.startswith(_MIG)


def gpus_in(resources: Resources, policy: Policy) -> int:
    """GPUs and MIG devices in these resources."""
    names = tuple(policy.gpu_resources) or _DEFAULT
    return sum(
        amount
        for name, amount in resources.extended.items()
        if name in names or name.startswith(_MIG)
    )


def whole_gpus_in(resources: Resources, policy: Policy) -> int:
    """Whole GPUs in these resources."""
    names = tuple(policy.gpu_resources) or _DEFAULT
    return sum(resources.extended[name] for name in names if name in resources.extended)


def most_common_gpu(nodes: Iterable[Node], policy: Policy) -> str:
    """The resource of most whole GPUs; the first of the policy where there are none."""
    names = tuple(policy.gpu_resources) or _DEFAULT
    there = Counter[str]()
    for node in nodes:
        there.update({name: node.allocatable.extended.get(name, 0) for name in names})
    return max(names, key=lambda name: there[name])


def uses_gpus(template: PodTemplate, policy: Policy) -> bool:
    """Whether a pod has a GPU, or a share of one."""
    return template.HasField("device_share") or gpus_in(template.requests, policy) > 0
