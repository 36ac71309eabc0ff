"""Shares of GPUs, as KAI and Koordinator write them.

KAI: the annotations ``gpu-fraction`` (of one GPU) or ``gpu-memory`` (in MiB), each of
``gpu-fraction-num-devices`` GPUs.

Koordinator: the resources ``koordinator.sh/gpu`` (compute and memory), ``gpu-core`` and
``gpu-memory-ratio`` in hundredths, ``gpu-memory`` in bytes, divided evenly over
``gpu.shared`` GPUs. Whole hundreds without ``gpu.shared`` are whole GPUs, and count as
``nvidia.com/gpu`` like any others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from placement import v1
from placement.kubernetes.queues import WHOLE

GPU: Final = "nvidia.com/gpu"
#: Resources that are GPUs unless a policy says otherwise.
GPU_RESOURCES: Final = (GPU, "amd.com/gpu", "gpu.intel.com/xe")

#: MIG devices, each of which counts as a GPU.
_MIG: Final = "nvidia.com/mig-"

FRACTION: Final = "gpu-fraction"
MEMORY: Final = "gpu-memory"
DEVICES: Final = "gpu-fraction-num-devices"
#: KAI's annotations.
ANNOTATIONS: Final = (FRACTION, MEMORY, DEVICES)

_KOORDINATOR: Final = "koordinator.sh/"
_BOTH: Final = f"{_KOORDINATOR}gpu"
_CORE: Final = f"{_KOORDINATOR}gpu-core"
_RATIO: Final = f"{_KOORDINATOR}gpu-memory-ratio"
_BYTES: Final = f"{_KOORDINATOR}gpu-memory"
_PIECES: Final = f"{_KOORDINATOR}gpu.shared"
_RESOURCES: Final = frozenset({_BOTH, _CORE, _RATIO, _BYTES, _PIECES})
#: Koordinator's names of GPUs, a hundred of which make one.
HUNDREDTHS: Final = (_RATIO, _CORE, _BOTH)
#: Resources of Koordinator's that only nodes have whose GPUs it manages.
MANAGED: Final = (*HUNDREDTHS, _BYTES)

_MIB: Final = 1 << 20
_MOST_DEVICES: Final = 64


@dataclass(frozen=True, slots=True)
class Share:
    """A part of each of `count` GPUs: thousandths of compute and memory, or bytes."""

    compute_milli: int
    memory_milli: int
    memory_bytes: int
    count: int

    def message(self) -> v1.DeviceShare:
        return v1.DeviceShare(
            compute_milli=self.compute_milli,
            memory_milli=self.memory_milli,
            memory_bytes=self.memory_bytes,
            count=self.count,
        )


def share_of_queue(share: Share | v1.DeviceShare, memory: int) -> int:
    """What a share takes of a queue in thousandths of a GPU, as the service counts it: bytes as of
    the smallest device, which has this `memory`; as a whole one where that is 0.
    """
    part = max(share.compute_milli, share.memory_milli)
    if share.memory_bytes:
        part = max(part, -(-share.memory_bytes * WHOLE // memory) if memory else WHOLE)
    return part * (share.count or 1)


class GpuRequest(NamedTuple):
    """Requests in which whole GPUs are `nvidia.com/gpu`, and the share beside them.

    `unsupported` names the parts that contradict each other or have no meaning.
    """

    requests: Mapping[str, int]
    share: Share | None = None
    unsupported: tuple[str, ...] = ()


def gpus_in(requests: Mapping[str, int], names: Collection[str]) -> int:
    """Whole GPUs of these names, and MIG devices."""
    return sum(n for name, n in requests.items() if name in names or name.startswith(_MIG))


def read_shares(requests: Mapping[str, int], annotations: Mapping[str, str]) -> GpuRequest:
    """What a pod with these requests and annotations asks of GPUs."""
    share, unsupported = _of_kai(annotations)
    if _RESOURCES.isdisjoint(requests):
        return GpuRequest(requests, share, unsupported)
    own = _of_koordinator(requests)
    if share is not None and (own.share is not None or own.unsupported):
        return own._replace(unsupported=(*own.unsupported, "shares of KAI and of Koordinator"))
    return own._replace(share=own.share or share, unsupported=(*unsupported, *own.unsupported))


def _of_kai(annotations: Mapping[str, str]) -> tuple[Share | None, tuple[str, ...]]:
    fraction, memory = annotations.get(FRACTION), annotations.get(MEMORY)
    if fraction is None and memory is None:
        return None, ()
    where = f"metadata.annotations[{FRACTION if fraction is not None else MEMORY}]"
    if fraction is not None and memory is not None:
        return None, (f"{where}: a fraction and memory at once",)
    count = _number(annotations.get(DEVICES, "1"))
    if count is None or count != int(count) or not 1 <= count <= _MOST_DEVICES:
        return None, (f"metadata.annotations[{DEVICES}]: is not a number of GPUs",)
    amount = _number(fraction if fraction is not None else memory)
    if amount is None or amount <= 0 or (fraction is not None and amount > 1):
        return None, (f"{where}: is not a share of a GPU",)
    if fraction is not None:
        milli = math.ceil(amount * 1000)
        return Share(milli, milli, 0, int(count)), ()
    return Share(0, 0, int(amount) * _MIB, int(count)), ()


def _number(text: str | None) -> Decimal | None:
    try:
        number = Decimal(text or "")
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < 10**9 else None


def _of_koordinator(requests: Mapping[str, int]) -> GpuRequest:
    rest = {name: amount for name, amount in requests.items() if name not in _RESOURCES}
    core = requests.get(_CORE, 0) + requests.get(_BOTH, 0)
    ratio = requests.get(_RATIO, 0) + requests.get(_BOTH, 0)
    memory = requests.get(_BYTES, 0)
    pieces = requests.get(_PIECES, 0)
    if not pieces and ratio >= 100 and ratio % 100 == 0:
        rest[GPU] = rest.get(GPU, 0) + ratio // 100
        return GpuRequest(rest)
    if not (core or ratio or memory):
        return GpuRequest(rest)
    pieces = pieces or 1
    if max(core, ratio) > 100 * pieces or pieces > _MOST_DEVICES:
        name = _RATIO if ratio >= core else _CORE
        return GpuRequest(
            rest, None, (f"requests[{name}]: {max(core, ratio)} is more than {pieces} GPUs have",)
        )
    if ratio and memory:
        # Where the webhook knew the size of the GPU, both say the same.
        memory = 0
    share = Share(-(-core * 10 // pieces), -(-ratio * 10 // pieces), -(-memory // pieces), pieces)
    return GpuRequest(rest, share)
