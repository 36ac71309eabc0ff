"""Running gangs give way as the policy says: the fewest pods, proven, and none without need."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.target import Target
from placement_service.entities.eviction import DisruptionBudget, EvictionKind
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    HOSTNAME,
    PackingScope,
    Pod,
    PodGang,
    PodSet,
    Policy,
    Snapshot,
    Tolerance,
)
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.entities.selectors import LabelSelector
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction.running_gangs import open_running_gangs
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import units_of
from placement_service.formulation.tiers import goals
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS, SearchParameters
from placement_service.search.victims import aim, stage
from placement_service.search.victims.stage import settle_victims
from tests.brute import optimum
from tests.service.evictions import (
    PREEMPT,
    RECLAIM,
    REPACK,
    cluster,
    running,
    urgent,
)
from tests.service.questions import GPU, gang, node
from tests.service.search.answering import answer
from tests.waiting import LONG


def test_a_gang_of_lower_priority_gives_way() -> None:
    result = answer(cluster(running("old", "n0", gpus=8), urgent()), PREEMPT)
    assert result.evicted() == ["old"]
    assert [e.kind for e in result.evictions] == [EvictionKind.PREEMPT]
    assert result.solution.proven


def test_nothing_gives_way_where_there_is_room() -> None:
    question = Snapshot((node("n0", used=8), node("n1")), (running("old", "n0", gpus=8), urgent()))
    result = answer(question, PREEMPT)
    assert [b.node for b in result.bindings] == ["nodes/n1"]
    assert not result.evictions


def test_equal_priority_is_no_reason() -> None:
    result = answer(cluster(running("old", "n0", gpus=8, priority=100), urgent()), PREEMPT)
    assert not result.evictions
    assert not result.bindings
    assert result.solution.proven


def test_the_fewest_pods_go() -> None:
    """Two nodes full of equal value: eight pods on one, one pod on the other."""
    many = running("many", *["n0"] * 8, gpus=1)
    one = running("one", "n1", gpus=8)
    result = answer(cluster(many, one, urgent(), nodes=2), PREEMPT)
    assert result.evicted() == ["one"]
    assert result.tier(TierName.DISRUPTION) == 1
    assert result.solution.proven


def test_extras_go_before_a_gang() -> None:
    elastic = running("elastic", *["n0"] * 4, gpus=2, minimum=1)
    result = answer(cluster(elastic, urgent(gpus=4)), PREEMPT)
    assert result.evicted() == ["elastic", "elastic"]
    assert result.tier(TierName.EXTRA) == -2
    assert result.solution.proven


def test_the_room_of_a_victim_serves_nobody_of_its_own_priority() -> None:
    """Half of what the victim leaves stays free, though a gang of its priority waits."""
    middle = replace(gang("middle", pods=1, gpus=4), priority=10)
    victim = running("old", "n0", gpus=8, priority=10)
    result = answer(cluster(victim, urgent(gpus=4), middle), PREEMPT)
    assert [b.gang.rsplit("/", 1)[1] for b in result.bindings] == ["urgent"]
    assert result.solution.proven


def test_a_gang_spread_over_nodes_goes_whole() -> None:
    wide = running("wide", "n0", "n1", gpus=8)
    result = answer(cluster(wide, urgent(), nodes=2), PREEMPT)
    assert result.evicted() == ["wide", "wide"]


def test_a_budget_is_not_passed() -> None:
    """Of the two victims that are enough, the one with the smaller budget stays."""
    two = running("two", "n0", "n0", gpus=4)
    three = running("three", *["n1"] * 4, gpus=2)
    question = cluster(two, three, urgent(), nodes=2)
    assert answer(question, PREEMPT).evicted() == ["two", "two"]
    selector = LabelSelector((("app", "two"),))
    budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, 1)
    kept = answer(replace(question, disruption_budgets=(budget,)), PREEMPT)
    assert kept.evicted() == ["three"] * 4
    assert kept.solution.proven


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_gang_goes_before_an_older_one_like_it_that_a_budget_keeps(names: str) -> None:
    """Both have pods on the same nodes; of "b" only one may go."""
    gangs = [running(name, "n0", "n1", gpus=4) for name in names]
    selector = LabelSelector((("app", "b"),))
    budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, 1)
    question = cluster(*gangs, urgent(4), nodes=2)
    result = answer(replace(question, disruption_budgets=(budget,)), PREEMPT)
    assert result.evicted() == ["a", "a"]
    assert result.solution.proven


@pytest.mark.parametrize("policy", [PREEMPT, REPACK])
def test_extras_go_beside_pods_that_a_budget_keeps(policy: Policy) -> None:
    """A gang of one pod that may not go, and of two others of which one is an extra."""
    head, tail = (running("old", *nodes, gpus=4).groups[0] for nodes in (["n0"], ["n0", "n1"]))
    [kept], [others] = head.pod_sets, tail.pod_sets
    kept = replace(kept, template=replace(kept.template, labels={"app": "kept"}))
    pods = tuple(replace(p, name=f"{p.name}-tail") for p in others.bound_pods)
    groups = (
        replace(head, pod_sets=(kept,)),
        replace(tail, name="tail", min_replicas=1, pod_sets=(replace(others, bound_pods=pods),)),
    )
    old = replace(running("old", "n0"), groups=groups)
    selector = LabelSelector((("app", "kept"),))
    budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, 0)
    nodes = (node("n0", used=8), node("n1", used=4), node("n2", gpus=4))
    question = Snapshot(nodes, (old, urgent()), disruption_budgets=(budget,))
    result = answer(question, policy)
    assert [e.node for e in result.evictions] == ["nodes/n1"]
    assert len(result.bindings) == 1
    assert result.solution.proven


def test_a_gang_goes_whose_queue_is_not_there() -> None:
    old = replace(running("old", "n0", gpus=8), queue="queues/lost")
    queues = (Queue("queues/a"),)
    result = answer(replace(cluster(old, urgent()), queues=queues), PREEMPT)
    assert result.evicted() == ["old"]
    assert result.solution.proven


@pytest.mark.parametrize(("policy", "evicted"), [(PREEMPT, ["old"]), (REPACK, [])])
def test_a_running_pod_that_ignores_reservations_leaves_them_what_they_hold(
    policy: Policy, evicted: list[str]
) -> None:
    """What is free beside it is held, so it has to go for others."""
    old = running("old", "n0", gpus=4)
    [group] = old.groups
    [pods] = group.pod_sets
    careless = replace(pods, template=replace(pods.template, ignores_reservations=True))
    old = replace(old, groups=(replace(group, pod_sets=(careless,)),))
    held = Reservation("reservations/r", "nodes/n0", {GPU: 4}, (ReservationOwner(gang="nobody"),))
    result = answer(replace(cluster(old, urgent(gpus=4), used=4), reservations=(held,)), policy)
    assert result.evicted() == evicted
    assert len(result.bindings) == len(evicted)


def test_the_model_of_victims_gives_room_to_extras_of_running_gangs() -> None:
    """Two more pods would like to run beside one of the gang, and one has room."""
    elastic = running("elastic", "n0", gpus=4)
    [group] = elastic.groups
    more = replace(
        group.pod_sets[0], pods=(Pod("namespaces/ml/pods/a"), Pod("namespaces/ml/pods/b"))
    )
    question = cluster(replace(elastic, groups=(replace(group, pod_sets=(more,)),)), used=4)
    problem = formulate(question, REPACK)
    model = VictimModel(problem)
    [extra] = [g for g in goals(problem) if g.tier is TierName.EXTRA and g.reported]
    terms = extra.terms(model)
    assert terms is not None
    assert model.relaxed(terms, maximize=True, seconds=LONG).bound == 1
    assert answer(question, REPACK, SearchParameters(victim_gangs=1)).solution.proven


def test_what_is_held_for_owners_is_not_for_those_who_may_not_evict() -> None:
    """Two GPUs are free and held; the room of a victim is only for higher priority."""
    question = replace(
        cluster(running("old", "n0", gpus=6), urgent(gpus=2, priority=0), used=6),
        reservations=(
            Reservation("reservations/r", "nodes/n0", {GPU: 2}, (ReservationOwner("other"),)),
        ),
    )
    high = replace(gang("high", pods=1, gpus=4), priority=100)
    result = answer(replace(question, gangs=(*question.gangs, high)), PREEMPT)
    assert [b.gang[-4:] for b in result.bindings] == ["high"]


def test_a_level_that_only_a_running_gang_prefers_is_kept_whole_too() -> None:
    """Of the free nodes the one that is a rack by itself loses the least."""
    scope = PackingScope("s", ("worker",), preferred_level="rack")
    old = replace(running("old", "n0", gpus=8), packing_scopes=(scope,))
    nodes = (node("n0", used=8, rack="a"), *(node(n, rack="b") for n in ("n1", "n2")))
    alone = node("n3", rack="c")
    result = answer(Snapshot((*nodes, alone), (old, urgent(gpus=1))), PREEMPT)
    assert [b.node for b in result.bindings] == ["nodes/n3"]
    assert result.tier(TierName.FRAGMENTATION) == 2


def test_no_bound_is_claimed_for_a_gang_that_could_be_brought_together() -> None:
    """It runs on two nodes though it requires one, and moved together it could have its extra."""
    apart = running("apart", "n0", "n1", gpus=1, minimum=1)
    scope = PackingScope("one", ("worker",), HOSTNAME)
    [group] = apart.groups
    more = (PodSet(group.pod_sets[0].template, (Pod("namespaces/ml/pods/apart-2"),)),)
    group = replace(group, pod_sets=(*group.pod_sets, *more))
    apart = replace(apart, groups=(group,), packing_scopes=(scope,))
    question = Snapshot((node("n0", used=1), node("n1", used=1)), (apart,))
    assert optimum(question, REPACK).value(TierName.EXTRA) == 1
    solution = answer(question, REPACK).solution
    assert not solution.proven
    assert all(t.bound is None or t.bound >= 1 for t in solution.tiers if not t.name.minimize)


def test_what_the_plan_has_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is the best there is: all that is missing is the proof, goal by goal."""
    asked: list[list[tuple[int, int]]] = []
    relaxed = VictimModel.relaxed

    def remember(
        model: VictimModel, terms: list[tuple[int, int]], *, maximize: bool, seconds: float
    ) -> Solved:
        asked.append(sorted(terms))
        return relaxed(model, terms, maximize=maximize, seconds=seconds)

    def never(*_: object) -> Target:
        raise AssertionError("a plan was made that cannot be better")

    monkeypatch.setattr(VictimModel, "relaxed", remember)
    monkeypatch.setattr(aim, "target_of", never)
    victims = [running(f"old-{i}", "n0", gpus=2, priority=i) for i in range(4)]
    parameters = replace(DEFAULTS, victim_gangs=1)
    result = answer(cluster(*victims, urgent()), PREEMPT, parameters)
    assert len(result.evictions) == 4
    assert result.solution.proven
    # What is lost of each priority, how long it waited, and the pods; that it runs needs no proof.
    assert len(asked) <= 6


