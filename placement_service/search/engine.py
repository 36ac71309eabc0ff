"""The search: from the first answer to a proven one, with ever better plans.

Where nodes are alike but for pods that avoid a few of them, all of it looks at a looser question
(`alike_nodes`).

0. Evictions: where many running gangs may give way, a linear model says which.
1. Count: rows and the master bound what any plan can admit, and name a target.
2. Assign: blocks for all gangs of the target at once, by counted rows. Where parts share
   domains of unlike nodes, columns of what fits there together sharpen the bounds and make
   plans, and parts of gangs change racks at once; where some of what goes before topology may be
   spent, of whole gangs block by block, and where some of all of it may, that comes before
   everything else.
3. Decode: place the target greedily, in one order or a few. Where many pods share nodes that
   comes before all else, once, with the largest pods first, and then domains are filled anew
   with gangs that add up to them.
4. Exchange: parts of gangs change racks, so that more gangs lie whole in a block.
5. Fill: block after block with whole gangs of the target, then what is left, then a few
   blocks at a time again. Then decode in other orders, and exchange again.
6. Places: which gangs can lie whole where they prefer to, a bound of topology.
7. Aggregate: the model that counts alike parts of gangs together settles goal after goal where it
   is small enough. Where it is very small it comes after counting. Where no gang requires a
   domain, units on nodes without domains are settled after decoding; where hardly any names one
   before it, and where nodes hold pods of sizes that are no multiples of each other before blocks.
8. Improve: both models settle neighbourhoods, one after another.
9. Exact: on small problems, when that no longer helps, the exact model settles goal after goal,
   with every rule; then neighbourhoods continue. Where gangs could move to other devices of their
   own nodes it does so once more at the end, with these as another way to run each.

Bounds come from relaxations alone and values from plans alone, so no stage can
undo what an earlier one has shown. Every better plan and every better bound is
reported at once; the listener may stop listening at any time.

Each solve is limited by CP-SAT's deterministic time, so that the same request
takes the same path; the deadline only cuts the path short.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from placement_service.entities.solution import Solution, TierName
from placement_service.entities.stages import Stage, stage
from placement_service.formulation.objective import Bounds
from placement_service.formulation.presolve.fewer_columns import with_fewer_columns
from placement_service.formulation.presolve.hopeless_gangs import without_gangs_counted_late
from placement_service.formulation.presolve.implied_room import without_implied_room
from placement_service.formulation.problem import Problem
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.alike_nodes import NoPlaces, alike_nodes
from placement_service.search.block_guess.stage import assign_blocks
from placement_service.search.blocks.stage import fill_blocks
from placement_service.search.configurations.stage import settle_configurations
from placement_service.search.exact_stage import measure_fewest, settle_exact
from placement_service.search.exchange.stage import exchange_parts
from placement_service.search.groundwork import Groundwork
from placement_service.search.head_start import prepare
from placement_service.search.incumbent import Report, State
from placement_service.search.master_stage import (
    count,
    count_tiers,
    counting_seconds,
    decode,
    decode_shared,
)
from placement_service.search.neighbourhoods.lns import Improver
from placement_service.search.node_stage import nodes_come_first, settle_nodes
from placement_service.search.parameters import DEFAULTS, SearchParameters
from placement_service.search.place_stage import count_places
from placement_service.search.refill.stage import refill_domains
from placement_service.search.relaxation_stage import settle_relaxation
from placement_service.search.unlike_blocks.stage import fill_unlike_blocks, spend_at_once
from placement_service.search.victims.stage import settle_victims

__all__ = ["prepare", "search"]


def search(
    problem: Problem,
    start: Solution,
    *,
    deadline: float,
    report: Report,
    parameters: SearchParameters = DEFAULTS,
    prepared: Groundwork | None = None,
) -> Solution:
    """The best plan found and the best bounds proven by `deadline`.

    `deadline` is in `time.monotonic` seconds. The result is never worse than
    `start`, and nothing better was ever reported. `prepared` is what `prepare` found of the
    problem; without it, it is found now.
    """
    if prepared is None:
        problem = without_implied_room(without_gangs_counted_late(problem))
    alike = alike_nodes(problem) if prepared is None else prepared.alike
    if alike is None:
        mine = with_fewer_columns(problem) if prepared is None else prepared.problem
        state = State(mine, start, deadline, report, parameters, prepared)
        return _search(state, start, report)
    best, ground, bounds = start, prepared, None

    def tell(solution: Solution) -> None:
        nonlocal best
        best = alike.exchanged(solution)
        report(best)

    for _ in range(parameters.alike_attempts):
        state = State(alike.loose, best, deadline, tell, parameters, ground)
        try:
            return alike.exchanged(_search(state, best, tell, bounds))
        except NoPlaces:
            ground, bounds = None, state.bounds
    return _search(State(problem, best, deadline, report, parameters), best, report, bounds)


def _search(state: State, start: Solution, report: Report, known: Bounds | None = None) -> Solution:
    """The same for a question as it is; `known` are bounds of a looser one."""
    tolerances = _tolerances(state)
    if state.ground.ahead is not None:
        state.follow(state.ground.ahead)
    elif not tolerances and known is not None:
        state.trust(known)
    elif not tolerances:
        # Known at once: no plan admits more than all gangs.
        state.tell()
    problem = state.problem
    relaxation = problem.relaxation
    if tolerances or problem.loosened is not relaxation:
        settle_relaxation(state, problem.loosened, start, tells=not tolerances)
    if not tolerances:
        settle_relaxation(state, relaxation, start)
    elif relaxation is not None and relaxation.node_count > state.parameters.relaxation_nodes:
        # It would be asked again for each tier.
        settle_relaxation(state, relaxation, start, tells=False)
        relaxation = None
    if tolerances:
        state = _spend(state, tolerances, relaxation, start, report)
    if any(floor is not None for floor in state.worth.floors):
        settle_relaxation(state, relaxation, start)
    _improve(state)
    measure_fewest(state)
    return _settle_again(state, report)


def _tolerances(state: State) -> Mapping[TierName, float]:
    """The share of each tier that later ones may spend, in the order of tiers; those without any
    are left out.
    """
    # Nothing can be spent of a tier that counts nothing here.
    counted = {goal.tier for goal in state.goals if goal.reported}
    tolerance = state.problem.policy.tolerance
    shares = {tier: tolerance(tier.value) for tier in TierName if tier.provable}
    return {tier: share for tier, share in shares.items() if share > 0 and tier in counted}


def _spend(
    state: State,
    tolerances: Mapping[TierName, float],
    relaxation: Problem | None,
    start: Solution,
    report: Report,
) -> State:
    """The state in which later tiers may spend their shares of what earlier ones reach."""
    deadline = state.deadline
    # Its floors are of no use to the search for the best, so it has a state of its own.
    begun = State(state.problem, start, deadline, report, state.parameters, state.ground)
    with stage(Stage.FILL):
        if spend_at_once(begun, tolerances):
            begun.accept(state.plan)
            return begun
    state.accept(begun.plan)
    for i, (tier, share) in enumerate(tolerances.items()):
        # What may be spent of a tier is a share of its best, so that is found first.
        if not state.problem.policy.deterministic:
            now = time.monotonic()
            state.deadline = now + (deadline - now) / (len(tolerances) + 1 - i)
        state.spends, state.to_spend = share, frozenset([*tolerances][i:])
        for k in (k for k, g in enumerate(state.goals) if g.tier is tier and g.reported):
            state.known_goals = k + 1
            settle_relaxation(state, relaxation, start)
            _improve(state)
            # What is spent of one priority is not for lower ones: each has its best before that.
            if not state.reaches(k):
                break
        state.tolerate(tier, share)
        # It lacks something of the bound, but may have enough of the best.
        state.accept(begun.plan)
    state.known_goals, state.spends, state.to_spend = len(state.goals), 0.0, frozenset()
    state.deadline = deadline
    return state


def _settle_again(state: State, report: Report) -> Solution:
    """The end of the search; where something is open a small question is asked once more, in which
    gangs may also move to other devices of their own nodes.
    """
    again = state.problem.again
    spends = any(floor is not None for floor in state.worth.floors)
    if again is None or state.proven or spends or state.left <= 0:
        return state.solution(final=True)
    last = State(again, state.solution(), state.deadline, report, state.parameters)
    last.trust(state.bounds)
    with stage(Stage.EXACT):
        settle_exact(last)
    measure_fewest(last)
    return last.solution(final=True)


def _improve(state: State) -> None:
    """All stages, until everything is proven or time is up."""
    with stage(Stage.VICTIMS):
        settle_victims(state)
    if state.left <= counting_seconds(state):
        # Nothing after it would have time.
        return
    if not state.proven:
        _place(state)
    with stage(Stage.COUNT):
        count_places(state)
    with stage(Stage.AGGREGATE):
        settle_aggregate(state)
    improver = Improver(state)
    with stage(Stage.IMPROVE):
        improver.begin()
    with stage(Stage.EXACT):
        settle_exact(state)
    with stage(Stage.IMPROVE):
        improver.run()


def _place(state: State) -> None:
    """The steps that say which gangs get room, and place them."""
    ahead = state.ground.ahead
    if ahead is None:
        with stage(Stage.COUNT):
            count(state)
        with stage(Stage.AGGREGATE):
            settle_aggregate(state, most=state.parameters.aggregate_first_variables)
    with stage(Stage.DECODE):
        assigned = decode_shared(state) if ahead is None else ahead.assigned
    with stage(Stage.AGGREGATE):
        nodes_first = nodes_come_first(state.problem)
        by_nodes = nodes_first and settle_nodes(state)
    with stage(Stage.EXCHANGE):
        refill_domains(state)
    with stage(Stage.FILL):
        if ahead is None:
            assigned = assign_blocks(state) or assigned
    with stage(Stage.COUNT):
        count_tiers(state)
    with stage(Stage.AGGREGATE):
        # Where hardly any gang names a domain, nodes say who gets room.
        few = state.parameters.node_named
        if not (assigned or nodes_first):
            by_nodes = settle_nodes(state, most_named=few)
    with stage(Stage.CONFIGURE):
        # Placing gangs one after another does not come near.
        configured = settle_configurations(state, assigned=assigned)
    with stage(Stage.EXCHANGE):
        if configured:
            exchange_parts(state, cold=True)
    with stage(Stage.FILL):
        if configured and not assigned:
            assigned = assign_blocks(state, again=True)
        fill_unlike_blocks(state)
    with stage(Stage.DECODE):
        if not assigned and not configured and not by_nodes:
            decode(state, first=True)
        sets = any(g.base >= 0 for g in state.problem.gangs)
        if sets:
            # Placing gangs in another order finds room for sets long before block swaps do.
            decode(state, first=False)
    with stage(Stage.AGGREGATE):
        # What blocks cannot tell, because nodes hold several pods, nodes do.
        if not nodes_first:
            by_nodes = settle_nodes(state) or by_nodes
    if state.packs:
        with stage(Stage.EXCHANGE):
            exchange_parts(state)
    with stage(Stage.FILL):
        if not by_nodes:
            fill_blocks(state, anew=not assigned)
    with stage(Stage.DECODE):
        if not (configured or sets):
            decode(state, first=False)
    with stage(Stage.EXCHANGE):
        exchange_parts(state)
