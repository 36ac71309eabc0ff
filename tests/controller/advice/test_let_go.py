"""A pod that the API server does not let us change keeps no other one waiting."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, cast

import pytest

from controller.advice.adapter import Adapter
from controller.advice.composition import AdapterName, adapters
from controller.advice.objects import Objects
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body
from placement.advice_marks import GATE
from placement.cluster import ApiError
from placement.resources import PODS


class Refusing:
    """An API server that takes every patch, but for those of one pod."""

    def __init__(self) -> None:
        self.patched: list[str] = []

    def request(self, method: str, path: str, **_: object) -> Body:
        name = path.rpartition("/")[2]
        if name == "first":
            raise ApiError(422, "a policy of the cluster")
        self.patched.append(name)
        return {}


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def adapter(name: AdapterName, cluster: Refusing, executor: Executor) -> Adapter:
    (made,) = adapters([name], cast("Any", cluster), executor, pool="", kai_settle=1.0)
    return made


def gated(name: str) -> Body:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": GATE}]}}


PODS_THERE = {("ml", name): gated(name) for name in ("first", "second", "third")}
OBJECTS = Objects(1, {PODS: PODS_THERE})
ALL = pytest.mark.parametrize(
    "name", ["kai", "kai-pins", "koordinator", "koordinator-hints", "kube-scheduler", "volcano"]
)


@ALL
def test_others_are_let_go_to_their_scheduler(executor: Executor, name: AdapterName) -> None:
    cluster = Refusing()
    with pytest.raises(ApiError, match="a policy"):
        adapter(name, cluster, executor).release(list(PODS_THERE), OBJECTS)
    assert cluster.patched == ["second", "third"]


@ALL
def test_others_follow_those_that_went_before(executor: Executor, name: AdapterName) -> None:
    cluster = Refusing()
    rest = [Binding(key, f"uid-{key[1]}", "a") for key in PODS_THERE]
    with pytest.raises(ApiError, match="a policy"):
        adapter(name, cluster, executor).complete(rest, OBJECTS)
    assert cluster.patched == ["second", "third"]
