"""Topology constraints of PodCliqueSets: which gang and group gets which."""

from __future__ import annotations

import pytest

from placement.kubernetes import Objects, expand_all
from tests.kubernetes.build import Body, node, said
from tests.kubernetes.grove.clique_sets import (
    binding,
    clique,
    clique_set,
    gangs,
    scaling,
    want,
)

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


def test_a_gang_names_the_topology_of_its_constraints() -> None:
    """The one that is named, else the only one there is; none where nothing has to be packed."""

    def named(*bodies: Body) -> list[str | None]:
        found = expand_all(Objects.of(bodies)).pod_gangs
        notes = [dict(gang.body["metadata"].get("annotations", {})) for gang in found]
        assert all(len(note) < 2 for note in notes)
        return [next(iter(note.values()), None) for note in notes]

    other = binding("other", rack="other/rack")
    assert named(LEVELS, clique_set(clique("a"), **want("rack"))) == ["topo"]
    assert named(LEVELS, clique_set(clique("a"))) == [None]
    assert named(LEVELS, other, clique_set(clique("a"), **want("rack", topology="other"))) == [
        "other"
    ]
    within = clique("a", **want("rack", topology="other"))
    assert named(LEVELS, other, clique_set(clique("b"), within)) == ["other"]
    group = scaling("g", "a", **want("rack", topology="other"))
    assert named(LEVELS, other, clique_set(clique("a"), groups=[group])) == ["other"]
