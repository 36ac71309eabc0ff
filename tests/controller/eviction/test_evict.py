"""Evictions step by step, with an evictor and a journal that do as the test says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from controller.binding.apply import Binding, GangPlan
from controller.cluster.cache import ClusterCache
from controller.cluster.gang_state import Key
from controller.eviction.evict import Eviction, Evictions, KubernetesEvictor, with_room_taken
from controller.eviction.plan import EvictionPlan, Victim, eviction_plans
from controller.runtime.clocks import Clocks
from placement import v1
from placement.cluster import ApiError
from tests.controller.bodies import OURS, gang, pod
from tests.kubernetes import build

URGENT = ("ml", "urgent")


class Cluster:
    """Takes evictions and plans; `answers` is what becomes of an eviction."""

    def __init__(self) -> None:
        self.evicted: list[str] = []
        self.written: dict[Key, EvictionPlan] = {}
        self.answers: Callable[[Victim, bool], Eviction] = lambda victim, trial: Eviction.EVICTED
        self.is_down = False

    def evict(self, victim: Victim, *, trial: bool) -> Eviction:
        result = self.answers(victim, trial)
        if result is Eviction.EVICTED and not trial:
            self.evicted.append(victim.pod[1])
        return result

    def read(self) -> tuple[EvictionPlan, ...]:
        self._reach()
        return tuple(self.written.values())

    def write(self, plan: EvictionPlan) -> None:
        self._reach()
        self.written[plan.gang] = plan

    def erase(self, gang: Key) -> None:
        self._reach()
        self.written.pop(gang, None)

    def _reach(self) -> None:
        if self.is_down:
            raise ApiError(0, "down")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def steady() -> Clock:
    return Clock()


@pytest.fixture
def evictions(cluster: Cluster, pool: ThreadPoolExecutor, clock: Clock, steady: Clock) -> Evictions:
    return Evictions(cluster, cluster, pool, timeout=300.0, clocks=Clocks(steady, clock))


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache(OURS)
    for body in (
        build.node("n1"),
        gang("urgent", "u"),
        pod("u"),
        gang("low", "a", "b"),
        pod("a", node="n1"),
        pod("b", node="n1"),
    ):
        cache.observe(body["kind"], body)
    return cache


def uid(cache: ClusterCache, name: str) -> str:
    return str(cache.view().pods["ml", name]["metadata"]["uid"])


@pytest.fixture
def plan(cache: ClusterCache) -> EvictionPlan:
    victims = tuple(Victim(("ml", name), uid(cache, name), "n1") for name in ("a", "b"))
    binding = Binding(("ml", "u"), uid(cache, "u"), "n1")
    return EvictionPlan(URGENT, "urgent", victims, (binding,), 1300.0)


def test_a_plan_goes_through_text_and_back(plan: EvictionPlan) -> None:
    assert EvictionPlan.of_text(plan.to_text()) == plan


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gang": 1}', '{"gang": ["a", "b"]}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        EvictionPlan.of_text(text)


def test_all_victims_go_and_the_plan_ends_when_they_are_gone(
    cluster: Cluster, evictions: Evictions, cache: ClusterCache, plan: EvictionPlan
) -> None:
    evictions.recover()
    assert evictions.begin(plan) == ""
    assert cluster.evicted == ["a", "b"]
    assert cluster.written == {URGENT: plan}
    assert evictions.advance(cache.view()) == ()
    cache.observe("Pod", pod("a", node="n1"), deleted=True)
    assert evictions.advance(cache.view()) == ()
    cache.observe("Pod", pod("b", node="n1"), deleted=True)
    assert evictions.advance(cache.view()) == (URGENT,)
    assert cluster.evicted == ["a", "b"]
    assert (cluster.written, evictions.plans) == ({}, {})


def test_a_victim_that_may_not_go_saves_the_others(
    cluster: Cluster, evictions: Evictions, plan: EvictionPlan
) -> None:
    cluster.answers = lambda victim, trial: (
        Eviction.BUDGET if victim.pod[1] == "b" else Eviction.EVICTED
    )
    assert (
        evictions.begin(plan) == "b on n1 cannot be evicted: a disruption budget does not allow it"
    )
    assert (cluster.evicted, cluster.written, evictions.plans) == ([], {}, {})


def test_nothing_is_evicted_that_is_not_written_down(
    cluster: Cluster, evictions: Evictions, plan: EvictionPlan
) -> None:
    evictions.recover()
    cluster.is_down = True
    assert "cannot be written down" in evictions.begin(plan)
    assert (cluster.evicted, evictions.plans) == ([], {})


def test_a_plan_that_was_tried_while_another_began_to_lead_is_not_written_down(
    cluster: Cluster, pool: ThreadPoolExecutor, clock: Clock, plan: EvictionPlan
) -> None:
    """That leader has plans of its own there, perhaps for the same gang."""
    leads = True

    def lose(victim: Victim, trial: bool) -> Eviction:
        nonlocal leads
        leads = False
        return Eviction.EVICTED

    evictions = Evictions(
        cluster, cluster, pool, timeout=300.0, may_act=lambda: leads, clocks=Clocks(wall=clock)
    )
    evictions.recover()
    cluster.answers = lose
    assert evictions.begin(plan) == "another replica leads"
    assert (cluster.written, cluster.evicted) == ({}, [])


def test_a_plan_that_ends_while_another_leads_stays_in_the_journal(
    cluster: Cluster,
    pool: ThreadPoolExecutor,
    clock: Clock,
    cache: ClusterCache,
    plan: EvictionPlan,
) -> None:
    leads = True
    evictions = Evictions(
        cluster, cluster, pool, timeout=300.0, may_act=lambda: leads, clocks=Clocks(wall=clock)
    )
    evictions.recover()
    evictions.begin(plan)
    leads = False
    cache.observe("PodGang", gang("urgent", "u"), deleted=True)
    assert evictions.advance(cache.view()) == ()
    assert cluster.written == {URGENT: plan}


def test_the_next_controller_goes_on_with_the_same_pods(
    cluster: Cluster,
    evictions: Evictions,
    pool: ThreadPoolExecutor,
    clock: Clock,
    cache: ClusterCache,
    plan: EvictionPlan,
) -> None:
    """The first one dies after one of two."""
    cluster.written = {URGENT: plan}
    cache.observe("Pod", pod("a", node="n1"), deleted=True)
    cluster.answers = lambda victim, trial: (
        Eviction.GONE if victim.pod[1] == "a" else Eviction.EVICTED
    )
    evictions.advance(cache.view())
    assert evictions.plans == {URGENT: plan}
    assert cluster.evicted == ["b"]


def test_while_the_journal_cannot_be_read_nothing_is_known(
    cluster: Cluster, evictions: Evictions, steady: Clock, cache: ClusterCache
) -> None:
    cluster.is_down = True
    assert evictions.has_work(cache.view())
    evictions.advance(cache.view())
    assert not evictions.is_read
    # And it is not read without end.
    assert not evictions.has_work(cache.view())
    steady.now += 3.0
    assert evictions.has_work(cache.view())
    cluster.is_down = False
    evictions.advance(cache.view())
    assert evictions.is_read


def test_what_got_no_answer_is_tried_again(
    cluster: Cluster, evictions: Evictions, steady: Clock, cache: ClusterCache, plan: EvictionPlan
) -> None:
    evictions.recover()
    cluster.answers = lambda victim, trial: Eviction.EVICTED if trial else Eviction.UNKNOWN
    assert evictions.begin(plan) == ""
    assert evictions.left_of(URGENT) == 2
    cluster.answers = lambda victim, trial: Eviction.EVICTED
    steady.now += 3.0
    assert evictions.has_work(cache.view())
    evictions.advance(cache.view())
    assert cluster.evicted == ["a", "b"]
    assert evictions.left_of(URGENT) == 0


@pytest.mark.parametrize("why", ["time", "gang", "another gang"])
def test_a_plan_that_leads_nowhere_is_given_up(
    cluster: Cluster,
    evictions: Evictions,
    steady: Clock,
    cache: ClusterCache,
    plan: EvictionPlan,
    why: str,
) -> None:
    evictions.recover()
    evictions.begin(plan)
    if why == "time":
        steady.now += 300.0
    else:
        cache.observe("PodGang", gang("urgent", "u"), deleted=True)
        if why == "another gang":
            again = gang("urgent", "u")
            again["metadata"]["uid"] = "later"
            cache.observe("PodGang", again)
    assert evictions.advance(cache.view()) == (URGENT,)
    assert cluster.written == {}


@pytest.mark.parametrize("jump", [-7200.0, 7200.0])
def test_a_clock_that_jumps_changes_nothing(
    cluster: Cluster,
    evictions: Evictions,
    clock: Clock,
    steady: Clock,
    cache: ClusterCache,
    plan: EvictionPlan,
    jump: float,
) -> None:
    """Neither how long a plan is waited for, nor when evictions are tried again."""
    evictions.recover()
    cluster.answers = lambda victim, trial: Eviction.EVICTED if trial else Eviction.BUDGET
    evictions.begin(plan)
    evictions.advance(cache.view())
    clock.now += jump
    steady.now += 3.0
    cluster.answers = lambda victim, trial: Eviction.EVICTED
    assert evictions.advance(cache.view()) == ()
    assert cluster.evicted == ["a", "b"]
    steady.now += 300.0
    assert evictions.advance(cache.view()) == (URGENT,)


def test_a_journal_is_read_again_though_the_clock_was_set_back(
    cluster: Cluster, evictions: Evictions, clock: Clock, steady: Clock, cache: ClusterCache
) -> None:
    """Until it is read, nothing at all is planned."""
    cluster.is_down = True
    evictions.advance(cache.view())
    cluster.is_down = False
    clock.now -= 7200.0
    steady.now += 3.0
    assert evictions.has_work(cache.view())


def test_a_plan_of_a_leader_whose_clock_was_ahead_is_not_waited_for_longer(
    cluster: Cluster, evictions: Evictions, steady: Clock, cache: ClusterCache, plan: EvictionPlan
) -> None:
    cluster.written = {URGENT: replace(plan, until=plan.until + 7200.0)}
    evictions.recover()
    steady.now += 300.0
    assert evictions.advance(cache.view()) == (URGENT,)


def test_a_later_pod_of_the_name_is_no_victim(
    evictions: Evictions, cache: ClusterCache, plan: EvictionPlan
) -> None:
    evictions.recover()
    evictions.begin(plan)
    for name in ("a", "b"):
        later = pod(name, node="n1")
        later["metadata"]["uid"] = f"later {name}"
        cache.observe("Pod", later)
    assert evictions.advance(cache.view()) == (URGENT,)


class ApiServer:
    """Refuses every eviction with a status, and shows one pod, if there is one."""

    def __init__(self, status: int, pod: dict[str, Any] | None) -> None:
        self._status = status
        self._pod = pod

    def request(self, method: str, path: str, **_: object) -> Any:
        if method == "POST":
            raise ApiError(self._status, "no")
        if self._pod is None:
            raise ApiError(404, "not found")
        return self._pod


@pytest.mark.parametrize(
    ("status", "there", "want"),
    [
        (404, None, Eviction.GONE),
        (409, None, Eviction.GONE),
        (409, {"uid": "another"}, Eviction.GONE),
        (409, {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}, Eviction.GONE),
        (409, {"uid": "u"}, Eviction.UNKNOWN),
        (429, {"uid": "u"}, Eviction.BUDGET),
    ],
)
@pytest.mark.parametrize("trial", [True, False])
def test_a_pod_that_is_there_is_not_gone_whatever_the_conflict(
    status: int, there: dict[str, Any] | None, want: Eviction, trial: bool
) -> None:
    server = ApiServer(status, None if there is None else {"metadata": there})
    evictor = KubernetesEvictor(
        server,  # type: ignore[arg-type]
        timeout=1.0,
        may_act=lambda: True,
    )
    assert evictor.evict(Victim(("ml", "a"), "u", "n1"), trial=trial) is want


def test_pods_that_wait_for_room_count_as_bound(cache: ClusterCache, plan: EvictionPlan) -> None:
    pods = with_room_taken(cache.view().pods, [plan])
    assert pods["ml", "u"]["spec"]["nodeName"] == "n1"
    other = replace(plan, bindings=(replace(plan.bindings[0], uid="later"),))
    assert not with_room_taken(cache.view().pods, [other])["ml", "u"]["spec"].get("nodeName")


def test_victims_are_read_from_the_answer(cache: ClusterCache, plan: EvictionPlan) -> None:
    placement = v1.Placement(
        evictions=[
            v1.Eviction(
                pod=f"namespaces/ml/pods/{name}",
                gang="namespaces/ml/podgangs/low",
                for_gang="namespaces/ml/podgangs/urgent",
            )
            for name in ("a", "b", "gone")
        ]
    )
    plans = [GangPlan(URGENT, plan.bindings), GangPlan(("ml", "low"), ())]
    assert eviction_plans(placement, plans, cache.view(), until=1300.0) == (plan,)
