"""When the service is asked again about gangs that it has found no place for, and when they are
left to their scheduler."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from controller.advice import cycle
from controller.advice.advice import Advice
from controller.advice.cycle import AdviceCycle, AdviceOptions
from controller.advice.objects import ObjectCache, Objects
from controller.advice.request import AdviceRequest, build_request
from controller.advice.schedulers.kube_scheduler import KubeScheduler
from controller.asking.inquiry import Reply
from controller.asking.request import Query
from controller.cluster.gang_state import Key
from controller.runtime.authority import AlwaysLeader, Authority, Heartbeat
from controller.runtime.clocks import Clocks
from placement import v1
from placement.advice_marks import ADVICE, GANG, GATE
from placement.resources import NODES, PODS
from tests.cluster.api import Body
from tests.cluster.build import node, pod_spec


@dataclass
class World:
    """A cycle by a clock of ours; the service has no place, or the one that is set."""

    cache: ObjectCache = field(default_factory=lambda: ObjectCache([NODES, PODS]))
    now: float = 0.0
    asked: int = 0
    answer_takes: float = 0.0
    answer: v1.Placement = field(default_factory=v1.Placement)
    stands: bool = True
    begun: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    query: Query | None = None
    not_before: float = 0.0
    timeout: float = 0.0
    idle_window: float = 0.0
    released: list[str] = field(default_factory=list)
    measured: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for resource in (NODES, PODS):
            self.cache.replace(resource, [])
        self.cycle = AdviceCycle(
            AdviceOptions(
                policy=v1.Policy(deterministic=True),
                time_limit=1.0,
                idle_window=self.idle_window,
                advice_ttl=60.0,
                advice_timeout=self.timeout,
                retry=10.0,
                quick_retry=1.0,
            ),
            cache=self.cache,
            adapters=[KubeScheduler(cast("Any", None), cast("Any", None), mode="pin")],
            lifecycle=cast("Any", self),
            inquiry=cast("Any", self),
            authority=Authority(AlwaysLeader()),
            heartbeat=Heartbeat(),
            relist=lambda: None,
            measure=lambda count, oldest: self.measured.append((count, oldest)),
            clocks=Clocks(lambda: self.now, lambda: self.now),
        )

    # As the inquiry and the lifecycle.
    def reset(self) -> None: ...

    def carry_on(self, objects: object) -> None: ...

    def ask(self, query: Query, history: object) -> Reply:
        self.asked += 1
        self.query = query
        self.now += self.answer_takes
        return Reply(self.answer, query)

    def begin(self, advice: Advice, objects: object, expected: object) -> bool:
        self.begun.append(advice.gang[1])
        self.advice.append(advice)
        return self.stands

    def release(self, adapter: object, gang: Key, pods: object, objects: object) -> None:
        self.released.append(gang[1])

    # What happens.
    def pod(
        self,
        name: str,
        *,
        node: str = "",
        deleted: bool = False,
        advised: bool = False,
        gang: str = "g",
        size: int = 1,
        **more: Any,
    ) -> None:
        spec = {**pod_spec(gpus=1), **({"nodeName": node} if node else {}), **more}
        labels = {"app": gang}
        metadata: Body = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
        if not node:
            spec["schedulingGates"] = [{"name": GATE}]
            metadata["annotations"] = {GANG: gang}
        if advised:
            metadata["annotations"][ADVICE] = json.dumps(
                {
                    "id": "0" * 16,
                    "gang": f"ml/{gang}",
                    "by": "kube-scheduler",
                    "size": size,
                    "node": "a",
                    "until": self.now + 60.0,
                }
            )
        body: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.cache.put(PODS, body, deleted=deleted)

    def node(self, name: str, **changes: Any) -> None:
        body = {"apiVersion": "v1", "kind": "Node", **node(name, gpus=1)}
        self.cache.put(NODES, {**body, "spec": {**body.get("spec", {}), **changes}})

    def asked_after(self, seconds: float) -> int:
        """How often it was asked within so long, beginning now."""
        before, self.now = self.asked, self.now + seconds
        self.cycle.once()
        return self.asked - before


@pytest.fixture
def world() -> World:
    """A gang of one pod waits, a pod runs on the only node, and the service was asked."""
    world = World()
    world.node("a")
    world.pod("runs", node="a")
    world.pod("g-0")
    assert world.asked_after(0.0) == 1
    return world


def test_a_new_gang_is_asked_about_as_soon_as_it_is_due() -> None:
    """Also in a cluster in which nothing else happens."""
    world = World(idle_window=0.3)
    world.node("a")
    world.pod("g-0")
    assert world.asked_after(0.0) == 0
    assert world.cycle._pause() == pytest.approx(0.3)
    assert world.asked_after(0.2) == 0
    assert world.cycle._pause() == pytest.approx(0.1)
    assert world.asked_after(0.2) == 1
    assert world.cycle._pause() == 1.0


def test_a_cluster_in_which_nobody_waits_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes seconds, each time that anything changes."""
    read: list[object] = []

    def counting(*given: Any) -> AdviceRequest:
        read.append(given)
        return build_request(*given)

    monkeypatch.setattr(cycle, "build_request", counting)
    world.pod("g-0", node="a")
    world.cycle.once()
    assert not read
    world.pod("h-0", gang="h")
    assert world.asked_after(0.0) == 1


