"""From a snapshot to a problem: names become indices.

A scope that requires one host for all its pods is a bundle: one demand whose
pod class is the sum of its pods, when all its pods are mandatory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation import guarantees
from placement_service.formulation.arrays import MOST_REPEATED
from placement_service.formulation.eviction import reclaim_ways
from placement_service.formulation.eviction.disruption_budgets import budgets
from placement_service.formulation.eviction.running_topology import growing
from placement_service.formulation.eviction.winners import winners
from placement_service.formulation.gang_value import cluster_totals, gang_value
from placement_service.formulation.gangs.draft import Drafting, GangDraft
from placement_service.formulation.gpu_counts import gpu_counts
from placement_service.formulation.indices import GangIdx, LevelIdx
from placement_service.formulation.levels import Levels
from placement_service.formulation.open_gangs import is_part, whole_name
from placement_service.formulation.pod_classes import PodClasses
from placement_service.formulation.prepare import prepare
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules import queues
from placement_service.formulation.rules.reservation_owners import Ownership
from placement_service.formulation.tiers import has_goals_of


def formulate(
    request: Snapshot,
    policy: Policy,
    prepared: Prepared | None = None,
    *,
    repeated: bool = False,
    loose_reservations: bool = False,
) -> Problem:
    """Arrays of a valid snapshot (see `validation`).

    `prepared` is `prepare(request, policy)`, for callers who have it. `repeated` is for those who
    place a gang several times: limits are kept also where all gangs fit once, and what is enough
    for all of them once is not taken for unlimited. With `loose_reservations` these hold only what
    they do in any case.
    """
    prepared = prepare(request, policy) if prepared is None else prepared
    if prepared.otherwise is not None:
        problem = formulate(request, policy, replace(prepared, otherwise=None), repeated=repeated)
        ways = _formulate(request, policy, prepared.otherwise, repeated=repeated, loose=False)
        return replace(problem, again=ways) if has_goals_of(problem, ways) else problem
    if prepared.looser is not None:
        relaxation = formulate(request, policy, prepared.looser, repeated=repeated)
        problem = formulate(request, policy, replace(prepared, looser=None), repeated=repeated)
        return replace(problem, relaxation=relaxation.relaxation or relaxation)
    if prepared.relaxed is not None:
        # With looser rights fewer nodes are closed.
        loose = replace(
            prepared,
            snapshot=prepared.relaxed,
            relaxed=None,
            closed={},
            each_alone=True,
            part=False,
        )
        # Columns count what tied pods hold at home as if all of them were there, so none of them
        # is where the gang moves. That leaves plans out, but no bound.
        only_stays = prepared.only_stays | prepared.tied
        strict = replace(prepared, only_stays=only_stays, relaxed=None, exact=False)
        relaxation = formulate(request, policy, loose, repeated=repeated)
        problem = formulate(request, policy, strict, repeated=repeated)
        again = None
        if prepared.again:
            exact = replace(strict, exact=prepared.exact and prepared.all_again)
            again = _formulate(request, policy, exact, repeated=repeated, loose=False)
        return replace(
            problem,
            relaxation=relaxation.relaxation or relaxation,
            again=again,
            few_devices=prepared.few_devices,
        )
    # Those that come again are another way to run gangs, which only the last question has.
    prepared = replace(prepared, again=frozenset()) if prepared.again else prepared
    return _formulate(request, policy, prepared, repeated=repeated, loose=loose_reservations)


def _formulate(
    request: Snapshot, policy: Policy, prepared: Prepared, *, repeated: bool, loose: bool
) -> Problem:
    """The same where gangs and rights are as `prepared` has them."""
    snapshot = prepared.snapshot
    levels = Levels(snapshot.columns)
    pod_classes = PodClasses(snapshot, levels)
    by_name = {g.name: i for i, g in enumerate(snapshot.gangs)}
    ownership = Ownership(snapshot, prepared.homes, prepared.users, loose=loose)
    drafts = Drafting(prepared, levels, ownership).drafts()
    _spread_refusal(drafts, by_name)
    for draft in drafts:
        draft.make_demands(pod_classes)
    repeats = MOST_REPEATED if repeated else 1
    table = pod_classes.table(levels, repeats=repeats, loose=loose)
    values = _values(request, snapshot, policy, by_name)
    set_bases = _set_bases(prepared.sets_of or request, snapshot, by_name)
    gangs = tuple(
        draft.finish(value, drafts, by_name, set_bases, table.bundle_of)
        for draft, value in zip(drafts, values, strict=True)
    )
    queue_rows, all_said, kept_said = queues.formulate(
        snapshot, policy, table.contents, _asks(gangs), repeated=repeated, loose=loose
    )
    otherwise = policy.eviction is EvictionPolicy.RECLAIM and bool(prepared.again)
    if otherwise:
        source = prepared.request or request
        queue_rows += tuple(reclaim_ways.rows(source, policy, table.contents, _asks(gangs)))
    gangs = tuple(_with_queues(gangs, queue_rows))
    guaranteed = guarantees.formulate(snapshot, policy, prepared.homes)
    gangs = tuple(_with_guarantees(gangs, guaranteed))
    named = _named_levels(request, levels)
    counts = gpu_counts(snapshot, policy, table, prepared.homes, prepared.held)
    said = table.is_exact and ownership.is_exact and kept_said
    exact = prepared.exact and said
    problem = Problem(
        policy=policy,
        columns=table.columns,
        free=table.free,
        request=table.request,
        eligible=table.eligible,
        levels=levels.all(),
        gangs=gangs,
        rules=table.rules,
        queue_rows=queue_rows,
        guarantees=guaranteed,
        special=table.special,
        gpus=counts.classes,
        pods_without_gpus=counts.pods_without,
        node_gpus=counts.nodes,
        node_gpus_free=counts.free,
        whole_free=counts.whole_free,
        exact=exact and all_said,
        mends=prepared.mends or prepared.part,
        bounds_topology=prepared.bounds_topology,
        apart=prepared.sets_of is not None,
        named_levels=named,
        repeats=repeats,
        budgets=tuple(budgets(snapshot.disruption_budgets, snapshot.gangs, gangs)),
        winners=winners(
            prepared.request or request,
            policy,
            gangs,
            each_alone=prepared.each_alone,
            otherwise=otherwise,
        ),
    )
    for array in (problem.free, problem.request, problem.eligible):
        array.flags.writeable = False
    if not all_said:
        problem = _with_loose_rows(problem, exact)
    if prepared.exact and not (said or loose):
        looser = _formulate(request, policy, prepared, repeated=repeated, loose=True)
        return replace(problem, relaxation=looser.relaxation or looser)
    return problem


def _with_loose_rows(problem: Problem, exact: bool) -> Problem:
    """A problem with queues above their limits, into which nothing new may come; in its relaxation
    it may, if enough of what runs there goes. `exact` is what it would be but for that.
    """
    rows = tuple(row.loosened() for row in problem.queue_rows)
    loosened = replace(problem, queue_rows=rows, exact=exact)
    return replace(problem, relaxation=loosened, loosened=loosened)


def _values(
    request: Snapshot, snapshot: Snapshot, policy: Policy, by_name: Mapping[str, int]
) -> list[int]:
    """The value of each gang: of those of the request, then of those behind them.

    Of these what runs of gangs that lack pods meets no minimum, but where it may only move it has
    to run: models have to count it.
    """
    totals = cluster_totals(request)
    values = [gang_value(source, policy, totals) for source in request.gangs]
    moves = policy.eviction is EvictionPolicy.REPACK
    wholes = [(g, by_name[whole_name(g.name)]) for g in snapshot.gangs[len(values) :]]
    values += [
        0 if is_part(g.name) and snapshot.gangs[whole].is_pending and not moves else values[whole]
        for g, whole in wholes
    ]
    return values


def _named_levels(request: Snapshot, levels: Levels) -> frozenset[LevelIdx]:
    """The levels that gangs of the request name; levels are made that are new."""
    return frozenset(
        levels.index(key)
        for gang in request.gangs
        for scope in gang.packing_scopes
        for key in (scope.required_level, scope.preferred_level)
        if key
    )


def _asks(gangs: Iterable[Gang]) -> Iterator[queues.Ask]:
    """What each gang that may get pods asks for."""
    for gang in gangs:
        if gang.placeable:
            units: dict[int, int] = {}
            for d in gang.demands:
                units[d.pod_class] = units.get(d.pod_class, 0) + d.count
            home: dict[int, int] = {}
            for unit in gang.home:
                pod_class = gang.demands[unit.demand].pod_class
                home[pod_class] = home.get(pod_class, 0) + unit.units
            yield queues.Ask(gang.index, units, home)


def _with_queues(gangs: Iterable[Gang], rows: Sequence[queues.QueueRow]) -> Iterator[Gang]:
    """Gangs that know the rows which count them."""
    mine: dict[int, list[int]] = {}
    for r, row in enumerate(rows):
        for index in row.gangs:
            mine.setdefault(index, []).append(r)
    for gang in gangs:
        found = mine.get(gang.index)
        yield replace(gang, queue_rows=tuple(found)) if found else gang


def _with_guarantees(
    gangs: Iterable[Gang], guaranteed: Sequence[guarantees.Guarantee]
) -> Iterator[Gang]:
    """Gangs that know the guarantee of which they take."""
    guarantee_of = {g: i for i, guarantee in enumerate(guaranteed) for g in guarantee.needs}
    for gang in gangs:
        found = guarantee_of.get(gang.index)
        yield gang if found is None else replace(gang, guarantee=found)


def _set_bases(
    request: Snapshot, snapshot: Snapshot, by_name: Mapping[str, int]
) -> Sequence[GangIdx]:
    """The base of the set of each gang, -1 for none.

    A set of which pods wait counts also where some of it may be evicted, and so is not based on it.
    """
    # Parts belong to no set: their places count with the rest.
    bases = [gang.base_gang for gang in snapshot.gangs[: len(request.gangs)]]
    if any(a.base_gang != b.base_gang for a, b in zip(request.gangs, snapshot.gangs, strict=False)):
        grows = growing(request)
        for i, gang in enumerate(request.gangs):
            bases[i] = gang.base_gang if gang.base_gang in grows else ""
    bases += [
        "" if is_part(g.name) else bases[by_name[whole_name(g.name)]]
        for g in snapshot.gangs[len(bases) :]
    ]
    return [GangIdx(by_name.get(base, -1)) for base in bases]


def _spread_refusal(drafts: Sequence[GangDraft], by_name: dict[str, int]) -> None:
    """A gang whose base cannot be placed cannot be placed either."""
    for draft in drafts:
        if draft.gang.base_gang:
            base = drafts[by_name[draft.gang.base_gang]]
            draft.refused = draft.refused or (base.refused and base.gang.is_pending)
