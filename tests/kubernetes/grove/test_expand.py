"""PodCliqueSets: the gangs and pods that Grove would make."""

from __future__ import annotations

import pytest

from placement.kubernetes import Objects, expand_all, translate
from tests.kubernetes.build import Body, container, gang, group, node, pod, priority_class, said
from tests.kubernetes.grove.clique_sets import (
    clique,
    clique_set,
    expanded,
    gangs,
    pods,
    problems,
    scaling,
)


def shape(*bodies: Body) -> dict[str, dict[str, tuple[int, int]]]:
    """Gang -> group -> pods and minimum."""
    return {
        name: {g["name"]: (len(g["podReferences"]), g["minReplicas"]) for g in spec["podgroups"]}
        for name, spec in gangs(*bodies).items()
    }


def test_standalone_cliques_make_one_gang_a_replica() -> None:
    assert shape(clique_set(clique("a", 3, 2), clique("b"), replicas=2)) == {
        "s-0": {"s-0-a": (3, 2), "s-0-b": (1, 1)},
        "s-1": {"s-1-a": (3, 2), "s-1-b": (1, 1)},
    }


def test_scaling_groups_beyond_their_minimum_make_scaled_gangs() -> None:
    """Scaled gangs count from zero, whatever the replica of the group."""
    assert shape(
        clique_set(
            clique("router", 2),
            clique("lead"),
            clique("work", 3),
            groups=[scaling("dec", "lead", "work", replicas=4, minAvailable=2)],
        )
    ) == {
        "s-0": {
            "s-0-router": (2, 2),
            "s-0-dec-0-lead": (1, 1),
            "s-0-dec-0-work": (3, 3),
            "s-0-dec-1-lead": (1, 1),
            "s-0-dec-1-work": (3, 3),
        },
        "s-0-dec-0": {"s-0-dec-2-lead": (1, 1), "s-0-dec-2-work": (3, 3)},
        "s-0-dec-1": {"s-0-dec-3-lead": (1, 1), "s-0-dec-3-work": (3, 3)},
    }


def test_scaling_groups_default_to_one_replica_and_a_minimum_of_one() -> None:
    assert shape(clique_set(clique("a"), groups=[scaling("g", "a")])) == {
        "s-0": {"s-0-g-0-a": (1, 1)}
    }


def test_a_set_without_replicas_makes_nothing_and_says_so() -> None:
    expansion = expand_all(Objects.of([clique_set(clique("a"), replicas=0)]))
    assert not expansion.pod_gangs
    assert said(expansion.warnings) == ("PodCliqueSet ml/s: spec.replicas: has no replicas",)


def test_pods_carry_names_labels_and_annotations_of_grove() -> None:
    made = pods(
        clique_set(
            clique("a", 2, labels={"kai.scheduler/queue": "q"}, annotations={"x": "y"}),
            clique("b"),
            groups=[scaling("g", "b", replicas=2)],
            replicas=1,
        )
    )
    assert list(made) == ["s-0-a-0", "s-0-a-1", "s-0-g-0-b-0", "s-0-g-1-b-0"]
    assert made["s-0-a-1"]["metadata"] == {
        "name": "s-0-a-1",
        "namespace": "ml",
        "labels": {
            "kai.scheduler/queue": "q",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "s",
            "app.kubernetes.io/name": "s-0-a",
            "app.kubernetes.io/component": "pcs-podclique",
            "grove.io/podclique": "s-0-a",
            "grove.io/podgang": "s-0",
            "grove.io/podcliqueset-replica-index": "0",
            "grove.io/podclique-pod-index": "1",
        },
        "annotations": {"x": "y"},
    }
    assert made["s-0-a-1"]["spec"] == {
        "containers": [container(gpu="1")],
        "hostname": "s-0-a-1",
        "subdomain": "s-0",
    }
    scaled = made["s-0-g-1-b-0"]["metadata"]["labels"]
    assert scaled["app.kubernetes.io/component"] == "pcsg-podclique"
    assert scaled["grove.io/podgang"] == "s-0-g-0"
    assert scaled["grove.io/base-podgang"] == "s-0"
    assert scaled["grove.io/podcliquescalinggroup"] == "s-0-g"
    assert scaled["grove.io/podcliquescalinggroup-replica-index"] == "1"
    assert "grove.io/base-podgang" not in made["s-0-g-0-b-0"]["metadata"]["labels"]


def test_each_gang_is_initialized_and_followed_by_its_pods() -> None:
    made = expanded(
        priority_class("high", 7),
        clique_set(
            clique("a", 2),
            clique("b"),
            groups=[scaling("g", "b", replicas=2)],
            priorityClassName="high",
        ),
    )
    assert [(b["kind"], b["metadata"]["name"]) for b in made] == [
        ("PodGang", "s-0"), ("Pod", "s-0-a-0"), ("Pod", "s-0-a-1"), ("Pod", "s-0-g-0-b-0"),
        ("PodGang", "s-0-g-0"), ("Pod", "s-0-g-1-b-0"),
    ]  # fmt: skip
    assert all(b["spec"]["priorityClassName"] == "high" for b in made if b["kind"] == "PodGang")
    conditions = made[0]["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in conditions] == [("Initialized", "True")]


def test_what_was_expanded_can_be_read_again() -> None:
    """The output of `expand`, put beside the nodes, asks the same question as the set itself."""
    whole = [
        node("n1"),
        clique_set(clique("a", 2), clique("b"), groups=[scaling("g", "b", replicas=3)]),
    ]
    direct = translate(Objects.of(whole)).request
    again = translate(Objects.of([whole[0], *expanded(*whole)])).request
    assert direct == again
    assert [g.base_gang for g in direct.gangs] == ["", direct.gangs[0].name, direct.gangs[0].name]


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app.kubernetes.io/part-of": "s"}},
        {"ownerReferences": [{"kind": "PodCliqueSet", "name": "s"}]},
    ],
    ids=["label", "owner"],
)
def test_a_set_with_gangs_in_the_input_is_not_expanded(metadata: Body) -> None:
    there = gang("s-0", metadata=metadata, podgroups=[group("w", least=0)])
    assert not expanded(clique_set(clique("a")), there)
    elsewhere = gang(
        "s-0", metadata={**metadata, "namespace": "x"}, podgroups=[group("w", least=0)]
    )
    assert expanded(clique_set(clique("a")), elsewhere)


def test_a_set_with_pods_but_no_gangs_is_planned_anew_and_said() -> None:
    running = pod("s-0-a-x7k2p", labels={"app.kubernetes.io/part-of": "s"}, nodeName="n1")
    expansion = expand_all(Objects.of([running, clique_set(clique("a"))]))
    assert said(expansion.warnings) == (
        "PodCliqueSet ml/s: has pods in the input but no PodGangs: it is planned anew beside them",
    )


def test_a_pod_of_the_very_name_is_taken_as_it_is() -> None:
    there = pod("s-0-a-0", nodeName="n1")
    (only,) = translate(Objects.of([there, clique_set(clique("a", 2))])).request.gangs
    assert [p.name for s in only.groups[0].pod_sets for p in s.bound_pods] == [
        "namespaces/ml/pods/s-0-a-0"
    ]
    assert [p.name for s in only.groups[0].pod_sets for p in s.pods] == [
        "namespaces/ml/pods/s-0-a-1"
    ]


def test_a_gang_whose_name_is_taken_is_a_problem() -> None:
    there = gang("s-0", podgroups=[group("w", least=0)])
    assert problems(clique_set(clique("a")), there) == {
        "": "needs the name of PodGang ml/s-0, which is taken"
    }
