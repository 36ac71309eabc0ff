"""What an answer with evictions places besides is planned anew, without evictions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.cluster.gang_state import Key
from controller.eviction.evict import Eviction, Evictions
from controller.eviction.plan import EvictionPlan, Victim
from placement import v1
from tests.controller.bodies import gang, pod
from tests.controller.cycle_setting import Setting
from tests.kubernetes import build


class Evictor:
    """Evicts, or refuses; and the journal."""

    def __init__(self, result: Eviction) -> None:
        self._result = result
        self.evicted: list[str] = []

    def evict(self, victim: Victim, *, trial: bool) -> Eviction:
        if not trial:
            self.evicted.append(victim.pod[1])
        return self._result

    def read(self) -> tuple[EvictionPlan, ...]:
        return ()

    def write(self, plan: EvictionPlan) -> None: ...

    def erase(self, gang: Key) -> None: ...


def evicting(for_gang: str) -> Callable[[v1.ComputePlacementRequest], v1.Placement]:
    """Each gang has a place; `low` gives way to one of them where that is allowed."""

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        allowed = request.policy.eviction == v1.EvictionPolicy.EVICTION_POLICY_PREEMPT
        nodes = {"urgent": "nodes/n1", "other": "nodes/n2"}
        placement = v1.Placement()
        for one in request.gangs:
            name = one.name.rpartition("/")[2]
            if name not in nodes or (name == for_gang and not allowed):
                continue
            for waiting in one.groups[0].pod_sets[0].pods:
                placement.bindings.append(
                    v1.Binding(pod=waiting.name, uid=waiting.uid, node=nodes[name], gang=one.name)
                )
        if allowed:
            placement.evictions.append(
                v1.Eviction(
                    pod="namespaces/ml/pods/l",
                    gang="namespaces/ml/podgangs/low",
                    node="nodes/n1",
                    for_gang=f"namespaces/ml/podgangs/{for_gang}",
                )
            )
        return placement

    return answer


def setting(pool: ThreadPoolExecutor, evictor: Evictor, for_gang: str) -> Setting:
    policy = v1.Policy(eviction=v1.EvictionPolicy.EVICTION_POLICY_PREEMPT)
    evictions = Evictions(evictor, evictor, pool, timeout=300.0)
    made = Setting(pool, evictions=evictions, policy=policy)
    made.answer = evicting(for_gang)
    made.observe(
        build.node("n1"),
        build.node("n2"),
        pod("l", node="n1"),
        gang("low", "l"),
        pod("u"),
        gang("urgent", "u"),
        pod("o"),
        gang("other", "o"),
    )
    return made


@pytest.mark.parametrize("result", [Eviction.EVICTED, Eviction.REFUSED])
def test_others_are_bound_by_an_answer_that_evicts_nobody(
    pool: ThreadPoolExecutor, result: Eviction
) -> None:
    """The place of `other` may be one for which `low` has to go first, as by the limit of a queue;
    and it must not wait for good where `low` cannot be evicted."""
    evictor = Evictor(result)
    made = setting(pool, evictor, "urgent")
    made.cycle.once()
    assert made.bound == []
    assert evictor.evicted == (["l"] if result is Eviction.EVICTED else [])
    made.cycle.once()
    assert made.bound == ["o on n2"]
    assert [one.policy.eviction for one in made.asked] == [
        v1.EvictionPolicy.EVICTION_POLICY_PREEMPT,
        v1.EvictionPolicy.EVICTION_POLICY_UNSPECIFIED,
    ]
    # Nothing was overtaken, so the search has as much time.
    assert len({one.time_limit.ToNanoseconds() for one in made.asked}) == 1
    made.observe(pod("late"), gang("late", "late"))
    made.cycle.once()
    assert made.asked[-1].policy.eviction == v1.EvictionPolicy.EVICTION_POLICY_PREEMPT


def test_nobody_is_bound_where_pods_go_for_a_gang_that_was_not_asked_about(
    pool: ThreadPoolExecutor,
) -> None:
    """As a gang that only keeps its room: nobody evicts for it."""
    evictor = Evictor(Eviction.EVICTED)
    made = setting(pool, evictor, "kept")
    made.cycle.once()
    assert (made.bound, evictor.evicted) == ([], [])
    made.cycle.once()
    assert sorted(made.bound) == ["o on n2", "u on n1"]
