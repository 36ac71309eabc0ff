"""How much may run in a ClusterQueue or cohort: Kueue's quotas as limits of a tree of queues.

The nominal quota of a ClusterQueue is guaranteed, and so is that of a cohort with all below it.
What may run in one is what Kueue calls its potential: what it lends to nobody, and of what its
cohort has what it may borrow.

What a member lends to nobody is for it alone, so the others of its cohort are in a queue of their
own below the cohort, which has no more than all of them have without it. Where several members
of a cohort lend only a part, such queues lie in each other, and leave out one member more each:
that is less than every choice of members. What one keeps from its cohort, those beside the cohort
could still take together with others in it. `loose` names those of which too much may be lent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.queues import GPUS, Queue


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


@dataclass(frozen=True, slots=True)
class _Amounts:
    """Of one member: what it and all below it bring, what of this others may use, too, what of that
    it keeps from those beside it, what may run in it of that, and what may run below it in all.
    """

    brought: Counter[str]
    shared: Counter[str]
    kept: Counter[str] = field(default_factory=Counter)
    potential: dict[str, int] = field(default_factory=dict)
    limit: dict[str, int] = field(default_factory=dict)

    @property
    def private(self) -> Counter[str]:
        """What nobody beside it may use."""
        mine = Counter(self.brought)
        mine.subtract(self.shared)
        mine.update(self.kept)
        return +mine


class Tree(NamedTuple):
    """Queues for the members and those that stand between them and their cohorts."""

    queues: list[Queue]
    loose: set[str]


def limited(members: Mapping[str, Member]) -> Tree:
    """The members with what may run in each and below it.

    Where that is no less than in its cohort, it is left to the cohort to say.
    """
    amounts = _amounts(members)
    tree = Tree([], set())
    parents = {name: member.parent for name, member in members.items()}
    for cohort in {parent: None for parent in parents.values() if parent in members}:
        _pools(cohort, members, amounts, parents, tree)
    limits = {queue.name: queue.limit for queue in tree.queues}
    limits |= {name: amounts[name].limit for name in members}
    pools = tree.queues[:]
    tree.queues.clear()
    for name, member in members.items():
        brought, parent = amounts[name].brought, parents[name]
        above = limits.get(parent, {})
        limit = {
            r: n
            for r, n in amounts[name].limit.items()
            if r in brought and (r not in above or n < above[r])
        }
        tree.queues.append(Queue(member.object, name, parent, limit, dict(brought)))
    tree.queues.extend(pools)
    return tree


def _amounts(members: Mapping[str, Member]) -> dict[str, _Amounts]:
    depth = {name: _depth(members, name) for name in members}
    inwards = sorted(members, key=depth.__getitem__)
    found = {
        name: _Amounts(Counter(member.quotas.nominal), Counter(member.quotas.nominal))
        for name, member in members.items()
    }
    for name in reversed(inwards):
        _, parent, quotas = members[name]
        own = found[name]
        own.kept.update({r: max(0, own.shared[r] - most) for r, most in quotas.lent.items()})
        if depth[name]:
            for resource in own.shared:
                found[parent].shared[resource] += own.shared[resource] - own.kept[resource]
                found[parent].brought[resource] += own.brought[resource]
    for name in inwards:
        _, parent, quotas = members[name]
        own = found[name]
        own.potential.update(own.shared)
        if depth[name]:
            above, kept = found[parent].potential, own.kept
            own.potential.clear()
            own.potential.update({r: kept[r] + n for r, n in above.items()})
            own.potential.update(
                (r, min(kept[r] + above[r], own.shared[r] + most))
                for r, most in quotas.borrowed.items()
            )
        # What members below lend to nobody runs beside what is shared.
        own.limit.update({r: n + own.brought[r] - own.shared[r] for r, n in own.potential.items()})
    return found


def _pools(
    cohort: str,
    members: Mapping[str, Member],
    amounts: Mapping[str, _Amounts],
    parents: dict[str, str],
    tree: Tree,
) -> None:
    """Puts queues between a cohort and its members, for those that lend only a part."""
    inside = [name for name, member in members.items() if member.parent == cohort]
    private = {name: amounts[name].private for name in inside}
    keepers = sorted(
        (name for name in inside if private[name]),
        key=lambda name: (-private[name][GPUS], -private[name].total(), name),
    )
    several = len(keepers) > 1 and len(inside) > 2
    beside = [m for m in members.values() if m.parent and m.parent == members[cohort].parent]
    if several or (len(inside) > 1 and len(beside) > 1):
        tree.loose.update(keepers)
    above = cohort
    for keeper in keepers:
        inside.remove(keeper)
        if len(inside) < 2:
            return
        mine, brought = Counter(amounts[cohort].potential), Counter[str]()
        for name in inside:
            mine.update(private[name])
            brought.update(amounts[name].brought)
        # No object may have an underscore in its name.
        pool = f"{cohort}_without_{keeper}"
        limit = {r: n for r, n in mine.items() if r in amounts[cohort].brought}
        tree.queues.append(Queue(members[cohort].object, pool, above, limit, dict(brought)))
        parents.update(dict.fromkeys(inside, pool))
        above = pool


def _depth(members: Mapping[str, Member], name: str) -> int:
    """How many cohorts are above a member; none where a cohort is above itself."""
    above: list[str] = []
    while (name := members[name].parent) and name not in above:
        above.append(name)
    return 0 if name else len(above)
