"""What is kept of the objects of a cluster in which another scheduler binds."""

from __future__ import annotations

import json

from controller.advice.advice import read_advice
from controller.advice.objects import ObjectCache
from controller.advice.room import fingerprint, what_pods_meet
from placement.advice_marks import ADVICE
from placement.resources import NODES, PODS
from tests.cluster.api import Body
from tests.cluster.build import node, pod_spec

ADVISED = {
    "id": "0" * 16,
    "gang": "ml/g",
    "by": "kube-scheduler",
    "size": 1,
    "node": "a",
    "until": 60.0,
}


def pod(*, on: str = "") -> Body:
    """A pod with as much in it as real ones have."""
    spec = pod_spec(gpus=1)
    environment = [{"name": f"VARIABLE_{i}", "value": f"value {i}"} for i in range(100)]
    spec["containers"] = [{**one, "env": environment} for one in spec["containers"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "g-0",
            "namespace": "ml",
            "uid": "uid",
            "annotations": {ADVICE: json.dumps(ADVISED), "example.com/long": "x" * 1000},
        },
        "spec": {**spec, **({"nodeName": on} if on else {})},
        "status": {"phase": "Running" if on else "Pending"},
    }


def kept(body: Body) -> Body:
    (one,) = ObjectCache([NODES, PODS]).of(PODS).trimmed([body])
    return dict(one)


def test_of_pods_that_have_a_node_little_is_kept() -> None:
    """Of twenty thousand the whole would be more than a controller may have."""
    whole = pod(on="a")
    small = kept(whole)
    assert len(json.dumps(small)) < len(json.dumps(whole)) / 5
    assert read_advice({("ml", "g-0"): small}) == read_advice({("ml", "g-0"): whole})


def test_pods_that_may_yet_get_advice_are_kept_whole() -> None:
    assert kept(pod()) == pod()


def test_a_node_is_the_same_to_pods() -> None:
    """It is compared with what the API server says of it right before advice is written."""
    whole = {"apiVersion": "v1", "kind": "Node", **node("a", gpus=8, labels={"rack": "r"})}
    whole["metadata"]["annotations"] = {"example.com/long": "x" * 1000}
    whole["status"]["images"] = [{"names": ["image"], "sizeBytes": 1}] * 50
    small = kept(whole)
    assert len(json.dumps(small)) < len(json.dumps(whole)) / 5
    assert what_pods_meet(small) == what_pods_meet(whole)
    assert fingerprint(small) == fingerprint(whole)
