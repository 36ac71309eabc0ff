"""Which gang depends on which, read from the gangs as they are sent."""

from __future__ import annotations

import pytest

from controller.cluster.gang_state import Key
from controller.dependencies import depends_on
from placement import v1

_IN = v1.SelectorOperator.SELECTOR_OPERATOR_IN
_ABSENT = v1.SelectorOperator.SELECTOR_OPERATOR_DOES_NOT_EXIST


def gang(*templates: v1.PodTemplate) -> v1.PodGang:
    return v1.PodGang(groups=[v1.PodGroup(pod_sets=[v1.PodSet(template=one)]) for one in templates])


def selector(**labels: str) -> v1.LabelSelector:
    return v1.LabelSelector(match_labels=labels)


def near(term: v1.PodAffinityTerm, **labels: str) -> v1.PodTemplate:
    return v1.PodTemplate(labels=labels, required_affinity=[term])


CACHE = v1.PodTemplate(labels={"app": "cache"})


def leaners(**gangs: v1.PodGang) -> dict[str, set[str]]:
    """Gangs by "namespace_name"; which depends on which, by name."""

    def key(name: str) -> Key:
        namespace, own = name.split("_")
        return namespace, own

    found = depends_on({key(name): gang for name, gang in gangs.items()})
    return {one[1]: {other[1] for other in on} for one, on in found.items()}


def test_a_gang_leans_on_those_whose_pods_its_affinity_names() -> None:
    term = v1.PodAffinityTerm(selector=selector(app="cache"), topology_key="rack")
    assert leaners(
        ml_web=gang(v1.PodTemplate(), near(term)),
        ml_cache=gang(v1.PodTemplate(), CACHE),
        ml_other=gang(v1.PodTemplate(labels={"app": "web"})),
    ) == {"web": {"cache"}}


def test_a_gang_leans_on_those_among_which_it_is_spread_but_not_on_itself() -> None:
    spread = v1.SpreadConstraint(max_skew=1, topology_key="zone", selector=selector(app="cache"))
    spread_out = v1.PodTemplate(labels={"app": "cache"}, spread_constraints=[spread])
    assert leaners(ml_a=gang(spread_out), ml_b=gang(CACHE), ml_c=gang(v1.PodTemplate())) == {
        "a": {"b"}
    }
    assert leaners(ml_a=gang(spread_out)) == {}


def test_anti_affinity_leans_on_nobody() -> None:
    """It holds as well when the others are not bound."""
    term = v1.PodAffinityTerm(selector=selector(app="cache"), topology_key="rack")
    apart = v1.PodTemplate(required_anti_affinity=[term])
    assert leaners(ml_a=gang(apart), ml_b=gang(CACHE)) == {}


@pytest.mark.parametrize(
    ("term", "found"),
    [
        (v1.PodAffinityTerm(selector=v1.LabelSelector()), {"same"}),
        (v1.PodAffinityTerm(), set()),
        (v1.PodAffinityTerm(selector=selector(app="cache"), namespaces=["data"]), {"far"}),
        (v1.PodAffinityTerm(selector=selector(app="cache"), all_namespaces=True), {"same", "far"}),
        (
            v1.PodAffinityTerm(
                selector=v1.LabelSelector(
                    match_expressions=[
                        v1.SelectorRequirement(key="app", operator=_IN, values=["cache", "x"])
                    ]
                )
            ),
            {"same"},
        ),
        (
            v1.PodAffinityTerm(
                selector=v1.LabelSelector(
                    match_expressions=[v1.SelectorRequirement(key="app", operator=_ABSENT)]
                )
            ),
            set(),
        ),
    ],
)
def test_namespaces_and_selectors_count(term: v1.PodAffinityTerm, found: set[str]) -> None:
    leans = leaners(ml_web=gang(near(term)), ml_same=gang(CACHE), data_far=gang(CACHE))
    assert leans.get("web", set()) == found
