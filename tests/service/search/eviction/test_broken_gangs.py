"""Running gangs that lack pods of their minimum: they stay as they are, are made whole, or go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    Policy,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.entities.solution import TierName
from placement_service.formulation.prepare import prepare
from tests.brute import optimum
from tests.judged import no_answer_is_false
from tests.service.evictions import PREEMPT, RECLAIM, REPACK, running, urgent
from tests.service.questions import gang, node
from tests.service.search.answering import Answer, answer


def broken(name: str, *nodes: str, lacks: int = 1, waits: int = 1, priority: int = 0) -> PodGang:
    """A gang of pods with 8 GPUs that lacks some of its minimum; some of these wait."""
    one = running(name, *nodes, gpus=8, priority=priority)
    [group] = one.groups
    [pod_set] = group.pod_sets
    waiting = tuple(Pod(f"namespaces/ml/pods/{name}-new-{i}") for i in range(waits))
    sets = (replace(pod_set, pods=waiting),)
    group = replace(group, min_replicas=len(nodes) + lacks, pod_sets=sets)
    return replace(one, groups=(group,))


def nodes(*gangs: PodGang, free: int = 0) -> Snapshot:
    """Two nodes that are full, and some that are free."""
    full = (node("n0", used=8, rack="a"), node("n1", used=8, rack="b"))
    return Snapshot((*full, *(node(f"f{i}", rack="a") for i in range(free))), gangs)


def bound(result: Answer) -> list[tuple[str, str]]:
    return sorted(
        (b.gang.rsplit("/", 1)[1], b.node.removeprefix("nodes/")) for b in result.bindings
    )


@pytest.mark.parametrize("waits", [0, 1], ids=["the pod is not there", "the pod waits"])
def test_it_goes_for_a_gang_of_higher_priority(waits: int) -> None:
    result = answer(nodes(broken("old", "n0", "n1", waits=waits), urgent()), PREEMPT)
    assert result.evicted() == ["old", "old"]
    assert bound(result) == [("urgent", "n0")]
    assert result.solution.proven
    assert {e.gang for e in result.evictions} == {"namespaces/ml/podgangs/old"}


@pytest.mark.parametrize(
    "old",
    [
        broken("old", "n0", "n1"),
        broken("old", "n0", "n1", waits=0),
        running("old", "n0", "n1", gpus=8),
    ],
    ids=["broken", "broken, and nothing waits", "whole"],
)
@pytest.mark.parametrize("comes", [True, False])
def test_it_need_not_be_initialized(old: PodGang, comes: bool) -> None:
    """It gets no pod, but what runs of it may go, and counts while it stays."""
    old = replace(old, uninitialized=True)
    question = nodes(old, urgent() if comes else replace(urgent(), uninitialized=True))
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)
    result = answer(question, PREEMPT)
    assert (result.evicted(), bound(result)) == (
        (["old", "old"], [("urgent", "n0")]) if comes else ([], [])
    )


@pytest.mark.parametrize("policy", [PREEMPT, REPACK])
def test_a_gang_whose_extras_wait_is_left_alone_while_it_is_not_initialized(
    policy: Policy,
) -> None:
    one = running("old", "n0", "n1", gpus=8)
    [group] = one.groups
    sets = tuple(replace(s, pods=(Pod("namespaces/ml/pods/new"),)) for s in group.pod_sets)
    old = replace(one, groups=(replace(group, pod_sets=sets),), uninitialized=True)
    question = nodes(old, urgent(), free=1)
    no_answer_is_false(optimum(question, policy), question, policy)
    assert bound(answer(question, policy)) == [("urgent", "f0")]


def test_its_room_is_for_nobody_else() -> None:
    low = replace(urgent(), priority=0)
    result = answer(nodes(broken("old", "n0", "n1"), low), PREEMPT)
    assert (result.bindings, result.evictions, result.solution.proven) == ((), (), True)


def test_it_stays_where_there_is_room_elsewhere() -> None:
    result = answer(nodes(broken("old", "n0", "n1"), urgent(), free=1), PREEMPT)
    assert (result.evicted(), bound(result)) == ([], [("urgent", "f0")])


def test_it_is_made_whole_where_there_is_room_for_that() -> None:
    result = answer(nodes(broken("old", "n0", "n1"), urgent(), free=2), PREEMPT)
    assert result.evicted() == []
    assert [name for name, _ in bound(result)] == ["old", "urgent"]
    assert result.tier(TierName.ADMITTED) == 32
    assert result.solution.proven


def test_it_is_made_whole_in_the_room_of_a_lower_priority() -> None:
    one = broken("old", "n0", priority=50)
    result = answer(nodes(one, running("low", "n1", gpus=8)), PREEMPT)
    assert (result.evicted(), bound(result)) == (["low"], [("old", "n1")])


def test_the_one_with_fewer_pods_goes() -> None:
    """A gang that is broken is worth nothing; of two such gangs the smaller one is disturbed."""
    question = nodes(broken("two", "n0", "n1"), broken("one", "f0"), urgent(), free=1)
    full = tuple(replace(n, requested=question.nodes[0].requested) for n in question.nodes)
    assert answer(replace(question, nodes=full), PREEMPT).evicted() == ["one"]
    whole = nodes(broken("two", "n0", "n1"), running("one", "f0", gpus=8), urgent(), free=1)
    assert answer(replace(whole, nodes=full), PREEMPT).evicted() == ["two", "two"]


def test_its_required_level_holds_for_what_it_gets() -> None:
    scopes = (PackingScope("all", ("worker",), "rack"),)
    one = replace(broken("old", "n0"), packing_scopes=scopes)
    mine = answer(nodes(one, running("other", "n1", gpus=8), free=1), PREEMPT)
    assert bound(mine) == [("old", "f0")]
    away = replace(one, groups=broken("old", "n1").groups)
    assert bound(answer(nodes(away, running("other", "n0", gpus=8), free=1), PREEMPT)) == []


def test_it_is_reclaimed_by_a_queue_below_its_guarantee() -> None:
    queues = (
        Queue("queues/rich", guaranteed={GPUS: 0}),
        Queue("queues/poor", guaranteed={GPUS: 8}),
    )
    old = replace(broken("old", "n0", "n1"), queue="queues/rich")
    poor = replace(gang("poor", pods=1, gpus=8), queue="queues/poor")
    result = answer(replace(nodes(old, poor), queues=queues), RECLAIM)
    assert (result.evicted(), [name for name, _ in bound(result)]) == (["old", "old"], ["poor"])


@pytest.mark.parametrize("allowed", [1, 2])
def test_budgets_protect_it(allowed: int) -> None:
    selector = LabelSelector((("app", "old"),))
    budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, allowed)
    question = replace(
        nodes(broken("old", "n0", "n1"), urgent()), disruption_budgets=(budget,), as_of=1000
    )
    assert len(answer(question, PREEMPT).evictions) == (2 if allowed == 2 else 0)


@pytest.mark.parametrize(
    "protected",
    [
        replace(broken("old", "n0", "n1"), not_preemptible=True),
        replace(broken("old", "n0", "n1"), start=900, minimum_run_time=600),
    ],
    ids=["not preemptible", "young"],
)
def test_what_must_not_be_disturbed_stays(protected: PodGang) -> None:
    question = replace(nodes(protected, urgent()), as_of=1000)
    result = answer(question, PREEMPT)
    assert (result.evictions, result.bindings) == ((), ())
    assert optimum(question, PREEMPT).value(TierName.ADMITTED) == 0


def test_gangs_that_move_are_not_divided() -> None:
    old = broken("old", "n0", "n1")
    assert prepare(nodes(old, urgent()), PREEMPT).request is not None
    assert prepare(nodes(old, urgent()), REPACK).request is None


BASE = replace(
    running("base", "n0", gpus=8),
    packing_scopes=(PackingScope("all", ("worker",), preferred_level="rack"),),
)


def test_a_scaled_gang_goes_while_its_base_stays() -> None:
    scaled = replace(broken("scaled", "n1"), base_gang=BASE.name)
    result = answer(nodes(BASE, scaled, urgent()), PREEMPT)
    assert (result.evicted(), bound(result)) == (["scaled"], [("urgent", "n1")])


def test_a_scaled_gang_is_made_whole_near_its_base() -> None:
    """Three domains of its set are one more than needed, and the tier says so."""
    scaled = replace(broken("scaled", "n1"), base_gang=BASE.name)
    question = nodes(BASE, scaled, urgent(), free=2)
    result = answer(question, PREEMPT)
    assert result.evicted() == []
    assert result.tier(TierName.TOPOLOGY) == 1
    far = replace(question, nodes=(*question.nodes[:2], node("f0", rack="c"), node("f1", rack="c")))
    assert answer(far, PREEMPT).tier(TierName.TOPOLOGY) == 2


@pytest.mark.parametrize(("pods", "gone"), [(1, ["scaled"]), (2, ["base", "scaled"])])
def test_a_base_goes_with_what_runs_of_the_gangs_based_on_it(pods: int, gone: list[str]) -> None:
    base = replace(BASE, groups=broken("base", "n0").groups)
    scaled = replace(running("scaled", "n1", gpus=8), base_gang=BASE.name)
    scaled = replace(scaled, priority=-1)
    large = replace(gang("large", pods=pods, gpus=8), priority=100)
    result = answer(nodes(base, scaled, large), PREEMPT)
    assert (result.evicted(), len(result.bindings)) == (gone, pods)


def test_a_scaled_gang_is_not_made_whole_without_its_base() -> None:
    base = gang("base", pods=9, gpus=8)
    scaled = replace(broken("scaled", "n0"), base_gang=base.name)
    result = answer(nodes(base, scaled, urgent(), free=2), PREEMPT)
    assert [name for name, _ in bound(result)] == ["urgent"]


def with_extras() -> PodGang:
    """Two pods run, one more than the minimum of their group, and another group has none."""
    one = running("old", "n0", "n1", gpus=8, minimum=1)
    return replace(one, groups=(*one.groups, PodGroup("leader", 1)))


@pytest.mark.parametrize("pods", [1, 2])
def test_its_extras_go_with_the_rest(pods: int) -> None:
    """Extras alone may not go, because what is left would be below its minimum."""
    large = replace(gang("large", pods=pods, gpus=8), priority=100)
    question = nodes(with_extras(), large)
    result = answer(question, PREEMPT)
    assert (result.evicted(), result.tier(TierName.EXTRA)) == (["old", "old"], -1)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_a_gang_without_extras_goes_before_it() -> None:
    question = nodes(with_extras(), broken("two", "f0", "f1"), urgent(), free=2)
    full = tuple(replace(n, requested=question.nodes[0].requested) for n in question.nodes)
    question = replace(question, nodes=full)
    assert answer(question, PREEMPT).evicted() == ["two", "two"]
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_what_it_has_of_a_guarantee_is_no_reason_to_disturb_more_pods() -> None:
    """It fills the guarantee whether it goes or not, as no minimum of it is met."""
    queue = Queue("queues/team", guaranteed={GPUS: 8})
    one = replace(broken("one", "f0"), queue=queue.name)
    question = nodes(broken("two", "n0", "n1"), one, urgent(), free=1)
    full = tuple(replace(n, requested=question.nodes[0].requested) for n in question.nodes)
    result = answer(replace(question, nodes=full, queues=(queue,)), PREEMPT)
    assert (result.evicted(), result.solution.proven) == (["one"], True)


def test_a_base_goes_with_a_scaled_gang_that_lacks_pods() -> None:
    scaled = replace(broken("scaled", "n1"), base_gang=BASE.name)
    large = replace(gang("large", pods=2, gpus=8), priority=100)
    question = nodes(BASE, scaled, large)
    assert answer(question, PREEMPT).evicted() == ["base", "scaled"]
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_no_bound_counts_the_domains_of_a_set_that_gets_no_pod() -> None:
    base = replace(BASE, groups=broken("base", "n0", lacks=2, waits=2).groups)
    scaled = replace(running("scaled", "n1", gpus=8), base_gang=BASE.name)
    scopes = (PackingScope("all", ("worker",), preferred_level="rack"),)
    wide = replace(gang("wide", pods=2, gpus=8), priority=100, packing_scopes=scopes)
    question = nodes(base, scaled, wide, free=1)
    question = replace(question, nodes=(*question.nodes, node("g0", rack="g")))
    result = answer(question, PREEMPT)
    assert bound(result) == [("wide", "f0"), ("wide", "g0")]
    assert result.tier(TierName.TOPOLOGY) == 1
    no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_a_base_does_not_go_alone_where_a_gang_based_on_it_is_divided() -> None:
    scaled = replace(broken("scaled", "n1"), base_gang=BASE.name)
    result = answer(nodes(BASE, scaled, in_rack("a")), PREEMPT)
    assert (result.evicted(), result.solution.proven) == (["base", "scaled"], True)


def in_rack(rack: str) -> PodGang:
    """An urgent gang that needs a node of a rack."""
    one = urgent()
    [pod_set] = one.groups[0].pod_sets
    there = replace(pod_set.template, node_selector=(("rack", rack),))
    group = replace(one.groups[0], pod_sets=(replace(pod_set, template=there),))
    return replace(one, groups=(group,))


def test_a_base_that_lacks_pods_goes_though_gangs_based_on_it_wait() -> None:
    base = replace(BASE, groups=broken("base", "n0").groups)
    waits = replace(gang("waits", pods=1, gpus=8), base_gang=base.name)
    question = nodes(base, waits, running("other", "n1", gpus=8, priority=200), urgent())
    assert answer(question, PREEMPT).evicted() == ["base"]
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


@pytest.mark.parametrize(
    ("free", "placed"),
    [(1, ["urgent"]), (2, ["base", "urgent"]), (3, ["base", "urgent", "waits"])],
)
def test_gangs_based_on_it_come_after_it_is_made_whole(free: int, placed: list[str]) -> None:
    base = replace(BASE, groups=broken("base", "n0").groups)
    waits = replace(gang("waits", pods=1, gpus=8), base_gang=base.name)
    other = running("other", "n1", gpus=8, priority=200)
    question = nodes(waits, base, other, urgent(), free=free)
    result = answer(question, PREEMPT)
    assert ([name for name, _ in bound(result)], result.evictions) == (placed, ())
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


@pytest.mark.parametrize("rack", ["a", "b"])
def test_a_base_and_a_scaled_gang_may_both_lack_pods(rack: str) -> None:
    """What runs of the base goes only with what runs of the other one."""
    base = replace(BASE, groups=broken("base", "n0").groups)
    scaled = replace(broken("scaled", "n1"), base_gang=base.name)
    question = nodes(scaled, base, in_rack(rack))
    gone = ["base", "scaled"] if rack == "a" else ["scaled"]
    assert answer(question, PREEMPT).evicted() == gone
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


@pytest.mark.parametrize(
    ("free", "placed"), [(1, ["base"]), (2, ["base", "scaled"]), (3, ["base", "scaled", "urgent"])]
)
def test_both_are_made_whole_the_base_first(free: int, placed: list[str]) -> None:
    base = replace(BASE, groups=broken("base", "n0").groups)
    scaled = replace(broken("scaled", "n1"), base_gang=base.name)
    question = nodes(scaled, base, replace(urgent(), priority=-1), free=free)
    result = answer(question, PREEMPT)
    assert [name for name, _ in bound(result)] == placed
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_a_base_stays_where_a_scaled_gang_that_lacks_pods_must_not_be_disturbed() -> None:
    base = replace(BASE, groups=broken("base", "n0").groups)
    scaled = replace(broken("scaled", "n1"), base_gang=base.name, not_preemptible=True)
    question = nodes(base, scaled, urgent())
    result = answer(question, PREEMPT)
    assert (result.evictions, result.bindings) == ((), ())
    no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_it_goes_and_begins_anew_where_enough_of_its_pods_wait() -> None:
    """In the request it waits, so it counts as made whole."""
    question = nodes(broken("old", "n0", waits=2), in_rack("a"))
    apart = (node("f0", rack="c"), node("f1", rack="c"))
    question = replace(question, nodes=(question.nodes[0], *apart))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["old"]
    assert bound(result) == [("old", "f0"), ("old", "f1"), ("urgent", "n0")]
    assert result.tier(TierName.WAITING) == 2
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_no_bound_forgets_that_a_base_may_begin_anew() -> None:
    one = broken("old", "n0", waits=2)
    based = replace(gang("based", pods=1, gpus=8), base_gang=one.name)
    question = nodes(one, in_rack("a"), based)
    apart = (node("f0", rack="c"), node("f1", rack="c"))
    question = replace(question, nodes=(question.nodes[0], *apart))
    best = optimum(question, PREEMPT)
    assert best.value(TierName.ADMITTED) == 24
    assert not no_answer_is_false(best, question, PREEMPT)
