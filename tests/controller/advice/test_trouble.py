"""Objects that change, vanish or lie between advice and its end: whole, or taken back whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from controller.advice.pod_patches import annotate, set_condition, ungate
from controller.runtime.steps import Step
from placement import resources as product
from placement.advice_marks import ADVICE, GATE, MADE_FOR
from placement.cli.releasing import Release, carry_out
from tests.cluster.api import NODES, PODS, Body
from tests.cluster.build import pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.proxy import FaultProxy, Request
from tests.cluster.schedulers import BIND_REQUESTS, KAI_POD_GROUPS, RESERVATIONS, install_kinds
from tests.controller import crashing
from tests.controller.advice.worlds import (
    WAYS,
    Way,
    connected,
    every_way,
    is_over,
    left_over,
    some_ways,
)
from tests.controller.conftest import LEASE, controller

_NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def world(cluster: Cluster) -> Cluster:
    install_kinds(cluster.api)
    return cluster


def once(act: Callable[[], None], *, at: int = 1) -> Callable[[Step], None]:
    """Does something before write number `at` of advice."""
    lock = threading.Lock()
    writes = 0

    def on_step(step: Step) -> None:
        nonlocal writes
        with lock:
            writes += step is Step.ADVISE
            if step is Step.ADVISE and writes == at:
                act()

    return on_step


def before_writing(act: Callable[[], None]) -> Callable[[Step], None]:
    """Does something between the answer and the first look of who is to write."""
    lock = threading.Lock()
    done = False

    def on_step(step: Step) -> None:
        nonlocal done
        with lock:
            if step is Step.APPLY and not done:
                done = True
                act()

    return on_step


def gated(world: Cluster) -> list[str]:
    return [p["metadata"]["name"] for p in world.pods() if p["spec"].get("schedulingGates")]


_ALL_PINS: Final = (
    "kai by gate",
    "kai by label",
    "kai-pool",
    "kai-pins",
    "volcano",
    "koordinator",
    "kube-scheduler",
)


# One look at the nodes serves all ways; only what is left of their room is counted by each.
@pytest.mark.parametrize(
    ("what", "way"),
    [
        pytest.param(what, way, id=f"{what}-{way.name}")
        for what, names in (
            ("cordoned", ("kai by gate", "koordinator")),
            ("deleted", ("kai by label", "kube-scheduler")),
            ("smaller", _ALL_PINS),
        )
        for way in WAYS
        if way.name in names
    ],
)
def test_a_node_that_changes_after_the_plan_gets_nobody(
    world: Cluster, service: str, way: Way, what: str
) -> None:
    """A pin to it could not be taken back."""
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)

    def change() -> None:
        match what:
            case "cordoned":
                world.api.merge(NODES, "a", {"spec": {"unschedulable": True}})
            case "deleted":
                world.api.delete(NODES, "a")
            case "smaller":
                less = {"status": {"allocatable": {"nvidia.com/gpu": "1"}}}
                world.api.merge(NODES, "a", less, None, "status")
        way.add_nodes(world, "b")

    with way.scheduled(world):
        on_step = before_writing(change)
        with controller(world.kubeconfig(), service, on_step=on_step, **way.settings):
            world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")
            world.wait_until(lambda: is_over(world), "the advice has ended")
    assert set(world.bound().values()) == {"b"}


@some_ways("kai by gate")
@pytest.mark.parametrize(
    ("change", "bound_on"), [("a taint", "b"), ("a GPU less", "b"), ("more GPUs", "a")]
)
def test_a_node_that_changes_while_kai_is_waited_for(
    world: Cluster, service: str, way: Way, change: str, bound_on: str
) -> None:
    """KAI's binder does not ask for taints. A node with more room stays good."""
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)
    settings = {**way.settings, "advise_kai_settle": 3.0}
    with way.scheduled(world), controller(world.kubeconfig(), service, **settings):
        world.wait_until(lambda: len(world.api.items(BIND_REQUESTS)) == 2, "they are made")
        if change == "a taint":
            taint = {"key": "example.com/broken", "effect": "NoSchedule"}
            world.api.merge(NODES, "a", {"spec": {"taints": [taint]}})
        else:
            gpus = "1" if change == "a GPU less" else "4"
            room = {"status": {"allocatable": {"nvidia.com/gpu": gpus}}}
            world.api.merge(NODES, "a", room, None, "status")
        way.add_nodes(world, "b")
        world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")
        world.wait_until(lambda: is_over(world), "the advice has ended")
    assert set(world.bound().values()) == {bound_on}


