"""Kueue's ClusterQueues and Cohorts as a tree of queues.

Kueue counts quota by flavor and resource. Where ClusterQueues of a cohort offer several flavors of
GPUs, or without GPUs of the resource that has most flavors, each flavor has a tree of its own
below the queue at the top, with all that the flavor offers; a Workload is in the queue of the
flavor that it takes. Other gangs, of which no flavor is known, are in queues in which the
quotas of all flavors are added up, and so are other resources with several flavors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from placement.kubernetes.kueue.quota_tree import Member, Quotas, limited
from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.queues import GPUS, WHOLE, Queue
from placement.kubernetes.values.quantities import QuantityError, amount
from placement.kubernetes.values.reading import At, Findings

_GPU_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")
#: Cohorts and ClusterQueues have names of their own each.
_COHORT: Final = "cohort-"


class _Quota(NamedTuple):
    """Of one resource in one flavor; None where borrowing or lending is not limited."""

    flavor: str
    resource: str
    nominal: int
    borrowed: int | None
    lent: int | None


class _Written(NamedTuple):
    """A ClusterQueue or a cohort as it is written; `parent` is the queue of its cohort."""

    object: Object
    parent: str
    quotas: tuple[_Quota, ...] = ()


@dataclass(frozen=True, slots=True)
class KueueQueues:
    """`told` are the flavors that a ClusterQueue has queues of, and `resource` is what for."""

    queues: list[Queue]
    told: Mapping[str, tuple[str, ...]]
    resource: Mapping[str, str]

    def name(self, cluster_queue: str, flavor: str) -> str:
        """The queue of those that take a flavor, where it is told apart."""
        if flavor in self.told.get(cluster_queue, ()):
            return _in_flavor(cluster_queue, flavor)
        return cluster_queue


def read_kueue_queues(
    cluster_queues: Iterable[Object],
    cohorts: Iterable[Object],
    diagnostics: Diagnostics,
) -> KueueQueues:
    """All ClusterQueues, then the cohorts, also those that are only named, then their parts."""
    members: dict[str, _Written] = {}
    above: dict[str, _Written] = {}
    for objects, prefix, fields, into in (
        (cohorts, _COHORT, ("parentName", "parent"), above),
        (cluster_queues, "", ("cohortName", "cohort"), members),
    ):
        for one in objects:
            findings: Findings = {}
            spec = At(one.body, findings).get("spec")
            cohort = next((name for name in (spec.get(f).text() for f in fields) if name), "")
            parent = cohort and _COHORT + cohort
            into[prefix + one.name] = _Written(one, parent, tuple(_quotas(spec)))
            diagnostics.problems += [one.problem(*finding) for finding in findings]
    members |= above
    for member in list(members.values()):
        if member.parent and member.parent not in members:
            members[member.parent] = _Written(member.object, "")
    found = KueueQueues([], {}, {})
    trees: dict[str, dict[str, _Written]] = {}
    for name, member in members.items():
        trees.setdefault(_top(members, name), {})[name] = member
    found.queues.extend(_added(members, lambda _: True))
    told: dict[str, tuple[str, ...]] = {}
    resource: dict[str, str] = {}
    for top, tree in trees.items():
        counted, flavors = _counted(tree.values())
        if len(flavors) < 2:
            continue
        for name, member in tree.items():
            own = (q.flavor for q in member.quotas if q.resource == counted)
            told[name], resource[name] = tuple(dict.fromkeys(own)), counted
        for flavor in flavors:
            found.queues.extend(_in_one_flavor(tree, top, flavor, flavors))
    _warn(members, told, diagnostics.warnings)
    return KueueQueues(found.queues, told, resource)


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


def _quotas(spec: At) -> Iterator[_Quota]:
    for group in spec.get("resourceGroups").items():
        for flavor in group.get("flavors").items():
            flavor_name = flavor.get("name").text()
            for resource in flavor.get("resources").items():
                name = resource.get("name").required_text()
                limits = [
                    None if (most := resource.get(kind)).absent else _amount(name, most)
                    for kind in ("borrowingLimit", "lendingLimit")
                ]
                nominal = _amount(name, resource.get("nominalQuota"))
                key = GPUS if name in _GPU_NAMES else name
                yield _Quota(flavor_name, key, nominal, *limits)


def counted(amounts: Mapping[str, int]) -> Counter[str]:
    """Amounts of resources as queues count them: all GPUs as one, in thousandths."""
    found: Counter[str] = Counter()
    for resource, each in amounts.items():
        if resource in _GPU_NAMES:
            found[GPUS] += each * WHOLE
        else:
            found[resource] += each
    return found


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


def _top(members: Mapping[str, _Written], name: str) -> str:
    """The highest cohort above a member; where cohorts are above themselves, any of them."""
    seen = {name}
    while (parent := members[name].parent) and parent not in seen:
        seen.add(parent)
        name = parent
    return name


def _counted(tree: Iterable[_Written]) -> tuple[str, list[str]]:
    """The resource whose flavors are told apart in a tree, and these flavors."""
    flavors: dict[str, dict[str, None]] = {}
    for member in tree:
        for quota in member.quotas:
            flavors.setdefault(quota.resource, {})[quota.flavor] = None
    if not flavors:
        return "", []
    counted = GPUS if GPUS in flavors else max(flavors, key=lambda r: (len(flavors[r]), r))
    return counted, list(flavors[counted])


def _sums(quotas: Iterable[_Quota]) -> Quotas:
    """Quotas of several flavors together."""
    nominal: Counter[str] = Counter()
    limits = Counter[str](), Counter[str]()
    free: tuple[set[str], set[str]] = set(), set()
    for quota in quotas:
        nominal[quota.resource] += quota.nominal
        for most, total, without in zip((quota.borrowed, quota.lent), limits, free, strict=True):
            if most is None:
                without.add(quota.resource)
            else:
                total[quota.resource] += most
    borrowed, lent = (
        {r: n for r, n in total.items() if r not in without}
        for total, without in zip(limits, free, strict=True)
    )
    return Quotas(nominal, borrowed, lent)


def _added(members: Mapping[str, _Written], counts: Callable[[_Quota], bool]) -> list[Queue]:
    """Queues with the quotas that count."""
    return limited(
        {
            name: Member(member.object, member.parent, _sums(filter(counts, member.quotas)))
            for name, member in members.items()
        }
    )


def _in_flavor(name: str, flavor: str) -> str:
    """No object may have an underscore in its name."""
    return f"{name}_{flavor}"


def _in_one_flavor(
    tree: Mapping[str, _Written], top: str, flavor: str, flavors: Collection[str]
) -> list[Queue]:
    """The tree of one flavor, below the queue at the top of all."""
    part = {
        name: member
        for name, member in tree.items()
        if name == top or name.startswith(_COHORT) or any(q.flavor == flavor for q in member.quotas)
    }
    queues = _added(part, lambda q: q.flavor == flavor or q.flavor not in flavors)
    return [
        replace(
            queue,
            name=_in_flavor(queue.name, flavor),
            parent=_in_flavor(queue.parent, flavor) if queue.parent else top,
        )
        for queue in queues
    ]


def _warn(
    members: Mapping[str, _Written],
    told: Mapping[str, tuple[str, ...]],
    warnings: list[Problem],
) -> None:
    """Notes where more is allowed than Kueue would."""
    for name, member in members.items():
        flavors: dict[str, set[str]] = {}
        for quota in member.quotas:
            flavors.setdefault(quota.resource, set()).add(quota.flavor)
        several = (of for of in flavors.values() if len(of) > 1)
        if any(not of <= {*told.get(name, ())} for of in several):
            text = "quotas of several flavors are added up"
            warnings.append(member.object.problem("spec.resourceGroups", text))
