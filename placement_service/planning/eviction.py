"""The fewest running pods that would have to go for a gang that waits.

These may go: gangs of lower priority that are preemptible and have run long enough, whole with all
that is based on them, or extras of theirs; within disruption budgets. A solver process chooses a
set, which is then tried. Where a rule between pods refuses it the next best set is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, cast

import numpy as np

from placement_service.entities.planning import Evict
from placement_service.entities.request import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodTemplate
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.devices.wants import Want, want_of
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import Plan
from placement_service.formulation.planning_questions import (
    Devices,
    EvictionAnswer,
    EvictionQuestion,
    OneDomain,
    QueueRoom,
    UnitsNeeded,
)
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.host_ports import is_host_port
from placement_service.planning import changes
from placement_service.planning.closing import Kind, closed
from placement_service.planning.freed_devices import freed_devices
from placement_service.planning.leavers import Leavers
from placement_service.planning.remedy_case import Case, Fit

_FUNCTION: Final = "placement_service.cp_sat.planning.least_eviction:least_eviction"

#: How many further sets are asked for when those before were refused.
_MOST_TRIED: Final = 24

#: What shares of GPUs leave alone.
_PLAIN: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})

#: The part of the time that is left that a step gets which others follow.
_SHARE: Final = 0.6

#: Up to so many pairs of a demand and a node several gangs are asked for together. With more, no
#: proof is found in time.
_MOST_CHOICES: Final = 10_000

#: Up to so many devices, for each demand that wants some, it is asked which of them come free.
_MOST_DEVICES: Final = 20_000


def evict(case: Case) -> Iterator[Evict]:
    """The least eviction that is enough."""
    trial = case.here
    if not trial.gang.placeable:
        return
    leavers = Leavers(case.snapshot, case.gang)
    if not leavers.names:
        return
    emptied = _Emptied.of(case, leavers)
    # The question knows nothing of gangs that wait besides.
    exact = trial.problem.exact and not case.helped
    # 1. Gangs that the plan places may lie elsewhere; without them at least so many have to go.
    alone = EvictionAnswer(None, 1)
    if trial.plan:
        question = _question(case, leavers, [trial.gang], trial.problem.free, emptied)
        alone = _asked(case.within(_SHARE), question) or alone
    # 2. Where all of them stay, the trial shows at once that it is enough.
    best: Evict | None = None
    for best in _beside(case.within(_SHARE), leavers, alone.bound, emptied, exact=exact):
        yield best
    # 3. Fewer, for which some of them have to lie elsewhere.
    if alone.times is not None and any(alone.times):
        _, pods = leavers.chosen(alone.times)
        if best is None or len(pods) < len(best.pods):
            fit, found = _tried(case, leavers, alone.times)
            if fit is Fit.YES or (fit.found and best is None):
                best = replace(found, proven=_is_sure(fit, len(pods), alone.bound, exact=exact))
                yield best
    # 4. Or enough for all of them together, wherever they are.
    if trial.plan and (best is None or not best.proven):
        together = _together(case, leavers, emptied)
        if together is not None:
            enough = _enough(case, leavers, together, exact=exact, known=best)
            if enough is not None:
                yield replace(enough.eviction, proven=enough.is_least)


def _beside(
    case: Case, leavers: Leavers, least: int, emptied: _Emptied, *, exact: bool
) -> Iterator[Evict]:
    """The least eviction where the plan's gangs stay where the plan has them.

    At least so many pods have to go wherever they are; `exact` says that bounds hold.
    """
    trial = case.here
    free = trial.residual.free.copy()
    question = _question(case, leavers, [trial.gang], free, emptied, stays=trial.plan)
    enough = _enough(case, leavers, question, exact=exact)
    if enough is None:
        return
    yield enough.eviction
    pods = len(enough.eviction.pods)
    if enough.is_least and (max(1, least) >= pods or _is_least(case, leavers, pods, emptied)):
        yield replace(enough.eviction, proven=True)


class _Enough(NamedTuple):
    """An eviction that is enough, and whether the question that it answers allows no fewer pods."""

    eviction: Evict
    is_least: bool


def _enough(
    case: Case,
    leavers: Leavers,
    question: EvictionQuestion,
    *,
    exact: bool,
    known: Evict | None = None,
) -> _Enough | None:
    """The first answer of the question that is enough, of fewer pods than `known` has."""
    for _ in range(_MOST_TRIED):
        answer = _asked(case, question)
        if answer is None or answer.times is None:
            return None
        if known is not None and len(leavers.chosen(answer.times).pods) >= len(known.pods):
            return None
        fit, found = _tried(case, leavers, answer.times)
        if fit.found:
            return _Enough(found, _is_sure(fit, len(found.pods), answer.bound, exact=exact))
        # Of rules between pods less may be enough where more is not, but not less than the least.
        exact = exact and fit is Fit.NO and answer.bound >= len(found.pods)
        question = replace(question, forbidden=(*question.forbidden, answer.times))
    return None


def _is_sure(fit: Fit, pods: int, bound: int, *, exact: bool) -> bool:
    """Whether an eviction of so many pods is known to be the least that is enough."""
    return fit is Fit.YES and (pods == 1 or (exact and bound >= pods))


class _Tried(NamedTuple):
    """Whether an eviction is enough."""

    fit: Fit
    eviction: Evict


def _tried(case: Case, leavers: Leavers, times: Sequence[int]) -> _Tried:
    """Whether it is enough that each leaver goes so often."""
    gangs, pods = leavers.chosen(times)
    change = partial(changes.without_pods, pods=pods, gangs=gangs)
    fit, plan = case.fit(case.trial(change(case.snapshot)))
    if plan is not None:
        fit = case.settled(change, plan, gangs)
    named = {name for name, some in leavers.members.items() if some & pods}
    return _Tried(fit, Evict(tuple(sorted(named)), tuple(sorted(pods)), False))


def _asked(case: Case, question: EvictionQuestion) -> EvictionAnswer | None:
    answer = case.solver.call(_FUNCTION, question, deadline=case.deadline)
    return cast("EvictionAnswer | None", answer)


def _is_least(case: Case, leavers: Leavers, pods: int, emptied: _Emptied) -> bool:
    """Whether fewer evictions are not enough even if the plan's gangs were placed elsewhere."""
    if not case.here.plan:
        return True
    question = _together(case, leavers, emptied)
    answer = None if question is None else _asked(case, question)
    return answer is not None and answer.bound >= pods