@pytest.mark.usefixtures("impatient")
@some_ways("kai by gate", "koordinator")
def test_what_was_made_for_a_gang_that_is_deleted_goes(
    world: Cluster, service: str, way: Way
) -> None:
    """Nobody collects garbage here: a Reservation has no owner, and a request may be late."""
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)
    made = BIND_REQUESTS if way.scheduler == "kai-scheduler" else RESERVATIONS
    settings = {**way.settings, "advise_kai_settle": 50.0}
    with controller(world.kubeconfig(), service, **settings):
        world.wait_until(lambda: len(world.api.items(made)) == 2, "they are made")
        for name in ("g-0", "g-1"):
            world.api.delete(PODS, name, world.namespace, grace=0)
        world.wait_until(lambda: world.api.items(made) == [], "they are gone")


@pytest.mark.usefixtures("impatient")
@some_ways("kai by gate", "koordinator")
def test_one_pod_that_is_replaced_takes_all_back(world: Cluster, service: str, way: Way) -> None:
    """Another of its name comes: what was made for the first one goes, and all are advised anew."""
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)
    made = BIND_REQUESTS if way.scheduler == "kai-scheduler" else RESERVATIONS
    settings = {**way.settings, "advise_kai_settle": 4.0}
    with controller(world.kubeconfig(), service, **settings):
        world.wait_until(lambda: len(world.api.items(made)) == 2, "they are made")
        before = {one["metadata"]["uid"] for one in world.api.items(made)}
        world.api.delete(PODS, "g-0", world.namespace, grace=0)
        world.api.create(PODS, way.pod(world, "g", 0))

        def are_new() -> bool:
            now = {one["metadata"]["uid"] for one in world.api.items(made)}
            return len(now) == 2 and now.isdisjoint(before)

        world.wait_until(are_new, "others are made")
        with way.scheduled(world):
            world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")
            world.wait_until(lambda: is_over(world), "the advice has ended")
            world.wait_until(lambda: left_over(world) == [], "nothing is left")


@some_ways("kai by gate", "kai by label")
def test_a_pod_group_that_vanishes_meanwhile_stops_nobody(
    world: Cluster, service: str, way: Way
) -> None:
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)
    on_step = once(lambda: world.api.delete_all(KAI_POD_GROUPS, world.namespace), at=4)
    with (
        way.scheduled(world),
        controller(world.kubeconfig(), service, on_step=on_step, **way.settings),
    ):
        world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")
        world.wait_until(lambda: is_over(world), "the advice has ended")
    assert left_over(world) == []


@some_ways("kai by gate", "kai-pins", "volcano", "kube-scheduler")
def test_advice_that_ends_half_written_lets_the_others_go_too(
    world: Cluster, service: str, way: Way
) -> None:
    """Their scheduler has one pod, and waits for the gang: the rest would wait for ever."""
    way.add_nodes(world, "a", gpus=4)
    way.add_gang(world, "g", 3)
    settings = {**way.settings, "advice_ttl": 3.0}
    # Marks come first, then requests where there are any, then the gates go.
    first_gate = 7 if way.name == "kai by gate" else 4
    process = crashing.begin(
        world.kubeconfig(), service, die_at=Step.ADVISE, visit=first_gate, **settings
    )
    world.wait_until(lambda: process.exitcode is not None, "the controller has died")
    assert len(gated(world)) == 3
    gone = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
    world.api.merge_strategically(PODS, "g-0", gone, world.namespace)
    time.sleep(3.0)
    with controller(world.kubeconfig(), service, **settings), way.scheduled(world):
        world.wait_until(lambda: len(world.bound()) == 3, "the gang is bound")
        world.wait_until(lambda: is_over(world), "the advice has ended")
        world.wait_until(lambda: left_over(world) == [], "nothing is left")


