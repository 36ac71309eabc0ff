"""Which nodes a pod may use, and which pods it must be near or apart from."""

from __future__ import annotations

from typing import Any

from placement import v1
from tests.kubernetes.build import (
    gang,
    group,
    node,
    only_gang,
    pod,
    template,
)

IN = v1.SelectorOperator.SELECTOR_OPERATOR_IN


NOT_IN = v1.SelectorOperator.SELECTOR_OPERATOR_NOT_IN


EXISTS = v1.SelectorOperator.SELECTOR_OPERATOR_EXISTS


GT = v1.SelectorOperator.SELECTOR_OPERATOR_GT


def test_node_selector() -> None:
    assert dict(template(nodeSelector={"gpu": "h100"}).node_selector) == {"gpu": "h100"}


def test_required_node_affinity() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "a", "operator": "In", "values": ["x", "y"]},
                            {"key": "b", "operator": "Gt", "values": ["5"]},
                        ],
                        "matchFields": [
                            {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
                        ],
                    },
                    {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
                    {},
                ]
            }
        }
    }
    requirement = v1.SelectorRequirement
    assert template(affinity=affinity).required_node_affinity == v1.NodeSelector(
        terms=[
            v1.NodeSelectorTerm(
                match_expressions=[
                    requirement(key="a", operator=IN, values=["x", "y"]),
                    requirement(key="b", operator=GT, values=["5"]),
                ],
                match_fields=[requirement(key="metadata.name", operator=NOT_IN, values=["n1"])],
            ),
            v1.NodeSelectorTerm(match_expressions=[requirement(key="c", operator=EXISTS)]),
            v1.NodeSelectorTerm(),
        ]
    )


def test_without_node_affinity_none_is_sent() -> None:
    """An empty one would match no node."""
    assert not template().HasField("required_node_affinity")


def test_tolerations() -> None:
    equal = v1.TolerationOperator.TOLERATION_OPERATOR_EQUAL
    exists = v1.TolerationOperator.TOLERATION_OPERATOR_EXISTS
    assert list(
        template(
            tolerations=[
                {"key": "a", "value": "x", "effect": "NoSchedule"},
                {"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"operator": "Exists"},
                {"key": "c", "operator": "", "effect": ""},
            ]
        ).tolerations
    ) == [
        v1.Toleration(
            key="a", operator=equal, value="x", effect=v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE
        ),
        v1.Toleration(key="b", operator=exists, effect=v1.TaintEffect.TAINT_EFFECT_NO_EXECUTE),
        v1.Toleration(operator=exists),
        v1.Toleration(key="c", operator=equal),
    ]


def anti(*terms: dict[str, Any], kind: str = "podAntiAffinity") -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


SELF = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "rack"}


def test_required_affinity_and_anti_affinity() -> None:
    expression = {"key": "app", "operator": "NotIn", "values": ["y"]}
    sent = template(
        affinity={
            **anti({**SELF, "namespaces": ["b", "a"]}, kind="podAffinity"),
            **anti({"labelSelector": {"matchExpressions": [expression]}, "topologyKey": "host"}),
        }
    )
    assert list(sent.required_affinity) == [
        v1.PodAffinityTerm(
            selector=v1.LabelSelector(match_labels={"app": "x"}),
            topology_key="rack",
            namespaces=["a", "b"],
        )
    ]
    assert list(sent.required_anti_affinity) == [
        v1.PodAffinityTerm(
            selector=v1.LabelSelector(
                match_expressions=[v1.SelectorRequirement(key="app", operator=NOT_IN, values=["y"])]
            ),
            topology_key="host",
        )
    ]


def test_an_absent_selector_stays_absent_and_an_empty_one_empty() -> None:
    """The first matches nothing, the second everything."""
    absent, empty = template(
        affinity=anti({"topologyKey": "a"}, {"labelSelector": {}, "topologyKey": "b"})
    ).required_anti_affinity
    assert not absent.HasField("selector")
    assert empty.HasField("selector")


