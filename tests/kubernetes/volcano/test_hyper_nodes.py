"""Volcano's HyperNodes, whose tiers are topology levels."""

from __future__ import annotations

import pytest

from tests.kubernetes.build import Body, container, node, problems, request, said, thing, translated

TIER = "topology.volcano.sh/tier-{}"


def hyper(name: str, tier: int, *members: Body) -> Body:
    return thing(
        "HyperNode", "topology.volcano.sh/v1alpha1", name,
        spec={"tier": tier, "members": list(members)},
    )  # fmt: skip


def exact(name: str, kind: str = "Node") -> Body:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def regex(pattern: str, kind: str = "Node") -> Body:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def labelled(**selector: object) -> Body:
    return {"type": "Node", "selector": {"labelMatch": selector}}


def job(topology: Body) -> Body:
    template = {"spec": {"containers": [container(gpu="1")]}}
    return thing(
        "Job", "batch.volcano.sh/v1alpha1", "j", namespace="ml",
        spec={
            "minAvailable": 1,
            "tasks": [{"name": "a", "replicas": 1, "template": template}],
            "networkTopology": topology,
        },
    )  # fmt: skip


def tiers(tier: int, *bodies: Body) -> list[str | None]:
    """The domain of each node at a tier."""
    return [n.labels.get(TIER.format(tier)) for n in request(*bodies).snapshot.nodes]


NODES = [node(f"n{i}", labels={"row": f"{i % 2}"}) for i in range(1, 6)]


def test_hyper_nodes_are_levels() -> None:
    bodies = [
        *NODES,
        hyper("s1", 1, exact("n1"), exact("n2")),
        hyper("s2", 1, regex("^n[34]$")),
        hyper("top", 2, exact("s1", "HyperNode"), exact("s2", "HyperNode")),
        hyper("loop", 3, exact("loop", "HyperNode")),
    ]
    assert tiers(1, *bodies) == ["s1", "s1", "s2", "s2", None]
    assert tiers(2, *bodies) == ["top"] * 4 + [None]
    assert tiers(3, *bodies) == [None] * 5


@pytest.mark.parametrize(
    ("member", "chosen"),
    [
        pytest.param(exact("n1"), "1", id="name"),
        pytest.param(exact("gone"), "", id="no such node"),
        pytest.param(regex("n[12]"), "12", id="expression"),
        pytest.param(regex("[34]"), "34", id="part of a name"),
        pytest.param(regex("^[34]"), "", id="anchored"),
        pytest.param(labelled(matchLabels={"row": "1"}), "135", id="labels"),
        pytest.param(
            labelled(matchExpressions=[{"key": "row", "operator": "NotIn", "values": ["1"]}]),
            "24",
            id="label expressions",
        ),
        pytest.param(labelled(), "", id="labels that ask for nothing"),
        pytest.param({"type": "Node", "selector": {}}, "", id="nothing"),
    ],
)
def test_nodes_are_members_by_name_expression_or_labels(member: Body, chosen: str) -> None:
    found = tiers(1, *NODES, hyper("h", 1, member))
    assert "".join(str(i) for i, name in enumerate(found, 1) if name == "h") == chosen


def test_hyper_nodes_are_members_by_exact_names_alone_and_others_are_told_of() -> None:
    bodies = [*NODES, hyper("s1", 1, exact("n1")), hyper("top", 2, regex("s.", "HyperNode"))]
    assert tiers(2, *bodies) == [None] * 5
    told, *_ = said(translated(*bodies).warnings)
    assert told == (
        "HyperNode top: spec.members[0].selector: is ignored: HyperNodes are members by their "
        "exact names alone"
    )


@pytest.mark.parametrize("pattern", ["(a+)+$", "[", "a" * 300])
def test_a_hostile_pattern_is_a_problem(pattern: str) -> None:
    ((_, field, _),) = problems(
        node("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), hyper("h", 1, regex(pattern))
    )
    assert field == "spec.members[0].selector.regexMatch"


@pytest.mark.parametrize(
    ("topology", "required", "preferred", "unsupported"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, TIER.format(2), "", []),
        ({"highestTierAllowed": 2}, TIER.format(2), "", []),
        ({"mode": "soft", "highestTierAllowed": 2}, "", TIER.format(2), []),
        ({"mode": "hard"}, TIER.format(1), "", []),
        (
            {"highestTierName": "rack"},
            TIER.format(1),
            "",
            ["spec.networkTopology.highestTierName"],
        ),
    ],
)
def test_a_job_packs_into_hyper_nodes_of_a_tier(
    topology: Body, required: str, preferred: str, unsupported: list[str]
) -> None:
    (gang,) = request(*NODES, job(topology)).gangs
    (scope,) = gang.packing_scopes
    assert (scope.required_level, scope.preferred_level) == (required, preferred)
    assert list(gang.unsupported) == unsupported
