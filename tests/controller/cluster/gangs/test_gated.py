"""Room for scaled gangs that Grove still holds back, while their base runs or comes."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cluster.cache import ClusterCache
from controller.cluster.gangs.gated import GATE, GatedGangs, Kept
from tests.controller import asked as asking
from tests.controller.asked import ask, sent
from tests.controller.bodies import gang, member
from tests.kubernetes import build

BASE, SCALED = ("ml", "base"), ("ml", "scaled")


def gated(name: str, *gates: str) -> build.Body:
    body = member(name, base="base")
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates or (GATE,)]
    return body


def cache_of(*bodies: build.Body) -> ClusterCache:
    return asking.cache_of(gang("base", "a"), gang("scaled", "s"), *bodies)


def kept(cache: ClusterCache, *, keep: float = 30.0, now: float = 0.0) -> Kept:
    return GatedGangs(keep=keep).look(cache.view(), now)


RUNS: Any = member("a", node="n1")


def test_room_is_kept_for_a_gated_gang_whose_base_runs() -> None:
    assert kept(cache_of(RUNS, gated("s"))) == Kept(first=frozenset({SCALED}))


def test_a_gated_gang_comes_with_a_base_that_waits() -> None:
    assert kept(cache_of(member("a"), gated("s"))) == Kept(with_base=frozenset({SCALED}))


def test_room_is_kept_until_the_gang_runs_also_when_its_gates_have_gone() -> None:
    """A gang that arrived before would take it in between."""
    assert SCALED in kept(cache_of(RUNS, member("s", base="base"))).first
    assert kept(cache_of(RUNS, member("s", base="base", node="n1"))) == Kept()


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([RUNS, gated("s", GATE, "example.com/mine")], id="a gate of others"),
        pytest.param([RUNS], id="a pod that is missing"),
        pytest.param([gated("s")], id="a base without pods"),
    ],
)
def test_nothing_is_kept_for_what_may_never_come(pods: list[build.Body]) -> None:
    assert kept(cache_of(*pods)) == Kept()


def test_room_is_kept_for_a_bounded_time() -> None:
    cache = cache_of(RUNS, gated("s"))
    gangs = GatedGangs(keep=30.0)
    assert gangs.look(cache.view(), 0.0).first
    assert gangs.look(cache.view(), 29.0).first
    assert gangs.look(cache.view(), 30.0) == Kept()
    # And not once more, as soon as something about it changes.
    cache.observe("Pod", member("s", base="base"))
    assert gangs.look(cache.view(), 31.0) == Kept()


def test_zero_keeps_nothing() -> None:
    assert kept(cache_of(RUNS, gated("s")), keep=0.0) == Kept()


def test_a_kept_gang_is_planned_ahead_of_its_priority_and_never_bound() -> None:
    cache = cache_of(RUNS, gated("s"), gang("other", "x"), member("x"))
    asked = ask(cache, kept=kept(cache))
    assert asked.asked == (("ml", "other"),)
    by_name = {one.name.rpartition("/")[2]: one for one in asked.request.gangs}
    assert set(by_name) == {"base", "scaled", "other"}
    assert by_name["scaled"].priority == by_name["other"].priority + 1
    (pods,) = by_name["scaled"].groups[0].pod_sets
    assert [pod.name for pod in pods.pods] == ["namespaces/ml/pods/s"]


def test_a_gang_that_comes_with_its_base_is_planned_with_its_own_priority() -> None:
    """One more would lift the base above others of its priority, too."""
    cache = cache_of(member("a"), gated("s"))
    asked = ask(cache, kept=kept(cache))
    assert asked.asked == (BASE,)
    assert set(sent(asked)) == {"base", "scaled"}
    assert {one.priority for one in asked.request.gangs} == {0}
    assert all(one.groups[0].pod_sets for one in asked.request.gangs)


def test_without_keeping_its_pods_are_gated() -> None:
    cache = cache_of(member("a"), gated("s"))
    asked = ask(cache)
    by_name = {one.name.rpartition("/")[2]: one for one in asked.request.gangs}
    assert (by_name["scaled"].groups[0].gated_count, len(by_name["scaled"].groups[0].pod_sets)) == (
        1,
        0,
    )
