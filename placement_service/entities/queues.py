"""Queues: shares of the cluster, in a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The resource of a queue that counts all GPU resources of the policy together.
GPUS = "gpus"
#: What it counts beside whole GPUs, in thousandths of one.
MILLIGPUS = "milligpus"

#: Resource name to amount: "cpu", "memory", `GPUS`, `MILLIGPUS`, else an extended resource.
#: A resource that is absent is not limited, or nothing of it is in use.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its own part of the load; `parent` is "" for a root.

    What runs in a queue counts in all queues above it; in their limits only what is beyond the
    amounts that it has `kept` for itself. `used` is what runs in
    this queue itself, besides the pods that stand in pod sets of the request;
    `used_not_preemptible` is a part of it. Of its gangs none is reclaimed where it is
    `not_reclaimable`; from queues outside it those in it and below it are safe for the
    `minimum_run_time_before_reclaim`, in seconds.
    """

    name: str
    parent: str = ""
    limit: Amounts = field(default_factory=dict)
    guaranteed: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    used_not_preemptible: Amounts = field(default_factory=dict)
    not_reclaimable: bool = False
    minimum_run_time_before_reclaim: int = 0
    kept: Amounts = field(default_factory=dict)


def in_millis(amounts: Amounts) -> dict[str, int]:
    """The same amounts with GPUs, whole ones and parts together, in thousandths."""
    if amounts.keys().isdisjoint((GPUS, MILLIGPUS)):
        return dict(amounts)
    rest = {name: amount for name, amount in amounts.items() if name not in (GPUS, MILLIGPUS)}
    return {**rest, GPUS: 1000 * amounts.get(GPUS, 0) + amounts.get(MILLIGPUS, 0)}
