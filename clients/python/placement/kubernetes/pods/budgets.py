"""PodDisruptionBudgets: how many of some pods may be evicted now.

The cluster's own count is taken where it is there. Else it is computed from the pods of the
input, as Kubernetes would: a pod that runs and is not ready counts like one that is missing, but
one that says nothing of it, as when it is written by hand, counts as ready. Percentages are rounded
against eviction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import LabelSelector, read_selector


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget; `selector` is None when it covers nothing."""

    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int

    def message(self) -> v1.DisruptionBudget:
        return v1.DisruptionBudget(
            name=f"namespaces/{self.namespace}/poddisruptionbudgets/{self.name}",
            selector=None if self.selector is None else self.selector.message(),
            allowed=self.allowed,
        )


def read_budgets(
    objects: Iterable[Object], pods: Mapping[tuple[str, str], Pod], problems: list[Problem]
) -> list[Budget]:
    """All budgets in input order."""
    by_namespace: dict[str, list[Pod]] = {}
    for pod in pods.values():
        by_namespace.setdefault(pod.namespace, []).append(pod)
    budgets = []
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        selector = read_selector(at.get("spec").get("selector"))
        covered = [
            pod
            for pod in by_namespace.get(one.namespace, ())
            if selector is not None and selector.matches(pod.labels)
        ]
        allowed = _allowed(at, covered, problems)
        budgets.append(Budget(one.namespace, one.name, selector, allowed))
        problems += [one.problem(*finding) for finding in findings]
    return budgets


def _allowed(at: At, covered: list[Pod], problems: list[Problem]) -> int:
    told = at.get("status").get("disruptionsAllowed")
    if not told.absent:
        return max(0, told.integer())
    running = (pod for pod in covered if pod.node and not pod.terminating)
    healthy = sum(_is_ready(pod, problems) for pod in running)
    spec = at.get("spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if not least.absent:
        return max(0, healthy - _count(least, len(covered), math.ceil))
    if not most.absent:
        return max(0, healthy - (len(covered) - _count(most, len(covered), math.floor)))
    return max(0, healthy - 1)


def _is_ready(pod: Pod, problems: list[Problem]) -> bool:
    findings: Findings = {}
    ready = At(pod.object.body, findings).get("status").condition("Ready")
    problems += [pod.object.problem(*finding) for finding in findings]
    return ready in ("", "True")


def _count(at: At, total: int, rounded: Callable[[float], int]) -> int:
    """A number, or a percentage of `total`."""
    value = at.value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        return rounded(total * int(value[:-1]) / 100) if len(value) < 5 else total
    return at.integer(least=0)
