"""Whatever claims to bound all plans must admit every valid one.

Random questions come with a plan that was made without the engine (`tests.planned`).
Of each model alone it is asked whether it admits that plan: rows must hold, bounds
must not pass it, and a model held to what the plan reaches must still have a
solution. ``--hypothesis-profile thorough`` asks twenty times as many, ``exhaustive`` a hundred.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from placement_service.bounds.configurations import ConfigurationParameters, configurations
from placement_service.bounds.counting import Counting
from placement_service.bounds.near_rows import NearRows
from placement_service.bounds.place_rows import PlaceRows
from placement_service.bounds.ways_to_count import CountingParameters
from placement_service.cp_sat.admission_master import AdmissionMaster
from placement_service.cp_sat.aggregate_model import AggregateModel
from placement_service.cp_sat.configuration_master import ConfigurationMaster
from placement_service.cp_sat.domain_forest import Forest
from placement_service.cp_sat.exact_model import ExactModel
from placement_service.cp_sat.exact_objective import Goals
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.cp_sat.part_types import is_plain
from placement_service.cp_sat.solving import Answer, Var
from placement_service.entities.pod_assignment import count_pods, name_pods
from placement_service.entities.request import Policy
from placement_service.entities.solution import Solution, TierName
from placement_service.explain.capacity_bounds import Headroom
from placement_service.explain.capacity_bounds import Kinds as PodKinds
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.node_reasons import NodeRules
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import Bounds, to_solution, worth
from placement_service.formulation.plan import Plan, Units, from_solution, pods_of
from placement_service.formulation.problem import Gang, Problem, Scope
from placement_service.formulation.rules.affinity import Affinity
from placement_service.formulation.rules.domain_capacity import DomainCapacity
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.spread import Spread
from placement_service.formulation.tiers.topology import (
    UNITS_PER_DOMAIN,
    gang_domains,
    scopes_in_use,
    set_domains,
    sets,
)
from placement_service.heuristic.domain_facts import Topology
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.search import master_stage
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.configuration_stage import Configuring, settle_configurations
from placement_service.search.exact_stage import measure_fewest, settle_exact
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import HoldableModel, descend, keep
from placement_service.search.loose_stage import settle_loose
from placement_service.search.parameters import SearchParameters
from placement_service.search.place_stage import count_places
from tests.cut_out import Planned
from tests.planned import Taste, planned

POLICY = Policy(deterministic=True, starvation_after=1000)

#: Of the profile in use, for each aim.
EXAMPLES = settings().max_examples // 5

#: Deterministic time of one solve here.
EFFORT = 1.0

#: What comes after the last bound is no matter here.
HASTY = SearchParameters(
    master_effort=EFFORT,
    aggregate_effort=0.05,
    aggregate_thorough_effort=0.05,
    aggregate_thorough_packing_effort=0.05,
    exact_effort=0.05,
    exact_polish_effort=0.0,
    exact_portfolio_variables=0,
    alone_effort=0.05,
    loose_effort=0.05,
    configuration_effort=0.05,
)

#: What was met, by name: a check that meets nothing shows nothing.
Met = Counter[str]


class Case:
    """A question, its plan in the terms of the engine, and what counting says of it."""

    def __init__(self, planned: Planned, parameters: SearchParameters = HASTY) -> None:
        self.planned = planned
        self.parameters = parameters
        self.snapshot = planned.snapshot
        self.problem: Problem = formulate(self.snapshot, POLICY)
        assignments = count_pods(self.snapshot, planned.plan)
        self.plan: Plan = from_solution(self.problem, Solution(assignments, ()))
        self.worth = worth(self.problem, self.plan)
        self.counting = Counting(Topology(self.problem), parameters.counting)

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.problem)

    @property
    def everywhere(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(self.problem.node_count)

    def state(self, parameters: SearchParameters) -> State:
        """A search that has only begun."""
        nothing, late = to_solution(self.problem, {}), time.monotonic() + 600
        return State(self.problem, nothing, late, lambda solution: None, parameters)

    def room(self, plan: Plan) -> ResidualCapacity:
        """What a part of the plan leaves."""
        room = ResidualCapacity(self.problem)
        room.take_plan(plan)
        return room

    def without(self, gangs: Sequence[Gang]) -> Plan:
        """The plan of all others."""
        mine = {g.index for g in gangs}
        return {i: units for i, units in self.plan.items() if i not in mine}

    def extras(self, gang: Gang) -> int:
        """How many units beyond its minimum the plan gives a gang."""
        units = self.plan.get(gang.index, ())
        return sum(
            max(0, sum(c for d, _, c in units if d in q.demands) - q.missing)
            for q in gang.requirements
        )

    def nodes(self, gang: Gang, scope: Scope) -> list[int]:
        """The nodes under a scope's new pods."""
        return sorted({n for d, n, _ in self.plan.get(gang.index, ()) if d in scope.demands})

    def topology_of(self, gangs: Sequence[Gang]) -> int:
        """What some gangs, and the sets that they belong to, cost in topology."""
        mine = {g.index for g in gangs}
        domains = misses = 0
        for g in gangs:
            units = self.plan.get(g.index, ())
            if units:
                domains += gang_domains(self.problem, g, units) - scopes_in_use(g, units)
            if g.previous:
                misses += sum(c * pods_of(g, d) for d, n, c in units if n not in g.previous)
        for members in sets(self.problem).values():
            if any(g.index in mine for g in members):
                domains += set_domains(self.problem, members, self.plan)
        return domains * UNITS_PER_DOMAIN + misses

    def keeps_the_rules(self, plan: Plan) -> None:
        assignments = to_solution(self.problem, plan).assignments
        assert verify(self.snapshot, POLICY, name_pods(self.snapshot, assignments)) == ()

    def is_admitted_by(self, bounds: Bounds) -> None:
        """A bound speaks of plans that reach those before it, and of no others."""
        assert not self.worth.beats(bounds), (self.worth.values, bounds)


