"""KAI's Queues. Minus one is unlimited; a limit of zero allows nothing.

CPU comes in thousandths of a core, memory in millions of bytes, GPUs in pieces. A quota
that is not given is zero, a limit that is not given is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import GPUS, UNLIMITED, WHOLE, Queue
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import read_duration

#: KAI's name of a resource, the service's, and how many of the one make one of the other.
_RESOURCES: Final = (("gpu", GPUS, WHOLE), ("cpu", "cpu", 1), ("memory", "memory", 10**6))
_NO_LIMIT: Final = -1


def read_kai_queues(objects: Iterable[Object], problems: list[Problem]) -> list[Queue]:
    """All queues in input order."""
    queues = []
    for one in objects:
        findings: Findings = {}
        queues.append(_read(one, At(one.body, findings).get("spec")))
        problems += [one.problem(*finding) for finding in findings]
    return queues


def _read(one: Object, spec: At) -> Queue:
    limit: dict[str, int] = {}
    guaranteed: dict[str, int] = {}
    for theirs, ours, scale in _RESOURCES:
        resource = spec.get("resources").get(theirs)
        most = _amount(resource.get("limit"), scale)
        if most is not None and most != _NO_LIMIT:
            limit[ours] = most
        quota = _amount(resource.get("quota"), scale)
        if quota != _NO_LIMIT:
            guaranteed[ours] = quota or 0
        elif ours == GPUS:
            # All GPUs are inside then, which is more than not being asked.
            guaranteed[ours] = UNLIMITED
    return Queue(
        object=one,
        name=one.name,
        parent=spec.get("parentQueue").text(),
        limit=limit,
        guaranteed=guaranteed,
        runs_in_leaves=True,
        preempt_run_time=read_duration(spec.get("preemptMinRuntime")),
        reclaim_run_time=read_duration(spec.get("reclaimMinRuntime")),
    )


def _amount(at: At, scale: int) -> int | None:
    """An amount, rounded down; None when it is absent, `_NO_LIMIT` when it is unlimited."""
    value = at.value
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        at.must_be("a number")
        return None
    if value == _NO_LIMIT:
        return _NO_LIMIT
    if value < 0:
        at.problem(f"must be -1 or at least 0, not {value}")
        return None
    # As it is written: 0.29 of a thousand is 290, which it is not in binary.
    return min(math.floor(Fraction(str(value)) * scale), UNLIMITED)