@every_way
def test_a_leader_that_slept_writes_nothing_more(
    world: Cluster, service: str, fault_proxy: FaultProxy, way: Way
) -> None:
    """It is suspended before a write, another one does all, and it continues."""
    lease = {**LEASE, "lease_name": f"advice-{way.name.replace(' ', '-')}"}
    way.add_nodes(world, "a", gpus=4)
    way.add_gang(world, "g", 2)
    settings = {**way.settings, **lease}

    def looks() -> int:
        return sum("/leases" in one.request.path for one in fault_proxy.requests)

    def writes() -> list[Request]:
        sent = (one.request for one in fault_proxy.requests)
        return [one for one in sent if one.method != "GET" and "/leases" not in one.path]

    with way.scheduled(world):
        first = crashing.begin(
            world.kubeconfig(url=fault_proxy.url),
            service,
            freeze_at=Step.ADVISE,
            # One call after another: all of them stand still at once.
            parallel_calls=1,
            **settings,
        )
        try:
            world.wait_until(lambda: crashing.is_frozen(first), "the first one stands still")
            with controller(world.kubeconfig(), service, **settings):
                world.wait_until(lambda: len(world.bound()) == 2, "the second one advises")
                world.wait_until(lambda: is_over(world), "and ends it")
                before = looks()
                crashing.thaw(first)
                world.wait_until(lambda: looks() > before, "the first one wakes up")
                # Longer than a cycle.
                time.sleep(2.0)
                assert writes() == []
                assert left_over(world) == []
        finally:
            crashing.kill(first)


def advice_of(world: Cluster, **changes: Any) -> str:
    said = {
        "id": "0" * 16,
        "gang": f"{world.namespace}/g",
        "by": "kube-scheduler",
        "size": 2,
        "node": "a",
        "until": time.time() + 60.0,
    }
    return json.dumps({**said, **changes})


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"until": float("inf")}, id="for ever"),
        pytest.param({"until": float("nan")}, id="at no time"),
        pytest.param({"until": 9e15}, id="for ages"),
        pytest.param({"size": 1e999}, id="of endless size"),
        pytest.param({"by": "nobody", "until": 1.0}, id="by nobody"),
        pytest.param({"id": "a,b=c"}, id="with a selector for a name"),
        pytest.param({"notes": 5}, id="with notes that are none"),
    ],
)
@some_ways("kube-scheduler")
def test_what_others_write_as_advice_keeps_nobody_waiting(
    world: Cluster, service: str, way: Way, said: dict[str, Any]
) -> None:
    """Pods made from a template, or by anyone. It also holds when the clock was set back."""
    way.add_nodes(world, "a")
    for index in range(2):
        pod = way.pod(world, "g", index)
        pod["metadata"]["annotations"][ADVICE] = advice_of(world, **said)
        world.api.create(PODS, pod)
    with way.scheduled(world), controller(world.kubeconfig(), service, **way.settings):
        world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")


@some_ways("koordinator")
def test_advice_from_the_future_ends_at_once(world: Cluster, service: str, way: Way) -> None:
    """The clock was set back by an hour: nothing may be held for so long."""
    way.add_nodes(world, "a")
    for index in range(2):
        pod = way.pod(world, "g", index)
        said = advice_of(world, by="koordinator", until=time.time() + 3600.0)
        pod["metadata"]["annotations"][ADVICE] = said
        world.api.create(PODS, pod)

    def is_ended() -> bool:
        return not any("0" * 16 in str(pod["metadata"]["annotations"]) for pod in world.pods())

    # Nobody follows it.
    with controller(world.kubeconfig(), service, **way.settings):
        world.wait_until(is_ended, "it ends")