# --- what is asked of each ------------------------------------------------------------


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
        for row in rows.rows():
            taken = row.weight @ near
            assert (taken <= row.room).all()
            met["tight place"] += int(((taken == row.room) & (taken > 0)).any())


def the_master_of_places_admits_it(case: Case, _: Met) -> None:
    master = AdmissionMaster(case.counting, case.parameters.model, places(case))
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
    size = model.size
    model.tell_what_fits(deadline=math.inf)
    met["what fits together"] += model.size > size
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


def loose_units_admit_it(case: Case, met: Met) -> None:
    state = case.state(case.parameters)
    settle_loose(state)
    case.is_admitted_by(state.bounds)
    case.keeps_the_rules(state.plan)
    met["loose"] += state.phase == "loose"
    met["plan of loose units"] += bool(state.plan)


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


def thoroughly(state: State) -> None:
    settle_aggregate(state, thorough=True)


STAGES = (
    master_stage.count,
    count_places,
    settle_configurations,
    settle_loose,
    settle_aggregate,
    thoroughly,
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
    loose_units_admit_it,
    the_pooled_model_admits_it,
    the_exact_model_admits_it,
    neighbourhoods_admit_it,
    no_stage_claims_anything_against_it,
)


#: What is asked where room was left out, too: then nothing is claimed of rows and models.
ALWAYS = (
    worth_is_score,
    configurations_admit_it,
    loose_units_admit_it,
    no_stage_claims_anything_against_it,
)


def as_good(case: Case, gangs: Sequence[Gang]) -> Goals:
    """The exact model of some gangs, held to what the plan reaches with them."""
    fixed = case.without(gangs)
    free = case.room(fixed).free
    goals = Goals(
        ExactModel(
            case.counting, gangs, case.everywhere, free, fixed, parameters=case.parameters.model
        )
    )
    hold_to(case, goals, gangs)
    return goals


def counted_as_good(case: Case, gangs: Sequence[Gang]) -> AggregateModel:
    """The aggregate model of some gangs, held to what the plan reaches with them."""
    fixed = case.without(gangs)
    free = case.room(fixed).free
    model = AggregateModel(
        case.counting, case.forest, gangs, case.everywhere, free, fixed, case.parameters.model
    )
    hold_to(case, model, gangs, guesses=not model.kinds.exact)
    return model


