"""How much may run in a ClusterQueue or cohort: Kueue's quotas as limits of a tree of queues.

The nominal quota of a ClusterQueue is guaranteed, and so is that of a cohort with all below it.
What a member does not lend it keeps: that counts in no limit above it. All else is its cohort's,
so what may run in a member is limited by itself only where there is no cohort or borrowing is
limited; the limit of the highest cohort is what it and all below it bring, less what is kept there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.queues import Queue


class Quotas(NamedTuple):
    """Nominal quotas, and what may be borrowed and lent where that is limited."""

    nominal: Mapping[str, int]
    borrowed: Mapping[str, int]
    lent: Mapping[str, int]


class Member(NamedTuple):
    """A ClusterQueue or a cohort; `parent` is the queue of its cohort."""

    object: Object
    parent: str
    quotas: Quotas


class _Amounts(NamedTuple):
    """What a member and all below it bring, what of it counts in the member, and what is kept of
    that.
    """

    brought: Counter[str]
    shared: Counter[str]
    kept: dict[str, int]


def limited(members: Mapping[str, Member]) -> list[Queue]:
    """The members with what may run in each and below it."""
    depth = {name: _depth(members, name) for name in members}
    amounts: dict[str, _Amounts] = {}
    inside: dict[str, list[str]] = {}
    for name in sorted(members, key=lambda name: -depth[name]):
        below = (amounts[one] for one in inside.get(name, ()))
        amounts[name] = _amounts(members[name].quotas, below)
        if depth[name]:
            inside.setdefault(members[name].parent, []).append(name)
    return [
        _queue(name, member, amounts[name], in_cohort=depth[name] > 0)
        for name, member in members.items()
    ]


def _amounts(quotas: Quotas, below: Iterable[_Amounts]) -> _Amounts:
    brought, shared = Counter(quotas.nominal), Counter(quotas.nominal)
    for one in below:
        brought.update(one.brought)
        shared.update({r: n - one.kept.get(r, 0) for r, n in one.shared.items()})
    kept = {r: max(0, shared[r] - most) for r, most in quotas.lent.items()}
    return _Amounts(brought, shared, kept)


def _queue(name: str, member: Member, amounts: _Amounts, *, in_cohort: bool) -> Queue:
    brought, shared, kept = amounts
    if not in_cohort:
        return Queue(member.object, name, member.parent, dict(shared), dict(brought))
    borrowed = member.quotas.borrowed
    limit = {r: n + borrowed[r] for r, n in shared.items() if r in borrowed}
    return Queue(member.object, name, member.parent, limit, dict(brought), kept=kept)


def _depth(members: Mapping[str, Member], name: str) -> int:
    """How many cohorts are above a member; none where a cohort is above itself."""
    above: list[str] = []
    while (name := members[name].parent) and name not in above:
        above.append(name)
    return 0 if name else len(above)
