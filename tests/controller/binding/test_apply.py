"""Plans carried out gang by gang, with a binder that does as it is told."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.binding.apply import (
    Applier,
    BindAttempt,
    Binding,
    GangPlan,
    Outcome,
    Result,
    plans,
    staleness,
)
from controller.cluster.cache import ClusterCache
from placement import v1
from tests.controller.bodies import INITIALIZED, OURS, pod
from tests.kubernetes import build


class RecordingBinder:
    """Notes what it is asked to bind; `results` say what becomes of a pod, else it is bound."""

    def __init__(self, results: Mapping[str, Result] | None = None) -> None:
        self.results = results or {}
        self.asked: list[str] = []

    def bind(self, binding: Binding) -> BindAttempt:
        self.asked.append(str(binding))
        result = self.results.get(binding.pod[1], Result.BOUND)
        return BindAttempt(binding, result, "" if result is Result.BOUND else "as told")


def gang(name: str, *pods: str, least: int | None = None) -> build.Body:
    return build.gang(
        name,
        metadata={"uid": name, "generation": 1},
        status=INITIALIZED,
        podgroups=[build.group("worker", *pods, least=least)],
    )


def test_what_fails_in_the_same_way_is_told_once() -> None:
    def attempt(name: str, why: str) -> BindAttempt:
        return BindAttempt(Binding(("ml", name), name, f"n-{name}"), Result.REFUSED, why)

    tried = [attempt(name, f'pods "{name}" is forbidden: not today') for name in ("a0", "a1", "a2")]
    tried += [attempt("a3", "403 no"), attempt("a4", "")]
    assert Outcome(GangPlan(("ml", "g"), ()), tuple(tried)).why == (
        'a0 on n-a0: pods "a0" is forbidden: not today (and so for 2 more); a3 on n-a3: 403 no'
    )


@pytest.mark.parametrize(
    ("results", "refused"),
    [
        ([Result.REFUSED, Result.REFUSED], True),
        ([Result.REFUSED, Result.SKIPPED], True),
        ([Result.REFUSED, Result.BOUND], False),
        ([Result.REFUSED, Result.CONFLICT], False),
        ([Result.REFUSED, Result.UNKNOWN], False),
        ([Result.SKIPPED, Result.SKIPPED], False),
        ([], False),
    ],
)
def test_a_gang_is_refused_where_all_that_is_known_is_a_refusal(
    results: list[Result], refused: bool
) -> None:
    tried = tuple(
        BindAttempt(Binding(("ml", f"a{i}"), f"a{i}", "n"), result)
        for i, result in enumerate(results)
    )
    assert Outcome(GangPlan(("ml", "g"), ()), tried).is_refused == refused


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache(OURS)
    for body in (
        build.node("n1"),
        build.node("n2"),
        *(pod(name) for name in "abcd"),
        gang("g", "a", "b"),
        gang("h", "c", "d"),
    ):
        cache.observe(body["kind"], body)
    return cache


def plan(name: str, *bindings: str, base: str = "", depends_on: str = "") -> GangPlan:
    """A plan whose bindings read "a on n1"."""
    return GangPlan(
        ("ml", name),
        tuple(
            Binding(("ml", one), "1", node)
            for one, node in (binding.split(" on ") for binding in bindings)
        ),
        ("ml", base) if base else None,
        frozenset(("ml", one) for one in depends_on),
    )


def apply(
    cache: ClusterCache, binder: RecordingBinder, *todo: GangPlan, may_act: list[bool] | None = None
) -> list[Outcome]:
    allowed = iter(may_act) if may_act is not None else None
    with ThreadPoolExecutor(1) as pool:
        applier = Applier(
            cache,
            binder,
            pool,
            scheduler_name=OURS,
            may_act=lambda: True if allowed is None else next(allowed, False),
        )
        return list(applier.apply(todo, cache.view()))


def test_every_pod_of_a_plan_is_bound_and_assumed(cache: ClusterCache) -> None:
    binder = RecordingBinder()
    (outcome,) = apply(cache, binder, plan("g", "a on n1", "b on n2"))
    assert outcome.is_whole
    assert binder.asked == ["a on n1", "b on n2"]
    assert {key[1]: one.node for key, one in cache.assumed.items()} == {"a": "n1", "b": "n2"}


@pytest.mark.parametrize("result", [Result.CONFLICT, Result.GONE, Result.REFUSED])
def test_the_first_pod_that_cannot_be_bound_stops_the_rest_of_its_gang(
    cache: ClusterCache, result: Result
) -> None:
    binder = RecordingBinder({"a": result})
    first, second = apply(
        cache, binder, plan("g", "a on n1", "b on n2"), plan("h", "c on n1", "d on n1")
    )
    assert [one.result for one in first.tried] == [result, Result.SKIPPED]
    assert second.is_whole
    assert binder.asked == ["a on n1", "c on n1", "d on n1"]
    assert {key[1] for key in cache.assumed} == {"c", "d"}


def test_a_pod_whose_fate_is_unknown_counts_as_bound(cache: ClusterCache) -> None:
    apply(cache, RecordingBinder({"b": Result.UNKNOWN}), plan("g", "a on n1", "b on n2"))
    assert {key[1] for key in cache.assumed} == {"a", "b"}


def test_who_may_not_act_any_more_begins_nothing(cache: ClusterCache) -> None:
    binder = RecordingBinder()
    assert apply(cache, binder, plan("g", "a on n1", "b on n2"), may_act=[False]) == []


def test_who_may_not_act_any_more_finishes_the_gang_that_was_begun(cache: ClusterCache) -> None:
    binder = RecordingBinder()
    todo = plan("g", "a on n1", "b on n2"), plan("h", "c on n1", "d on n1")
    (outcome,) = apply(cache, binder, *todo, may_act=[True, False])
    assert outcome.is_whole
    assert binder.asked == ["a on n1", "b on n2"]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            lambda c: c.observe("Pod", pod("a"), deleted=True), "pod a is gone", id="pod deleted"
        ),
        pytest.param(
            lambda c: c.observe("Pod", pod("a", uid="2")), "pod a is gone", id="pod replaced"
        ),
        pytest.param(
            lambda c: c.observe("Pod", pod("a", node="n2")),
            "pod a is no longer to be bound",
            id="pod bound by another",
        ),
        pytest.param(
            lambda c: c.observe("Pod", pod("a", schedulingGates=[{"name": "x"}])),
            "pod a is no longer to be bound",
            id="pod gated",
        ),
        pytest.param(
            lambda c: c.observe("Node", build.node("n1"), deleted=True),
            "node n1 is gone",
            id="node deleted",
        ),
        pytest.param(
            lambda c: c.observe("Node", build.node("n1", spec={"unschedulable": True})),
            "node n1 has changed",
            id="node cordoned",
        ),
        pytest.param(
            lambda c: c.observe("Pod", pod("x", node="n1")),
            "node n1 has changed",
            id="node got a pod",
        ),
        pytest.param(
            lambda c: c.observe("PodGang", gang("g", "a", "b"), deleted=True),
            "the PodGang is gone",
            id="gang deleted",
        ),
        pytest.param(
            lambda c: c.observe(
                "PodGang",
                {
                    **gang("g", "a", "b"),
                    "metadata": {"namespace": "ml", "name": "g", "uid": "g", "generation": 2},
                },
            ),
            "the PodGang has changed",
            id="gang changed",
        ),
        pytest.param(lambda c: c.observe("Pod", pod("x", node="n2")), "", id="another node"),
        pytest.param(lambda c: c.observe("Pod", pod("c"), deleted=True), "", id="another gang"),
    ],
)
def test_a_plan_overtaken_by_events_is_not_begun(
    cache: ClusterCache, change: object, want: str
) -> None:
    view = cache.view()
    assert callable(change)
    change(cache)
    found = staleness(plan("g", "a on n1", "b on n1"), view, cache, OURS)
    assert found == want


def test_a_plan_that_would_not_make_the_gang_whole_is_not_begun(cache: ClusterCache) -> None:
    found = staleness(plan("g", "a on n1"), cache.view(), cache, OURS)
    assert found == "group worker would run 1 pods of 2"


def test_a_scaled_gang_is_not_begun_before_its_base_is_bound(cache: ClusterCache) -> None:
    binder = RecordingBinder({"b": Result.CONFLICT})
    base, scaled = apply(
        cache, binder, plan("g", "a on n1", "b on n2"), plan("h", "c on n1", "d on n1", base="g")
    )
    assert not base.is_whole
    assert scaled.stale == "its base g is not bound"
    assert "c on n1" not in binder.asked


def test_a_gang_that_leans_on_another_is_not_bound_without_it(cache: ClusterCache) -> None:
    binder = RecordingBinder({"a": Result.CONFLICT})
    dependent_plan = plan("h", "c on n1", "d on n1", depends_on="g")
    leaned_on, dependent = apply(cache, binder, plan("g", "a on n1", "b on n2"), dependent_plan)
    assert not leaned_on.is_whole
    assert dependent.stale == "it depends on pods of g, which is not bound"
    assert "c on n1" not in binder.asked


def test_a_gang_that_leans_on_another_is_bound_with_it_or_when_it_was_not_to_be_bound(
    cache: ClusterCache,
) -> None:
    binder = RecordingBinder()
    outcomes = apply(
        cache,
        binder,
        plan("g", "a on n1", "b on n2", depends_on="x"),
        plan("h", "c on n1", "d on n1", depends_on="g"),
    )
    assert [one.is_whole for one in outcomes] == [True, True]


@pytest.mark.parametrize(
    ("dependencies", "bases", "order"),
    [
        ({"a": "b", "b": "c"}, {}, "cba"),
        ({"a": "bc"}, {}, "bca"),
        ({"a": "b", "b": "a"}, {}, "bac"),
        # A base depends on what scales it, and that on a third.
        ({"b": "a", "a": "c"}, {"a": "b"}, "bca"),
        ({"a": "c"}, {"a": "b", "c": "b"}, "bca"),
    ],
)
def test_plans_come_after_those_that_they_depend_on(
    dependencies: dict[str, str], bases: dict[str, str], order: str
) -> None:
    placement = v1.Placement(
        bindings=[
            v1.Binding(
                pod=f"namespaces/ml/pods/{name}",
                node="nodes/n1",
                gang=f"namespaces/ml/podgangs/{name}",
            )
            for name in "abc"
        ]
    )
    found = plans(
        placement,
        [("ml", name) for name in "abc"],
        {("ml", name): ("ml", base) for name, base in bases.items()},
        {("ml", k): frozenset(("ml", one) for one in on) for k, on in dependencies.items()},
    )
    assert "".join(plan.gang[1] for plan in found) == order


def test_plans_hold_bases_first_and_only_gangs_that_were_asked_about() -> None:
    def binding(gang: str, name: str) -> v1.Binding:
        return v1.Binding(
            pod=f"namespaces/ml/pods/{name}",
            uid="1",
            node="nodes/n1",
            gang=f"namespaces/ml/podgangs/{gang}",
        )

    placement = v1.Placement(
        bindings=[binding("scaled", "c"), binding("base", "a"), binding("stranger", "x")]
    )
    base, scaled = ("ml", "base"), ("ml", "scaled")
    assert plans(placement, [scaled, base], {scaled: base}, {}) == (
        plan("base", "a on n1"),
        plan("scaled", "c on n1", base="base"),
    )


def test_a_scaled_gang_is_not_begun_while_it_is_not_known_whether_its_base_is_bound(
    cache: ClusterCache,
) -> None:
    binder = RecordingBinder({"b": Result.UNKNOWN})
    _, scaled = apply(
        cache, binder, plan("g", "a on n1", "b on n2"), plan("h", "c on n1", "d on n1", base="g")
    )
    assert scaled.stale == "whether its base g is bound is not known"
    assert "c on n1" not in binder.asked