def _together(case: Case, leavers: Leavers, emptied: _Emptied) -> EvictionQuestion | None:
    """The question for all gangs of the plan together; None where it is too large."""
    trial = case.here
    others = [trial.problem.gangs[i] for i in trial.plan]
    gangs = [trial.gang, *(one for one in others if _is_exact(trial.problem, one))]
    question = _question(case, leavers, gangs, trial.problem.free, emptied)
    return question if np.count_nonzero(question.eligible) <= _MOST_CHOICES else None


class _Emptied(NamedTuple):
    """The cluster once all have left who may: the nodes that each pod class may have then [C, N],
    and the host ports that are free then and not before [N, R].
    """

    eligible: Bools
    ports: Ints

    @classmethod
    def of(cls, case: Case, leavers: Leavers) -> _Emptied:
        """What anti-affinity, another ComputeDomain, host ports or a lack of devices close now."""
        problem = case.here.problem
        able, ports = problem.eligible.copy(), np.zeros_like(problem.free)
        sets = (s for gang in case.snapshot.gangs for group in gang.groups for s in group.pod_sets)
        waiting = (one.template for one in sets if one.pods)
        if any(map(_is_particular, (*waiting, *leavers.templates))):
            emptied = formulate(changes.without_pods(case.snapshot, leavers.pods), case.policy)
            for before, after in zip(problem.gangs, emptied.gangs, strict=True):
                if len(before.demands) == len(after.demands):
                    for d, alike in zip(before.demands, after.demands, strict=True):
                        able[d.pod_class] |= emptied.eligible[alike.pod_class]
            for r in filter(emptied.columns.__contains__, filter(is_host_port, problem.columns)):
                here, there = problem.columns.index(r), emptied.columns.index(r)
                ports[:, here] = emptied.free[:, there] - problem.free[:, here]
        return cls(able, ports)


def _is_particular(template: PodTemplate) -> bool:
    """Whether such pods may come, or others beside them, only once somebody has left."""
    return bool(
        template.required_affinity
        or template.required_anti_affinity
        or template.compute_domain
        or template.host_ports
        or template.same_pcie_nics
        or template.required_partition
    )


def _is_exact(problem: Problem, gang: Gang) -> bool:
    """Whether only room matters to a gang, so that fewer evictions cannot be enough for other
    reasons."""
    return not any(problem.special[d.pod_class] for d in gang.demands)