def test_an_empty_namespace_selector_means_all_namespaces() -> None:
    (term,) = template(
        affinity=anti({**SELF, "namespaces": ["a"], "namespaceSelector": {}})
    ).required_anti_affinity
    assert term.all_namespaces
    assert not term.namespaces


def labelled(**spec: Any) -> v1.PodTemplate:
    """The template of a pod with labels app=x and version=7."""
    one = pod("a", labels={"app": "x", "version": "7"}, **spec)
    return only_gang(node(), one, gang(podgroups=[group("w", "a")])).groups[0].pod_sets[0].template


def test_label_keys_of_affinity_are_folded_into_the_selector() -> None:
    (term,) = labelled(
        affinity=anti(
            {**SELF, "matchLabelKeys": ["version", "absent"], "mismatchLabelKeys": ["app"]}
        )
    ).required_anti_affinity
    assert list(term.selector.match_expressions) == [
        v1.SelectorRequirement(key="version", operator=IN, values=["7"]),
        v1.SelectorRequirement(key="app", operator=NOT_IN, values=["x"]),
    ]


def test_label_keys_that_the_api_server_folded_already_are_not_repeated() -> None:
    selector = {"matchExpressions": [{"key": "version", "operator": "In", "values": ["7"]}]}
    (term,) = labelled(
        affinity=anti(
            {"labelSelector": selector, "topologyKey": "a", "matchLabelKeys": ["version"]}
        )
    ).required_anti_affinity
    assert len(term.selector.match_expressions) == 1


def spread(**more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }


def test_spread_constraints() -> None:
    plain, full = labelled(
        topologySpreadConstraints=[
            spread(),
            spread(
                maxSkew=2,
                minDomains=3,
                nodeAffinityPolicy="Ignore",
                nodeTaintsPolicy="Honor",
                matchLabelKeys=["version"],
            ),
        ]
    ).spread_constraints
    assert plain == v1.SpreadConstraint(
        max_skew=1,
        topology_key="zone",
        selector=v1.LabelSelector(match_labels={"app": "x"}),
        min_domains=1,
    )
    assert full == v1.SpreadConstraint(
        max_skew=2,
        topology_key="zone",
        selector=v1.LabelSelector(
            match_labels={"app": "x"},
            match_expressions=[v1.SelectorRequirement(key="version", operator=IN, values=["7"])],
        ),
        min_domains=3,
        ignore_node_affinity=True,
        honor_taints=True,
    )


def test_spread_that_schedules_anyway_is_ignored() -> None:
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert not template(topologySpreadConstraints=[soft]).spread_constraints


def test_preferred_rules_are_ignored() -> None:
    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    wish = {"weight": 1, "podAffinityTerm": SELF, "preference": {}}
    soft = {
        "nodeAffinity": {kind: [wish]},
        "podAffinity": {kind: [wish]},
        "podAntiAffinity": {kind: [wish]},
    }
    assert template(affinity=soft) == template()


def test_host_ports_of_containers_and_sidecars() -> None:
    def with_port(number: int, **more: Any) -> dict[str, Any]:
        return {"ports": [{"containerPort": 80, "hostPort": number, **more}]}

    sent = template(
        containers=[
            with_port(8080, hostIP="10.0.0.1", protocol="UDP"),
            with_port(0),
            with_port(81, hostIP="0.0.0.0"),
            with_port(81),
        ],
        initContainers=[with_port(82), {**with_port(83), "restartPolicy": "Always"}],
    )
    assert list(sent.host_ports) == [
        v1.HostPort(port=8080, protocol="UDP", host_ip="10.0.0.1"),
        v1.HostPort(port=81, protocol="TCP"),
        v1.HostPort(port=83, protocol="TCP"),
    ]


def test_on_the_host_network_every_container_port_is_a_host_port() -> None:
    ports = [{"ports": [{"containerPort": 80}]}]
    assert not template(containers=ports).host_ports
    sent = template(containers=ports, hostNetwork=True).host_ports
    assert list(sent) == [v1.HostPort(port=80, protocol="TCP")]