@some_ways("kube-scheduler")
def test_what_cannot_be_parsed_is_no_advice(world: Cluster, service: str, way: Way) -> None:
    way.add_nodes(world, "a")
    for index, text in enumerate(("[" * 100_000, "{", "[]", '"x"')):
        pod = way.pod(world, f"g{index}", 0)
        pod["metadata"]["annotations"][ADVICE] = text
        pod["spec"] = {**pod["spec"], **pod_spec(gpus=0)}
        world.api.create(PODS, pod)
    with way.scheduled(world), controller(world.kubeconfig(), service, **way.settings):
        world.wait_until(lambda: len(world.bound()) == 4, "all are bound")


@some_ways("kai by gate", "kai by label")
def test_a_gang_that_cannot_be_read_is_left_to_its_scheduler(
    world: Cluster, service: str, way: Way
) -> None:
    """No advice will ever come. A pod that cannot be read keeps its whole gang from it."""
    way.add_nodes(world, "a", gpus=4)
    way.add_gang(world, "g", 2)
    way.add_gang(world, "h", 1)
    world.api.merge(KAI_POD_GROUPS, "h", {"spec": {"minMember": 2}}, world.namespace)
    odd = way.pod(world, "h", 1)
    odd["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimName": "none"}]
    world.api.create(PODS, odd)
    world.api.merge(KAI_POD_GROUPS, "g", {"spec": {"minMember": "many"}}, world.namespace)
    settings = {**way.settings, "advice_timeout": 2.0}
    with controller(world.kubeconfig(), service, **settings):
        world.wait_until(lambda: "g-0" not in gated(world) and "h-0" not in gated(world), "go")
        if not way.gated:
            world.wait_until(lambda: left_over(world) == [], "the hold goes, too")


@some_ways("koordinator", "kube-scheduler")
def test_pods_behind_the_gate_that_are_no_gang_are_let_go(
    world: Cluster, service: str, way: Way
) -> None:
    way.add_nodes(world, "a", gpus=4)
    pod = way.pod(world, "single", 0)
    pod["metadata"]["annotations"] = {}
    world.api.create(PODS, pod)
    settings = {**way.settings, "advice_timeout": 1.0}
    with controller(world.kubeconfig(), service, **settings):
        world.wait_until(lambda: gated(world) == [], "it is let go")


@some_ways("kai by gate")
def test_requests_of_others_for_the_same_pod_are_theirs(
    world: Cluster, service: str, way: Way
) -> None:
    """Labelled as ours, but not of any present advice: it is deleted, and the gang is advised."""
    way.add_nodes(world, "a")
    way.add_gang(world, "g", 2)
    stale: Body = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {
            "name": "g-0",
            "namespace": world.namespace,
            "labels": {MADE_FOR: "f" * 16},
        },
        "spec": {"podName": "g-0", "selectedNode": "a", "backoffLimit": 5},
    }
    world.api.create(BIND_REQUESTS, stale)
    with way.scheduled(world), controller(world.kubeconfig(), service, **way.settings):
        world.wait_until(lambda: len(world.bound()) == 2, "the gang is bound")
        world.wait_until(lambda: left_over(world) == [], "nothing is left")
    assert GATE not in str(world.pods()[0]["spec"])


def test_nothing_is_written_on_another_pod_of_the_name(world: Cluster) -> None:
    """The API server calls the uid of the one before invalid; that is no fault of anybody."""
    pod = WAYS[0].pod(world, "g", 0)
    there = world.api.create(PODS, pod)
    key, uid = (world.namespace, "g-0"), "of-the-one-before"
    before = Release(product.PODS, *key, uid, "", "", {"metadata": {"annotations": {ADVICE: None}}})
    with connected(world) as cluster:
        assert not annotate(cluster, key, uid, {ADVICE: "{}"})
        ungate(cluster, key, uid)
        set_condition(cluster, key, uid, status=True, reason="R", message="", now=_NOW)
        assert not carry_out(cluster, before)
    assert world.api.get(PODS, "g-0", world.namespace) == there