def _question(
    case: Case,
    leavers: Leavers,
    gangs: Sequence[Gang],
    free: Ints,
    emptied: _Emptied,
    stays: Plan | None = None,
) -> EvictionQuestion:
    """The question which leavers must leave so that some gangs fit together into what is free, and
    into what their queues have left beside the plan that `stays`.
    """
    problem = case.here.problem
    classes: list[int] = []
    needs: list[UnitsNeeded] = []
    scopes: list[OneDomain] = []
    for gang in gangs:
        first = len(classes)
        classes += [d.pod_class for d in gang.demands]
        for one in gang.requirements:
            if one.missing:
                needs.append(UnitsNeeded(tuple(first + d for d in one.demands), one.missing))
        for scope in gang.scopes:
            if scope.required >= 0:
                domain = problem.levels[scope.required].domain
                pinned = np.where(domain == scope.pin, domain, -1) if scope.pin >= 0 else domain
                scopes.append(OneDomain(tuple(first + d for d in scope.demands), pinned))
    request, able = problem.request[classes], emptied.eligible[classes]
    plan = stays or {}
    return EvictionQuestion(
        free=free + emptied.ports,
        request=request,
        eligible=able,
        amounts=_freed(problem, leavers, request.max(axis=0) * sum(one.units for one in needs)),
        needs=tuple(needs),
        scopes=tuple(scopes),
        leavers=tuple(leavers.leavers),
        limits=tuple(leavers.limits),
        queues=tuple(_queues(case, leavers, gangs, plan)),
        closed=tuple(closed(leavers, [kinds for gang in gangs for kinds in _kinds(case, gang)])),
        devices=_devices(case, leavers, gangs, able, plan),
    )


def _kinds(case: Case, gang: Gang) -> Iterator[Sequence[Kind]]:
    """The kinds of pods of each demand of a gang."""
    source = case.snapshot.gangs[gang.index]
    for demand in gang.demands:
        sets = (source.groups[m.group].pod_sets[m.pod_set] for m in demand.members)
        yield [Kind(source.namespace, one.template) for one in sets]


def _devices(
    case: Case, leavers: Leavers, gangs: Sequence[Gang], able: Bools, stays: Plan
) -> tuple[Devices, ...]:
    """The devices that leavers give back, beside the plan that stays; none where they are many."""

    def wants(gang: Gang) -> list[Want | None]:
        # What pods of a demand do not all want is left out.
        found = [{want_of(one.template, case.policy) for one in of} for of in _kinds(case, gang)]
        alone = [all(member.pods == 1 for member in d.members) for d in gang.demands]
        return [
            next(iter(mine)) if len(mine) == 1 and each else None
            for mine, each in zip(found, alone, strict=True)
        ]

    staying: dict[int, list[tuple[Want, int]]] = {}
    for index, units in stays.items():
        of = wants(case.here.problem.gangs[index])
        for one in units:
            if (want := of[one.demand]) is not None:
                staying.setdefault(one.node, []).append((want, one.units))
    every = [want for gang in gangs for want in wants(gang)]
    found = tuple(freed_devices(leavers, case.policy, every, able, staying))
    return found if sum(len(one.left) * len(one.wants) for one in found) <= _MOST_DEVICES else ()


def _queues(
    case: Case, leavers: Leavers, gangs: Sequence[Gang], stays: Plan
) -> Iterator[QueueRoom]:
    """What the queues of some gangs have left beside the plan that stays."""
    problem = case.here.problem
    for r, row in enumerate(problem.queue_rows):
        take = tuple(
            row.take[d.pod_class] if r in gang.queue_rows else 0
            for gang in gangs
            for d in gang.demands
        )
        if any(take):
            taken = sum(
                row.take[problem.gangs[i].demands[one.demand].pod_class] * one.units
                for i in row.gangs & stays.keys()
                for one in stays[i]
            )
            given = tuple(leavers.given(row, case.policy))
            yield QueueRoom(take, row.total - row.used - taken, given)


def _freed(problem: Problem, leavers: Leavers, enough: Ints) -> Ints:
    """What comes free where a pod of each template leaves: at least what really does.

    What no request says, such as partitions of devices, comes free as soon as anybody leaves; host
    ports are free already, of nodes that are `closed` until then. `enough` of each column is all
    that is asked for.
    """
    said = {name for one in leavers.templates for name in one.requests}
    rows = []
    for one in leavers.templates:
        shares = one.device_share is not None
        rows.append(
            [
                0
                if is_host_port(column)
                else most
                if column not in said or (shares and column not in _PLAIN)
                else one.requests.get(column, 0)
                for column, most in zip(problem.columns, enough.tolist(), strict=True)
            ]
        )
    return np.array(rows, dtype=np.int64)