def test_what_goes_for_the_limit_of_its_queue_does_not_come_back() -> None:
    """There is room on the nodes, but not in the queue."""
    old = replace(running("old", "n0", gpus=3), queue="queues/a")
    new = replace(urgent(gpus=2), queue="queues/a")
    nodes = (node("n0", used=3), node("n1"))
    question = Snapshot(nodes, (old, new), queues=(Queue("queues/a", limit={GPUS: 4}),))
    found = answer(question, PREEMPT)
    assert [b.gang for b in found.bindings] == [new.name]
    assert found.evicted() == ["old"]


def test_nobody_goes_only_for_the_limit_of_a_queue_of_those_without_a_right() -> None:
    """`old` may give way to `large`, which fits nowhere, and not to `mine` of its queue."""
    queues = (Queue("queues/q", limit={GPUS: 4}),)
    old = replace(running("old", "n0", gpus=4), queue="queues/q")
    mine = replace(gang("mine", pods=1, gpus=4), queue="queues/q", priority=5, never_preempts=True)
    large = replace(gang("large", pods=3, gpus=8), priority=5)
    question = replace(cluster(old, mine, large, used=4), queues=queues)
    result = answer(question, PREEMPT)
    assert not result.evictions
    assert not result.bindings


def test_what_queues_are_guaranteed_is_counted_in_every_goal_of_the_model_of_victims() -> None:
    """GPUs inside a guarantee add variables to the model, also after its first solution."""
    queues = (Queue("queues/a", guaranteed={GPUS: 4}), Queue("queues/b", guaranteed={GPUS: 6}))
    old = replace(running("old", "n0", gpus=2), queue="queues/b")
    fixed = replace(running("fixed", "n0", gpus=2), not_preemptible=True)
    pair = replace(gang("pair", pods=2, gpus=2), priority=1, queue="queues/a")
    single = replace(gang("single", pods=1, gpus=1), priority=2, queue="queues/a")
    question = Snapshot((node("n0", gpus=4, used=4),), (old, fixed, pair, single), queues=queues)
    found = answer(question, PREEMPT, SearchParameters(victim_gangs=1))
    assert found.solution.proven
    assert [b.gang for b in found.bindings] == [single.name]
    assert found.evicted() == ["old"]


