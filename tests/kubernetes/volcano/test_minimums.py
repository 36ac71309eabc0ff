"""Volcano's minimums of tasks beside the one of all pods: both have to hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, node, only_gang, pod, thing

#: The pods there are of a task, and its minimum.
Tasks = dict[str, tuple[int, int]]


def pod_group(tasks: Tasks, whole: int) -> list[Body]:
    key = "scheduling.k8s.io/group-name"
    return [
        thing(
            "PodGroup", "scheduling.volcano.sh/v1beta1", "v", namespace="ml",
            spec={"minMember": whole, "minTaskMember": {of: n for of, (_, n) in tasks.items()}},
        ),
        *(
            pod(f"{of}-{i}", metadata={"annotations": {key: "v", "volcano.sh/task-spec": of}})
            for of, (count, _) in tasks.items()
            for i in range(count)
        ),
    ]  # fmt: skip


def job(tasks: Tasks, whole: int) -> list[Body]:
    template = {"spec": {"containers": [container(gpu="1")]}}
    return [
        thing(
            "Job", "batch.volcano.sh/v1alpha1", "v", namespace="ml",
            spec={"minAvailable": whole, "tasks": [
                {"name": of, "replicas": count, "minAvailable": least, "template": template}
                for of, (count, least) in tasks.items()
            ]},
        )
    ]  # fmt: skip


BOTH = pytest.mark.parametrize("made", [pod_group, job])
Made = Callable[[Tasks, int], list[Body]]


def minimums(gang: v1.PodGang) -> list[int]:
    return [group.min_replicas for group in gang.groups]


@BOTH
@pytest.mark.parametrize(
    ("tasks", "whole", "raised"),
    [
        ({"a": (3, 1), "b": (2, 2)}, 3, [1, 2]),
        ({"a": (4, 1), "b": (2, 2)}, 5, [3, 2]),
        ({"a": (3, 1), "b": (3, 2)}, 6, [3, 3]),
        ({"a": (2, 1), "b": (2, 2)}, 6, [4, 2]),
    ],
)
def test_a_minimum_of_all_pods_raises_those_of_the_tasks(
    made: Made, tasks: Tasks, whole: int, raised: list[int]
) -> None:
    gang = only_gang(node(), *made(tasks, whole))
    assert minimums(gang) == raised
    assert not gang.unsupported


@BOTH
def test_what_several_tasks_could_make_up_is_refused(made: Made) -> None:
    gang = only_gang(node(), *made({"a": (3, 1), "b": (3, 2)}, 4))
    (refused,) = gang.unsupported
    assert refused.startswith("spec.min")