def test_a_cluster_that_has_not_changed_is_read_again_only_to_ask(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as gangs wait, too."""
    read: list[float] = []

    def counting(objects: Objects, adapters: Any, now: float) -> AdviceRequest:
        read.append(now)
        return build_request(objects, adapters, now)

    monkeypatch.setattr(cycle, "build_request", counting)
    assert [world.asked_after(1.0) for _ in range(20)] == [*[0] * 9, 1] * 2
    # As of now: how long gangs wait counts.
    assert read == [10.0, 20.0]
    assert world.query is not None
    assert len(world.query.request.gangs) == 1
    world.pod("h-0", gang="h")
    assert world.asked_after(0.0) == 1
    assert read == [10.0, 20.0, 20.0]


def test_a_node_that_says_again_that_it_is_there_changes_nothing(world: World) -> None:
    body = {"apiVersion": "v1", "kind": "Node", **node("b", gpus=1)}
    seen = world.cache.of(NODES)
    seen.observe("Node", body)
    before = world.cache.revision
    (ready,) = body["status"]["conditions"]
    ready = {**ready, "lastHeartbeatTime": "2026-11-21T08:00:00Z"}
    seen.observe("Node", {**body, "status": {**body["status"], "conditions": [ready]}})
    assert world.cache.revision == before
    seen.observe("Node", {**body, "spec": {"unschedulable": True}})
    assert world.cache.revision > before


def test_a_gang_without_a_place_is_asked_about_again_and_again(world: World) -> None:
    assert world.asked_after(9.9) == 0
    assert world.asked_after(0.1) == 1


def test_room_that_appears_is_asked_about_soon(world: World) -> None:
    world.pod("runs", node="a", deleted=True)
    assert world.asked_after(0.9) == 0
    assert world.asked_after(0.1) == 1
    # Once: nothing has gone since.
    assert world.asked_after(2.0) == 0


@pytest.mark.parametrize("changes", [{}, {"unschedulable": True}])
def test_only_nodes_that_take_pods_are_room(world: World, changes: Body) -> None:
    world.node("b", **changes)
    assert world.asked_after(1.0) == (0 if changes else 1)


def test_pods_that_come_are_no_room(world: World) -> None:
    world.pod("more", node="a")
    assert world.asked_after(2.0) == 0


def binding(gang: str) -> v1.Binding:
    return v1.Binding(
        pod=f"namespaces/ml/pods/{gang}-0",
        uid=f"uid-{gang}-0",
        node="nodes/a",
        gang=f"namespaces/ml/podGangs/{gang}",
    )


PLACE = v1.Placement(bindings=[binding("g")])


def test_the_question_is_asked_as_the_settings_say(world: World) -> None:
    assert world.query is not None
    request = world.query.request
    assert request.policy.deterministic
    assert (request.time_limit.seconds, request.time_limit.nanos) == (1, 0)
    assert world.query.asked == (("ml", "g"),)


def test_each_advice_has_a_name_and_a_time_of_its_own(world: World) -> None:
    world.answer = PLACE
    for _ in range(2):
        assert world.asked_after(10.0) == 1
    first, second = world.advice
    assert (first.until, second.until) == (70.0, 80.0)
    assert (first.by, first.gang, dict(first.nodes)) == (
        "kube-scheduler",
        ("ml", "g"),
        {("ml", "g-0"): "a"},
    )
    assert first.id != second.id
    assert all(len(one.id) == 16 for one in world.advice)


def test_what_cannot_be_read_is_told_until_it_changes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> int:
        assert world.asked_after(10.0) == 1
        lines = [one for one in caplog.messages if one.startswith("cannot be read")]
        caplog.clear()
        return len(lines)

    container = pod_spec()["containers"][0]
    for cpu, want in (("much", 1), ("much", 0), ("more", 1), ("1", 0), ("more", 1)):
        odd = {**container, "resources": {"requests": {"cpu": cpu}}}
        world.pod("h-0", gang="h", containers=[odd])
        assert told() == want, cpu


def test_a_gang_whose_plan_was_overtaken_is_planned_anew_soon(world: World) -> None:
    world.answer, world.stands = PLACE, False
    assert world.asked_after(10.0) == 1
    assert world.asked_after(1.0) == 1
    world.answer = v1.Placement()
    assert world.asked_after(2.0) == 1
    assert world.asked_after(2.0) == 0


def test_a_gang_whose_advice_can_never_be_written_is_planned_anew_ever_later(world: World) -> None:
    """As where the controller may not change pods."""
    world.answer, world.stands = PLACE, False
    assert world.asked_after(10.0) == 1
    asked = [world.now for _ in range(160) if world.asked_after(0.25)]
    assert [later - one for one, later in pairwise(asked)] == [2.0, 4.0, 8.0, 10.0, 10.0]
    world.stands = True
    assert world.asked_after(10.0) == 1


def test_who_waits_for_advice_is_measured(world: World) -> None:
    world.asked_after(10.0)
    assert world.measured[-1] == (1, 10.0)
    world.asked_after(7.0)
    assert world.measured[-1] == (1, 17.0)
    world.pod("g-0", deleted=True)
    world.asked_after(1.0)
    assert world.measured[-1] == (0, 0.0)


def test_a_slow_service_has_as_long_a_rest(world: World) -> None:
    world.answer_takes = 4.0
    assert world.asked_after(10.0) == 1
    world.pod("runs", node="a", deleted=True)
    assert world.asked_after(3.9) == 0
    assert world.asked_after(0.1) == 1


@pytest.fixture
def hurried() -> World:
    """A gang of one pod waits for the only node, for 30 seconds at most."""
    world = World(timeout=30.0, answer=PLACE)
    world.node("a")
    world.pod("g-0")
    assert world.asked_after(0.0) == 1
    return world


def test_advice_that_comes_to_nothing_again_and_again_holds_no_gang(hurried: World) -> None:
    """Else what the scheduler refuses, for a reason that no plan knows, would wait for ever."""
    for _ in range(3):
        hurried.pod("g-0", advised=True)
        assert hurried.asked_after(8.0) == 0
        hurried.pod("g-0")
        assert hurried.asked_after(1.0) == 1
    hurried.pod("g-0", advised=True)
    hurried.asked_after(2.0)
    hurried.pod("g-0")
    assert hurried.released == []
    assert hurried.asked_after(1.0) == 0
    assert hurried.released == ["g"]


def test_advice_under_way_is_not_let_go(hurried: World) -> None:
    hurried.pod("g-0", advised=True)
    hurried.asked_after(29.0)
    hurried.asked_after(2.0)
    assert hurried.released == []


def test_advice_that_the_watches_are_late_to_show_is_not_let_go(hurried: World) -> None:
    assert hurried.asked_after(29.0) == 1
    assert hurried.asked_after(2.0) == 0
    assert hurried.released == []
    # By then they would have shown it.
    hurried.asked_after(8.0)
    assert hurried.released == ["g"]


def near(app: str) -> Body:
    """Affinity to the pods of an app on the same node."""
    term = {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("stands", [True, False])
def test_a_gang_is_advised_behind_those_that_it_depends_on(stands: bool) -> None:
    """A pod that is pinned beside one that never comes could not be taken back."""
    world = World(answer=v1.Placement(bindings=[binding("g"), binding("h")]), stands=stands)
    world.node("a")
    world.pod("g-0", affinity=near("h"))
    world.pod("h-0", gang="h")
    assert world.asked_after(0.0) == 1
    assert world.begun == (["h", "g"] if stands else ["h"])
    # What was not begun is planned anew soon.
    assert world.asked_after(1.0) == int(not stands)


def test_a_gang_waits_for_one_that_gets_no_advice_from_the_same_answer() -> None:
    """Advice that is written on a part of the other is yet to be taken back."""
    world = World(answer=v1.Placement(bindings=[binding("g"), binding("h")]))
    world.node("a")
    world.pod("g-0", affinity=near("h"))
    world.pod("h-0", gang="h")
    world.pod("h-1", gang="h", advised=True, size=2)
    assert world.asked_after(0.0) == 1
    assert world.begun == []
    assert world.asked_after(1.0) == 1
