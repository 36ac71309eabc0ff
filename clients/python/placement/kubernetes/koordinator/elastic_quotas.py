"""Koordinator's ElasticQuotas: `min` is guaranteed, `max` is the limit.

GPUs count together, whether they are asked for in pieces or in hundredths
(`koordinator.sh/gpu` and its parts); where several names are given the least counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.queues import Queue, with_gpus
from placement.kubernetes.values.reading import At, Findings

PARENT_LABEL: Final = "quota.scheduling.koordinator.sh/parent"
_LENDS: Final = "quota.scheduling.koordinator.sh/allow-lent-resource"
_NAMESPACES: Final = "quota.scheduling.koordinator.sh/namespaces"


def read_elastic_quotas(objects: Iterable[Object], diagnostics: Diagnostics) -> list[Queue]:
    """All quotas in input order."""
    quotas = []
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        labels = at.get("metadata").get("labels").labels()
        guaranteed = at.get("spec").get("min").amounts(round_up=False, capped=True)
        if labels.get(_LENDS) == "false" and any(guaranteed.values()):
            text = "what it does not lend is not kept free for it"
            diagnostics.warnings.append(one.problem(f"metadata.labels[{_LENDS}]", text))
        limit = at.get("spec").get("max").amounts(round_up=False, capped=True)
        above = sorted(r for r, amount in guaranteed.items() if amount > limit.get(r, amount))
        for resource in above:
            text = "is more than max: max holds"
            diagnostics.warnings.append(one.problem(f"spec.min.{resource}", text))
        quotas.append(
            Queue(
                object=one,
                name=one.name,
                parent=labels.get(PARENT_LABEL, ""),
                limit=with_gpus(limit),
                guaranteed=with_gpus(guaranteed),
                serves_namespace=True,
                namespaces=_namespaces(
                    one, at.get("metadata").get("annotations"), diagnostics.warnings
                ),
            )
        )
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    return quotas


def _namespaces(one: Object, annotations: At, warnings: list[Problem]) -> tuple[str, ...]:
    """The namespaces whose pods are in the quota; Koordinator ignores a list that is malformed."""
    try:
        names = json.loads(annotations.labels().get(_NAMESPACES) or "[]")
    except (ValueError, RecursionError):
        names = None
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    text = "is not a list of names in JSON: ignored, as Koordinator does"
    warnings.append(one.problem(f"metadata.annotations[{_NAMESPACES}]", text))
    return ()
