"""Kueue's ClusterQueues and Cohorts as a tree of queues.

The nominal quota of a ClusterQueue is guaranteed, and so is that of a cohort with all below it.
What may run in one is what Kueue calls its potential: what it lends to nobody, and of what its
cohort has what it may borrow. Quotas of several flavors are added up, since flavors are not told
apart here, and limits of lending hold for each borrower by itself; both is said in a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.quantities import QuantityError, amount
from placement.kubernetes.queues import GPUS, WHOLE, Queue
from placement.kubernetes.reading import At, Findings

_GPU_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")
#: Cohorts and ClusterQueues have names of their own each.
_COHORT: Final = "cohort-"


class _Quotas(NamedTuple):
    """Nominal quotas, and what may be borrowed and lent where that is limited."""

    nominal: Mapping[str, int]
    borrowed: Mapping[str, int]
    lent: Mapping[str, int]


class _Member(NamedTuple):
    """A ClusterQueue or a cohort; `parent` is the queue of its cohort."""

    object: Object
    parent: str
    quotas: _Quotas


def read_kueue_queues(
    cluster_queues: Iterable[Object],
    cohorts: Iterable[Object],
    problems: list[Problem],
    warnings: list[Problem],
) -> list[Queue]:
    """All ClusterQueues, then the cohorts, also those that are only named."""
    members: dict[str, _Member] = {}
    above: dict[str, _Member] = {}
    for objects, prefix, fields, into in (
        (cohorts, _COHORT, ("parentName", "parent"), above),
        (cluster_queues, "", ("cohortName", "cohort"), members),
    ):
        for one in objects:
            findings: Findings = {}
            spec = At(one.body, findings).get("spec")
            cohort = next((name for name in (spec.get(f).text() for f in fields) if name), "")
            parent = cohort and _COHORT + cohort
            into[prefix + one.name] = _Member(one, parent, _quotas(one, spec, warnings))
            problems += [one.problem(*finding) for finding in findings]
    members |= above
    for member in list(members.values()):
        if member.parent and member.parent not in members:
            members[member.parent] = _Member(member.object, "", _Quotas({}, {}, {}))
    return _queues(members)


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


def _quotas(one: Object, spec: At, warnings: list[Problem]) -> _Quotas:
    """The quotas of all flavors together."""
    nominal: Counter[str] = Counter()
    limits = {"borrowingLimit": Counter[str](), "lendingLimit": Counter[str]()}
    free: dict[str, set[str]] = {kind: set() for kind in limits}
    for group in spec.get("resourceGroups").items():
        flavors = group.get("flavors")
        if isinstance(flavors.value, list) and len(flavors.value) > 1:
            warnings.append(one.problem(flavors.path, "quotas of several flavors are added up"))
        for flavor in flavors.items():
            for resource in flavor.get("resources").items():
                name = resource.get("name").required_text()
                key = GPUS if name in _GPU_NAMES else name
                nominal[key] += _amount(name, resource.get("nominalQuota"))
                for kind, total in limits.items():
                    most = resource.get(kind)
                    if most.absent:
                        free[kind].add(key)
                    else:
                        total[key] += _amount(name, most)
                lent = resource.get("lendingLimit")
                if not lent.absent:
                    text = "holds for each queue that borrows, not for several together"
                    warnings.append(one.problem(lent.path, text))
    borrowed, lent_out = (
        {key: value for key, value in total.items() if key not in free[kind]}
        for kind, total in limits.items()
    )
    return _Quotas(nominal, borrowed, lent_out)


def quota_of(resource: str, at: At) -> tuple[str, int]:
    """An amount of a resource as queues count it, all GPUs as one."""
    return GPUS if resource in _GPU_NAMES else resource, _amount(resource, at)


def _amount(resource: str, at: At) -> int:
    value = at.value
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, str, float)):
        at.must_be("a quantity")
        return 0
    try:
        found = amount(resource, str(value), round_up=False, capped=True)
    except QuantityError as error:
        at.problem(str(error))
        return 0
    return found * WHOLE if resource in _GPU_NAMES else found


def _queues(members: Mapping[str, _Member]) -> list[Queue]:
    """The members with what may run in each and below it.

    Where that is no less than in its cohort, it is left to the cohort to say.
    """
    depth = {name: _depth(members, name) for name in members}
    inwards = sorted(members, key=depth.__getitem__)
    brought = {name: Counter(member.quotas.nominal) for name, member in members.items()}
    shared = {name: Counter(member.quotas.nominal) for name, member in members.items()}
    kept: dict[str, Counter[str]] = {}
    for name in reversed(inwards):
        _, parent, quotas = members[name]
        own = shared[name]
        kept[name] = Counter({r: max(0, own[r] - most) for r, most in quotas.lent.items()})
        if depth[name]:
            for resource in own:
                shared[parent][resource] += own[resource] - kept[name][resource]
                brought[parent][resource] += brought[name][resource]
    potential: dict[str, Mapping[str, int]] = {}
    limits: dict[str, dict[str, int]] = {}
    for name in inwards:
        _, parent, quotas = members[name]
        own = shared[name]
        potential[name] = own
        if depth[name]:
            potential[name] = {r: kept[name][r] + n for r, n in potential[parent].items()} | {
                r: min(kept[name][r] + potential[parent][r], own[r] + most)
                for r, most in quotas.borrowed.items()
            }
        # What members below lend to nobody runs beside what is shared.
        limits[name] = {r: n + brought[name][r] - own[r] for r, n in potential[name].items()}
    return [
        Queue(
            member.object,
            name,
            member.parent,
            {
                r: n
                for r, n in limits[name].items()
                if r in brought[name] and not (depth[name] and n >= limits[member.parent][r])
            },
            dict(brought[name]),
        )
        for name, member in members.items()
    ]


def _depth(members: Mapping[str, _Member], name: str) -> int:
    """How many cohorts are above a member; none where a cohort is above itself."""
    above: list[str] = []
    while (name := members[name].parent) and name not in above:
        above.append(name)
    return 0 if name else len(above)
