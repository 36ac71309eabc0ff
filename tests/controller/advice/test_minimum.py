"""Whether advice is still for enough pods of its gang, told by what is in the cluster alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from controller.advice.advice import Advice
from controller.advice.minimum import shortage
from controller.advice.objects import Objects
from controller.advice.schedulers.kai import Kai
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, key_of
from placement.advice_marks import ADVICE
from placement.resources import KAI_POD_GROUPS, NODES, PODS, Resource
from tests.cluster.build import node, pod_spec

KAI = Kai(cast("Any", None), cast("Any", None))
GANG = ("ml", "g")


def advice(*pods: str) -> Advice:
    bindings = tuple(Binding(("ml", name), f"uid-{name}", "a") for name in pods)
    return Advice("1" * 16, GANG, "kai", bindings, 1e6, len(bindings))


def pod(name: str, *, gang: str = "g", advised: str = "", on: str = "") -> Body:
    annotations = {"pod-group-name": gang, **({ADVICE: advised} if advised else {})}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "annotations": annotations}
    spec = {**pod_spec(), "schedulerName": "kai-scheduler", **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def group(minimum: object, name: str = "g", namespace: str = "ml") -> Body:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"minMember": minimum}}


def lacks(*bodies: Body, groups: Mapping[str, object], on: str = "a") -> str:
    """What a gang lacks of which two pods were advised; `groups` are minimums by name."""
    given = advice("p", "q")
    ours = [pod(one.pod[1], advised=given.annotation(one)) for one in given.bindings]
    stores: dict[Resource, dict[Any, Body]] = {
        NODES: {("", name): {"apiVersion": "v1", "kind": "Node", **node(name)} for name in "ab"},
        PODS: {key_of(body): body for body in (*ours, *bodies)},
        KAI_POD_GROUPS: {("ml", name): group(least, name) for name, least in groups.items()},
    }
    return shortage(given, Objects(1, stores), [KAI], 0.0)


@pytest.mark.parametrize(
    ("minimum", "why"), [(1, ""), (2, ""), (3, "2 of 3 pods of"), (4, "2 of 4 pods of")]
)
def test_a_minimum_that_was_raised_is_told(minimum: int, why: str) -> None:
    assert lacks(groups={"g": minimum}).startswith(why)
    assert bool(lacks(groups={"g": minimum})) == bool(why)


def test_pods_that_run_count_wherever_they_are() -> None:
    """One that waits does not, nor does one of another gang."""
    assert lacks(pod("r", on="b"), groups={"g": 3}) == ""
    assert lacks(pod("r"), groups={"g": 3})
    assert lacks(pod("r", on="b", gang="h"), groups={"g": 3, "h": 1})


def test_what_others_lack_or_write_wrong_does_not_matter() -> None:
    assert lacks(pod("r", gang="h"), groups={"g": 2, "h": 5}) == ""
    assert lacks(pod("r", gang="h", on="b"), groups={"g": 2, "h": 5}) == ""
    assert lacks(groups={"g": 2, "h": "many"}) == ""


def test_a_gang_that_cannot_be_read_lacks_nothing() -> None:
    assert lacks(groups={"g": "many"}) == ""
    assert lacks(groups={}) == ""
