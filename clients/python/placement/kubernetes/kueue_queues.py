"""Kueue's ClusterQueues and Cohorts as a tree of queues.

The nominal quota of a ClusterQueue is guaranteed. Its limit is the nominal quota, with a
cohort also what it may borrow, or none where it may borrow all. A cohort's limit is what it and
all below it bring in. Quotas of several flavors are added up, since flavors are not distinguished
here. A warning says so, and also where a lending limit is set, which has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.quantities import QuantityError, amount
from placement.kubernetes.queues import GPUS, WHOLE, Queue
from placement.kubernetes.reading import At, Findings

_GPU_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")
#: Cohorts and ClusterQueues have names of their own each.
_COHORT: Final = "cohort-"


def read_kueue_queues(
    cluster_queues: Iterable[Object],
    cohorts: Iterable[Object],
    problems: list[Problem],
    warnings: list[Problem],
) -> list[Queue]:
    """All ClusterQueues, then the cohorts, also those that are only named."""
    queues: list[Queue] = []
    own: dict[str, Queue] = {}
    for one in cohorts:
        findings: Findings = {}
        spec = At(one.body, findings).get("spec")
        parent = spec.get("parentName").text() or spec.get("parent").text()
        nominal, _ = _quotas(one, spec, warnings)
        own[one.name] = Queue(one, _COHORT + one.name, parent and _COHORT + parent, nominal, {})
        problems += [one.problem(*finding) for finding in findings]
    for one in cluster_queues:
        findings = {}
        spec = At(one.body, findings).get("spec")
        cohort = spec.get("cohortName").text() or spec.get("cohort").text()
        nominal, borrow = _quotas(one, spec, warnings)
        limit = {r: n + borrow.get(r, 0) for r, n in nominal.items() if not cohort or r in borrow}
        queues.append(Queue(one, one.name, cohort and _COHORT + cohort, limit, nominal))
        if cohort and cohort not in own:
            own[cohort] = Queue(one, _COHORT + cohort, "", {}, {})
        problems += [one.problem(*finding) for finding in findings]
    return [*queues, *_with_what_is_below(own, queues)]


def read_local_queues(
    objects: Iterable[Object], problems: list[Problem]
) -> dict[tuple[str, str], str]:
    """The ClusterQueue of each LocalQueue."""
    result = {}
    for one in objects:
        findings: Findings = {}
        result[one.key] = At(one.body, findings).get("spec").get("clusterQueue").required_text()
        problems += [one.problem(*finding) for finding in findings]
    return result


def _quotas(
    one: Object, spec: At, warnings: list[Problem]
) -> tuple[dict[str, int], dict[str, int]]:
    """Nominal quotas, and what may be borrowed where that is limited, over all flavors."""
    nominal: dict[str, int] = {}
    borrow: dict[str, int] = {}
    free: set[str] = set()
    for group in spec.get("resourceGroups").items():
        flavors = group.get("flavors")
        if isinstance(flavors.value, list) and len(flavors.value) > 1:
            warnings.append(one.problem(flavors.path, "quotas of several flavors are added up"))
        for flavor in flavors.items():
            for resource in flavor.get("resources").items():
                name = resource.get("name").required_text()
                key = GPUS if name in _GPU_NAMES else name
                nominal[key] = nominal.get(key, 0) + _amount(name, resource.get("nominalQuota"))
                most = resource.get("borrowingLimit")
                if most.absent:
                    free.add(key)
                else:
                    borrow[key] = borrow.get(key, 0) + _amount(name, most)
                if not resource.get("lendingLimit").absent:
                    lent = resource.get("lendingLimit")
                    warnings.append(one.problem(lent.path, "is not kept: all of it may be lent"))
    return nominal, {key: value for key, value in borrow.items() if key not in free}


def _amount(resource: str, at: At) -> int:
    value = at.value
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        at.must_be("a quantity")
        return 0
    try:
        found = amount(resource, str(value), round_up=False)
    except QuantityError as error:
        at.problem(str(error))
        return 0
    return found * WHOLE if resource in _GPU_NAMES else found


def _with_what_is_below(cohorts: Mapping[str, Queue], queues: Iterable[Queue]) -> list[Queue]:
    """The cohorts, each limited to what it and all below it bring in."""
    total = {queue.name: dict(queue.limit) for queue in cohorts.values()}
    parents = {queue.name: queue.parent for queue in cohorts.values()}
    brought = [(q.parent, q.guaranteed) for q in queues]
    brought += [(q.parent, q.limit) for q in cohorts.values()]
    for above, amounts in brought:
        seen: set[str] = set()
        while above in total and above not in seen:
            seen.add(above)
            for resource, value in amounts.items():
                total[above][resource] = total[above].get(resource, 0) + value
            above = parents[above]
    return [replace(queue, limit=total[queue.name]) for queue in cohorts.values()]
