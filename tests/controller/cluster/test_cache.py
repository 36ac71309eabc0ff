"""What is known of the cluster, whatever the order in which it is told."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.cluster.cache import KINDS, ClusterCache
from controller.cluster.gang_state import Lifecycle, node_of, state_of
from placement.kubernetes import Objects, translate
from placement.kubernetes.trimming import Trimmer
from tests.controller.bodies import INITIALIZED, OURS, pod
from tests.kubernetes import build


def gang(*pods: str, least: int | None = None) -> build.Body:
    return build.gang(
        metadata={"uid": "g", "generation": 1},
        status=INITIALIZED,
        podgroups=[build.group("worker", *pods, least=least)],
    )


def cache_of(*bodies: build.Body) -> ClusterCache:
    cache = ClusterCache(OURS)
    for body in bodies:
        cache.observe(body["kind"], body)
    return cache


def lifecycle(cache: ClusterCache) -> Lifecycle:
    return cache.view().states["ml", "g"].lifecycle


def test_it_is_synced_once_every_kind_was_listed() -> None:
    cache = ClusterCache(OURS)
    for kind in KINDS:
        assert not cache.is_synced
        cache.replace(kind, [])
    assert cache.is_synced
    for kind in KINDS:
        cache.unsync(kind)
        assert not cache.is_synced
        cache.replace(kind, [])
        assert cache.is_synced


def test_before_a_new_list_of_pods_nothing_is_assumed() -> None:
    """Otherwise nothing might find out what became of a binding without an answer."""
    cache = cache_of(build.node("n1"), gang("a"), pod("a"))
    cache.assume(("ml", "a"), "1", "n1")
    assert lifecycle(cache) is Lifecycle.SETTLED
    cache.unsync("Node")
    assert cache.assumed
    cache.unsync("Pod")
    assert not cache.assumed
    # The list shows it as it was, which is no change.
    cache.replace("Pod", cache.trimmed([pod("a")]))
    assert lifecycle(cache) is Lifecycle.PENDING


def test_a_gang_stands_as_its_pods_do() -> None:
    cache = cache_of(build.node("n1"), gang("a", "b"), pod("a"))
    assert lifecycle(cache) is Lifecycle.WAITING
    cache.observe("Pod", pod("b", schedulingGates=[{"name": "gate"}]))
    assert lifecycle(cache) is Lifecycle.WAITING
    cache.observe("Pod", pod("b"))
    assert lifecycle(cache) is Lifecycle.PENDING
    cache.observe("Pod", pod("a", node="n1"))
    assert cache.view().states["ml", "g"].is_half_bound
    cache.observe("Pod", pod("b", node="n1"))
    assert lifecycle(cache) is Lifecycle.SETTLED
    cache.observe("Pod", pod("b", node="n1"), deleted=True)
    assert lifecycle(cache) is Lifecycle.WAITING


def test_a_minimum_that_is_a_mistake_is_never_met() -> None:
    wrong = gang("a")
    wrong["spec"]["podgroups"][0]["minReplicas"] = -1
    cache = cache_of(build.node("n1"), wrong, pod("a", node="n1"))
    state = cache.view().states["ml", "g"]
    assert state.lifecycle is Lifecycle.PENDING
    assert (state.is_met, state.runs, state.is_half_bound) == (False, False, False)


def test_without_initialized_it_is_groves_turn() -> None:
    bare = {**gang("a"), "status": {}}
    assert lifecycle(cache_of(bare, pod("a"))) is Lifecycle.UNINITIALIZED


def test_a_gang_without_pods_of_ours_is_not_ours() -> None:
    theirs = {**pod("a"), "spec": {**pod("a")["spec"], "schedulerName": "kube"}}
    assert lifecycle(cache_of(gang("a"), theirs)) is Lifecycle.FOREIGN


def test_a_pod_whose_node_is_gone_is_lost() -> None:
    cache = cache_of(build.node("n1"), gang("a", "b"), pod("a", node="n1"), pod("b", node="n1"))
    assert lifecycle(cache) is Lifecycle.SETTLED
    cache.observe("Node", build.node("n1"), deleted=True)
    state = cache.view().states["ml", "g"]
    assert state.lifecycle is Lifecycle.WAITING
    assert (state.bound, state.groups[0].lost) == (0, 2)
    assert cache.state(("ml", "g")) == state
    cache.observe("Node", build.node("n1"))
    assert lifecycle(cache) is Lifecycle.SETTLED


def test_the_nodes_that_pods_of_a_gang_left_are_known() -> None:
    cache = cache_of(gang("a", "b"), pod("a", node="n1"), pod("b", node="n2"))
    assert cache.view().vacated_nodes == {}
    # It is being deleted; then Grove takes the reference away, and then it is gone.
    leaving = pod("a", node="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cache.observe("Pod", leaving)
    cache.observe("PodGang", gang("b", least=2))
    cache.observe("Pod", leaving, deleted=True)
    assert cache.view().vacated_nodes == {("ml", "g"): ("n1",)}
    cache.observe("Pod", pod("b", node="n2"), deleted=True)
    assert cache.view().vacated_nodes == {("ml", "g"): ("n1", "n2")}
    cache.observe("PodGang", gang("b"), deleted=True)
    assert cache.view().vacated_nodes == {}


def test_nodes_left_long_ago_are_forgotten() -> None:
    cache = cache_of(gang("a", "b"))
    for node in ("n1", "n2", "n1", "n3"):
        cache.observe("Pod", pod("a", node=node))
        cache.observe("Pod", pod("a", node=node), deleted=True)
    assert cache.view().vacated_nodes == {("ml", "g"): ("n1", "n3")}


def test_a_pod_that_no_gang_refers_to_is_a_stray() -> None:
    cache = cache_of(gang("a"), pod("a"), pod("b"))
    assert cache.view().unreferenced == {("ml", "b")}
    cache.observe("PodGang", gang("a", "b"))
    assert cache.view().unreferenced == set()
    cache.observe("PodGang", gang("b"))
    assert cache.view().unreferenced == {("ml", "a")}
    cache.observe("Pod", pod("a", node="n1"))
    assert cache.view().unreferenced == set()


def test_an_assumed_pod_counts_as_bound_until_it_is_told() -> None:
    cache = cache_of(build.node("n1"), gang("a"), pod("a"))
    cache.assume(("ml", "a"), "1", "n1")
    assert lifecycle(cache) is Lifecycle.SETTLED
    assert node_of(cache.view().pods["ml", "a"]) == "n1"
    # Something else about it changes; the binding is not told yet.
    cache.observe("Pod", pod("a", phase="Pending", priority=3))
    assert lifecycle(cache) is Lifecycle.SETTLED
    cache.observe("Pod", pod("a", node="n1"))
    assert cache.assumed == {}
    assert lifecycle(cache) is Lifecycle.SETTLED


def test_what_was_forgotten_is_free_again() -> None:
    cache = cache_of(gang("a"), pod("a"))
    before = cache.view().freed
    cache.assume(("ml", "a"), "1", "n1")
    assert cache.view().freed == before
    cache.forget(("ml", "a"), "1")
    assert lifecycle(cache) is Lifecycle.PENDING
    assert cache.view().freed > before


def test_a_later_pod_of_the_name_is_not_assumed_bound() -> None:
    cache = cache_of(gang("a"), pod("a"))
    cache.assume(("ml", "a"), "1", "n1")
    cache.observe("Pod", pod("a", uid="2"))
    assert cache.assumed == {}
    assert lifecycle(cache) is Lifecycle.PENDING
    cache.assume(("ml", "a"), "1", "n1")
    assert cache.assumed == {}


def test_a_list_takes_away_what_it_does_not_show() -> None:
    cache = cache_of(gang("a", "b"), pod("a", node="n1"), pod("b", node="n1"))
    cache.replace("Pod", cache.trimmed([pod("a", node="n1")]))
    assert set(cache.view().pods) == {("ml", "a")}
    assert lifecycle(cache) is Lifecycle.WAITING


def test_room_appears_when_a_pod_leaves_a_node_or_a_node_changes() -> None:
    cache = cache_of(build.node("n1"), pod("a", node="n1"), pod("b"))
    freed = cache.view().freed
    cache.observe("Pod", pod("b"), deleted=True)
    assert cache.view().freed == freed
    cache.observe("Pod", pod("a", node="n1"), deleted=True)
    assert cache.view().freed == freed + 1
    cache.observe("Node", build.node("n1"))
    assert cache.view().freed == freed + 1
    cache.observe("Node", build.node("n1", spec={"unschedulable": True}))
    assert cache.view().freed == freed + 2


def test_a_node_is_marked_by_others_and_not_by_us() -> None:
    cache = cache_of(build.node("n1"), pod("a"), pod("b"))
    mark = cache.node_revision("n1")
    cache.assume(("ml", "a"), "1", "n1")
    cache.observe("Pod", pod("a", node="n1"))
    # Heartbeats and starting pods come all the time.
    cache.observe("Pod", pod("a", node="n1", phase="Running"))
    cache.observe("Node", build.node("n1"))
    assert cache.node_revision("n1") == mark
    cache.observe("Pod", pod("b", node="n1"))
    assert cache.node_revision("n1") != mark
    cache.observe("Node", build.node("n1"), deleted=True)
    assert cache.node_revision("n1") is None


def test_a_view_does_not_change_any_more() -> None:
    cache = cache_of(gang("a"), pod("a"))
    view = cache.view()
    cache.observe("Pod", pod("a", node="n1"))
    assert node_of(view.pods["ml", "a"]) == ""
    assert view.states["ml", "g"].lifecycle is Lifecycle.PENDING


def test_waiting_ends_with_the_next_change() -> None:
    cache = cache_of(pod("a"))
    revision = cache.revision
    assert cache.wait(revision, 0.01) == revision
    cache.observe("Pod", pod("a", node="n1"))
    assert cache.wait(revision, 10) > revision


class AnyOrder(RuleBasedStateMachine):
    """Pods come, are bound, assumed, forgotten and go; the cache keeps up with a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.members = {"a", "b", "c"}
        self.cache = cache_of(gang(*self.members))
        self.pods: dict[str, build.Body] = {}
        self.assumed: dict[str, str] = {}
        self.uid = 0

    names = st.sampled_from(["a", "b", "c"])
    nodes = st.sampled_from(["n1", "n2"])

    @rule(name=names)
    def comes(self, name: str) -> None:
        self.uid += 1
        self.pods[name] = pod(name, uid=str(self.uid))
        self.assumed.pop(name, None)
        self.cache.observe("Pod", self.pods[name])

    @rule(name=names, node=nodes)
    def is_bound(self, name: str, node: str) -> None:
        if name in self.pods and not node_of(self.pods[name]):
            self.pods[name] = pod(name, uid=self.pods[name]["metadata"]["uid"], node=node)
            self.assumed.pop(name, None)
            self.cache.observe("Pod", self.pods[name])

    @rule(name=names)
    def goes(self, name: str) -> None:
        if (gone := self.pods.pop(name, None)) is not None:
            self.assumed.pop(name, None)
            self.cache.observe("Pod", gone, deleted=True)

    @rule(name=names, node=nodes, old=st.booleans())
    def is_assumed(self, name: str, node: str, old: bool) -> None:
        if name in self.pods:
            uid = "0" if old else self.pods[name]["metadata"]["uid"]
            self.cache.assume(("ml", name), uid, node)
            if not old and not node_of(self.pods[name]):
                self.assumed[name] = node

    @rule(name=names)
    def is_forgotten(self, name: str) -> None:
        if name in self.pods:
            self.cache.forget(("ml", name), self.pods[name]["metadata"]["uid"])
            self.assumed.pop(name, None)

    @rule(node=nodes, gone=st.booleans())
    def node_comes_or_goes(self, node: str, gone: bool) -> None:
        self.cache.observe("Node", build.node(node), deleted=gone)

    @rule(members=st.sets(names, min_size=1))
    def gang_refers_to(self, members: set[str]) -> None:
        self.members = members
        self.cache.observe("PodGang", gang(*sorted(members)))

    @rule()
    def is_listed(self) -> None:
        self.cache.replace("Pod", self.cache.trimmed(self.pods.values()))

    @invariant()
    def it_keeps_up(self) -> None:
        view = self.cache.view()
        seen = {name: node_of(body) for (_, name), body in view.pods.items()}
        wanted = {name: self.assumed.get(name) or node_of(body) for name, body in self.pods.items()}
        assert seen == wanted
        afresh = state_of(
            view.gangs["ml", "g"],
            view.pods,
            OURS,
            has_node=lambda name: ("", name) in view.nodes,
        )
        assert view.states["ml", "g"] == afresh == self.cache.state(("ml", "g"))
        free = {name for name in self.pods if not wanted[name]}
        assert {name for _, name in view.unreferenced} == free - self.members


