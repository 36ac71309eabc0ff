"""Advice to Koordinator on a real API server, with a stand-in for koord-scheduler."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.schedulers.koordinator import Koordinator, reservation
from controller.advice.schedulers.koordinator_hints import KoordinatorHints
from controller.binding.apply import Binding
from controller.runtime.steps import Step
from placement import resources as product
from placement.advice_marks import ADVICE, GANG, GATE
from placement.kubernetes.nodes.device_annotations import ALLOCATED
from tests.cluster.api import PODS, Body
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.koord_scheduler import KoordScheduler
from tests.cluster.schedulers import RESERVATIONS, install_kinds
from tests.controller import crashing
from tests.controller.advice.worlds import connected
from tests.controller.conftest import controller

ADVISING: dict[str, Any] = {"mode": "advise", "advise": ("koordinator",), "advice_timeout": 0.0}
KOORD_GANG = "gang.scheduling.koordinator.sh"
OF_ONE = Advice("1", ("ml", "g"), "koordinator", (Binding(("ml", "a"), "u", "n"),), 0.0, 1)
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"


@pytest.fixture
def koord(cluster: Cluster) -> Cluster:
    install_kinds(cluster.api)
    return cluster


def gang(koord: Cluster, name: str, pods: int) -> None:
    koord.api.create_all(
        PODS,
        [
            {
                "metadata": {
                    "name": f"{name}-{index}",
                    "namespace": koord.namespace,
                    "annotations": {GANG: name},
                },
                "spec": {
                    **pod_spec(gpus=1),
                    "schedulerName": "koord-scheduler",
                    "schedulingGates": [{"name": GATE}],
                },
            }
            for index in range(pods)
        ],
    )


def gated(koord: Cluster) -> int:
    return sum(bool(pod["spec"].get("schedulingGates")) for pod in koord.pods())


def is_over(koord: Cluster) -> bool:
    return not any(ADVICE in pod["metadata"]["annotations"] for pod in koord.pods())


def test_reservations_come_first_then_the_pods(koord: Cluster, service: str) -> None:
    koord.add_nodes(node("a", gpus=2), node("b", gpus=2))
    gang(koord, "g", 3)
    seen: list[Body] = []

    def on_step(step: Step) -> None:
        if step is Step.ADVISE and gated(koord) == 3:
            seen[:] = koord.api.items(RESERVATIONS)

    with (
        KoordScheduler(koord.api),
        controller(koord.kubeconfig(), service, on_step=on_step, **ADVISING),
    ):
        koord.wait_until(lambda: len(koord.bound()) == 3, "the gang is bound")
        koord.wait_until(lambda: is_over(koord), "the advice has ended")
    made = koord.api.items(RESERVATIONS)
    assert len(made) == 3
    for one in made:
        spec = one["spec"]
        (owner,) = spec["owners"]
        assert koord.bound()[owner["object"]["name"]] == spec["template"]["spec"]["nodeName"]
        assert (spec["allocateOnce"], spec["allocatePolicy"]) == (True, "Restricted")
        assert 0 < int(spec["ttl"].removesuffix("s")) <= 60
        annotations = one["metadata"]["annotations"]
        assert annotations[f"{KOORD_GANG}/min-available"] == "3"
    assert (
        len({o["metadata"]["annotations"]["gang.scheduling.koordinator.sh/name"] for o in made})
        == 1
    )


def test_when_one_reservation_cannot_be_bound_all_go(koord: Cluster, service: str) -> None:
    """The room is gone for koord-scheduler, for a reason that the plan does not know."""
    koord.add_nodes(node("a", gpus=4))
    gang(koord, "g", 3)

    class Refusing(KoordScheduler):
        def step(self) -> None:
            unschedulable = {"type": "Scheduled", "status": "False", "reason": "Unschedulable"}
            for one in self._api.items(RESERVATIONS)[:1]:
                self._set_status(RESERVATIONS, one, {"conditions": [unschedulable]})

    with (
        Refusing(koord.api),
        controller(
            koord.kubeconfig(), service, shortest_backoff=60, longest_backoff=60, **ADVISING
        ),
    ):
        koord.wait_until(lambda: len(koord.api.items(RESERVATIONS)) > 0, "they are made")
        koord.wait_until(lambda: is_over(koord), "the advice has ended")
        koord.wait_until(lambda: koord.api.items(RESERVATIONS) == [], "and all of them are gone")
    assert gated(koord) == 3


def test_without_a_scheduler_they_expire(koord: Cluster, service: str) -> None:
    koord.add_nodes(node("a", gpus=4))
    gang(koord, "g", 3)
    settings = {**ADVISING, "advice_ttl": 2.0, "shortest_backoff": 60, "longest_backoff": 60}
    with controller(koord.kubeconfig(), service, **settings):
        koord.wait_until(lambda: len(koord.api.items(RESERVATIONS)) == 3, "they are made")
        koord.wait_until(lambda: koord.api.items(RESERVATIONS) == [], "and gone")
    assert gated(koord) == 3


def test_hints_name_a_node_and_let_go(koord: Cluster, service: str) -> None:
    koord.add_nodes(node("a", gpus=4))
    gang(koord, "g", 3)
    settings = {**ADVISING, "advise": ("koordinator-hints",)}
    with KoordScheduler(koord.api), controller(koord.kubeconfig(), service, **settings):
        koord.wait_until(lambda: len(koord.bound()) == 3, "the gang is bound")
    hints = {pod["metadata"]["annotations"][HINT] for pod in koord.pods()}
    assert hints == {'{"preferredNodeNames": ["a"], "extensions": {}}'}
    assert koord.api.items(RESERVATIONS) == []


def test_a_reservation_holds_all_that_its_pod_asks_for() -> None:
    """Restricted ones are not topped up: not for an init container, nor for a sidecar."""
    ask = {"requests": {"cpu": "4", "nvidia.com/gpu": "2"}}
    pod = {
        "metadata": {"name": "a", "namespace": "ml", "uid": "u"},
        "spec": {
            "overhead": {"cpu": "250m"},
            "initContainers": [
                {"name": "first", "resources": ask, "command": ["x"]},
                {"name": "side", "resources": ask, "restartPolicy": "Always"},
            ],
            "containers": [{"name": "main", "image": "i", "resources": ask}],
        },
    }
    made = reservation("r", pod, "n", OF_ONE, ttl=60.0)["spec"]["template"]["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["initContainers"] == [
        {"name": "first", "image": "none", "resources": ask},
        {"name": "side", "image": "none", "resources": ask, "restartPolicy": "Always"},
    ]
    assert made["containers"] == [{"name": "main", "image": "i", "resources": ask}]


def test_nothing_makes_way_for_a_reservation_and_no_other_pod_gets_it() -> None:
    pod = {
        "metadata": {"name": "a", "namespace": "ml", "uid": "u"},
        "spec": {"priority": 9000, "containers": [{"name": "main"}]},
    }
    spec = reservation("r", pod, "n", OF_ONE, ttl=60.0)["spec"]
    assert spec["owners"] == [{"object": {"namespace": "ml", "name": "a", "uid": "u"}}]
    assert spec["template"]["spec"]["priority"] == 9000
    assert spec["template"]["spec"]["preemptionPolicy"] == "Never"


REFUSED: Body = {"type": "Scheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("status", "soon", "late"),
    [
        pytest.param({}, "writing", "writing", id="nobody has looked at it"),
        pytest.param({"phase": "Failed"}, "failed", "failed", id="lost"),
        pytest.param(
            {"phase": "Pending", "conditions": [REFUSED]}, "writing", "failed", id="no room"
        ),
        pytest.param({"conditions": [REFUSED]}, "writing", "failed", id="no room, without a phase"),
        pytest.param(
            {"phase": "Available", "conditions": [REFUSED]}, "done", "done", id="room at last"
        ),
    ],
)
def test_what_has_no_room_yet_may_find_some(status: Body, soon: str, late: str) -> None:
    """koord-scheduler retries what it reports as unschedulable. It also reports this of the first
    Reservations of a gang before the last one exists."""
    key, now = ("ml", "a"), [0.0]
    pod = {"metadata": {"name": "a", "namespace": "ml", "uid": "u"}, "spec": pod_spec(gpus=1)}
    name = f"advice-{OF_ONE.id}-u"
    body = {"metadata": {"name": name}, "status": status}
    objects = Objects(1, {product.PODS: {key: pod}, product.RESERVATIONS: {("", name): body}})
    # Gated, so that it waits for its Reservation; no gate is taken away here.
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    with ThreadPoolExecutor(1) as executor:
        one = Koordinator(cast("Any", FakeCluster()), executor, clock=lambda: now[0])
        seen = []
        for now[0] in (0.0, 4.9, 5.0):
            seen.append(one.act(OF_ONE, objects))
    assert seen == [soon, soon, late]


class FakeCluster:
    """Takes whatever is written."""

    def request(self, *_: object, **__: object) -> Body:
        return {}


@pytest.mark.parametrize(
    ("notes", "extensions"),
    [((), {}), (((ALLOCATED, '{"gpu": [{"minor": 1}]}'),), {"DeviceShare": {}})],
    ids=["any devices", "devices that are named"],
)
def test_a_hint_says_whether_its_devices_count(
    koord: Cluster, notes: tuple[tuple[str, str], ...], extensions: dict[str, Any]
) -> None:
    """koord-scheduler looks at devices noted on a waiting pod only where the hint names their
    plugin."""
    gang(koord, "g", 1)
    (pod,) = koord.pods()
    key, uid = (koord.namespace, "g-0"), pod["metadata"]["uid"]
    binding = Binding(key, uid, "a", notes)
    advice = Advice("1" * 16, (koord.namespace, "g"), "koordinator-hints", (binding,), 0.0, 1)
    objects = Objects(1, {product.PODS: {key: pod}})
    with connected(koord) as cluster, ThreadPoolExecutor(1) as executor:
        KoordinatorHints(cluster, executor).act(advice, objects)
    (pod,) = koord.pods()
    said = json.loads(pod["metadata"]["annotations"][HINT])
    assert said == {"preferredNodeNames": ["a"], "extensions": extensions}
    assert pod["metadata"]["annotations"].get(ALLOCATED) == dict(notes).get(ALLOCATED)


@pytest.mark.parametrize("mode", ["koordinator", "koordinator-hints"])
def test_killed_at_every_write_no_gang_is_advised_by_half(
    koord: Cluster, service: str, mode: str
) -> None:
    koord.add_nodes(node("a", gpus=2), node("b", gpus=2))
    gang(koord, "g", 3)
    settings = {**ADVISING, "advise": (mode,)}
    with KoordScheduler(koord.api):
        assert crashing.kill_again_and_again(
            koord.kubeconfig(),
            service,
            at=Step.ADVISE,
            until=lambda: len(koord.bound()) == 3 and is_over(koord),
            **settings,
        )
