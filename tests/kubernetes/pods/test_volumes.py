"""Volumes tie pods to nodes, or keep them waiting."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pod,
    pod_problems,
    problems,
    template,
    thing,
    translated,
)
from tests.kubernetes.pods.volume_objects import DISK, ZONE, claim, mounts, storage_class, volume


def where(*others: Body, **spec: Any) -> list[list[tuple[str, list[str]]]]:
    """The terms of node affinity: label and values of each requirement."""
    made = template(*others, **spec)
    return [
        [(e.key, list(e.values)) for e in term.match_expressions]
        for term in made.required_node_affinity.terms
    ]


def refused(*others: Body, **spec: Any) -> list[str]:
    sent = only_gang(node(), pod("a", **spec), gang(podgroups=[group("w", "a")]), *others)
    return [text.partition(": ")[2] for text in sent.unsupported]


def test_a_bound_claim_brings_the_place_of_its_volume() -> None:
    assert where(claim("c", "pv"), volume("pv", zone=["z1"]), volumes=mounts("c")) == [
        [(ZONE, ["z1"])]
    ]


def test_a_volume_that_is_everywhere_says_nothing() -> None:
    assert where(claim("c", "pv"), volume("pv"), volumes=mounts("c")) == []


def test_an_unbound_claim_that_waits_brings_the_topologies_of_its_class() -> None:
    topologies = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]},
        {"matchLabelExpressions": [{"key": ZONE, "values": ["z3"]}]},
    ]
    made = where(claim("c"), storage_class(allowedTopologies=topologies), volumes=mounts("c"))
    assert made == [[(ZONE, ["z1", "z2"])], [(ZONE, ["z3"])]]
    assert where(claim("c"), storage_class(), volumes=mounts("c")) == []


def test_several_claims_and_the_pods_own_affinity_must_all_hold() -> None:
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": [v]}]} for v in "xy"
        ]}}}  # fmt: skip
    made = where(
        claim("c", "p"), volume("p", zone=["z"]), claim("d", "q"), volume("q", disk=["s"]),
        claim("e", "q"), volumes=mounts("c", "d", "e"), affinity=own,
    )  # fmt: skip
    assert made == [[("a", [v]), (ZONE, ["z"]), (DISK, ["s"])] for v in "xy"]


@pytest.mark.parametrize(
    ("others", "want"),
    [
        ([], "PersistentVolumeClaim c: is not in the input"),
        (
            [claim("c", "pv")],
            "PersistentVolumeClaim c: its PersistentVolume pv is not in the input",
        ),
        (
            [claim("c")],
            "PersistentVolumeClaim c: is not bound, and its StorageClass late is not in the input",
        ),
        (
            [claim("c"), storage_class(mode="Immediate")],
            "PersistentVolumeClaim c: is not bound to a volume yet, and its StorageClass late"
            " does not wait for a consumer",
        ),
        (
            [claim("c", storage_class=None)],
            "PersistentVolumeClaim c: is not bound to a volume, and there is no class to make one",
        ),
        ([claim("c", "pv", phase="Lost"), volume("pv")],
         "PersistentVolumeClaim c: has lost its volume"),
    ],
)  # fmt: skip
def test_a_claim_that_is_not_ready_keeps_its_pod_waiting(others: list[Body], want: str) -> None:
    assert refused(*others, volumes=mounts("c")) == [want]


def test_a_claim_without_class_is_of_the_default_one() -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    assert (
        refused(
            claim("c", storage_class=None), storage_class(metadata=default), volumes=mounts("c")
        )
        == []
    )


def ephemeral(storage: str) -> list[Body]:
    spec = {"storageClassName": storage}
    return [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]


def test_an_ephemeral_volume_has_a_claim_of_the_pods_name() -> None:
    made = where(claim("a-scratch", "pv"), volume("pv", zone=["z"]), volumes=ephemeral("late"))
    assert made == [[(ZONE, ["z"])]]
    assert refused(storage_class(), volumes=ephemeral("late")) == []
    assert len(refused(storage_class("now", "Immediate"), volumes=ephemeral("now"))) == 1


def test_the_ephemeral_volume_of_a_running_pod_goes_with_it() -> None:
    made = where(
        claim("a-scratch", "pv"), volume("pv", zone=["z"]), storage_class(),
        nodeName="n1", phase="Running", volumes=ephemeral("late"),
    )  # fmt: skip
    assert made == []


def test_a_claim_of_another_namespace_is_another() -> None:
    stranger = claim("c", "pv")
    stranger["metadata"]["namespace"] = "other"
    assert refused(stranger, volume("pv"), volumes=mounts("c")) == [
        "PersistentVolumeClaim c: is not in the input"
    ]


def test_more_terms_than_can_be_told_refuse_the_gang() -> None:
    def many(key: str, name: str) -> Body:
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [str(i)]}]}
                 for i in range(20)]  # fmt: skip
        spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
        return thing("PersistentVolume", "v1", name, spec=spec)

    (text,) = refused(
        claim("c", "p"), many("a", "p"), claim("d", "q"), many("b", "q"), volumes=mounts("c", "d")
    )
    assert text == "its volumes combine too many sets of nodes"


def test_a_class_of_an_unknown_mode_is_a_problem() -> None:
    assert problems(storage_class(mode="Later")) == [
        (
            "StorageClass late",
            "volumeBindingMode",
            "must be one of Immediate, WaitForFirstConsumer, not Later",
        )
    ]


def test_pods_of_different_places_have_different_templates() -> None:
    sent = only_gang(
        node(), claim("c", "p"), volume("p", zone=["z"]),
        pod("a", volumes=mounts("c")), pod("b"), gang(podgroups=[group("w", "a", "b")]),
    )  # fmt: skip
    assert [s.template.HasField("required_node_affinity") for s in sent.groups[0].pod_sets] == [
        True, False,
    ]  # fmt: skip
    assert isinstance(sent, v1.PodGang)


@pytest.mark.parametrize(("mode", "phase", "waits"), [
    ("ReadWriteOncePod", "Running", True),
    ("ReadWriteOncePod", "Succeeded", False),
    ("ReadWriteOnce", "Running", False),
])  # fmt: skip
def test_a_claim_for_one_pod_serves_no_other(mode: str, phase: str, waits: bool) -> None:
    mounts: Body = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}
    mine = claim("c", "v")
    mine["spec"]["accessModes"] = [mode]
    runs = pod("x", nodeName="n1", **mounts)
    runs["status"] = {"phase": phase}
    asked = only_gang(
        node("n1"), mine, volume("v"), runs, pod("a", **mounts), gang(podgroups=[group("w", "a")])
    )
    want = "pod ml/a: PersistentVolumeClaim c: is ReadWriteOncePod, and several pods use it"
    assert list(asked.unsupported) == ([want] if waits else [])


@pytest.mark.parametrize("name", [["c"], {"c": "d"}, 5])
def test_the_name_of_a_claim_that_is_no_text_is_a_problem(name: object) -> None:
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": name}}
    (field,) = pod_problems(volumes=[volume])
    assert field == "spec.volumes[0].persistentVolumeClaim.claimName"


def test_a_gang_names_the_claims_that_tie_its_pods() -> None:
    """Also those of pods that run, for a drain makes them wait; none that any node can mount."""
    translation = translated(
        node(), claim("c", "pv"), volume("pv", zone=["z1"]), claim("d", "qv"), volume("qv"),
        claim("e", "ev"), volume("ev", zone=["z1"]),
        pod("a", volumes=mounts("c", "d")), pod("b", volumes=mounts("c")),
        pod("r", volumes=mounts("e"), nodeName="n1", phase="Running"),
        gang(podgroups=[group("w", "a", "b", "r")]),
        pod("f", volumes=mounts("d")), gang("free", podgroups=[group("w", "f")]),
    )  # fmt: skip
    named = {g.name.rpartition("/")[2]: list(g.volume_claims) for g in translation.request.gangs}
    assert named.pop("free") == []
    assert list(named.values()) == [["c", "e"]]
