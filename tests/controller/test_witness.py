"""That the witness sees what it is there for: each rule, kept and broken."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.cluster.api import NODES, POD_GANGS, PODS, Body, Resource
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.controller.event_judge import ALL, Event, Judge, Rule
from tests.controller.gang_facts import add_gang
from tests.controller.object_facts import quantity
from tests.controller.witness import Witness

RACK = "example.com/rack"
INITIALIZED = {"type": "Initialized", "status": "True"}
SCHEDULED = {"type": "Scheduled", "status": "True", "reason": "Placed"}


def pod(name: str, on: str = "", *, gang: str = "g", **more: Any) -> Body:
    metadata = {"namespace": "n", "name": name, "uid": more.pop("uid", name)}
    metadata["labels"] = {"grove.io/podgang": gang, **more.pop("labels", {})}
    if more.pop("ending", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {**pod_spec(gpus=more.pop("gpus", 1)), "schedulerName": "placement-service", **more}
    return {"metadata": metadata, "spec": {**spec, **({"nodeName": on} if on else {})}}


def gang(
    name: str = "g",
    *pods: str,
    least: int | None = None,
    conditions: tuple[Body, ...] = (INITIALIZED,),
    constraint: str = "",
    **status: Any,
) -> Body:
    group: Body = {
        "name": "all",
        "minReplicas": len(pods) if least is None else least,
        "podReferences": [{"namespace": "n", "name": pod} for pod in pods],
    }
    spec: Body = {"podgroups": [group]}
    if constraint:
        spec["topologyConstraint"] = {"packConstraint": {"required": constraint}}
    return {
        "metadata": {"namespace": "n", "name": name, "uid": name},
        "spec": spec,
        "status": {"conditions": list(conditions), **status},
    }


class Court:
    """A judge to whom objects are told one by one, a second apart."""

    def __init__(self, **options: Any) -> None:
        self.judge = Judge(**options)
        self._at = itertools.count(1.0)

    def told(self, *bodies: Body, gone: bool = False) -> Court:
        for body in bodies:
            self.judge.see(Event(kind_of(body), body, gone, next(self._at)))
        return self

    def broken(self) -> set[str]:
        self.judge.end(next(self._at))
        return {told.partition(":")[0] for told in self.judge.broken}


def kind_of(body: Body) -> Resource:
    if "containers" in body["spec"]:
        return PODS
    return POD_GANGS if "podgroups" in body["spec"] else NODES


A, B = node("a", gpus=2, labels={RACK: "r"}), node("b", gpus=2, labels={RACK: "s"})
START = (A, B, gang("g", "p", "q"), pod("p"), pod("q"))


def test_a_gang_bound_as_it_should_be_breaks_nothing() -> None:
    court = Court().told(*START, pod("p", "a"), pod("q", "a"))
    court.told(gang("g", "p", "q", conditions=(INITIALIZED, SCHEDULED), placementScore=1.0))
    assert court.broken() == set()
    (half,) = court.judge.halves
    assert (half.gang, half.seconds, half.lost) == ("g", 1.0, False)


def test_a_pod_on_two_nodes() -> None:
    court = Court().told(*START, pod("p", "a"), pod("q", "a"), pod("p", "b"))
    assert court.broken() == {Rule.ONE_NODE}


def test_a_pod_that_took_the_name_of_another_may_be_elsewhere() -> None:
    court = Court().told(*START, pod("p", "a"), pod("q", "a"))
    court.told(pod("p", "a"), gone=True).told(pod("p", uid="new"), pod("p", "b", uid="new"))
    assert court.broken() == set()


def test_a_pod_bound_behind_a_gate() -> None:
    gate = [{"name": "grove.io/podgang-pending-creation"}]
    held = pod("p", schedulingGates=gate)
    court = Court().told(*START, held, pod("p", "a", schedulingGates=gate), pod("q", "a"))
    assert court.broken() == {Rule.NOT_GATED}


def test_a_pod_of_another_scheduler() -> None:
    theirs = {"schedulerName": "default-scheduler"}
    court = Court().told(*START, pod("p", "a"), pod("q", "a", **theirs))
    assert court.broken() == {Rule.OURS}


def test_a_pod_of_no_gang() -> None:
    court = Court().told(*START, pod("lone"), pod("lone", "a"))
    assert court.broken() == {Rule.OURS}


def test_a_pod_of_a_gang_that_is_not_initialized() -> None:
    court = Court().told(A, gang("g", "p", conditions=()), pod("p"), pod("p", "a"))
    assert court.broken() == {Rule.OURS}


def test_a_pod_on_a_node_that_is_not_there() -> None:
    court = Court().told(*START).told(B, gone=True).told(pod("p", "a"), pod("q", "b"))
    assert court.broken() == {Rule.KNOWN_NODE, Rule.WHOLE}


def test_a_node_that_went_just_now_may_be_thought_to_be_there() -> None:
    court = Court(grace=2.5).told(*START).told(B, gone=True).told(pod("p", "a"), pod("q", "b"))
    assert court.broken() == set()


@pytest.mark.parametrize(
    ("freed", "broken"),
    [
        ({"gpus": 2}, set()),
        ({"gpus": 1}, {Rule.ROOM}),
        ({"gpus": 2, "cpu": "1900m"}, {Rule.ROOM}),
        ({"gpus": 2, "memory": "2047Mi"}, {Rule.ROOM}),
        ({"gpus": 2, "pods": 1}, {Rule.ROOM}),
    ],
    ids=str,
)
def test_a_node_with_too_much_on_it(freed: dict[str, Any], broken: set[str]) -> None:
    court = Court().told(*START, node("a", **freed), pod("p", "a"), pod("q", "a"))
    assert court.broken() == broken


def test_a_node_is_only_freed_by_pods_that_are_gone() -> None:
    small = node("a", gpus=1)
    start = (small, gang("g", "p"), gang("h", "q"), pod("p"), pod("q", gang="h"), pod("p", "a"))
    court = Court().told(*start, pod("p", "a", ending=True), pod("q", "a", gang="h"))
    assert court.broken() == {Rule.ROOM}
    court = Court().told(*start).told(pod("p", "a"), gone=True).told(pod("q", "a", gang="h"))
    assert court.broken() == set()


@pytest.mark.parametrize(
    "status",
    [{"conditions": (SCHEDULED,)}, {"placementScore": 1.0}, {"phase": "Starting"}],
    ids=lambda status: next(iter(status)),
)
def test_a_status_written_too_early(status: dict[str, Any]) -> None:
    early = gang("g", "p", **{"conditions": (), **status})
    assert Court().told(early).broken() == {Rule.STATUS}


OTHER = {"type": "DisruptionTarget", "status": "False", "message": "of others"}


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        ((INITIALIZED, OTHER, SCHEDULED), set()),
        ((INITIALIZED, {**OTHER, "status": "True"}), set()),
        ((INITIALIZED, SCHEDULED), {Rule.CONDITIONS}),
        ((OTHER, SCHEDULED), {Rule.CONDITIONS, Rule.STATUS}),
        ((INITIALIZED, {**OTHER, "message": ""}, SCHEDULED), {Rule.CONDITIONS}),
    ],
    ids=["kept", "changed by others", "lost", "Initialized lost", "changed with ours"],
)
def test_conditions_of_others(after: tuple[Body, ...], broken: set[str]) -> None:
    court = Court().told(
        gang("g", "p", conditions=(INITIALIZED, OTHER)), gang("g", "p", conditions=after)
    )
    assert court.broken() == broken


def test_what_grove_forgets_as_it_initializes_is_not_ours_to_keep() -> None:
    court = Court().told(gang("g", conditions=(OTHER,)), gang("g", conditions=(INITIALIZED,)))
    assert court.broken() == set()


TWO = (*START, gang("h", "x", "y"), pod("x", gang="h"), pod("y", gang="h"))


def test_two_gangs_half_bound_at_once() -> None:
    bound = [pod("p", "a"), pod("x", "b", gang="h"), pod("q", "a"), pod("y", "b", gang="h")]
    assert Court().told(*TWO, *bound).broken() == {Rule.ONE_AT_A_TIME}
    assert Court().told(*TWO, bound[0], bound[2], bound[1], bound[3]).broken() == set()


def test_a_gang_that_lost_a_pod_does_not_count_as_half_bound_by_its_binder() -> None:
    court = Court().told(*TWO, pod("p", "a"), pod("q", "a")).told(pod("p", "a"), gone=True)
    court.told(pod("x", "b", gang="h"), pod("y", "b", gang="h"))
    court.told(pod("p", uid="new"), pod("p", "a", uid="new"))
    assert court.broken() == set()
    halves = [(half.gang, half.lost) for half in court.judge.halves]
    assert halves == [("g", False), ("h", False), ("g", True)]


def test_with_a_node_go_its_pods() -> None:
    court = Court().told(*TWO, pod("p", "a"), pod("q", "a")).told(A, gone=True)
    court.told(gang("g", "p", "q", least=3), A)
    assert [(half.gang, half.lost) for half in court.judge.halves] == [("g", False)]
    court = Court().told(*START, pod("p", "a"), pod("q", "b")).told(A, gone=True)
    # One of two runs, and the binder is not to blame.
    assert court.broken() == set()
    assert [(half.gang, half.lost) for half in court.judge.halves] == [("g", False), ("g", True)]


def test_a_pod_lost_while_its_gang_is_bound_is_a_loss() -> None:
    court = Court().told(*TWO, pod("p", "a")).told(pod("q"), gone=True)
    court.told(pod("x", "b", gang="h"), pod("y", "b", gang="h"))
    assert court.broken() == set()


def test_a_gang_that_stays_half_bound() -> None:
    assert Court().told(*START, pod("p", "a")).broken() == {Rule.WHOLE}
    with_extra = (A, gang("g", "p", "q", least=1), pod("p"), pod("q"), pod("p", "a"))
    assert Court().told(*with_extra).broken() == set()


def test_a_scaled_gang_before_its_base() -> None:
    def scaled(on: str = "") -> Body:
        return pod("x", on, gang="h", labels={"grove.io/base-podgang": "g"})

    start = (*START, gang("h", "x"), scaled())
    base = (pod("p", "a"), pod("q", "a"))
    assert Court().told(*start, *base, scaled("b")).broken() == set()
    assert Court().told(*start, base[0], scaled("b"), base[1]).broken() == {Rule.BASE_FIRST}
    assert Court().told(*start, scaled("b"), *base).broken() == {Rule.BASE_FIRST}
    lost = Court(grace=0.5).told(*start, *base).told(base[0], gone=True).told(scaled("b"))
    assert lost.broken() == {Rule.BASE_FIRST}
    lost = Court(grace=1.5).told(*start, *base).told(base[0], gone=True).told(scaled("b"))
    assert lost.broken() == set()


def test_a_pod_bound_for_a_gang_that_is_gone() -> None:
    late = Court(grace=0.5).told(*START).told(gang("g", "p", "q"), gone=True).told(pod("p", "a"))
    assert late.broken() == {Rule.OURS}
    late = Court(grace=1.5).told(*START).told(gang("g", "p", "q"), gone=True).told(pod("p", "a"))
    assert late.broken() == set()


def test_required_packing() -> None:
    start = (A, B, gang("g", "p", "q", constraint=RACK), pod("p"), pod("q"))
    assert Court().told(*start, pod("p", "a"), pod("q", "a")).broken() == set()
    assert Court().told(*start, pod("p", "a"), pod("q", "b")).broken() == {Rule.PACKED}
    bare = Court().told(*start, node("bare"), pod("p", "bare"), pod("q", "bare"))
    assert bare.broken() == {Rule.PACKED}


def test_required_packing_of_some_groups() -> None:
    def with_groups(**configs: Any) -> Body:
        body = gang("g")
        body["spec"]["podgroups"] = [
            {"name": one, "minReplicas": 1, "podReferences": [{"namespace": "n", "name": one}]}
            for one in ("p", "q")
        ]
        packing = {"topologyConstraint": {"packConstraint": {"required": RACK}}}
        names = configs.get("names", [])
        config = {"name": "config", "podGroupNames": names, **packing}
        body["spec"]["topologyConstraintGroupConfigs"] = [config] if names else []
        if configs.get("alone"):
            body["spec"]["podgroups"][0] |= packing
        return body

    pods = (pod("p"), pod("q"), pod("p", "a"), pod("q", "b"))
    assert Court().told(A, B, with_groups(names=["p", "q"]), *pods).broken() == {Rule.PACKED}
    assert Court().told(A, B, with_groups(names=["p"]), *pods).broken() == set()
    assert Court().told(A, B, with_groups(alone=True), *pods).broken() == set()


@pytest.mark.parametrize("rule", Rule)
def test_only_the_rules_that_hold_are_judged(rule: Rule) -> None:
    court = Court(rules=ALL - {rule}).told(*TWO, pod("p", "a"), pod("x", "b", gang="h"))
    assert court.broken() == {Rule.ONE_AT_A_TIME, Rule.WHOLE} - {rule}


@pytest.mark.parametrize(
    ("text", "want"), [("64", 64), ("1500m", 1.5), ("2Gi", 2 * 1024**3), ("1k", 1000), (8, 8)]
)
def test_quantities(text: str | int, want: float) -> None:
    assert quantity(text) == want


def test_it_hears_of_everything_in_a_cluster_in_its_order(cluster: Cluster) -> None:
    """What is bound by hand, and undone at once, is seen and judged all the same."""
    add_gang(cluster, "before", pods=1)
    witness = Witness(cluster)

    def misbehave() -> None:
        with witness:
            cluster.add_nodes(node("a", gpus=1))
            add_gang(cluster, "g", pods=2)
            witness.check()
            for name in ("g-0", "g-1"):
                cluster.api.bind(cluster.api.get(PODS, name, cluster.namespace), "a")
            for name in ("g-0", "g-1"):
                cluster.api.delete(PODS, name, cluster.namespace, grace=0)

    with pytest.raises(AssertionError, match="pod g-1 was bound to a, which then has") as caught:
        misbehave()
    assert "before" not in str(caught.value)
    assert witness.pods_bound == 2
