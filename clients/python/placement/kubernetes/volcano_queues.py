"""Volcano's Queues: `capability` is the limit, and what a queue deserves is guaranteed.

Where `deserved` is absent, what is reserved for the queue (`guarantee`) counts instead.
Weights are not read: a weight alone does not say how much a queue may have. In older clusters
no queue names the root as its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import Queue, with_gpus
from placement.kubernetes.reading import At, Findings

_ROOT: Final = "root"


def read_volcano_queues(
    objects: Sequence[Object], problems: list[Problem], warnings: list[Problem]
) -> list[Queue]:
    """All queues in input order."""
    names = {one.name for one in objects}
    queues = []
    for one in objects:
        findings: Findings = {}
        spec = At(one.body, findings).get("spec")
        deserved = spec.get("deserved").amounts(round_up=False, capped=True)
        reserved = spec.get("guarantee").get("resource").amounts(round_up=False, capped=True)
        if any(reserved.values()):
            text = "what is reserved for it is guaranteed, but not kept free"
            warnings.append(one.problem("spec.guarantee.resource", text))
        parent = spec.get("parent").text()
        queues.append(
            Queue(
                object=one,
                name=one.name,
                parent="" if parent == _ROOT and _ROOT not in names else parent,
                limit=with_gpus(spec.get("capability").amounts(round_up=False, capped=True)),
                guaranteed=with_gpus(deserved or reserved),
            )
        )
        problems += [one.problem(*finding) for finding in findings]
    return queues
