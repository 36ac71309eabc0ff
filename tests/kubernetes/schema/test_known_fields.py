"""Slips of the keyboard are named with the nearest field; what a server gave back is no slip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placement.kubernetes import InputError, Objects, load, translate
from placement.kubernetes.schema.kinds import (
    JOB_SETS,
    KINDS,
    LEADER_WORKER_SETS,
    PODS,
    ROLE_BASED_GROUPS,
)
from placement.kubernetes.schema.known_fields import unknown_fields
from tests.kubernetes.build import Body, container, gang, group, node, pod, said


def loaded(folder: Path, *bodies: Body, strict: bool = False) -> Objects:
    path = folder / "x.json"
    path.write_text(json.dumps(list(bodies)), encoding="utf-8")
    return load([str(path)], strict=strict)


def clique_set(**template: Any) -> Body:
    clique = {"name": "a", "spec": {"replicas": 1, "podSpec": {"containers": [container()]}}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"namespace": "ml", "name": "s"},
        "spec": {"replicas": 1, "template": {"cliques": [clique], **template}},
    }


@pytest.mark.parametrize(
    ("body", "field", "nearest"),
    [
        pytest.param(
            gang(podgroups=[group("w")], topologyConstrain={}),
            "spec.topologyConstrain",
            "topologyConstraint",
            id="gang",
        ),
        pytest.param(
            clique_set(podCliqueScalingGroups=[{"name": "g", "minAvailble": 1}]),
            "spec.template.podCliqueScalingGroups[0].minAvailble",
            "minAvailable",
            id="scaling group",
        ),
        pytest.param(
            clique_set(topologyConstraint={"topologyName": "t", "pack": {"requird": "rack"}}),
            "spec.template.topologyConstraint.pack.requird",
            "required",
            id="pack",
        ),
        pytest.param(
            clique_set(cliques=[{"name": "a", "spec": {"podSpec": {"nodeSelecter": {"a": "b"}}}}]),
            "spec.template.cliques[0].spec.podSpec.nodeSelecter",
            "nodeSelector",
            id="pod of a clique",
        ),
        pytest.param(
            pod("a", containers=[{"name": "m", "resource": {}}]),
            "spec.containers[0].resource",
            "resources",
            id="container",
        ),
        pytest.param(
            pod("a", metadata={"lables": {}}), "metadata.lables", "labels", id="metadata"
        ),
        pytest.param(
            gang(podGroups=[], podgroups=[]), "spec.podGroups", "podgroups", id="capitals"
        ),
    ],
)  # fmt: skip
def test_a_slip_is_named_with_the_nearest_field(
    tmp_path: Path, body: Body, field: str, nearest: str
) -> None:
    (warning,) = loaded(tmp_path, body).warnings
    assert (warning.field, warning.message) == (
        field,
        f"is not a known field; is {nearest} meant?",
    )
    assert warning.file == str(tmp_path / "x.json")
    assert warning.object.endswith(f"ml/{body['metadata']['name']}")
    objects = loaded(tmp_path, body, strict=True)
    assert not objects.warnings
    assert [p.field for p in objects.problems] == [field]
    with pytest.raises(InputError):
        translate(objects)


def test_a_name_like_no_other_is_named_without_a_guess(tmp_path: Path) -> None:
    (warning,) = loaded(tmp_path, pod("a", zzz=1)).warnings
    assert (warning.field, warning.message) == ("spec.zzz", "is not a known field and is ignored")


def test_the_same_slip_in_many_objects_is_said_once(tmp_path: Path) -> None:
    objects = loaded(tmp_path, *(pod(f"p-{i}", nodeSelecter={}) for i in range(50)))
    (warning,) = said(objects.warnings)
    assert "Pod ml/p-0: spec.nodeSelecter" in warning
    assert warning.endswith("(49 more like it)")


SERVED = {"uid": "1", "resourceVersion": "7"}


def test_what_a_server_gave_back_is_never_an_error(tmp_path: Path) -> None:
    newer = pod("a", metadata=SERVED, somethingNew={}, containers=[{"name": "m", "shiny": 1}])
    newer["status"]["unheardOf"] = 1
    objects = loaded(tmp_path, newer, strict=True)
    assert not objects.problems
    assert not objects.warnings


def test_a_dump_that_was_edited_by_hand_is_warned_of(tmp_path: Path) -> None:
    edited = pod("a", metadata=SERVED, nodeSelecter={})
    objects = loaded(tmp_path, edited, strict=True)
    assert not objects.problems
    assert [w.field for w in objects.warnings] == ["spec.nodeSelecter"]


def test_free_maps_take_any_key(tmp_path: Path) -> None:
    free = node("n1", labels={"anything": "x"}, allocatable={"example.com/thing": "1"})
    objects = loaded(tmp_path, free, pod("a", nodeSelector={"odd": "y"}), strict=True)
    assert not objects.problems
    assert not objects.warnings


def test_a_live_cluster_is_not_checked() -> None:
    assert not Objects.of([pod("a", nodeSelecter={})]).warnings


def test_every_kind_that_is_read_has_its_fields() -> None:
    unpublished = (JOB_SETS, LEADER_WORKER_SETS, ROLE_BASED_GROUPS)
    for kind in set(KINDS) - set(unpublished):
        found = unknown_fields(kind, {"apiVersion": "x", "kind": kind.name, "metadata": {}, "q": 1})
        assert [f.path for f in found] == ["q"], kind


@pytest.mark.parametrize("hostile", [{"spec": {1: {"a": 2}}}, {"spec": [[[{"a": 1}]]]}, {"": {}}])
def test_a_hostile_shape_is_only_unknown(hostile: dict[Any, Any]) -> None:
    assert len(unknown_fields(PODS, hostile)) <= 20


def test_no_object_gives_more_than_twenty() -> None:
    assert len(unknown_fields(PODS, {f"x{i}": 1 for i in range(5000)})) == 20
