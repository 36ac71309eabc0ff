"""Whole gangs whose extras wait for a base that lacks pods, or that waits altogether."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.request import PackingScope, Pod, PodGang, PodGroup, Snapshot
from placement_service.entities.solution import TierName
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.brute import optimum
from tests.judged import no_answer_is_false
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import gang, node
from tests.service.search.answering import Answer, answer

PARAMETERS = [DEFAULTS, SearchParameters(victim_gangs=1)]
RACK = PackingScope("all", ("worker",), preferred_level="rack")


def with_waiting(one: PodGang, pods: int, minimum: int) -> PodGang:
    [group] = one.groups
    [pod_set] = group.pod_sets
    more = tuple(Pod(f"{one.name.replace('podgangs', 'pods')}-more-{i}") for i in range(pods))
    sets = (replace(pod_set, pods=more),)
    return replace(one, groups=(PodGroup(group.name, minimum, sets),))


def base(node: str = "n0", waits: int = 1) -> PodGang:
    """One of its two pods runs."""
    return with_waiting(running("base", node, gpus=8), waits, 2)


def scaled(*nodes: str, minimum: int = 1, **fields: Any) -> PodGang:
    """A whole gang with one pod that waits."""
    one = with_waiting(running("scaled", *nodes, gpus=8), 1, minimum)
    return replace(one, base_gang="namespaces/ml/podgangs/base", **fields)


def asked(*gangs: PodGang, full: int, free: int = 0, racks: Sequence[str] = "aaaaaa") -> Snapshot:
    used = [8] * full + [0] * free
    nodes = (node(f"n{i}", used=n, rack=racks[i]) for i, n in enumerate(used))
    return Snapshot(tuple(nodes), gangs)


def names(result: Answer) -> list[str]:
    return sorted(b.gang.rsplit("/", 1)[1] for b in result.bindings)


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize(("pods", "gone"), [(1, ["scaled"]), (2, ["base", "scaled"])])
def test_a_base_that_lacks_pods_goes_with_what_runs_of_it(
    pods: int, gone: list[str], parameters: SearchParameters
) -> None:
    """The base goes last, because it goes only with the other one."""
    large = replace(gang("large", pods=pods, gpus=8), priority=100)
    question = asked(base(), scaled("n1"), large, full=2)
    result = answer(question, PREEMPT, parameters)
    assert (result.evicted(), len(result.bindings)) == (gone, pods)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT, parameters)


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize(
    ("free", "placed", "gone"),
    [
        (1, ["base", "urgent"], ["scaled"]),
        (2, ["base", "urgent"], []),
        (3, ["base", "scaled", "urgent"], []),
    ],
)
def test_extras_come_after_the_base_is_made_whole(
    free: int, placed: list[str], gone: list[str], parameters: SearchParameters
) -> None:
    """The base is worth more than the other one."""
    question = asked(scaled("n1"), base(), urgent(), full=2, free=free)
    result = answer(question, PREEMPT, parameters)
    assert (names(result), result.evicted()) == (placed, gone)
    assert result.tier(TierName.EXTRA) == (free == 3)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT, parameters)


def test_what_runs_stays_while_the_base_waits_and_no_extra_comes() -> None:
    waits = gang("base", pods=9, gpus=8)
    question = asked(scaled("n0"), waits, urgent(), full=1, free=2)
    result = answer(question, PREEMPT)
    assert (names(result), result.evictions) == (["urgent"], ())
    tight = asked(scaled("n0"), waits, urgent(), full=1)
    assert answer(tight, PREEMPT).evicted() == ["scaled"]
    assert no_answer_is_false(optimum(tight, PREEMPT), tight, PREEMPT)


def test_its_value_is_lost_with_it() -> None:
    """Four GPUs of its minimum are less than the eight that come."""
    small = replace(scaled("n0"), groups=with_waiting(running("scaled", "n0"), 1, 1).groups)
    nodes = (node("n0", used=4), node("n1", gpus=2))
    question = Snapshot(nodes, (gang("base", pods=9, gpus=8), small, urgent()))
    result = answer(question, PREEMPT)
    assert (result.evicted(), result.tier(TierName.ADMITTED)) == (["scaled"], 4)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_its_running_extras_go_alone() -> None:
    question = asked(gang("base", pods=9, gpus=8), scaled("n0", "n1"), urgent(), full=2)
    result = answer(question, PREEMPT)
    assert (result.evicted(), result.tier(TierName.EXTRA)) == (["scaled"], -1)
    assert result.tier(TierName.ADMITTED) == 8
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_it_begins_anew_once_its_base_is_made_whole() -> None:
    """In rack a only the urgent one finds room, in rack b the pods that wait."""
    one = urgent()
    [pod_set] = one.groups[0].pod_sets
    there = replace(pod_set.template, node_selector=(("rack", "a"),))
    in_a = replace(one, groups=(PodGroup("worker", 1, (replace(pod_set, template=there),)),))
    question = asked(scaled("n0"), base("n1"), in_a, full=2, free=2, racks="abbb")
    result = answer(question, PREEMPT)
    assert (result.evicted(), names(result)) == (["scaled"], ["base", "scaled", "urgent"])
    assert result.tier(TierName.WAITING) == 2
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_a_set_does_not_count_the_domains_of_what_went() -> None:
    """The base is made whole in its rack, and the other gang has left the set."""
    first = replace(base("n0"), packing_scopes=(RACK,))
    large = replace(gang("large", pods=1, gpus=8), priority=100)
    question = asked(first, scaled("n1"), large, full=2, free=1, racks="aba")
    result = answer(question, PREEMPT)
    assert (result.evicted(), names(result)) == (["scaled"], ["base", "large"])
    assert result.tier(TierName.TOPOLOGY) == 0
    no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_it_is_not_divided_where_places_of_its_extras_would_count() -> None:
    """It stays then, and its base with it; nothing is claimed."""
    wide = scaled("n1", "n2", packing_scopes=(RACK,))
    question = asked(base(), wide, urgent(), full=3)
    result = answer(question, PREEMPT)
    assert (result.evictions, result.bindings) == ((), ())
    assert not no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


def test_a_base_that_lacks_pods_is_held_by_what_must_stay() -> None:
    """That nothing better exists is proven."""
    protected = replace(
        running("scaled", "n1", gpus=8), base_gang=base().name, not_preemptible=True
    )
    question = asked(base(waits=0), protected, urgent(), full=2)
    result = answer(question, PREEMPT)
    assert (result.evictions, result.bindings, result.solution.proven) == ((), (), True)
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)
