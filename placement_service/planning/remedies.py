"""Ways to let a waiting gang in: for each kind the smallest that is enough.

A remedy is enough when with it a plan places the gang and all gangs that were placed before, and no
plan for all waiting gangs is known that is as good and leaves one of them out. It is proven when no
plan is better, and all smaller remedies of its kind are known not to be enough. Each finder yields
remedies, each better than the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from placement_service.bounds.added_nodes import NEVER, AddedNodes
from placement_service.bounds.counting import Counting
from placement_service.entities.planning import AddNodes, Reduce, Relax, Remedy
from placement_service.entities.request import Node, PodGang, PodGroup, Snapshot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang
from placement_service.heuristic.domain_facts import Topology
from placement_service.planning import changes
from placement_service.planning.levels import coarser
from placement_service.planning.remedy_case import Case, Fit

#: Finds remedies of one kind, each better than the last; the last one counts.
Finder = Callable[[Case], Iterator[Remedy]]

#: Most kinds of nodes that are tried for a first answer.
MOST_TRIED = 8

#: Of them whose least number is tried where others may get such nodes first: so many always, and
#: more as long as that takes only a part of the time that is left.
MOST_RIVAL_KINDS = 3
_RIVAL_SHARE = 0.05

#: Most nodes that are added.
MOST_ADDED = 5_000


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


def add_nodes(case: Case) -> Iterator[AddNodes]:
    """The fewest further nodes, all like one that is there."""
    models = models_of(case.snapshot)
    count = len(case.snapshot.nodes)
    problem = formulate(
        changes.with_nodes(case.snapshot, ((model, 1) for model in models)), case.policy
    )
    gang = problem.gangs[[g.name for g in case.snapshot.gangs].index(case.gang.name)]
    if not gang.placeable:
        return
    least = AddedNodes(Counting(Topology(problem)), count).alike(gang)
    if least.min(initial=NEVER) > _missing(g for g in case.snapshot.gangs if g.name in case.wanted):
        return
    # Other waiting gangs may get the added nodes first.
    most = min(_missing(case.whole.gangs), MOST_ADDED)
    yield from _least_added(case, models, np.maximum(1, least), most)


def _least_added(case: Case, models: Sequence[Node], least: Ints, most: int) -> Iterator[AddNodes]:
    """Kinds of nodes and numbers of them, each better than the last."""
    # The room that the plan leaves tells better which kind is enough.
    after = _least_after(case, models)
    order = sorted(range(len(models)), key=lambda i: (max(after[i], least[i]), i))
    known: _Added | None = None
    for i in order[:MOST_TRIED]:
        number = max(int(after[i]), int(least[i]))
        if number > most or (known is not None and number >= known.number):
            break
        trial = case.trial(changes.with_nodes(case.snapshot, [(models[i], number)]))
        plan = trial.place()
        if plan is not None:
            known = _Added(i, number, plan)

    @cache
    def tried(number: int) -> tuple[AddNodes | None, Fit]:
        """What is enough with so many nodes; if nothing is, whether that is certain."""
        able = sorted(np.flatnonzero(least <= number).tolist(), key=lambda i: (after[i], i))
        sure, few = Fit.NO, len(able)
        if known is not None and number >= known.number:
            # It fits. If other gangs get the nodes first, they would mostly also get those of
            # another kind.
            able = [known.model, *(i for i in able if i != known.model)]
            few = MOST_RIVAL_KINDS if number == known.number else 1
        began = case.left
        for done, i in enumerate(able):
            if done >= few and began - case.left > _RIVAL_SHARE * began:
                return None, Fit.UNKNOWN
            change = partial(_with_nodes, model=models[i], number=number)
            fits = known is not None and (number, i) == (known.number, known.model)
            fit = case.settled(change, known.plan if known is not None and fits else None)
            if fit.found:
                return AddNodes(models[i].name, number, fit is Fit.YES), fit
            sure = sure if fit is Fit.NO else Fit.UNKNOWN
            if case.left <= 0:
                return None, Fit.UNKNOWN
        return None, sure

    lowest = int(least.min())
    if known is not None and known.number > lowest:
        # A first answer, in case there is no time for a proof.
        first, _ = tried(known.number)
        if first is not None:
            yield replace(first, proven=False)
    # 1. Growing numbers until one is enough: where many gangs wait, it may be large.
    best: AddNodes | None = None
    fits: dict[int, Fit] = {}
    number, step = lowest, 1
    while best is None:
        best, fits[number] = tried(number)
        if best is None and (number >= most or case.left <= 0):
            return
        number, step = min(most, number + step), 2 * step
    yield replace(best, proven=best.proven and best.count == lowest)
    # 2. The least of the numbers that were left out, those just below it first.
    while case.left > 0:
        below = [n for n in range(lowest, best.count) if n not in fits]
        if not below:
            break
        last = max(n for n in fits if n < best.count)
        gap = [n for n in below if n > last] or below
        less, fits[gap[len(gap) // 2]] = tried(gap[len(gap) // 2])
        # What is known to be enough is better than less of which that is not known.
        if less is not None and (less.proven or not best.proven):
            best = less
            yield replace(best, proven=False)
    sure = all(fits.get(n) is Fit.NO for n in range(lowest, best.count))
    yield replace(best, proven=best.proven and sure)


class _Added(NamedTuple):
    """So many nodes of a kind (its place), and a plan in the cluster with them."""

    model: int
    number: int
    plan: Plan


def _missing(gangs: Iterable[PodGang]) -> int:
    """Pods that are missing of the minimums of some gangs."""
    return sum(group.missing for gang in gangs for group in gang.groups)


def _without_scopes(case: Case) -> Gang | None:
    """The gang without packing scopes, None where its demands would be others."""
    gang = case.here.gang
    bundled = any(len(d.members) > 1 or d.members[0].pods > 1 for d in gang.demands)
    return None if bundled or not gang.placeable else replace(gang, scopes=())


def _with_nodes(snapshot: Snapshot, model: Node, number: int) -> Snapshot:
    return changes.with_nodes(snapshot, [(model, number)])


def _least_after(case: Case, models: Sequence[Node]) -> Ints:
    """For each kind the least number that may be enough by counting, when the plan stays."""
    alone = changes.only(case.snapshot, {case.gang.name, case.gang.base_gang} - {""})
    trial = case.here
    wide = changes.with_nodes(alone, ((model, 1) for model in models))
    problem = formulate(wide, case.policy)
    gang = problem.gangs[[g.name for g in alone.gangs].index(case.gang.name)]
    free = problem.free.copy()
    here = [trial.problem.columns.index(c) for c in problem.columns if c in trial.problem.columns]
    there = [i for i, c in enumerate(problem.columns) if c in trial.problem.columns]
    count = len(case.snapshot.nodes)
    free[:count, there] = np.minimum(free[:count, there], trial.residual.free[:, here])
    counting = Counting(Topology(replace(problem, free=free)))
    return AddedNodes(counting, count).alike(gang)


def _of_gang(case: Case, change: Callable[[PodGang], PodGang]) -> Callable[[Snapshot], Snapshot]:
    return lambda snapshot: changes.with_gang(snapshot, case.gang.name, change)


def models_of(snapshot: Snapshot) -> list[Node]:
    """One node of each kind, open ones first and then by name: nodes that are alike are tried once.
    A closed node could be a model, too, but readers might think that it is open.
    """
    nodes = snapshot.columns
    columns = (nodes.labels, nodes.allocatable, nodes.taints, nodes.parts)
    numbers = np.stack([column.number for column in columns])
    closed = ~nodes.open
    order = sorted(range(len(nodes)), key=lambda i: (closed[i], nodes.names[i]))
    _, first = np.unique(numbers[:, order], axis=1, return_index=True)
    models: dict[object, Node] = {}
    for at in sorted(first.tolist()):
        node = nodes[order[at]]
        models.setdefault(kind_of(node), node)
    return list(models.values())


def kind_of(node: Node) -> object:
    """The kind of an empty, healthy node like this one, whatever its name."""
    model = changes.twin(node, "nodes/")
    return (
        frozenset(model.labels.items()),
        frozenset(model.allocatable.items()),
        model.taints,
        model.devices,
        model.partitions,
        model.partition_policy,
    )
