"""Ways to let a waiting gang in: for each kind the smallest that is enough.

A remedy is enough when with it a plan places the gang and all gangs that were placed before, and no
plan for all waiting gangs is known that is as good and leaves one of them out. It is proven when no
plan is better, and all smaller remedies of its kind are known not to be enough. Each finder yields
remedies, each better than the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from placement_service.entities.planning import Reduce, Relax, Remedy
from placement_service.entities.request import PodGang, PodGroup, Snapshot
from placement_service.formulation.problem import Gang
from placement_service.planning import changes
from placement_service.planning.levels import coarser
from placement_service.planning.remedy_case import Case, Fit

#: Finds remedies of one kind, each better than the last; the last one counts.
Finder = Callable[[Case], Iterator[Remedy]]


def relax(case: Case) -> Iterator[Relax]:
    """The fewest steps up the levels, for one scope."""
    scopes = [
        (i, scope, [*coarser(case.snapshot, scope.required_level, case.levels), ""])
        for i, scope in enumerate(case.gang.packing_scopes)
        if scope.required_level
    ]
    loose = _without_scopes(case)
    if not scopes or (loose is not None and case.here.is_refuted(gang=loose)):
        return
    everything = {group.name for group in case.gang.groups}
    own_name = case.gang.name.rpartition("/")[2]
    proven = True
    for step in range(max((len(ladder) for _, _, ladder in scopes), default=0)):
        for i, scope, ladder in scopes:
            if step >= len(ladder):
                continue
            change = _of_gang(case, partial(changes.relaxed, scope=i, to=ladder[step]))
            fit = case.settled(change)
            if fit.found:
                whole = scope.name in ("", own_name) and set(scope.groups) == everything
                name = "" if whole else scope.name
                sure = proven and fit is Fit.YES
                yield Relax(name, scope.required_level, ladder[step], sure)
                return
            proven = proven and fit is Fit.NO


def reduce(case: Case) -> Iterator[Reduce]:
    """The fewest replicas given up, in one group."""
    best: Reduce | None = None
    proven = True
    for group in case.gang.groups:
        # More than the best so far is of no use.
        most = group.min_replicas - max(1, group.running_count)
        if best is not None:
            most = min(most, best.minimum - best.to - 1)
        less, sure = _fewest_given_up(case, group, most)
        proven = proven and sure
        if less is not None:
            best = Reduce(group.name, group.min_replicas, group.min_replicas - less, False)
            yield best
    if best is not None and proven:
        yield replace(best, proven=True)


def _fewest_given_up(case: Case, group: PodGroup, most: int) -> tuple[int | None, bool]:
    """The fewest replicas that a group gives up, None when no number is enough; and whether that is
    certain."""

    def change(less: int) -> Callable[[Snapshot], Snapshot]:
        to = group.min_replicas - less
        return _of_gang(case, partial(changes.reduced, group=group.name, to=to))

    def places(less: int) -> bool:
        lighter = _lighter(case, group, less)
        if lighter is not None:
            return case.here.place(gang=lighter) is not None
        return case.trial(change(less)(case.snapshot)).place() is not None

    least = _lighter(case, group, most)
    if most < 1 or (least is not None and case.here.is_refuted(gang=least)):
        return None, True
    low, high = 0, most  # Giving up `low` is not enough, as far as is known.
    if not places(most):
        fit = case.settled(change(most))
        if not fit.found:
            return None, fit is Fit.NO
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if places(middle) else (middle, high)
    # Trials refuse too much; the rest is left to proofs and to the search.
    best, sure, enough = None, True, False
    for less in range(high, most + 1):
        fit = case.settled(change(less))
        if fit.found:
            best, enough = less, fit is Fit.YES
            sure = sure and enough
            break
        sure = sure and fit is Fit.NO
    for less in range(high - 1, 0, -1):
        lighter = _lighter(case, group, less)
        if lighter is not None and case.here.is_refuted(gang=lighter):
            break
        trial = case.trial(change(less)(case.snapshot))
        fit, plan = case.fit(trial)
        if plan is None:
            # A gang that gives up less does not fit either.
            sure = sure and fit is Fit.NO
            break
        # A gang that gives up more may still be left out for others.
        settled = case.settled(change(less), plan)
        if settled is Fit.YES or (settled.found and not enough):
            best, sure, enough = less, settled is Fit.YES, settled is Fit.YES
        elif settled is not Fit.NO:
            sure = False
            break
    return best, sure


def _lighter(case: Case, group: PodGroup, less: int) -> Gang | None:
    """The gang whose group needs fewer replicas, None where that is another problem."""
    gang = case.here.gang
    at = [g.name for g in case.gang.groups].index(group.name)
    if not gang.placeable:
        return None
    for i, requirement in enumerate(gang.requirements):
        members = [m for d in requirement.demands for m in gang.demands[d].members]
        if all(member.group == at and member.pods == 1 for member in members):
            lighter = requirement._replace(missing=max(0, requirement.missing - less))
            requirements = (*gang.requirements[:i], lighter, *gang.requirements[i + 1 :])
            return replace(gang, requirements=requirements)
    return None


def _without_scopes(case: Case) -> Gang | None:
    """The gang without packing scopes, None where its demands would be others."""
    gang = case.here.gang
    bundled = any(len(d.members) > 1 or d.members[0].pods > 1 for d in gang.demands)
    return None if bundled or not gang.placeable else replace(gang, scopes=())


def _of_gang(case: Case, change: Callable[[PodGang], PodGang]) -> Callable[[Snapshot], Snapshot]:
    return lambda snapshot: changes.with_gang(snapshot, case.gang.name, change)
