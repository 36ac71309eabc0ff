"""Which rule closes which node, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.nodes import Nodes
from placement_service.entities.request import (
    HOSTNAME,
    Effect,
    Node,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Snapshot,
    Taint,
    Toleration,
)
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.explain.node_reasons import NodeRules, closed_by
from placement_service.formulation.matching.node_eligibility import NodeMasks
from tests.service.formulation.matching.test_node_eligibility import nodes, templates

askers = st.lists(st.one_of(st.just(PodTemplate({})), templates), min_size=1, max_size=3)

OPEN = Node("nodes/n", {HOSTNAME: "n", "model": "old"})
GPU_TAINT = Taint("gpu", "yes", Effect.NO_SCHEDULE)
NEW = NodeSelectorTerm((Requirement("model", Operator.IN, ("new",)),))


def question(cluster: list[Node], several: list[PodTemplate]) -> Snapshot:
    """Each template in a gang of its own."""
    gangs = [
        PodGang(f"namespaces/a/podgangs/g{i}", groups=(PodGroup("w", 1, (PodSet(t, ()),)),))
        for i, t in enumerate(several)
    ]
    return Snapshot(nodes=tuple(cluster), gangs=tuple(gangs))


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Nodes of few kinds, some closed for reasons of their own."""
    kinds = draw(nodes.filter(bool))
    whys = st.sampled_from(["", "", "", "it shares GPUs", "a pod is unknown"])
    found = []
    for i in range(draw(st.integers(0, 8))):
        node, why = draw(st.sampled_from(kinds)), draw(whys)
        labels = {**node.labels, HOSTNAME: f"n{i}"}
        ready, cordoned = draw(st.integers(0, 3)) > 0, draw(st.integers(0, 3)) == 0
        node = replace(node, name=f"nodes/n{i}", labels=labels, closed_because=why)
        found.append(replace(node, ready=ready, unschedulable=bool(why) or cordoned))
    return found


@given(clusters(), askers, st.data())
def test_nodes_are_counted_as_if_each_were_looked_at(
    cluster: list[Node], several: list[PodTemplate], data: st.DataObject
) -> None:
    rules = NodeRules(question(cluster, several))
    some = data.draw(st.lists(st.booleans(), min_size=len(cluster), max_size=len(cluster)))
    for t in several:
        words = [closed_by(node, t) for node in cluster]
        assert rules.open(t).tolist() == [not w for w in words]
        counted = rules.counts(t, np.array(some, dtype=bool))
        looked_at = [(n, w) for n, w, one in zip(cluster, words, some, strict=True) if w and one]
        assert sum(number for _, number in counted) == len(looked_at)
        want = Counter(w for node, w in looked_at if not (node.ready and node.closed_because))
        assert want.items() <= dict(counted).items()
        assert [number for _, number in counted] == sorted((n for _, n in counted), reverse=True)


@given(clusters(), askers)
def test_a_node_is_closed_in_words_where_the_engine_closes_it(
    cluster: list[Node], several: list[PodTemplate]
) -> None:
    masks = NodeMasks(Nodes.of(cluster), several)
    serving = np.array([n.ready and not n.unschedulable for n in cluster], dtype=bool)
    for t in several:
        closed = ~(masks.selected(t) & masks.tolerated(t) & serving)
        assert [bool(closed_by(node, t)) for node in cluster] == closed.tolist()


@pytest.mark.parametrize(
    ("node", "template", "want"),
    [
        pytest.param(OPEN, PodTemplate({}), "", id="open"),
        pytest.param(replace(OPEN, ready=False), PodTemplate({}), "not ready", id="not ready"),
        pytest.param(replace(OPEN, unschedulable=True), PodTemplate({}), "cordoned", id="cordoned"),
        pytest.param(
            replace(OPEN, unschedulable=True, closed_because="it shares GPUs"),
            PodTemplate({}),
            "closed, because it shares GPUs",
            id="not known what is left",
        ),
        pytest.param(
            replace(OPEN, taints=(GPU_TAINT,)), PodTemplate({}), "taint gpu=yes", id="tainted"
        ),
        pytest.param(
            replace(OPEN, taints=(replace(GPU_TAINT, value=""),)),
            PodTemplate({}),
            "taint gpu",
            id="tainted without a value",
        ),
        pytest.param(
            replace(OPEN, taints=(GPU_TAINT, replace(GPU_TAINT, key="old"))),
            PodTemplate({}, tolerations=(Toleration("gpu", True, "", None),)),
            "taint old=yes",
            id="the taint that is not tolerated",
        ),
        pytest.param(
            replace(OPEN, taints=(replace(GPU_TAINT, effect=Effect.PREFER_NO_SCHEDULE),)),
            PodTemplate({}),
            "",
            id="a soft taint",
        ),
        pytest.param(
            OPEN,
            PodTemplate({}, node_selector=(("model", "new"),)),
            "node selector model=new",
            id="node selector",
        ),
        pytest.param(
            OPEN, PodTemplate({}, required_node_affinity=(NEW,)), "node affinity", id="affinity"
        ),
    ],
)
def test_a_closed_node_is_told_by_the_first_rule(
    node: Node, template: PodTemplate, want: str
) -> None:
    assert closed_by(node, template) == want


def test_nodes_closed_for_reasons_of_their_own_are_told_together() -> None:
    """Each has a sentence of its own; one of them is shown."""
    closed = [
        replace(OPEN, name=f"nodes/n{i}", unschedulable=True, closed_because=why)
        for i, why in enumerate(["pod b is unknown", "pod a is unknown", "pod a is unknown"])
    ]
    not_ready = replace(closed[0], name="nodes/d", ready=False)
    cluster = [*closed, replace(OPEN, name="nodes/c", unschedulable=True), not_ready]
    template = PodTemplate({})
    rules = NodeRules(question(cluster, [template]))
    every = np.ones(len(cluster), dtype=bool)
    assert rules.counts(template, every) == (
        ("closed, because pod a is unknown, and others likewise", 3),
        ("cordoned", 1),
        ("not ready", 1),
    )
    assert rules.counts(template, np.array([0, 1, 1, 0, 0], dtype=bool)) == (
        ("closed, because pod a is unknown", 2),
    )


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(PodTemplate({}, node_selector=((HOSTNAME, "n1"),)), id="selector"),
        pytest.param(
            PodTemplate(
                {},
                required_node_affinity=(
                    NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, ("n1",)),)),
                ),
            ),
            id="field",
        ),
        pytest.param(
            PodTemplate(
                {},
                required_node_affinity=(
                    NodeSelectorTerm((Requirement(HOSTNAME, Operator.IN, ("n1",)),)),
                ),
            ),
            id="expression",
        ),
    ],
)
def test_a_pod_may_ask_for_one_of_nodes_that_are_alike(template: PodTemplate) -> None:
    cluster = [Node(f"nodes/n{i}", {HOSTNAME: f"n{i}"}) for i in range(3)]
    rules = NodeRules(question(cluster, [PodTemplate({}), template]))
    assert rules.open(template).tolist() == [False, True, False]
