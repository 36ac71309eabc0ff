"""Koordinator's ElasticQuotas: `min` is guaranteed, `max` is the limit.

GPUs count together, whether they are asked for in pieces or in hundredths
(`koordinator.sh/gpu` and its parts); where several names are given the least counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import GPUS, Queue
from placement.kubernetes.reading import At, Findings

_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
#: Names of GPUs, and how many of each make a whole one.
_GPU_NAMES: Final = {
    "nvidia.com/gpu": 1,
    "amd.com/gpu": 1,
    "koordinator.sh/gpu": 100,
    "koordinator.sh/gpu-core": 100,
    "koordinator.sh/gpu-memory-ratio": 100,
}


def read_elastic_quotas(objects: Iterable[Object], problems: list[Problem]) -> list[Queue]:
    """All quotas in input order."""
    quotas = []
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        quotas.append(
            Queue(
                object=one,
                name=one.name,
                parent=at.get("metadata").get("labels").labels().get(_PARENT, ""),
                limit=_amounts(at.get("spec").get("max")),
                guaranteed=_amounts(at.get("spec").get("min")),
                serves_namespace=True,
            )
        )
        problems += [one.problem(*finding) for finding in findings]
    return quotas


def _amounts(at: At) -> dict[str, int]:
    result: dict[str, int] = {}
    for resource, amount in at.amounts(round_up=False).items():
        if resource in _GPU_NAMES:
            pieces = amount // _GPU_NAMES[resource]
            result[GPUS] = min(result.get(GPUS, pieces), pieces)
        else:
            result[resource] = amount
    return result
