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
from typing import NamedTuple

from placement_service.entities.planning import Reduce, Relax, Remedy
from placement_service.entities.request import PodGang, PodGroup, Snapshot
from placement_service.formulation.problem import Gang
from placement_service.planning import changes
from placement_service.planning.levels import coarser
from placement_service.planning.remedy_case import Case, Fit
from placement_service.planning.trial_snapshot import Trial

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
        less, sure = _Reducing(case, group, most).fewest()
        proven = proven and sure
        if less is not None:
            best = Reduce(group.name, group.min_replicas, group.min_replicas - less, False)
            yield best
    if best is not None and proven:
        yield replace(best, proven=True)


class _Fewest(NamedTuple):
    """The fewest replicas that are known to be enough, None when no number is; and whether that is
    certain.
    """

    less: int | None
    sure: bool


class _Reducing:
    """A group that gives up `most` replicas or fewer."""

    def __init__(self, case: Case, group: PodGroup, most: int) -> None:
        self._case, self._group, self._most = case, group, most

    def fewest(self) -> _Fewest:
        """The fewest that are enough."""
        if self._most < 1 or self._is_refuted(self._most):
            return _Fewest(None, True)
        if not self._places(self._most) and not self._case.helped:
            fit, plan = self._case.fit(self._trial(self._most))
            if plan is None:
                return _Fewest(None, fit is Fit.NO)
        # Trials refuse too much; the rest is left to proofs and to the search.
        tried = self._fewest_that_place()
        best, enough = _Fewest(None, True), False
        for less in range(tried, self._most + 1):
            fit = self._case.settled(self._change(less))
            enough = fit is Fit.YES
            if fit.found:
                best = _Fewest(less, best.sure and enough)
                break
            best = _Fewest(None, best.sure and fit is Fit.NO)
        return self._fewer(tried, best, enough)

    def _fewest_that_place(self) -> int:
        """The fewest with which a trial places the gang, as far as more of them help; `most` if
        none does.
        """
        low, high = 0, self._most
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._places(middle) else (middle, high)
        return high

    def _fewer(self, than: int, best: _Fewest, enough: bool) -> _Fewest:
        """The best of fewer `than` so many; `enough` says that the present best is for certain."""
        for less in range(than - 1, 0, -1):
            if self._is_refuted(less):
                break
            fit, plan = self._case.fit(self._trial(less))
            if plan is None and not self._case.helped:
                # A gang that gives up less does not fit either.
                return _Fewest(best.less, best.sure and fit is Fit.NO)
            # A gang that gives up more may still be left out for others.
            if plan is not None:
                fit = self._case.settled(self._change(less), plan)
            if fit is Fit.YES or (fit.found and not enough):
                enough = fit is Fit.YES
                best = _Fewest(less, enough)
            elif fit is not Fit.NO:
                return _Fewest(best.less, False)
        return best

    def _change(self, less: int) -> Callable[[Snapshot], Snapshot]:
        to = self._group.min_replicas - less
        return _of_gang(self._case, partial(changes.reduced, group=self._group.name, to=to))

    def _places(self, less: int) -> bool:
        """Whether a trial places the gang, and all others that it has to."""
        lighter = self._lighter(less)
        if lighter is not None:
            return self._case.here.place(gang=lighter) is not None
        return self._trial(less).place() is not None

    def _trial(self, less: int) -> Trial:
        return self._case.trial(self._change(less)(self._case.snapshot))

    def _is_refuted(self, less: int) -> bool:
        """Whether counting alone shows that so many are not enough."""
        lighter = self._lighter(less)
        return lighter is not None and self._case.here.is_refuted(gang=lighter)

    def _lighter(self, less: int) -> Gang | None:
        """The gang whose group needs fewer replicas, None where that is another problem."""
        gang = self._case.here.gang
        at = [g.name for g in self._case.gang.groups].index(self._group.name)
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