def hold_to(
    case: Case, model: HoldableModel[Var], gangs: Sequence[Gang], *, guesses: bool = False
) -> None:
    """Hold all goals that have bounds; where a model guesses, not those that it guesses at."""
    outside = worth(case.problem, case.without(gangs)).values
    for goal, value, out in zip(case.worth.goals, case.worth.values, outside, strict=True):
        mine = value - out
        if goal.tier is TierName.TOPOLOGY:
            mine = case.topology_of(gangs)
        if goal.tier.provable and not (guesses and goal.tier.minimize):
            keep(goal, model, mine)


def solved(answer: Answer) -> Plan | None:
    """The plan of a model that must have one; None when it was not found in time."""
    assert answer.plan is not None or not answer.proven, "a valid plan is cut off"
    return answer.plan


# --- questions that meet each of them -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aim:
    """Questions of a taste, which many times meet what is named.

    `parameters` are those of the search.
    """

    name: str
    taste: Taste
    meets: tuple[str, ...]
    parameters: SearchParameters = HASTY


CALM = Taste(host=0.03, rules=0, previous=0, running=0, others=0.05, crossing=0.05)

AIMS = (
    Aim("anything", Taste(), ("pooled", "exact", "neighbourhood", "row", "room counted")),
    Aim(
        "whole nodes",
        replace(CALM, whole=0.95, scopes=0.7, elastic=0.1, pods=60),
        (
            "patterns",
            "not everybody",
            "tight row",
            "class of several",
            "large part",
            "unlike nodes",
            "plan of a filling",
        ),
    ),
    Aim(
        "sets",
        replace(CALM, sets=1, scopes=0.15, running=0.15),
        ("set", "whole set", "sets alike", "guesses", "large part"),
    ),
    Aim(
        "parts",
        replace(CALM, scopes=0.9, elastic=0.6),
        ("whole or apart", "parts in parts", "gangs alike", "what fits together", "tight place"),
    ),
    Aim(
        "running",
        replace(CALM, scopes=0.8, elastic=0.3, running=0.6),
        ("pinned scope", "pinned part", "bound part", "beside others"),
    ),
    Aim(
        "crossing",
        replace(CALM, crossing=1, scopes=0.6),
        ("beside others", "whole or apart"),
    ),
    Aim("bare", replace(CALM, scopes=0.6, sets=0.4, running=0.15, bare=0.4), ("whole or apart",)),
    Aim(
        "loose",
        replace(CALM, scopes=0.1, whole=0.2, others=0.4, elastic=0.4),
        (
            "choice of units",
            "nodes alike",
            "patterns of nodes",
            "the plan itself",
            "loose",
            "plan of loose units",
        ),
    ),
    Aim(
        "rules",
        Taste(rules=0.7, previous=0.3, running=0.3, scopes=0.2),
        ("DomainCapacity", "Exclusion", "Spread", "Affinity", "previous nodes", "fewest"),
    ),
    Aim(
        "hosts",
        replace(CALM, host=0.6, scopes=0.7),
        ("bundle", "split that counting sees", "domains of the master"),
    ),
    Aim(
        "low limits",
        Taste(),
        ("no patterns of nodes",),
        replace(
            HASTY,
            aggregate_effort=0.0,
            aggregate_thorough_effort=0.0,
            aggregate_thorough_packing_effort=0.0,
            exact_effort=0.0,
            exact_hard_effort=0.0,
            counting=CountingParameters(node_sets=2, references=2, roundings=1),
            model=ModelParameters(
                master_patterns=3,
                node_patterns=1,
                large_parts=2,
                packing_trials=100,
                packing_proofs=4,
            ),
        ),
    ),
)


@pytest.mark.parametrize("aim", [pytest.param(aim, id=aim.name) for aim in AIMS])
def test_no_bound_cuts_off_a_valid_plan(aim: Aim) -> None:
    met: Met = Counter()

    # Seeds do not shrink, so no time is lost on trying.
    @settings(max_examples=EXAMPLES, phases=[Phase.generate])
    @given(st.integers(0, 2**32 - 1))
    def ask(seed: int) -> None:
        question = planned(random.Random(seed), aim.taste)
        case = Case(question, aim.parameters)
        for check in CHECKS if case.problem.exact else ALWAYS:
            check(case, met)

    ask()
    assert {name for name in aim.meets if not met[name]} == set()
