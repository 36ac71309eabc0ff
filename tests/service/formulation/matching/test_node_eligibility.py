"""What is answered for all nodes or pods at once is what is answered for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.nodes import Nodes
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    Effect,
    Node,
    PodTemplate,
    Snapshot,
    Taint,
    Toleration,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from placement_service.formulation.matching.label_index import LabelTable, keys_of
from placement_service.formulation.matching.node_eligibility import NodeMasks
from placement_service.formulation.matching.pod_selectors import PodSelectors, Term
from placement_service.formulation.pod_classes import free_amounts
from tests.strategies import EVERYTHING, SMALL, snapshots

keys = st.sampled_from(["a", "b", HOSTNAME])
values = st.sampled_from(["", "x", "y", "7", "007", "-3", "1_0", "12345678901234567890"])
labels = st.dictionaries(keys, values)

requirements = st.one_of(
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(values, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.GT, Operator.LT]),
        st.sampled_from(["-3", "0", "7", "9999999999999999999"]).map(lambda v: (v,)),
    ),
)
few = st.lists(requirements, max_size=2).map(tuple)
pairs = st.lists(st.tuples(keys, values), max_size=2).map(tuple)
names = st.sampled_from([Operator.IN, Operator.NOT_IN]).map(
    lambda operator: (Requirement("metadata.name", operator, ("n0", "n2")),)
)
effects = st.sampled_from(list(Effect))
taints = st.builds(Taint, st.sampled_from(["t", "u"]), st.sampled_from(["", "1"]), effects)
nodes = st.lists(st.tuples(labels, st.lists(taints, max_size=2).map(tuple)), max_size=5).map(
    lambda drawn: [
        Node(f"nodes/n{i}", {HOSTNAME: f"n{i}"} | own, taints=t) for i, (own, t) in enumerate(drawn)
    ]
)
templates = st.builds(
    PodTemplate,
    st.just({}),
    node_selector=pairs,
    required_node_affinity=st.one_of(
        st.none(),
        st.lists(st.builds(NodeSelectorTerm, few, st.one_of(st.just(()), names)), max_size=2).map(
            tuple
        ),
    ),
    tolerations=st.lists(
        st.builds(
            Toleration,
            st.sampled_from(["", "t", "u"]),
            st.booleans(),
            st.sampled_from(["", "1"]),
            st.one_of(st.none(), effects),
        ),
        max_size=2,
    ).map(tuple),
)


@given(st.lists(labels, max_size=6), st.builds(LabelSelector, pairs, few))
def test_a_selector_selects_what_it_matches(
    things: list[dict[str, str]], selector: LabelSelector
) -> None:
    found = LabelTable(things, keys_of(selector)).selected(selector)
    assert found.tolist() == [selector.matches(thing) for thing in things]


@given(nodes, st.lists(templates, min_size=1, max_size=3))
def test_masks_of_nodes_are_what_templates_select_and_tolerate(
    cluster: list[Node], several: list[PodTemplate]
) -> None:
    masks = NodeMasks(Nodes.of(cluster), several)
    for t in several:
        assert masks.selected(t).tolist() == [t.selects(n) for n in cluster]
        assert masks.tolerated(t).tolist() == [t.tolerates(n) for n in cluster]


@given(snapshots(SMALL, EVERYTHING))
def test_terms_match_the_pods_that_they_match(snapshot: Snapshot) -> None:
    selectors = PodSelectors(snapshot)
    raw = [
        (gang.namespace, s.template)
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
    ]
    terms: set[Term] = set()
    for _, t in raw:
        terms |= {*t.required_affinity, *t.required_anti_affinity, *t.spread_constraints}
    matches: dict[bytes, set[tuple[bool, ...]]] = {}
    for namespace, t in raw:
        want = tuple(term.matches(namespace, t.labels) for term in terms)
        at = selectors.position(namespace, t)
        assert tuple(bool(selectors.matched(term)[at]) for term in terms) == want
        matches.setdefault(selectors.sight(namespace, t), set()).add(want)
    assert all(len(alike) == 1 for alike in matches.values())
    for term in terms:
        assert selectors.running(term).tolist() == [
            i
            for i, pod in enumerate(snapshot.running_pods)
            if term.matches(pod.namespace, pod.labels)
        ]


amounts = st.dictionaries(st.sampled_from([CPU, EPHEMERAL_STORAGE, "x"]), st.integers(0, 9))


@given(st.lists(st.builds(Node, st.just("nodes/n"), st.just({}), amounts, amounts), max_size=4))
def test_free_amounts_are_what_nodes_have_left(cluster: list[Node]) -> None:
    resources = [CPU, EPHEMERAL_STORAGE, "x", "y"]
    found = [column.tolist() for column in free_amounts(Nodes.of(cluster), resources)]
    assert found == [[max(0, n.free(r)) for n in cluster] for r in resources]
