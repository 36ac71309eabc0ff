"""The whole way: files to a request, and all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

from placement import v1
from placement.kubernetes import InputError, Objects, load, translate
from tests.kubernetes.build import said

HERE = Path(__file__).parent


def test_the_example_gives_the_request_written_beside_it() -> None:
    """Read the two files side by side: every kind of object is there once."""
    translation = translate(load([str(HERE / "example.yaml")]))
    want = text_format.Parse(
        (HERE / "example.request.txtpb").read_text(encoding="utf-8"), v1.ComputePlacementRequest()
    )
    assert translation.request == want
    assert said(translation.warnings) == (
        "Service (v1): 1 object of this kind skipped: it is not read",
        "1 waiting pod that no PodGang refers to left alone, first pod default/alone",
    )


def test_translating_twice_gives_the_same_bytes() -> None:
    objects = load([str(HERE / "example.yaml")])
    first, second = (
        translate(objects).request.SerializeToString(deterministic=True) for _ in range(2)
    )
    assert first == second


def test_problems_of_all_files_and_objects_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(
        """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{resources: {requests: {cpu: many}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: g}
spec: {podgroups: [{name: w, podReferences: [{namespace: default, name: p}]}]}
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: s}
spec: {replicas: 1, template: {cliques: []}}
---
apiVersion: v1
kind: Node
metadata: {name: n, labels: {rack: 7}}
""",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        translate(load([str(tmp_path)]))
    first, *rest = map(str, caught.value.problems)
    assert first.startswith(f"{tmp_path}/a.yaml:2: is not valid YAML: ")
    file = f"{tmp_path}/b.yaml"
    quoted = "must be a string, not 7; put it in quotes"
    assert rest == [
        f"{file}: PodCliqueSet default/s: spec.template.cliques: must hold at least one clique",
        f"{file}: Pod default/p: spec.containers[0].resources.requests[cpu]:"
        " 'many' is not a quantity",
        f"{file}: Pod default/q: spec: is missing",
        f"{file}: PodGang default/g: spec.podgroups[0].minReplicas: is missing",
        f"{file}: Node default/n: metadata.labels[rack]: {quoted}".replace("default/n", "n"),
    ]
    assert str(caught.value) == "\n".join([first, *rest])


def test_an_empty_input_is_an_empty_question() -> None:
    translation = translate(Objects.of([]))
    assert translation.request == v1.ComputePlacementRequest(snapshot=v1.ClusterSnapshot())
    assert said(translation.warnings) == ("the input holds no Node", "the input holds no PodGang")
