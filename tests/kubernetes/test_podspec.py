"""What a PodSpec asks: every field that is honoured, refused or ignored, one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import v1
from placement.kubernetes.objects import not_a_name
from placement.kubernetes.podspec import PodSpec, PodSpecReader
from tests.kubernetes.build import (
    container,
    gang,
    group,
    node,
    only_gang,
    pod,
    pod_problems,
    template,
)

IN = v1.SelectorOperator.SELECTOR_OPERATOR_IN
NOT_IN = v1.SelectorOperator.SELECTOR_OPERATOR_NOT_IN
EXISTS = v1.SelectorOperator.SELECTOR_OPERATOR_EXISTS
GT = v1.SelectorOperator.SELECTOR_OPERATOR_GT


def read(**spec: Any) -> PodSpec:
    return PodSpecReader().read({"containers": [{}], **spec})


def requests(**spec: Any) -> dict[str, int]:
    facts = read(**spec)
    assert not facts.findings
    assert facts.requests["pods"] == 1
    return {k: v for k, v in facts.requests.items() if k != "pods"}


def cpu(amount: str, **more: Any) -> dict[str, Any]:
    return {**container(cpu=amount), **more}


# --- Requests ---


def test_containers_add_up() -> None:
    assert requests(containers=[cpu("1"), cpu("500m"), {}]) == {"cpu": 1500}


def test_a_limit_stands_in_for_a_missing_request() -> None:
    both = {"resources": {"limits": {"cpu": "4", "nvidia.com/gpu": 8}, "requests": {"cpu": "1"}}}
    assert requests(containers=[both]) == {"cpu": 1000, "nvidia.com/gpu": 8}


def test_a_request_of_zero_is_a_request() -> None:
    zero = {"resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "0"}}}
    assert requests(containers=[zero]) == {}


def test_of_init_containers_only_the_largest_counts_and_only_above_the_containers() -> None:
    assert requests(containers=[cpu("2")], initContainers=[cpu("3"), cpu("1")]) == {"cpu": 3000}
    assert requests(containers=[cpu("4")], initContainers=[cpu("3"), cpu("1")]) == {"cpu": 4000}


def test_sidecars_run_beside_the_containers_and_the_init_containers_after_them() -> None:
    # The moments: sidecar 1 + containers 2 = 3, and init 4 + sidecar 1 = 5.
    sidecar = cpu("1", restartPolicy="Always")
    assert requests(containers=[cpu("2")], initContainers=[sidecar, cpu("4")]) == {"cpu": 5000}
    # Before the sidecar, the init container runs alone: 4; later 3.
    assert requests(containers=[cpu("2")], initContainers=[cpu("4"), sidecar]) == {"cpu": 4000}
    # Two sidecars and a container: 1 + 1 + 2.
    assert requests(containers=[cpu("2")], initContainers=[sidecar, sidecar]) == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    assert requests(containers=[cpu("2")], overhead={"cpu": "250m", "memory": "1Ki"}) == {
        "cpu": 2250,
        "memory": 1024,
    }


def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    assert requests(
        containers=[container(cpu="2", memory="1Ki", gpu="1")],
        resources={"requests": {"cpu": "5", "nvidia.com/gpu": "7"}},
        overhead={"cpu": "1"},
    ) == {"cpu": 6000, "memory": 1024, "nvidia.com/gpu": 1}


def test_a_limit_of_the_whole_pod_counts_where_nothing_is_requested() -> None:
    assert requests(
        containers=[container(cpu="2")], resources={"limits": {"cpu": "5", "memory": "1Ki"}}
    ) == {"cpu": 2000, "memory": 1024}


def test_amounts_reach_the_wire_in_their_units() -> None:
    sent = template(
        containers=[
            {
                "resources": {
                    "requests": {
                        "cpu": "1500m",
                        "memory": "1Gi",
                        "ephemeral-storage": "1M",
                        "hugepages-1Gi": "2Gi",
                        "nvidia.com/gpu": "8",
                    }
                }
            }
        ]
    ).requests
    assert sent == v1.Resources(
        cpu_millis=1500,
        memory_bytes=2**30,
        ephemeral_storage_bytes=10**6,
        pod_count=1,
        extended={"hugepages-1Gi": 2**31, "nvidia.com/gpu": 8},
    )


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_requests_are_the_largest_sum_of_what_runs_at_one_moment(
    mains: list[int], inits: list[tuple[int, bool]]
) -> None:
    """An oracle that plays the start of a pod moment by moment."""
    sidecars, moments = 0, [0]
    for need, is_sidecar in inits:
        moments.append(sidecars + need)
        sidecars += need if is_sidecar else 0
    moments.append(sidecars + sum(mains))
    got = requests(
        containers=[cpu(str(n)) for n in mains],
        initContainers=[cpu(str(n), restartPolicy="Always" if s else None) for n, s in inits],
    )
    assert got.get("cpu", 0) == 1000 * max(moments)


# --- Node rules ---


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


# --- Rules between pods ---


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


# --- Refused by name ---


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"volumes": [{"name": "a", "awsElasticBlockStore": {}}]},
            "volumes[0].awsElasticBlockStore",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
            "tolerations[0].operator Gt",
        ),
        (
            {"affinity": anti({**SELF, "namespaceSelector": {"matchLabels": {"a": "b"}}})},
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".namespaceSelector",
        ),
    ],
    ids=lambda value: value.rsplit(".")[-1] if isinstance(value, str) else "",
)
def test_what_cannot_be_honoured_is_named(spec: dict[str, Any], want: str) -> None:
    assert read(**spec).unsupported == (want,)
    gang_ = only_gang(node(), pod("a", **spec), gang(podgroups=[group("w", "a")]))
    assert list(gang_.unsupported) == [f"pod ml/a: spec.{want}"]


def test_what_is_harmless_is_ignored() -> None:
    harmless = {
        "volumes": [
            {"name": n, n: {}}
            for n in ("emptyDir", "hostPath", "configMap", "secret", "projected", "csi", "nfs")
        ],
        "schedulerName": "default-scheduler",
        "runtimeClassName": "kata",
        "preemptionPolicy": "Never",
        "os": {"name": "linux"},
        "resourceClaims": [],
        "whatever": {"comes": "next"},
    }
    assert template(**harmless) == template()
    assert read(**harmless).unsupported == ()


# --- Cache ---


def test_equal_specs_are_read_once_whatever_else_they_hold() -> None:
    """Pods of the API server differ in generated volume names, and in their nodes."""
    reader = PodSpecReader()

    def spec(tag: str) -> dict[str, Any]:
        return {
            "containers": [{**container(cpu="1"), "env": [tag], "volumeMounts": [tag]}],
            "volumes": [{"name": f"kube-api-access-{tag}", "projected": {"sources": [tag]}}],
            "nodeName": tag,
            "hostname": tag,
        }

    assert reader.read(spec("a")) is reader.read(spec("b"))
    assert reader.read(spec("a")) is not reader.read({**spec("a"), "hostNetwork": True})


# --- Problems ---


def test_every_problem_of_a_spec_is_named_with_its_path() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node_terms = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
    assert pod_problems(
        containers=[
            {"resources": {"requests": {"cpu": "much", "nvidia.com/gpu": "0.5", "memory": True}}},
            {"resources": {"limits": {"memory": "-1"}}, "ports": [{"hostPort": 70000}]},
            "not a container",
        ],
        nodeSelector={"a": 1},
        overhead=["x"],
        affinity={
            "nodeAffinity": {
                required: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]},
                        {"matchExpressions": [{"key": "a", "operator": "In"}, {"operator": "In"}]},
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]},
                        {"matchFields": [{"key": "x", "operator": "In", "values": ["y"]}]},
                    ]
                }
            },
            "podAffinity": {required: [{"labelSelector": {"matchLabels": {"a": True}}}]},
            "podAntiAffinity": {
                required: [
                    {
                        "topologyKey": "a",
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "a", "operator": "Exists", "values": ["x"]}
                            ]
                        },
                    }
                ]
            },
        },
        tolerations=[{"operator": "Equal"}, {"operator": "Maybe"}, {"key": "a", "effect": "Never"}],
        topologySpreadConstraints=[{"maxSkew": 0, "whenUnsatisfiable": "Sometimes"}],
        hostNetwork="yes",
        nodeName="A B",
        priority="high",
        schedulingGates="x",
    ) == {
        "spec.containers[0].resources.requests[cpu]": "'much' is not a quantity",
        "spec.containers[0].resources.requests[nvidia.com/gpu]": (
            "'0.5' is not a whole number, and nvidia.com/gpu cannot be divided"
        ),
        "spec.containers[0].resources.requests[memory]": "must be a quantity, not true",
        "spec.containers[1].resources.limits[memory]": "'-1' is negative",
        "spec.containers[1].ports[0].hostPort": "must be at most 65535, not 70000",
        "spec.containers[2]": "must be a mapping, not not a container",
        "spec.nodeSelector[a]": "must be a string, not 1; put it in quotes",
        "spec.overhead": "must be a mapping, not a list",
        f"{node_terms}[0].matchExpressions[0].operator": (
            "must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt, not Like"
        ),
        f"{node_terms}[1].matchExpressions[0].values": ("must hold at least one value for In"),
        f"{node_terms}[1].matchExpressions[1].key": ("is missing"),
        f"{node_terms}[2].matchExpressions[0].values": ("must be exactly one whole number for Gt"),
        f"{node_terms}[3].matchFields[0].key": ("must be metadata.name, not x"),
        f"spec.affinity.podAffinity.{required}[0].topologyKey": "is missing",
        f"spec.affinity.podAffinity.{required}[0].labelSelector.matchLabels[a]": (
            "must be a string, not true; put it in quotes"
        ),
        f"spec.affinity.podAntiAffinity.{required}[0].labelSelector.matchExpressions[0].values": (
            "must be empty for Exists"
        ),
        "spec.tolerations[0].operator": "must be Exists when the key is empty",
        "spec.tolerations[1].operator": "must be Exists or Equal, not Maybe",
        "spec.tolerations[2].effect": (
            "must be one of NoSchedule, PreferNoSchedule, NoExecute, not Never"
        ),
        "spec.topologySpreadConstraints[0].maxSkew": "must be at least 1, not 0",
        "spec.topologySpreadConstraints[0].topologyKey": "is missing",
        "spec.topologySpreadConstraints[0].whenUnsatisfiable": (
            "must be one of DoNotSchedule, ScheduleAnyway, not Sometimes"
        ),
        "spec.hostNetwork": "must be true or false, not yes",
        "spec.nodeName": not_a_name("A B"),
        "spec.priority": "must be a whole number, not high",
        "spec.schedulingGates": "must be a list, not x",
    }


def test_a_pod_without_containers_is_a_problem() -> None:
    assert pod_problems(containers=[]) == {"spec.containers": "is missing"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = (
    "containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "volumes",
    "tolerations", "topologySpreadConstraints", "hostNetwork", "resourceClaims",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_spec_is_read_without_raising(spec: dict[str, Any]) -> None:
    facts = PodSpecReader().read(spec)
    assert all(path and message for path, message in facts.findings)
