"""The fewest nodes to add, all like one that is there, so that a waiting gang gets in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from placement_service.bounds.added_nodes import NEVER, AddedNodes
from placement_service.bounds.counting import Counting
from placement_service.entities.planning import AddNodes
from placement_service.entities.request import Node, PodGang, Snapshot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.planning import changes
from placement_service.planning.named_counts import NamedCounts
from placement_service.planning.remedy_case import Case, Fit

#: Most kinds of nodes that are tried for a first answer.
_MOST_TRIED = 8

#: Of them whose least number is tried where others may get such nodes first: so many always, and
#: more as long as that takes only a part of the time that is left.
_MOST_RIVAL_KINDS = 3
_RIVAL_SHARE = 0.05

#: Most nodes that are added.
_MOST_ADDED = 5_000


def add_nodes(case: Case) -> Iterator[AddNodes]:
    """The fewest further nodes, all like one that is there."""
    models = models_of(case.snapshot)
    count = len(case.snapshot.nodes)
    problem = formulate(
        changes.with_nodes(case.snapshot, ((model, 1) for model in models)), case.policy
    )
    gang = problem.gangs[case.here.gang.index]
    if not gang.placeable:
        return
    least = np.zeros(len(models), dtype=np.int64)
    if (loosest := problem.loosest) is not None:
        added = AddedNodes(Counting(Topology(loosest)), count)
        least = added.alike(loosest.gangs[gang.index], case.others(loosest))
    # Each node that is needed takes a pod of those that have to fit, or of those that help them.
    able = (g for g in case.snapshot.gangs if case.helped or g.name in case.wanted)
    if least.min(initial=NEVER) > _missing(able):
        return
    # Other waiting gangs may get the added nodes first.
    most = min(_missing(case.whole.gangs), _MOST_ADDED)
    yield from _least_added(_Kinds.of(case, models, np.maximum(1, least), most))


class _Added(NamedTuple):
    """So many nodes of a kind (its place), and a plan in the cluster with them."""

    model: int
    number: int
    plan: NamedCounts


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """Kinds of nodes, and how many of each may be enough: `least` by counting alone, `after` when
    the plan stays. `known` is a number that is enough, where one was found at once.
    """

    case: Case
    models: Sequence[Node]
    least: Ints
    after: Ints
    most: int
    known: _Added | None = None
    _answers: dict[int, tuple[AddNodes | None, Fit]] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, models: Sequence[Node], least: Ints, most: int) -> _Kinds:
        # The room that the plan leaves tells better which kind is enough.
        after = _least_after(case, models)
        known: _Added | None = None
        order = sorted(range(len(models)), key=lambda i: (max(after[i], least[i]), i))
        for i in order[:_MOST_TRIED]:
            number = max(int(after[i]), int(least[i]))
            if number > most or (known is not None and number >= known.number):
                break
            trial = case.trial(changes.with_nodes(case.snapshot, [(models[i], number)]))
            plan = trial.place()
            if plan is not None:
                known = _Added(i, number, plan)
        return cls(case, models, least, after, most, known)

    def tried(self, number: int) -> tuple[AddNodes | None, Fit]:
        """What is enough with so many nodes; if nothing is, whether that is certain."""
        if number not in self._answers:
            self._answers[number] = self.settled(number, patient=False)
        return self._answers[number]

    def settled(self, number: int, *, patient: bool = True) -> tuple[AddNodes | None, Fit]:
        """The same; who is `patient` tries all kinds as long as there is time."""
        case, known = self.case, self.known
        able = sorted(
            np.flatnonzero(self.least <= number).tolist(), key=lambda i: (self.after[i], i)
        )
        sure, few = Fit.NO, len(able)
        if known is not None and number >= known.number:
            # It fits. If other gangs get the nodes first, they would mostly also get those of
            # another kind.
            able = [known.model, *(i for i in able if i != known.model)]
            few = _MOST_RIVAL_KINDS if number == known.number else 1
        began = case.left
        for done, i in enumerate(able):
            if not patient and done >= few and began - case.left > _RIVAL_SHARE * began:
                return None, Fit.UNKNOWN
            change = partial(_with_nodes, model=self.models[i], number=number)
            fits = known is not None and (number, i) == (known.number, known.model)
            fit = case.settled(change, known.plan if known is not None and fits else None)
            if fit.found:
                return AddNodes(self.models[i].name, number, fit is Fit.YES), fit
            sure = sure if fit is Fit.NO else Fit.UNKNOWN
            if case.left <= 0:
                return None, Fit.UNKNOWN
        return None, sure


def _least_added(kinds: _Kinds) -> Iterator[AddNodes]:
    """Kinds of nodes and numbers of them, each better than the last."""
    case, known, most = kinds.case, kinds.known, kinds.most
    lowest = int(kinds.least.min())
    if known is not None and known.number > lowest:
        # A first answer, in case there is no time for a proof.
        first, _ = kinds.tried(known.number)
        if first is not None:
            yield replace(first, proven=False)
    # 1. Growing numbers until one is enough: where many gangs wait, it may be large.
    best: AddNodes | None = None
    fits: dict[int, Fit] = {}
    number, step = lowest, 1
    while best is None:
        best, fits[number] = kinds.tried(number)
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
        less, fits[gap[len(gap) // 2]] = kinds.tried(gap[len(gap) // 2])
        # What is known to be enough is better than less of which that is not known.
        if less is not None and (less.proven or not best.proven):
            best = less
            yield replace(best, proven=False)
    # 3. What was given up before.
    for n in range(lowest, best.count):
        if fits.get(n) is Fit.UNKNOWN and case.left > 0:
            less, fits[n] = kinds.settled(n)
            if less is not None and (less.proven or not best.proven):
                best = less
                break
    sure = all(fits.get(n) is Fit.NO for n in range(lowest, best.count))
    yield replace(best, proven=best.proven and sure)


def _missing(gangs: Iterable[PodGang]) -> int:
    """Pods that are missing of the minimums of some gangs."""
    return sum(group.missing for gang in gangs for group in gang.groups)


def _with_nodes(snapshot: Snapshot, model: Node, number: int) -> Snapshot:
    return changes.with_nodes(snapshot, [(model, number)])


def _least_after(case: Case, models: Sequence[Node]) -> Ints:
    """For each kind the least number that may be enough by counting, when the plan stays."""
    alone = changes.only(case.snapshot, {case.gang.name, case.gang.base_gang} - {""})
    trial = case.here
    wide = changes.with_nodes(alone, ((model, 1) for model in models))
    problem = formulate(wide, case.policy)
    at = [g.name for g in alone.gangs].index(case.gang.name)
    gang, others = problem.gangs[at], [g for g in problem.pending if g.index != at]
    free = problem.free.copy()
    here = [trial.problem.columns.index(c) for c in problem.columns if c in trial.problem.columns]
    there = [i for i, c in enumerate(problem.columns) if c in trial.problem.columns]
    count = len(case.snapshot.nodes)
    free[:count, there] = np.minimum(free[:count, there], trial.residual.free[:, here])
    counting = Counting(Topology(replace(problem, free=free)))
    return AddedNodes(counting, count).alike(gang, others)


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
