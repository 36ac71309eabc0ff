"""How reasons spell amounts, pods, names and lists."""

from __future__ import annotations

import pytest

from placement_service.entities.devices import DeviceShare
from placement_service.entities.placement import ReasonCode, ReasonState
from placement_service.entities.request import (
    CPU,
    MEMORY,
    PODS,
    PodTemplate,
)
from placement_service.explain.wording import amount, asks, closed, gang_word, listed, pod_rules
from tests.drawing import GPU
from tests.service.explain.asking import POLICY

Code, State = ReasonCode, ReasonState


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        (CPU, 500, "0.5 cpu"),
        (CPU, 10000, "10 cpu"),
        (MEMORY, 16 << 30, "16Gi memory"),
        (MEMORY, 1536 << 20, "1536Mi memory"),
        (MEMORY, (1 << 30) + 1, "1.0Gi memory"),
        (MEMORY, 12, "12 memory"),
        (GPU, 8, "8 nvidia.com/gpu"),
        (PODS, 1, "1 pod"),
        (PODS, 2, "2 pods"),
    ],
)
def test_amounts_are_spelled_as_people_do(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text


def test_a_pod_is_called_by_its_gpus_or_else_by_all_it_asks_for() -> None:
    pod = PodTemplate({GPU: 4, CPU: 2000, PODS: 1})
    assert asks(pod, POLICY) == "4 nvidia.com/gpu"
    assert asks(pod, POLICY, full=True) == "4 nvidia.com/gpu and 2 cpu"
    assert asks(PodTemplate({CPU: 2000, PODS: 1}), POLICY) == "2 cpu"
    assert asks(PodTemplate({PODS: 1}), POLICY) == ""


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (DeviceShare(600, 600), "60 % of a GPU"),
        (DeviceShare(125, 125, count=2), "12.5 % of each of 2 GPUs"),
        (DeviceShare(500, 600), "50 % of the compute and 60 % of the memory of a GPU"),
        (DeviceShare(0, 0, 10 << 30), "10Gi memory of a GPU"),
    ],
)
def test_a_pod_with_a_share_of_a_gpu_is_called_by_it(share: DeviceShare, text: str) -> None:
    pod = PodTemplate({CPU: 1000, PODS: 1}, device_share=share)
    assert asks(pod, POLICY) == text
    assert asks(pod, POLICY, full=True) == f"{text} and 1 cpu"


def test_long_lists_end_in_a_count() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_closed_nodes_and_rules_of_pods() -> None:
    assert closed((("cordoned", 1),), 1) == "1 of 1 node: cordoned"
    assert closed((("taint x", 3), ("cordoned", 1)), 9) == "3 of 9 nodes: taint x; 1: cordoned"
    assert pod_rules(PodTemplate({PODS: 1}), ()) == ("anti-affinity of other pods",)


def test_a_gang_of_another_namespace_is_called_with_it() -> None:
    assert gang_word("namespaces/a/podgangs/x", "namespaces/a/podgangs/y") == "x"
    assert gang_word("namespaces/a/podgangs/x", "namespaces/b/podgangs/y") == "a/x"
