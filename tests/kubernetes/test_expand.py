"""PodCliqueSets: the gangs and pods that Grove would make, and what it would refuse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from placement.kubernetes import InputError, Objects, expand, expand_all, translate
from placement.kubernetes.objects import not_a_name
from tests.kubernetes.build import Body, container, gang, group, node, pod, priority_class, said


def clique(name: str, replicas: int = 1, least: int | None = None, **more: Any) -> Body:
    spec: Body = {"replicas": replicas, "podSpec": {"containers": [container(gpu="1")]}}
    if least is not None:
        spec["minAvailable"] = least
    return {"name": name, "spec": spec, **more}


def scaling(name: str, *cliques: str, **more: Any) -> Body:
    return {"name": name, "cliqueNames": list(cliques), **more}


def clique_set(
    *cliques: Body,
    groups: Iterable[Body] = (),
    name: str = "s",
    replicas: int = 1,
    metadata: Body | None = None,
    **template: Any,
) -> Body:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"namespace": "ml", "name": name, **(metadata or {})},
        "spec": {
            "replicas": replicas,
            "template": {
                "cliques": list(cliques), "podCliqueScalingGroups": list(groups), **template,
            },
        },
    }  # fmt: skip


def binding(name: str = "topo", **levels: str) -> Body:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": [{"domain": d, "key": k} for d, k in levels.items()]},
    }


def want(required: str = "", preferred: str = "", topology: str = "") -> Body:
    pack = {k: v for k, v in (("required", required), ("preferred", preferred)) if v}
    return {"topologyConstraint": {"topologyName": topology, "pack": pack}}


def expanded(*bodies: Body) -> list[Body]:
    return expand(Objects.of(bodies))


def gangs(*bodies: Body) -> dict[str, Body]:
    """Gang name to spec."""
    return {b["metadata"]["name"]: b["spec"] for b in expanded(*bodies) if b["kind"] == "PodGang"}


def pods(*bodies: Body) -> dict[str, Body]:
    return {b["metadata"]["name"]: b for b in expanded(*bodies) if b["kind"] == "Pod"}


def shape(*bodies: Body) -> dict[str, dict[str, tuple[int, int]]]:
    """Gang -> group -> pods and minimum."""
    return {
        name: {g["name"]: (len(g["podReferences"]), g["minReplicas"]) for g in spec["podgroups"]}
        for name, spec in gangs(*bodies).items()
    }


def problems(*bodies: Body) -> dict[str, str]:
    try:
        expanded(*bodies)
    except InputError as error:
        return {p.field: p.message for p in error.problems}
    return {}


# --- Base and scaled gangs ---


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


# --- Pods ---


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


# --- Topology ---

LEVELS = binding(block="example.com/block", rack="example.com/rack", host="kubernetes.io/hostname")


def test_constraints_of_all_levels_become_those_of_base_and_scaled_gangs() -> None:
    made = gangs(
        LEVELS,
        clique_set(
            clique("router", **want("block", "host")),
            clique("w", **want("host")),
            groups=[scaling("g", "w", replicas=3, minAvailable=2, **want("rack"))],
            **want("block"),
        ),
    )

    def packed(**keys: str) -> Body:
        return {"packConstraint": keys}

    base = made["s-0"]
    assert base["topologyConstraint"] == packed(required="example.com/block")
    assert base["topologyConstraintGroupConfigs"] == [
        {
            "name": f"s-0-g-{i}",
            "podGroupNames": [f"s-0-g-{i}-w"],
            "topologyConstraint": packed(required="example.com/rack"),
        }
        for i in range(2)
    ]
    assert base["podgroups"][0]["topologyConstraint"] == packed(
        required="example.com/block", preferred="kubernetes.io/hostname"
    )
    scaled = made["s-0-g-0"]
    assert scaled["topologyConstraint"] == packed(required="example.com/rack")
    assert "topologyConstraintGroupConfigs" not in scaled
    assert scaled["podgroups"][0]["topologyConstraint"] == packed(required="kubernetes.io/hostname")


def test_a_scaled_gang_has_the_constraint_of_the_set_when_its_group_has_none() -> None:
    made = gangs(
        LEVELS, clique_set(clique("w"), groups=[scaling("g", "w", replicas=2)], **want("block"))
    )
    assert made["s-0-g-0"]["topologyConstraint"] == made["s-0"]["topologyConstraint"]


def test_the_legacy_field_means_required() -> None:
    legacy: Body = {"topologyConstraint": {"packDomain": "rack"}}
    assert gangs(LEVELS, clique_set(clique("a"), **legacy))["s-0"]["topologyConstraint"] == {
        "packConstraint": {"required": "example.com/rack"}
    }


def test_the_named_binding_counts_for_the_whole_set() -> None:
    made = gangs(
        binding("other", rack="other/rack"),
        LEVELS,
        clique_set(clique("a", **want("rack")), **want("rack", topology="topo")),
    )["s-0"]
    both = (made["topologyConstraint"], made["podgroups"][0]["topologyConstraint"])
    assert both == ({"packConstraint": {"required": "example.com/rack"}},) * 2


@pytest.mark.parametrize(
    ("topology", "bindings", "warning"),
    [
        pytest.param(
            "", [LEVELS], "ClusterTopologyBinding topo has no such domain", id="no such domain"
        ),
        pytest.param(
            "gone",
            [LEVELS],
            "ClusterTopologyBinding gone is not in the input",
            id="no such binding",
        ),
        pytest.param(
            "",
            [LEVELS, binding("b", rack="x")],
            "of several ClusterTopologyBindings it names none",
            id="no name",
        ),
    ],
)
def test_a_domain_that_cannot_be_resolved_drops_the_constraint(
    topology: str, bindings: list[Body], warning: str
) -> None:
    """As Grove does, which only sets a condition on the set."""
    whole = clique_set(clique("a"), **want("zone", "rack", topology))
    expansion = expand_all(Objects.of([*bindings, whole]))
    assert f'PodCliqueSet ml/s: constraint to "zone" dropped: {warning}' in said(expansion.warnings)
    left = expansion.pod_gangs[0].body["spec"].get("topologyConstraint", {"packConstraint": {}})
    assert "required" not in left["packConstraint"]


def test_without_any_binding_every_constraint_is_dropped_and_said() -> None:
    """As Grove does, and though a node has a label of that name."""
    labelled = node("n1", labels={"x/rack": "r1"})
    expansion = expand_all(Objects.of([labelled, clique_set(clique("a"), **want("rack"))]))
    assert "topologyConstraint" not in expansion.pod_gangs[0].body["spec"]
    assert said(expansion.warnings) == (
        'PodCliqueSet ml/s: constraint to "rack" dropped: there is no ClusterTopologyBinding in'
        " the input",
    )


# --- Claims ---

GROUP = "grove.io/mnnvl-group"


def claims(*bodies: Body) -> dict[str, list[str]]:
    """Pod -> names of its claims, or of their templates."""
    return {
        name: [
            c.get("resourceClaimTemplateName", c.get("resourceClaimName"))
            for c in body["spec"].get("resourceClaims", [])
        ]
        for name, body in pods(*bodies).items()
    }


def test_pods_of_an_nvlink_group_claim_its_domain() -> None:
    """The nearest annotation counts, "none" opts out, and pods without GPUs need none."""
    cpu_only = clique("c")
    cpu_only["spec"]["podSpec"] = {"containers": [container(cpu="1")]}
    assert claims(
        clique_set(
            clique("a"),
            clique("b", annotations={GROUP: "none"}),
            cpu_only,
            clique("d"),
            groups=[scaling("g", "d", annotations={GROUP: "near"})],
            metadata={"annotations": {GROUP: "far"}},
        )
    ) == {"s-0-a-0": ["s-0-far"], "s-0-b-0": [], "s-0-c-0": [], "s-0-g-0-d-0": ["s-0-near"]}


def test_the_domain_of_a_replica_is_made_once_for_all_of_its_gangs() -> None:
    wanted = clique_set(
        clique("d"),
        groups=[scaling("g", "d", replicas=2)],
        metadata={"annotations": {GROUP: "far"}},
        replicas=2,
    )
    made = expand(Objects.of([wanted]))
    domains = [body for body in made if body["kind"] == "ComputeDomain"]
    assert [d["metadata"]["name"] for d in domains] == ["s-0-far", "s-1-far"]
    assert domains[0]["spec"] == {
        "numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "s-0-far"}},
    }  # fmt: skip
    sent = translate(Objects.of([wanted])).request
    templates = {
        s.template.compute_domain for g in sent.gangs for p in g.groups for s in p.pod_sets
    }
    assert templates == {"ml/s-0-far", "ml/s-1-far"}
    assert not any(g.unsupported for g in sent.gangs)


def test_shared_claims_of_every_level_reach_the_pods() -> None:
    def share(name: str, scope: str, **chosen: Any) -> Body:
        return {"name": name, "scope": scope, **({"filter": chosen} if chosen else {})}

    assert claims(
        clique_set(
            clique("a", 2, resourceSharing=[share("own", "PerReplica")]),
            clique("b"),
            groups=[
                scaling(
                    "g", "b", replicas=2, minAvailable=2,
                    resourceSharing=[share("grp", "PerReplica", childCliqueNames=["b"])],
                )
            ],
            resourceSharing=[
                share("all", "AllReplicas"),
                share("only-a", "PerReplica", childCliqueNames=["a"]),
                share("only-g", "AllReplicas", childScalingGroupNames=["g"]),
            ],
        )
    ) == {
        "s-0-a-0": ["s-all-all", "s-0-only-a", "s-0-a-0-own"],
        "s-0-a-1": ["s-all-all", "s-0-only-a", "s-0-a-1-own"],
        "s-0-g-0-b-0": ["s-all-all", "s-all-only-g", "s-0-g-0-grp"],
        "s-0-g-1-b-0": ["s-all-all", "s-all-only-g", "s-0-g-1-grp"],
    }  # fmt: skip


# --- Sets that are there already ---


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


# --- Problems ---


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