def test_a_gang_may_go_in_place_of_one_of_equal_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan evicts two pods; it is as good to evict the only pod of the other gang. The model
    knows this without the heuristic, which finds it first.
    """
    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    two, one = running("two", "n0", "n0", gpus=4), running("one", "n1", gpus=8)
    nodes = (node("n0", used=8), node("n1", used=8))
    problem = formulate(Snapshot(nodes, (two, one, urgent())), PREEMPT)
    plan = {GangIdx(1): problem.gangs[1].home, GangIdx(2): units_of({(0, 0): 1})}
    start = to_solution(problem, plan)
    parameters = SearchParameters(victim_gangs=1)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    settle_victims(state)
    assert set(state.plan) == {GangIdx(0), GangIdx(2)}


def test_what_only_one_right_takes_of_a_gang_without_extras_is_proven() -> None:
    """It has run long enough to be reclaimed, not to be preempted by what is above it."""
    old = replace(running("old", "n0", gpus=8), start=1000, minimum_run_time=600, queue="queues/b")
    mine = replace(urgent(priority=0), queue="queues/a")
    above = replace(gang("above", pods=1, gpus=8), priority=10)
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    question = replace(cluster(old, mine, above), queues=queues, as_of=1500)
    found = answer(question, RECLAIM)
    assert [b.gang for b in found.bindings] == [mine.name]
    assert [e.kind for e in found.evictions] == [EvictionKind.RECLAIM]
    assert found.solution.proven


def test_what_may_be_spent_of_one_priority_is_not_for_gangs_of_lower_ones() -> None:
    """Half of what is admitted would keep the low gang, but two gangs wait and not one."""
    policy = replace(PREEMPT, tolerances=(Tolerance("admitted", 0.5),))
    other = replace(gang("other", pods=1, gpus=8), priority=100)
    question = cluster(running("low", "n0", gpus=8), urgent(), other, nodes=2)
    nodes = (question.nodes[0], node("n1"))
    result = answer(replace(question, nodes=nodes), policy)
    assert len(result.bindings) == 2
    assert result.evicted() == ["low"]
    assert result.solution.proven


def test_what_runs_is_no_part_of_what_may_be_spent() -> None:
    """Six GPUs are gained, of which half may be given up, and not half of all that run."""
    spending = (Tolerance("admitted", 0.5), Tolerance("waiting", 1.0))
    elastic = replace(gang("elastic", pods=3, gpus=2, minimum=1), priority=100)
    question = cluster(running("old", "n0", gpus=8), elastic, gang("small", pods=1, gpus=4))
    question = replace(question, nodes=(*question.nodes, node("n1", gpus=6)))
    result = answer(question, replace(PREEMPT, tolerances=spending))
    assert sorted(b.gang[-7:] for b in result.bindings) == ["elastic", "s/small"]
    assert result.solution.proven


def in_reservation(gang: PodGang) -> PodGang:
    """All its pods use the reservation `r`."""
    sets = tuple(
        replace(s, bound_pods=tuple(replace(p, reservation="reservations/r") for p in s.bound_pods))
        for s in gang.groups[0].pod_sets
    )
    return replace(gang, groups=(replace(gang.groups[0], pod_sets=sets),))


@pytest.mark.parametrize("policy", [PREEMPT, RECLAIM])
def test_what_a_victim_in_a_reservation_leaves_is_for_owners(policy: Policy) -> None:
    """Of its two pods the extra one goes for the owner, and for no other gang."""
    old = in_reservation(running("old", "n0", "n0", gpus=4, minimum=1))
    guest = replace(gang("guest", pods=1, gpus=4), priority=100)
    owners = (ReservationOwner(gang="namespaces/ml/podgangs/urgent"),)
    held = (Reservation("reservations/r", "nodes/n0", {}, owners),)
    result = answer(replace(cluster(old, guest, urgent(gpus=4)), reservations=held), policy)
    assert [(b.gang, b.reservation) for b in result.bindings] == [(urgent().name, held[0].name)]
    assert result.evicted() == ["old"]
    assert result.solution.proven
    alone = answer(replace(cluster(old, guest), reservations=held), policy)
    assert not alone.evictions
    assert alone.solution.proven


def test_what_runs_on_a_node_that_takes_no_pods_may_give_way() -> None:
    """Its room there serves nobody, but that on another node does, and its place in a queue."""
    shut = replace(node("n0", used=8), unschedulable=True)
    there = Snapshot((shut, node("n1", used=8)), (running("one", "n0", gpus=8), urgent()))
    assert not answer(there, PREEMPT).evictions
    assert answer(there, PREEMPT).solution.proven
    both = replace(there, gangs=(running("two", "n0", "n1", gpus=8), urgent()))
    assert answer(both, PREEMPT).evicted() == ["two", "two"]
    queue = Queue("queues/q", limit={GPUS: 8})
    mine = tuple(replace(g, queue=queue.name) for g in there.gangs)
    limited = Snapshot((shut, node("n1")), mine, queues=(queue,))
    result = answer(limited, PREEMPT)
    assert (result.evicted(), len(result.bindings)) == (["one"], 1)
    assert result.solution.proven


def test_what_waits_of_a_gang_does_not_take_what_its_own_pods_leave() -> None:
    """Its extra pod goes for the urgent one, and another one of it does not come in its place."""
    old = running("old", "n0", "n1", gpus=8, priority=10, minimum=1)
    [more] = gang("more", pods=1, gpus=8).groups[0].pod_sets
    group = old.groups[0]
    more = replace(more, template=group.pod_sets[0].template)
    old = replace(old, groups=(replace(group, pod_sets=(*group.pod_sets, more)),))
    question = cluster(old, urgent(gpus=4), nodes=2)
    prepared = open_running_gangs(question, PREEMPT)
    here, beyond = prepared.snapshot.gangs[0].groups
    [coming], at_home = beyond.pod_sets, here.pod_sets
    assert len(at_home) == 2
    # The room that only those above it may use is a column that it counts in, too.
    assert coming.template.requests.keys() > at_home[0].template.requests.keys()
    result = answer(question, PREEMPT)
    assert result.evicted() == ["old"]
    assert [b.gang for b in result.bindings] == [urgent().name]
    assert result.solution.proven


def test_a_plan_that_passes_the_limit_of_a_queue_is_not_taken() -> None:
    """Stages that choose blocks at once do not count what running gangs have of it."""
    queue = Queue("queues/q", limit={GPUS: 8})
    old = replace(running("old", "n0", gpus=4), queue=queue.name)
    mine = replace(urgent(), queue=queue.name)
    question = Snapshot((node("n0", used=4), node("n1")), (old, mine), queues=(queue,))
    problem = formulate(question, PREEMPT)
    home = problem.gangs[0].home
    start = to_solution(problem, {GangIdx(0): home})
    state = State(problem, start, time.monotonic() + LONG, None)
    units = units_of({(0, 1): 1})
    assert not state.accept({GangIdx(0): home, GangIdx(1): units})
    assert state.accept({GangIdx(1): units})
