"""Pods that name their gang in our annotations, in files and in the live cluster."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from placement.kubernetes import InputError, Objects, translate
from placement.kubernetes.annotated_gangs import with_annotated_gangs
from tests.kubernetes.build import Body, container, gang, group, node, pod

OURS = "placement-service/"
RACK = node(labels={"rack": "r0"})


def member(name: str, *, phase: str = "Pending", **notes: Any) -> Body:
    named = {f"{OURS}{key.replace('_', '-')}": value for key, value in notes.items()}
    return pod(name, metadata={"annotations": named}, phase=phase)


def asked(*bodies: Body) -> list[v1.PodGang]:
    objects = with_annotated_gangs(Objects.of([RACK, *bodies]))
    return list(translate(objects).request.gangs)


def test_pods_that_name_a_gang_are_one() -> None:
    (sent,) = asked(
        member("a", gang="g", gang_minimum="1", required_level="rack"), member("b", gang="g")
    )
    assert sent.name == "namespaces/ml/podgangs/g"
    assert [sum(len(s.pods) for s in one.pod_sets) for one in sent.groups] == [2]
    assert sent.groups[0].min_replicas == 1
    assert ["rack" in str(one) for one in sent.packing_scopes] == [True]


def test_a_pod_that_has_finished_and_one_of_a_pod_gang_are_not_of_it() -> None:
    (theirs,) = asked(
        member("a", gang="g"),
        member("b", gang="h", phase="Succeeded"),
        gang("h", podgroups=[group("w", "a")]),
    )
    assert theirs.name == "namespaces/ml/podgangs/h"


@pytest.mark.parametrize("wrong", [{"gang": 7}, {"gang": "g", "gang_minimum": 2}, {"gang": ""}])
def test_annotations_that_are_no_text_do_not_end_it(wrong: dict[str, Any]) -> None:
    with_annotated_gangs(
        Objects.of([member("a", **wrong), {**pod("b"), "metadata": {"name": "b"}}])
    )


def test_a_gang_that_can_have_no_such_name_is_a_problem_of_its_pod() -> None:
    with pytest.raises(InputError) as caught:
        asked(member("a", gang="a b"))
    (problem,) = caught.value.problems
    assert problem.object == "Pod ml/a"
    assert problem.field == "metadata.annotations[placement-service/gang]"


@pytest.mark.parametrize("strength", ["required", "preferred"])
def test_a_job_may_name_its_level_in_our_words(strength: str) -> None:
    template = {
        "metadata": {"annotations": {f"{OURS}{strength}-level": "rack"}},
        "spec": {"containers": [container(gpu="1")]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "ml", "name": "j"},
        "spec": {"parallelism": 2, "template": template},
    }
    (sent,) = translate(Objects.of([RACK, job]), plain_gangs=True).request.gangs
    (one,) = sent.packing_scopes
    assert "rack" in str(one)
