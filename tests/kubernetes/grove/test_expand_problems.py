"""What is wrong with a PodCliqueSet or a binding of levels, by its path."""

from __future__ import annotations

import pytest

from placement.kubernetes import InputError, Objects, translate
from placement.kubernetes.objects import not_a_name
from tests.kubernetes.grove.clique_sets import (
    binding,
    clique,
    clique_set,
    problems,
    scaling,
    want,
)


def test_a_minimum_is_not_compared_with_replicas_that_are_no_number() -> None:
    wrong = clique("a", least=3)
    wrong["spec"]["replicas"] = "four"
    found = problems(clique_set(wrong, clique("b", 0, 2)))
    assert found == {
        "spec.template.cliques[0].spec.replicas": "must be a whole number, not four",
        "spec.template.cliques[1].spec.replicas": "must be at least 1, not 0",
    }


def test_every_problem_of_a_set_is_named() -> None:
    bad_pod = clique("f")
    bad_pod["spec"]["podSpec"] = {
        "containers": [{"resources": {"limits": {"nvidia.com/gpu": "some"}}}],
        "topologySpreadConstraints": [{}],
        "nodeName": "n1",
    }
    no_pod = clique("e")
    del no_pod["spec"]["podSpec"], no_pod["spec"]["replicas"]
    found = problems(
        clique_set(
            clique("a", 2, 3),
            clique("a"),
            clique("B"),
            clique("d", 0),
            no_pod,
            bad_pod,
            groups=[
                scaling("g", "a", "nope", replicas=1, minAvailable=2),
                scaling("g", "a", minAvailable=3),
                scaling("h"),
            ],
            replicas=-1,
            topologyConstraint={
                "topologyName": "x", "pack": {"required": "a"}, "packDomain": "b",
            },
            resourceSharing=[{"name": "r", "scope": "Some"}],
        )
    )  # fmt: skip
    at = "spec.template."
    assert {k: v for k, v in found.items() if "topologySpread" not in k} == {
        "spec.replicas": "must be at least 0, not -1",
        f"{at}cliques[0].spec.minAvailable": "minAvailable 3 is more than replicas 2",
        f"{at}cliques[1].name": "a is there more than once",
        f"{at}cliques[2].name": not_a_name("B"),
        f"{at}cliques[3].spec.replicas": "must be at least 1, not 0",
        f"{at}cliques[4].spec.replicas": "is missing",
        f"{at}cliques[4].spec.podSpec": "is missing",
        f"{at}cliques[5].spec.podSpec.nodeName": "Grove allows none here",
        f"{at}cliques[5].spec.podSpec.containers[0].resources.limits[nvidia.com/gpu]": (
            "'some' is not a quantity"
        ),
        f"{at}podCliqueScalingGroups[0].cliqueNames": "there is no clique nope",
        f"{at}podCliqueScalingGroups[0].minAvailable": "minAvailable 2 is more than replicas 1",
        f"{at}podCliqueScalingGroups[1].name": "g is there more than once",
        f"{at}podCliqueScalingGroups[1].cliqueNames": "clique a already belongs to g",
        f"{at}podCliqueScalingGroups[1].minAvailable": "minAvailable 3 is more than replicas 1",
        f"{at}podCliqueScalingGroups[2].cliqueNames": "must name at least one clique",
        f"{at}topologyConstraint.packDomain": ("says the same as pack.required; give one of them"),
        f"{at}resourceSharing[0].scope": "must be AllReplicas or PerReplica, not Some",
    }
    assert found[f"{at}cliques[5].spec.podSpec.topologySpreadConstraints"] == (
        "Grove allows none here"
    )


def test_two_topologies_in_one_set_are_a_problem() -> None:
    two = clique_set(clique("a", **want("rack", topology="y")), **want("rack", topology="x"))
    assert problems(two) == {
        "spec.template.cliques[0].topologyConstraint.topologyName": (
            "is not x: a set uses one topology"
        )
    }


def test_a_constraint_that_asks_nothing_is_a_problem() -> None:
    empty = clique_set(clique("a"), topologyConstraint={"pack": {}})
    assert list(problems(empty)) == ["spec.template.topologyConstraint"]


def test_an_unknown_priority_class_is_said_once_for_the_whole_set() -> None:
    whole = clique_set(clique("a", 3), replicas=5, priorityClassName="nope")
    with pytest.raises(InputError) as caught:
        translate(Objects.of([whole]))
    assert [(p.object, p.field, p.message) for p in caught.value.problems] == [
        (
            "PodCliqueSet ml/s",
            "spec.template",
            "PriorityClass nope is not in the input (spec.priorityClassName)",
        )
    ]


def test_a_set_of_absurd_size_is_a_problem_and_not_made() -> None:
    whole = clique_set(
        clique("a"), clique("b", 2), groups=[scaling("g", "b", replicas=500)], replicas=1000
    )
    assert problems(whole) == {
        "spec.replicas": "makes 1,001,000 pods, at most 200,000 are made",
    }


def test_a_set_without_cliques_is_a_problem() -> None:
    assert problems(clique_set()) == {"spec.template.cliques": "must hold at least one clique"}


def test_every_problem_of_a_binding_is_named() -> None:
    levels = [{"domain": "a", "key": "x"}, {"domain": "a"}, {"domain": "b", "key": "x"}]
    bad = {**binding(), "spec": {"levels": levels}}
    assert problems(bad, binding("empty"), clique_set(clique("a"))) == {
        "spec.levels[1].domain": "a is there more than once",
        "spec.levels[1].key": "is missing",
        "spec.levels[2].key": "x is there more than once",
        "spec.levels": "must hold at least one level",
    }