TestAnyOrder = AnyOrder.TestCase


def test_translating_trimmed_objects_gives_the_same_request() -> None:
    whole = [
        build.node(
            "n1", labels={"rack": "r1"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}
        ),
        build.node("n2", spec={"unschedulable": True}),
        pod("a", tolerations=[{"operator": "Exists"}], hostNetwork=True),
        pod("b", node="n1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        pod(
            "c",
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{**build.container(gpu="2"), "env": [{"name": "A", "value": "B"}]}],
        ),
        build.pod("d", metadata={"annotations": {"gpu-fraction": "0.5", "x": "y"}}),
        gang("a", "b", "c", "d"),
        build.priority_class("high", 7),
    ]
    trimmer = Trimmer()
    trimmed = [trimmer.trim(body) for body in whole]
    assert translate(Objects.of(trimmed)).request == translate(Objects.of(whole)).request
    assert len(json.dumps(trimmed)) < len(json.dumps(whole))


def test_equal_parts_are_kept_once() -> None:
    trimmer = Trimmer()
    first, second = (trimmer.trim(pod(name, nodeSelector={"a": "b"})) for name in ("a", "b"))
    assert first["spec"] is second["spec"]


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_trimming_takes_whatever_comes(value: Any) -> None:
    for kind in KINDS:
        Trimmer().trim({"kind": kind, "metadata": value, "spec": value, "status": value})
