"""Gangs that may be evicted although pods wait that belong to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import BoundPod, PackingScope, PodGang, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.open_gangs import anew_name
from placement_service.formulation.prepare import prepare
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.brute import optimum
from tests.judged import no_answer_is_false
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import gang, node
from tests.service.search.answering import Answer, answer

RACK = PackingScope("all", ("worker",), preferred_level="rack")


def racks(*gangs: PodGang, used: dict[str, int]) -> Snapshot:
    """Nodes n0 and n1 in rack a, n2 and n3 in rack b."""
    nodes = tuple(node(f"n{i}", used=used.get(f"n{i}", 0), rack="aabb"[i]) for i in range(4))
    return Snapshot(nodes, gangs)


def growing(*nodes: str, more: int = 1, scope: PackingScope = RACK) -> PodGang:
    """A gang with pods of 8 GPUs that run, the first is its minimum, and some that wait."""
    one = running("old", *nodes, gpus=8, minimum=1)
    [group] = one.groups
    [waiting] = gang("old-more", pods=more, gpus=8).groups[0].pod_sets
    group = replace(group, pod_sets=(*group.pod_sets, waiting))
    return replace(one, groups=(group,), packing_scopes=(scope,))


def bound(result: Answer) -> dict[str, list[str]]:
    """The nodes that the pods of each gang get."""
    found: dict[str, list[str]] = {}
    for b in result.bindings:
        found.setdefault(b.gang.rsplit("/", 1)[1], []).append(b.node.removeprefix("nodes/"))
    return found


def test_a_gang_whose_extras_prefer_to_join_it_gives_way() -> None:
    full = {f"n{i}": 8 for i in range(4)}
    result = answer(racks(growing("n0"), urgent(), used=full), PREEMPT)
    assert result.evicted() == ["old"]
    assert bound(result) == {"urgent": ["n0"]}
    assert result.solution.proven


def test_extras_still_join_a_gang_that_could_be_evicted() -> None:
    """All nodes are alike but for where it runs."""
    result = answer(racks(growing("n2"), urgent(), used={"n2": 8}), PREEMPT)
    assert bound(result)["old"] == ["n3"]
    assert result.tier(TierName.TOPOLOGY) == 0
    assert result.solution.proven


def test_domains_count_only_where_a_gang_gets_a_pod() -> None:
    """It runs in two racks, which costs nothing while its extra finds no room."""
    full = {"n0": 8, "n1": 8, "n2": 8}
    two = replace(growing("n0", "n2"), priority=200)
    result = answer(racks(two, urgent(), used=full), PREEMPT)
    assert (bound(result), result.tier(TierName.TOPOLOGY)) == ({"urgent": ["n3"]}, 0)
    three = answer(racks(replace(two, priority=0), urgent(), used={"n0": 8, "n2": 8}), PREEMPT)
    assert sorted(bound(three)) == ["old", "urgent"]
    assert three.tier(TierName.TOPOLOGY) == 1


@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_scaled_gangs_join_a_base_that_could_be_evicted(required: bool) -> None:
    level = {"required_level": "rack"} if required else {"preferred_level": "rack"}
    base = replace(
        running("base", "n2", gpus=8), packing_scopes=(PackingScope("all", ("worker",), **level),)
    )
    scaled = replace(gang("scaled", pods=1, gpus=8), base_gang=base.name)
    result = answer(racks(base, scaled, urgent(), used={"n2": 8}), PREEMPT)
    assert bound(result)["scaled"] == ["n3"]
    assert (result.evicted(), result.solution.proven) == ([], True)


def test_a_base_gives_way_with_what_is_based_on_it_though_a_scaled_gang_waits() -> None:
    base = replace(
        running("base", "n0", gpus=8), packing_scopes=(PackingScope("all", ("worker",), "rack"),)
    )
    scaled = replace(running("scaled", "n2", gpus=8), base_gang=base.name)
    waits = replace(gang("more", pods=1, gpus=8), base_gang=base.name)
    large = replace(gang("large", pods=2, gpus=8), priority=100)
    full = {f"n{i}": 8 for i in range(4)}
    result = answer(racks(base, scaled, waits, large, used=full), PREEMPT)
    assert result.evicted() == ["base", "scaled"]
    assert bound(result) == {"large": ["n0", "n2"]}


def test_extras_of_a_base_go_though_a_gang_based_on_it_stays() -> None:
    base = running("base", "n0", "n1", gpus=8, minimum=1)
    scaled = replace(running("scaled", "n2", gpus=8), base_gang=base.name, not_preemptible=True)
    full = {f"n{i}": 8 for i in range(4)}
    result = answer(racks(base, scaled, urgent(), used=full), PREEMPT)
    assert (result.evicted(), result.solution.proven) == (["base"], True)
    large = replace(gang("large", pods=2, gpus=8), priority=100)
    assert answer(racks(base, scaled, large, used=full), PREEMPT).evicted() == []


def test_pods_that_wait_do_not_stand_in_for_a_minimum() -> None:
    """One of the two would have to go, though the other could run elsewhere."""
    old = growing("n0", scope=PackingScope("all", ("worker",)))
    old = replace(old, groups=(replace(old.groups[0], min_replicas=2),))
    [_, waiting] = old.groups[0].pod_sets
    both = running("old", "n0", "n1", gpus=8).groups[0].pod_sets
    old = replace(old, groups=(replace(old.groups[0], pod_sets=(*both, waiting)),))
    one = replace(gang("one", pods=1, gpus=8), priority=100)
    two = replace(gang("two", pods=1, gpus=8), priority=100)
    result = answer(racks(old, one, two, used={"n0": 8, "n1": 8, "n3": 8}), PREEMPT)
    assert result.evicted() == ["old", "old"]
    assert sorted(bound(result)) == ["one", "two"]


def test_no_bound_counts_domains_of_a_gang_that_gets_no_pod() -> None:
    """It runs in two racks and could go; the new pods find room elsewhere, in two racks, too."""
    wide = replace(gang("wide", pods=2, gpus=8), priority=100, packing_scopes=(RACK,))
    question = racks(growing("n0", "n2"), wide, used={"n0": 8, "n2": 8})
    result = answer(question, PREEMPT)
    assert (bound(result), result.tier(TierName.TOPOLOGY)) == ({"wide": ["n1", "n3"]}, 1)
    no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_extras_of_a_gang_whose_base_waits_wait_too() -> None:
    base = gang("base", pods=9, gpus=8)
    old = replace(growing("n0"), base_gang=base.name)
    result = answer(racks(base, old, urgent(), used={"n0": 8}), PREEMPT)
    assert list(bound(result)) == ["urgent"]


def replaceable(more: int = 1) -> PodGang:
    """A pod on n0 is its minimum; others wait."""
    old = running("old", "n0", gpus=4)
    [group] = old.groups
    [waiting] = gang("old-more", pods=more, gpus=4).groups[0].pod_sets
    return replace(old, groups=(replace(group, pod_sets=(*group.pod_sets, waiting)),))


@pytest.mark.parametrize("parameters", [DEFAULTS, SearchParameters(victim_gangs=1)])
def test_a_gang_goes_and_begins_anew_with_a_pod_that_waits(parameters: SearchParameters) -> None:
    """That pod finds room where the urgent one does not."""
    question = Snapshot((node("n0", used=4), node("n1", used=4)), (replaceable(), urgent()))
    result = answer(question, PREEMPT, parameters)
    assert result.evicted() == ["old"]
    assert bound(result) == {"old": ["n1"], "urgent": ["n0"]}
    assert (result.tier(TierName.ADMITTED), result.tier(TierName.WAITING)) == (8, 1)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT, parameters)


def test_a_gang_stays_where_that_serves_as_well() -> None:
    nodes = (node("n0", used=4), node("n1", used=4), node("n2"))
    question = Snapshot(nodes, (replaceable(), urgent()))
    result = answer(question, PREEMPT)
    assert (result.evictions, sorted(bound(result))) == ((), ["old", "urgent"])
    assert result.solution.proven


@pytest.mark.parametrize("more", [2, 3])
def test_a_gang_that_begins_anew_gets_its_extras_too(more: int) -> None:
    """Its place is the only one for the urgent gang, and four GPUs are free for each of the new
    pods but one.
    """
    free = tuple(node(f"f{i}", gpus=4) for i in range(more - 1))
    question = Snapshot((node("n0", used=4), *free), (replaceable(more), urgent()))
    result = answer(question, PREEMPT)
    assert len(bound(result)["old"]) == more - 1
    assert (result.evicted(), result.tier(TierName.EXTRA)) == (["old"], more - 2)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_no_bound_forgets_that_a_base_may_begin_anew() -> None:
    old = replaceable()
    based = replace(running("based", "n1"), base_gang=old.name)
    question = Snapshot((node("n0", used=4), node("n1", used=4)), (old, based, urgent()))
    best = optimum(question, PREEMPT)
    assert best.value(TierName.ADMITTED) == 8
    assert not no_answer_is_false(best, question, PREEMPT)


def test_the_model_of_victims_lets_no_pod_that_waits_stand_in_for_a_minimum() -> None:
    """One of its two pods would be enough room, and the small one that waits finds some."""
    old = running("old", "n0", "n0")
    [group] = old.groups
    [waiting] = gang("more", pods=1, gpus=1).groups[0].pod_sets
    old = replace(old, groups=(replace(group, pod_sets=(*group.pod_sets, waiting)),))
    two = replace(gang("two", pods=2, gpus=4), priority=100)
    question = Snapshot((node("n0", used=8), node("n1", gpus=5)), (old, two))
    result = answer(question, PREEMPT, SearchParameters(victim_gangs=1))
    assert (result.evicted(), result.solution.proven) == (["old", "old"], True)


@pytest.mark.parametrize("parameters", [DEFAULTS, SearchParameters(victim_gangs=1)])
@pytest.mark.parametrize(("pods", "gone"), [(1, 1), (2, 2), (3, 0)])
def test_pods_of_a_gang_without_a_minimum_go_one_by_one(
    pods: int, gone: int, parameters: SearchParameters
) -> None:
    """All of them are extras, and no value is lost with them."""
    old = running("old", "n0", "n2", gpus=8, minimum=0)
    large = replace(gang("large", pods=pods, gpus=8), priority=100)
    question = racks(old, large, used={f"n{i}": 8 for i in range(4)})
    result = answer(question, PREEMPT, parameters)
    assert (result.evicted(), result.tier(TierName.EXTRA)) == (["old"] * gone, -gone)
    assert result.tier(TierName.ADMITTED) == 8 * gone
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT, parameters)


@pytest.mark.parametrize("parameters", [DEFAULTS, SearchParameters(victim_gangs=1)])
def test_a_gang_stays_though_its_base_without_a_minimum_goes(parameters: SearchParameters) -> None:
    """The base needs no pods for its minimum to be met."""
    old = running("old", "n0", gpus=8, minimum=0)
    based = replace(running("based", "n1", gpus=8), base_gang=old.name)
    full = {f"n{i}": 8 for i in range(4)}
    question = racks(old, based, urgent(), used=full)
    result = answer(question, PREEMPT, parameters)
    assert (result.evicted(), result.solution.proven) == (["old"], True)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT, parameters)


def test_who_is_based_on_a_gang_without_a_minimum_needs_none_of_its_pods() -> None:
    base = running("base", "n0", gpus=8, minimum=0)
    follower = replace(gang("follower", pods=1, gpus=8), base_gang=base.name)
    asked = Snapshot((node("n0", used=8), node("n1")), (base, follower, urgent()))
    result = answer(asked, PREEMPT)
    assert result.evicted() == ["base"]
    assert sorted(bound(result)) == ["follower", "urgent"]
    assert result.solution.proven


def test_the_model_of_victims_keeps_no_group_below_its_minimum() -> None:
    """Both groups have pods alike, and only the node of the second has what is wanted."""
    large, small = (running("old", *nodes).groups[0] for nodes in (["n0", "n0"], ["n1"]))
    [pods] = small.pod_sets
    others = replace(pods, bound_pods=(replace(pods.bound_pods[0], name=f"{large.name}-other"),))
    groups = (
        replace(large, min_replicas=1),
        replace(small, name="small", pod_sets=(others,)),
    )
    old = replace(running("old", "n0"), groups=groups)
    there = replace(urgent(4).groups[0].pod_sets[0].template, node_selector=(("is", "there"),))
    mine = urgent(4)
    [group] = mine.groups
    [asked] = group.pod_sets
    mine = replace(mine, groups=(replace(group, pod_sets=(replace(asked, template=there),)),))
    question = Snapshot(
        (node("n0", used=8), node("n1", gpus=4, used=4, **{"is": "there"})), (old, mine)
    )
    result = answer(question, PREEMPT, SearchParameters(victim_gangs=1))
    assert (len(result.evictions), result.solution.proven) == (3, True)


def test_a_gang_does_not_begin_anew_beside_pods_that_cannot_go() -> None:
    """Of a pod that runs no template is known: it stays, so the others are no new beginning."""
    one = growing("n1")
    [group] = one.groups
    fixed = (BoundPod("namespaces/ml/pods/old-fixed", "nodes/n0"),)
    question = racks(
        replace(one, groups=(replace(group, fixed_pods=fixed),)), urgent(), used={"n1": 8}
    )
    assert [g.name for g in prepare(question, PREEMPT).snapshot.gangs] == [
        g.name for g in question.gangs
    ]
    names = [g.name for g in prepare(racks(one, urgent(), used={"n1": 8}), PREEMPT).snapshot.gangs]
    assert names[2:] == [anew_name(one.name)]
