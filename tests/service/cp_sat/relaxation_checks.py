"""What is asked of each model about a valid plan: it must be admitted, and no bound passed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from placement_service.bounds.configurations import ConfigurationParameters, configurations
from placement_service.bounds.near_rows import NearRows
from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.admission.master import AdmissionMaster
from placement_service.cp_sat.aggregate.part_types import is_plain
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.entities.solution import TierName
from placement_service.explain.capacity_bounds import Headroom
from placement_service.explain.capacity_bounds import Kinds as PodKinds
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.objective import to_solution, worth
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Gang
from placement_service.formulation.rules.affinity import Affinity
from placement_service.formulation.rules.domain_capacity import DomainCapacity
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.spread import Spread
from placement_service.formulation.tiers.topology import (
    gang_domains,
    scopes_in_use,
)
from placement_service.judge.score import score
from placement_service.search import master_stage
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.configurations.stage import Configuring, settle_configurations
from placement_service.search.exact_stage import measure_fewest, settle_exact
from placement_service.search.lexicographic import descend, keep
from placement_service.search.node_stage import settle_nodes
from placement_service.search.place_stage import count_places
from tests.service.cp_sat.relaxation_case import (
    EFFORT,
    HASTY,
    POLICY,
    Case,
    Met,
    as_good,
    counted_as_good,
    solved,
)


def worth_is_score(case: Case, met: Met) -> None:
    result = score(case.snapshot, POLICY, case.planned.plan)
    tiers = to_solution(case.problem, case.plan).tiers
    assert {t.name: t.value for t in tiers} == {n: result.value(n) for n in TierName}
    met["gangs"] += len(case.plan)


def rows_hold(case: Case, met: Met) -> None:
    classes = case.counting.classes
    class_of = {g: i for i, c in enumerate(classes) for g in c.gangs}
    placed = np.zeros(len(classes), dtype=np.int64)
    extras = np.zeros(len(classes), dtype=np.int64)
    for index in case.plan:
        gang = case.problem.gangs[index]
        if gang.pending:
            assert index in class_of, "said not to fit even alone"
            placed[class_of[index]] += 1
            extras[class_of[index]] += case.extras(gang)
    for row in case.counting.rows:
        used = row.weight @ placed + row.extra @ extras
        assert used <= row.capacity
        met["tight row"] += int(used == row.capacity)
    met["row"] += bool(case.counting.rows)
    met["class of several"] += any(len(c.gangs) > 1 for c in classes)


def near_rows_hold(case: Case, _: Met) -> None:
    near = NearRows(case.counting)
    whole = Counter(
        c
        for c in near.classes
        for index in case.counting.classes[c].gangs
        if index in case.plan and is_near(case, case.problem.gangs[index], case.plan[index])
    )
    for weights, room in near.rows():
        used = sum(w * whole[c] for c, w in weights.items())
        assert used <= room


def is_near(case: Case, gang: Gang, units: Units) -> bool:
    return gang_domains(case.problem, gang, units) == scopes_in_use(gang, units)


def places(case: Case) -> list[PlaceRows]:
    """The rows of every level that some gang prefers."""
    preferred = {s.preferred for g in case.problem.pending for s in g.scopes} - {-1}
    return [PlaceRows(case.counting, level) for level in sorted(preferred)]


def place_rows_hold(case: Case, met: Met) -> None:
    classes = case.counting.classes
    for rows in places(case):
        domain = case.problem.levels[rows.level].domain
        near = np.zeros((len(classes), rows.count), dtype=np.int64)
        for c in {*rows.prefer, *rows.require}:
            for i in (i for i in classes[c].gangs if i in case.plan):
                # Pods that are all extra may lie outside of the scope.
                gang = case.problem.gangs[i]
                needed = {d for q in gang.requirements if q.missing for d in q.demands}
                used = {int(domain[n]) for d, n, _ in case.plan[i] if d in needed}
                if len(used) == 1 and (place := used.pop()) >= 0:
                    near[c, place] += 1
                else:
                    assert c not in rows.require
        for row in rows.rows:
            taken = row.weight @ near
            assert (taken <= row.room).all()
            met["tight place"] += int(((taken == row.room) & (taken > 0)).any())


def the_master_of_places_admits_it(case: Case, _: Met) -> None:
    model = case.parameters.model
    for wide, each, alone in ((0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1)):
        master = AdmissionMaster(
            case.counting,
            model,
            places(case),
            wide=bool(wide),
            each=bool(each),
            alone=bool(alone),
        )
        for goal, value in zip(case.worth.goals, case.worth.values, strict=True):
            if goal.terms(master) is None:
                break
            keep(goal, master, value)
        answer = master.solve([], maximize=True, seconds=60, effort=EFFORT)
        assert answer.value is not None or not answer.proven


def single_gangs_need_no_more_than_they_have(case: Case, met: Met) -> None:
    counting, levels = case.counting, case.problem.levels
    for index, units in case.plan.items():
        gang = case.problem.gangs[index]
        for scope in gang.scopes:
            nodes = case.nodes(gang, scope)
            if scope.required >= 0 and nodes:
                domain = levels[scope.required].domain[nodes[0]]
                assert counting.domains_for(gang, scope)[domain]
                met["pinned scope"] += scope.pin >= 0
            if scope.preferred >= 0 and gang.pending:
                places = {int(levels[scope.preferred].place_of[n]) for n in nodes} | {
                    *scope.running
                }
                assert counting.fewest_places(gang, scope) <= len(places)
                if len(places) == 1 and nodes:
                    assert counting.places_for(gang, scope)[places.pop()]
        if gang.pending:
            used = gang_domains(case.problem, gang, units)
            assert counting.fewest(gang) <= used
            assert counting.least_beyond(gang) <= used - scopes_in_use(gang, units)
            met["split that counting sees"] += counting.least_beyond(gang) > 0


def the_counts_behind_reasons_leave_room_for_it(case: Case, met: Met) -> None:
    kinds = PodKinds(case.snapshot, case.problem, NodeRules(case.snapshot))
    shortfalls = Shortfalls(kinds)
    for index in case.plan:
        gang = case.problem.gangs[index]
        rest = case.without([gang])
        if gang.pending and not any(case.problem.gangs[i].base == index for i in rest):
            assert shortfalls.failures(gang, Headroom(kinds, case.room(rest))) == []
            met["room counted"] += 1


def the_master_admits_it(case: Case, met: Met) -> None:
    # A solve that is cut short claims less, and must be as right.
    for effort in (0.0001, EFFORT):
        state = case.state(replace(HASTY, master_effort=effort))
        master_stage.count(state)
        case.is_admitted_by(state.bounds)
    met["patterns"] += state.layout is not None
    met["not everybody"] += state.goals[0].trivial_bound() > state.bounds[0]
    met["domains of the master"] += any(
        bound and goal.tier is TierName.TOPOLOGY
        for goal, bound in zip(state.goals, state.bounds, strict=True)
    )


def configurations_admit_it(case: Case, met: Met) -> None:
    # Where less is told apart they claim less, and must be as right.
    for ways in (1, 4_000):
        found = configurations(case.counting, ConfigurationParameters(ways=ways))
        if found is not None:
            state = case.state(case.parameters)
            descent = Configuring(state, ConfigurationMaster(found))
            descend(state.goals, descent.master, descent.settle)
            case.is_admitted_by(state.bounds)
            case.keeps_the_rules(state.plan)
            met["unlike nodes"] += len(found.accepts) > 1
            met["plan of a filling"] += bool(state.plan)


def the_pooled_model_admits_it(case: Case, met: Met) -> None:
    plain = [g for g in case.problem.gangs if is_plain(case.counting, case.forest, g)]
    if not plain:
        return
    model = counted_as_good(case, plain)
    fixed = case.without(plain)
    answer = solved(model.solve([], maximize=True, hint=None, seconds=60, effort=EFFORT))
    if answer is not None:
        case.keeps_the_rules({**fixed, **answer})
    # Who is counted as what is for the model to say; where the units lie the plan says.
    variables = model.variables
    loads: Counter[tuple[int, int]] = Counter()
    class_of = {n: j for j, c in enumerate(variables.classes) for n in c.nodes}
    for g in plain:
        for d, n, count in case.plan.get(g.index, ()):
            loads[variables.pod_classes.index(g.demands[d].pod_class), class_of[n]] += count
    assert loads.keys() <= variables.tally.load.keys()
    for key, load in variables.tally.load.items():
        variables.cp.add(load == loads[key])
    for group, z in zip(model.kinds.groups, variables.tally.gangs.values(), strict=True):
        variables.cp.add(z == sum(i in case.plan for i in group.gangs))
    solved(model.solve([], maximize=True, hint=case.plan, seconds=60, effort=EFFORT))

    kinds, tally = model.kinds, variables.tally
    for name, there in (
        ("pooled", True),
        ("guesses", not kinds.exact),
        ("beside others", fixed),
        ("whole or apart", tally.whole),
        ("empty part", tally.empty),
        ("large part", tally.large),
        ("whole set", tally.sets),
        ("sets alike", any(len(f.sets) > 1 for f in kinds.families)),
        ("gangs alike", any(len(g.gangs) > 1 for g in kinds.groups)),
        ("pinned part", any(k.pin >= 0 for k in kinds.kinds)),
        ("bound part", any(k.running for k in kinds.kinds)),
        ("parts in parts", any(k.apart.kinds for k in kinds.kinds)),
        ("choice of units", tally.units or tally.loose),
    ):
        met[name] += bool(there)


def the_exact_model_admits_it(case: Case, met: Met) -> None:
    problem = case.problem
    gangs = [g for g in problem.gangs if g.placeable and (g.pending or g.extras)]
    if not gangs:
        return
    goals = as_good(case, gangs)
    model = goals.model
    if terms := goals.fragmentation_cost():
        model.hold(terms, at_most=case.worth.values[-1])
    answer = solved(model.solve([], maximize=True, hint=case.plan, seconds=60, effort=EFFORT))
    if answer is not None:
        case.keeps_the_rules(answer)
        mine = worth(problem, answer)
        for goal, value, want in zip(mine.goals, mine.values, case.worth.values, strict=True):
            assert value <= want if goal.tier.minimize else value >= want, goal
    if all(i in case.plan for i in model.variables.z):
        # Nobody is left out whom the model might have preferred: the plan is a solution.
        counts: Counter[tuple[int, int, int]] = Counter()
        class_of = {n: j for j, c in enumerate(model.variables.classes) for n in c.nodes}
        for index, units in case.plan.items():
            for d, n, count in units:
                counts[index, d, class_of[n]] += count
        assert counts.keys() <= model.variables.x.keys()
        for key, x in model.variables.x.items():
            model.variables.cp.add(x == counts[key])
        solved(model.solve([], maximize=True, hint=case.plan, seconds=60, effort=EFFORT))
        met["the plan itself"] += 1

    for kind in (DomainCapacity, Exclusion, Spread, Affinity):
        met[kind.__name__] += any(isinstance(rule, kind) for rule in problem.rules)
    for name, there in (
        ("exact", True),
        ("bundle", any(sum(k for *_, k in d.members) > 1 for g in gangs for d in g.demands)),
        ("nodes alike", any(len(c.nodes) > 1 for c in model.variables.classes)),
        ("patterns of nodes", model.filling.patterns),
        ("no patterns of nodes", any(c.patterns is None for c in model.variables.classes)),
        ("previous nodes", any(g.previous for g in gangs)),
        ("set", any(g.base >= 0 and g.set_level >= 0 for g in gangs)),
    ):
        met[name] += bool(there)


def neighbourhoods_admit_it(case: Case, met: Met) -> None:
    """Both models with every other gang, beside the rest."""
    free = [
        g
        for g in case.problem.pending
        if g.index in case.plan and not any(case.problem.special[d.pod_class] for d in g.demands)
    ][::2]
    plain = [g for g in free if is_plain(case.counting, case.forest, g)]
    for gangs, model in (
        (free, as_good(case, free).model if free else None),
        (plain, counted_as_good(case, plain) if plain else None),
    ):
        if model is None:
            continue
        fixed = case.without(gangs)
        answer = solved(model.solve([], maximize=True, hint=case.plan, seconds=60, effort=EFFORT))
        if answer is not None:
            case.keeps_the_rules({**fixed, **answer})
        met["neighbourhood"] += bool(fixed)


def units_on_nodes_admit_it(case: Case, met: Met) -> None:
    state = case.state(case.parameters)
    settle_nodes(state)
    case.is_admitted_by(state.bounds)
    case.keeps_the_rules(state.plan)
    met["units on nodes"] += state.phase == "nodes"
    met["plan of units on nodes"] += bool(state.plan)


def no_stage_claims_anything_against_it(case: Case, met: Met) -> None:
    state = case.state(case.parameters)
    for stage in STAGES:
        stage(state)
        case.is_admitted_by(state.bounds)
    case.keeps_the_rules(state.plan)
    measure_fewest(state)
    for index, fewest in state.fewest.items():
        gang = case.problem.gangs[index]
        # Where it needs others it may have found a better place beside them.
        if index in case.plan and not any(case.problem.special[d.pod_class] for d in gang.demands):
            assert fewest <= gang_domains(case.problem, gang, case.plan[index])
            met["fewest"] += 1
    met["not proven"] += not state.proven


STAGES = (
    master_stage.count,
    count_places,
    settle_configurations,
    settle_nodes,
    settle_aggregate,
    settle_exact,
    count_places,
)


CHECKS = (
    worth_is_score,
    rows_hold,
    near_rows_hold,
    place_rows_hold,
    the_master_of_places_admits_it,
    single_gangs_need_no_more_than_they_have,
    the_counts_behind_reasons_leave_room_for_it,
    the_master_admits_it,
    configurations_admit_it,
    units_on_nodes_admit_it,
    the_pooled_model_admits_it,
    the_exact_model_admits_it,
    neighbourhoods_admit_it,
    no_stage_claims_anything_against_it,
)


#: What is asked where room was left out, too: then nothing is claimed of rows and models.
ALWAYS = (
    worth_is_score,
    configurations_admit_it,
    units_on_nodes_admit_it,
    no_stage_claims_anything_against_it,
)
