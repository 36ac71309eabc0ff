"""The claims that Grove gives to the pods of a PodCliqueSet."""

from __future__ import annotations

from typing import Any

from placement.kubernetes import Objects, expand, translate
from tests.kubernetes.build import Body, container
from tests.kubernetes.grove.clique_sets import (
    clique,
    clique_set,
    pods,
    scaling,
)

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


def test_containers_name_the_claims_that_are_for_them() -> None:
    """Shared claims are for all containers, the domain for those with GPUs; what a pod claims
    itself stays.
    """
    gpu, cpu = container(gpu="1"), container(cpu="1")
    gpu["resources"]["claims"] = [{"name": "mine"}]
    whole = clique("a", resourceSharing=[{"name": "own", "scope": "AllReplicas"}])
    whole["spec"]["podSpec"] = {
        "containers": [gpu, cpu],
        "resourceClaims": [{"name": "mine", "resourceClaimName": "c"}],
        "schedulingGates": [{"name": "somebodys"}],
    }
    spec = pods(clique_set(whole, metadata={"annotations": {GROUP: "far"}}))["s-0-a-0"]["spec"]
    shared = "s-0-a-all-own"
    names = [claim["name"] for claim in spec["resourceClaims"]]
    assert names[:2] == ["mine", shared]
    (domain,) = names[2:]
    first, second = (
        [claim["name"] for claim in one["resources"]["claims"]] for one in spec["containers"]
    )
    assert first == ["mine", shared, domain]
    assert second == [shared]
    assert "schedulingGates" not in spec


def test_pods_without_claims_are_left_as_they_are() -> None:
    bare = clique("a")
    bare["spec"]["podSpec"] = {"containers": [{"name": "c"}]}
    sharing = clique("b", resourceSharing=[{"name": "own", "scope": "AllReplicas"}])
    sharing["spec"]["podSpec"] = {"containers": [{"name": "c"}]}
    made = pods(clique_set(bare, sharing))
    assert made["s-0-a-0"]["spec"]["containers"] == [{"name": "c"}]
    assert made["s-0-b-0"]["spec"]["containers"] == [
        {"name": "c", "resources": {"claims": [{"name": "s-0-b-all-own"}]}}
    ]


def test_claims_of_all_replicas_come_first() -> None:
    sharing = [{"name": n, "scope": s} for n, s in (("x", "PerReplica"), ("y", "AllReplicas"))]
    made = claims(clique_set(clique("a", resourceSharing=sharing)))
    assert made == {"s-0-a-0": ["s-0-a-all-y", "s-0-a-0-x"]}


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
