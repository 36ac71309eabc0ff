"""Why pods beyond the minimum of a placed gang wait.

They may go only where the gang's required scopes already are; the room that the plan leaves there
is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.solution import Solution, TierName
from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Need
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.formulation.arrays import Bools
from placement_service.formulation.indices import GroupIdx, PodSetIdx
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Where pods may go: a domain of a level, -1 for any, and of it only some nodes."""

    level: int
    domain: int = -1
    only: Bools | None = None


class SetOf(NamedTuple):
    """A pod set of a gang."""

    group: GroupIdx
    pod_set: PodSetIdx


class Extras:
    """The pods that still wait once a plan is carried out."""

    def __init__(
        self, shortfalls: Shortfalls, after: Headroom, solution: Solution, plan: Plan
    ) -> None:
        """`after` is the room that the plan leaves."""
        self._shortfalls = shortfalls
        self._problem = shortfalls.problem
        self._after = after
        self._plan = plan
        self._tiers = {tier.name: tier for tier in solution.tiers}
        self._new: dict[tuple[int, int, int], int] = {}
        for a in solution.assignments:
            key = (a.gang, a.group, a.pod_set)
            self._new[key] = self._new.get(key, 0) + a.pods

    def waiting(self, gang: Gang) -> dict[SetOf, int]:
        """The pods that still wait, by pod set."""
        found = {}
        for i, group in enumerate(self._shortfalls.snapshot.gangs[gang.index].groups):
            for k, pod_set in enumerate(group.pod_sets):
                left = len(pod_set.pods) - self._new.get((gang.index, i, k), 0)
                if left:
                    found[SetOf(GroupIdx(i), PodSetIdx(k))] = left
        return found

    def refused(self, gang: Gang, standing: tuple[Reason, ...]) -> tuple[Reason, ...]:
        """The reasons that would keep a whole gang waiting, worded for its extras."""
        head = _head(sum(self.waiting(gang).values()))
        return tuple(replace(r, message=f"{head}: {r.message}") for r in standing)

    def waiting_demands(self, gang: Gang) -> dict[int, int]:
        """The pods that still wait, by demand."""
        waiting = self.waiting(gang)
        return {
            i: waiting[SetOf(m.group, m.pod_set)]
            for i, d in enumerate(gang.demands)
            for m in d.members[:1]
            if SetOf(m.group, m.pod_set) in waiting
        }

    def reasons(self, gang: Gang) -> tuple[Reason, ...]:
        """One reason for all of the gang's waiting pods."""
        waiting = self.waiting(gang)
        demand_of: dict[SetOf, int] = {
            SetOf(m.group, m.pod_set): i for i, d in enumerate(gang.demands) for m in d.members[:1]
        }
        parts = [self._part(gang, demand_of[key], count) for key, count in waiting.items()]
        total = sum(waiting.values())
        found = sum(part.found for part in parts)
        first = parts[0]
        same = {(p.level, p.domain) for p in parts} == {(first.level, first.domain)}
        # The first in the order of the codes, whatever the order of the groups.
        code = min((part.code for part in parts), key=list(ReasonCode).index)
        text = f"{_head(total)}: {'; '.join(part.message for part in parts)}"
        if found >= total and self._extra_is_proven:
            # Counting does not tell why, but a plan with one more would have been better.
            kinds = self._shortfalls.kinds
            rules = kinds.rules_of(kinds.kind(gang, demand_of[key]) for key in waiting)
            code = words.code_of(rules) if rules else ReasonCode.NO_COMBINATION
            found = 0
            text += " by counting; it is proven that no plan as good has more extras"
            if rules:
                text += f" under {words.listed(rules)}"
        elif found >= total:
            code = ReasonCode.NOT_SEARCHED
            them = "it was" if total == 1 else "they were"
            text += f"; the search ended before {them} placed"
        return (
            Reason(
                code,
                f"{text}.",
                level=first.level if same else "",
                domain=first.domain if same else "",
                asked=total,
                found=found,
                state=ReasonState.AFTER_PLAN,
            ),
        )

    @property
    def _extra_is_proven(self) -> bool:
        tier = self._tiers.get(TierName.EXTRA)
        return tier is not None and tier.proven

    def _part(self, gang: Gang, demand: int, count: int) -> Reason:
        """The reason of the waiting pods of one demand."""
        kinds = self._shortfalls.kinds
        groups = self._shortfalls.snapshot.gangs[gang.index].groups
        kind = kinds.kind(gang, demand)
        group = words.group_word(groups[gang.demands[demand].members[0][0]].name)
        need = Need(group, ((kind, count),), count)
        region = self._region(gang, demand)
        company = frozenset(d.pod_class for d in gang.demands)
        of, domains = self._after.regions(region.level)
        if not domains:
            key = self._problem.levels[region.level].key
            return Reason(ReasonCode.NO_SUCH_LEVEL, f"no node has the label {key}", key, "", count)
        if region.only is None:
            most = self._after.most((need,), region.level, company)
            bare = self._after.most((need,), region.level, company, bare=True)
        else:
            of = np.where(region.only, of, -1)
            most = self._after.most_within((need,), of, domains, company)
            bare = self._after.most_within((need,), of, domains, company, bare=True)
        best = region.domain
        if best < 0:
            best = self._shortfalls.best(self._after, (need,), most, region.level)
        found, fits_bare = int(most[best]), int(bare[best]) >= count
        exact = self._after.exact((need,))
        what = words.asks(kind.template, self._problem.policy)
        text = (
            f"{self._shortfalls.say.place(region.level, best)} has room for "
            f"{'' if exact or not found else 'at most '}{found} of {count} more "
            f"{'pod' if count == 1 else 'pods'}{f' of {what}' if what else ''}"
        )
        if len({words.group_word(g.name) for g in groups}) > 1:
            text += f" (group {need.group})"
        code = ReasonCode.INSUFFICIENT_RESOURCES
        if not kinds.open(kind).any():
            code = ReasonCode.NO_ELIGIBLE_NODE
            text += f", as no node accepts {'it' if count == 1 else 'them'}"
        elif found < count and fits_bare:
            rules = kinds.rules_of([kind])
            code = words.code_of(rules)
            text += f" under {words.listed(rules)}"
        elif found < count:
            binding = self._shortfalls.say.binding_of_one(self._after, kind, of == best, found)
            text += f", {binding}" if binding else ""
        if region.level == CLUSTER:
            return Reason(code, text, asked=count, found=found)
        level = self._problem.levels[region.level]
        text += f" (required level {level.key})"
        return Reason(code, text, level.key, level.values[best], count, found)

    def _region(self, gang: Gang, demand: int) -> _Region:
        """The narrowest level that holds a demand, and its domain if there is one yet."""
        held: dict[int, int] = {}
        free: list[int] = []
        for scope in gang.scopes:
            if scope.required < 0 or demand not in scope.demands:
                continue
            of = self._problem.levels[scope.required].domain
            used = [n for d, n, _ in self._plan.get(gang.index, ()) if d in scope.demands]
            if scope.pin >= 0:
                held[scope.required] = scope.pin
            elif used:
                held[scope.required] = int(of[used[0]])
            else:
                free.append(scope.required)
        if not held and not free:
            return _Region(CLUSTER)
        level = max(free or held, key=self._domains)
        domain = held.get(level, -1)
        if len({*held, *free}) == 1:
            return _Region(level, domain)
        only = np.ones(self._problem.node_count, dtype=bool)
        for other, value in held.items():
            only &= self._problem.levels[other].domain == value
        for other in free:
            only &= self._problem.levels[other].domain >= 0
        return _Region(level, domain, only)

    def _domains(self, level: int) -> int:
        return self._problem.levels[level].count


def _head(count: int) -> str:
    return "1 extra pod waits" if count == 1 else f"{count} extra pods wait"
