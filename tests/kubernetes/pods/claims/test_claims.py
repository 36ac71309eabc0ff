"""Claims of devices: counted exactly, by node, and refused by name where they cannot be."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pod,
    request,
    said,
    translated,
)
from tests.kubernetes.pods.claims.claim_objects import (
    DRIVER,
    attribute,
    claim,
    claims,
    device_class,
    devices,
    domain,
    exactly,
    template,
)


def refusals(*others: Body, **spec: Any) -> list[str]:
    sent = only_gang(node("n1"), pod("a", **spec), gang(podgroups=[group("w", "a")]), *others)
    return [text.partition("]: ")[2] for text in sent.unsupported]


ONE_GPU = "claims.resource.k8s.io/gpu"


def test_a_claim_is_a_count_of_what_the_node_has() -> None:
    sent = request(
        node("n1"), node("n2"), devices("n1", {}, {}), device_class(),
        template("t", exactly(count=2)),
        pod("a", resourceClaims=claims("t")), gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    first, second = sent.snapshot.nodes
    assert first.allocatable.extended[ONE_GPU] == 2
    assert ONE_GPU not in second.allocatable.extended
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert pod_set.template.requests.extended[ONE_GPU] == 2
    assert ONE_GPU in sent.policy.gpu_resources


def test_requests_that_narrow_a_class_are_named_by_who_asks() -> None:
    fast = f"{attribute('speed')} == 400"
    sent = request(
        node("n1"), devices("n1", {"speed": 400}, {"speed": 100}),
        device_class(), device_class("gpu.fast"),
        template("any", exactly()), template("fast", exactly("gpu", 1, fast)),
        template("other", exactly("gpu.fast")),
        pod("a", resourceClaims=claims("fast")), gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (one,) = sent.snapshot.nodes
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    asked = pod_set.template.requests.extended
    assert (one.allocatable.extended[ONE_GPU], ONE_GPU in asked) == (2, False)
    assert (one.allocatable.extended[f"{ONE_GPU}.fast"], asked[f"{ONE_GPU}.fast"]) == (1, 1)
    assert one.allocatable.extended[f"{ONE_GPU}.fast.2"] == 2


def test_without_claims_the_policy_says_nothing() -> None:
    assert not request(node("n1"), devices("n1", {}), device_class()).HasField("policy")


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        (f'device.driver == "{DRIVER}"', 3),
        (f'{attribute("model")} == "H100"', 2),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0', 1),
        (f'{attribute("model")}.startsWith("A") || {attribute("index")} > 0', 2),
        ('"x" in device.attributes["other.example.com"]', 0),
        (f'device.capacity["{DRIVER}"].memory.sub(quantity("50Gi")).sign() > 0', 1),
        (f'isQuantity("x") || device.capacity["{DRIVER}"].memory.asInteger() > 80000000000', 1),
        ('!device.allowMultipleAllocations && semver("1.2.3").minor() == 2', 3),
    ],
)
def test_expressions_choose_devices(expression: str, count: int) -> None:
    gpus = devices(
        "n1", {"model": "H100", "index": 0, "memory": "80Gi"},
        {"model": "H100", "index": 1, "memory": "40Gi"},
        {"model": "A100", "index": 2, "memory": "40Gi"},
    )  # fmt: skip
    sent = request(
        node("n1"), gpus, device_class("gpu", expression), template("t", exactly()),
    )  # fmt: skip
    assert sent.snapshot.nodes[0].allocatable.extended.get(ONE_GPU, 0) == count


def test_a_device_without_the_attribute_is_not_chosen_and_that_is_said() -> None:
    translation = translated(
        node("n1"), devices("n1", {"x": 1}, {}), device_class("gpu", f'{attribute("x")} == 1'),
        template("t", exactly()),
    )  # fmt: skip
    assert translation.request.snapshot.nodes[0].allocatable.extended[ONE_GPU] == 1
    assert any("has no value for device d1 of pool n1" in w for w in said(translation.warnings))


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (template("t", {"name": "r", "firstAvailable": [{}]}), "firstAvailable"),
        (template("t", exactly(allocationMode="All")), "allocationMode All"),
        (template("t", exactly(adminAccess=True)), "adminAccess"),
        (template("t", exactly(), constraints=[{"matchAttribute": "x"}]), "constraints between"),
        (template("t", exactly("tpu")), "DeviceClass tpu is not in the input"),
        (template("t", exactly("gpu", 1, "device.?x.orValue(1)==1")), "is not understood"),
        (template("t", exactly("gpu", 1, "cel.bind(x, 1, x == 1)")), "bind(), which is not supp"),
        (template("t", exactly("gpu", 1, "shout(device.driver)")), "shout(), which is not"),
        (template("t", exactly("gpu", 1, "[1].all(a, [2].all(b, a < b))")), "more than one loop"),
        (template("t", exactly("gpu", 1, "true || " * 2000 + "true")), "is longer than"),
        (template("u"), "t is not in the input"),
    ],
)
def test_what_goes_beyond_an_exact_count_is_refused_by_name(made: Body, want: str) -> None:
    (text,) = refusals(devices("n1", {}), device_class(), made, resourceClaims=claims("t"))
    assert want in text


def test_a_running_pod_holds_the_devices_that_it_was_given() -> None:
    running = pod(
        "b", nodeName="n1", phase="Running", resourceClaims=claims("t"),
    )  # fmt: skip
    running["status"]["resourceClaimStatuses"] = [{"name": "c0", "resourceClaimName": "b-c0"}]
    sent = request(
        node("n1"), devices("n1", {}, {}), device_class(), template("t", exactly()),
        claim("b-c0", exactly(), given=["d1"]), running,
    )  # fmt: skip
    (one,) = sent.snapshot.nodes
    assert (one.allocatable.extended[ONE_GPU], one.requested.extended[ONE_GPU]) == (2, 1)
    assert not one.unschedulable


def test_a_running_pod_whose_claim_nobody_knows_closes_its_node() -> None:
    translation = translated(
        node("n1"), pod("b", nodeName="n1", resourceClaims=claims("gone")),
    )  # fmt: skip
    (one,) = translation.request.snapshot.nodes
    assert one.unschedulable
    assert one.closed_because == (
        "pod ml/b holds something that cannot be counted (spec.resourceClaims[c0])"
    )
    assert any("pod ml/b holds something that cannot be counted (spec.resourceClaims[c0])" in w
               for w in said(translation.warnings))  # fmt: skip


def test_devices_of_a_claim_that_no_pod_of_the_input_uses_are_not_there() -> None:
    sent = request(
        node("n1"), devices("n1", {}, {}), device_class(), claim("x", exactly(), given=["d0"]),
    )  # fmt: skip
    assert sent.snapshot.nodes[0].allocatable.extended[ONE_GPU] == 1


def test_an_allocated_claim_ties_its_pod_and_asks_for_nothing_more() -> None:
    shared = [pod(n, resourceClaims=claims(named="x")) for n in "ab"]
    sent = request(
        node("n1"), devices("n1", {}, {}), device_class(), claim("x", exactly(), given=["d0"]),
        *shared, gang(podgroups=[group("w", "a", "b")]), template("t", exactly()),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert dict(pod_set.template.requests.extended) == {"nvidia.com/gpu": 1}
    (term,) = pod_set.template.required_node_affinity.terms
    assert list(term.match_fields[0].values) == ["n1"]
    assert sent.snapshot.nodes[0].allocatable.extended[ONE_GPU] == 1


@pytest.mark.parametrize("named", [False, True])
def test_the_allocated_claim_of_a_running_pod_does_not_tie_what_comes_in_its_place(
    named: bool,
) -> None:
    uses = claims(named="b-c0") if named else claims("t")
    running = pod("b", nodeName="n1", phase="Running", resourceClaims=uses)
    running["status"]["resourceClaimStatuses"] = [{"name": "c0", "resourceClaimName": "b-c0"}]
    sent = request(
        node("n1"), devices("n1", {}), device_class(), template("t", exactly()),
        claim("b-c0", exactly(), given=["d0"]), running, gang(podgroups=[group("w", "b")]),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert pod_set.template.requests.extended[ONE_GPU] == 1
    assert not pod_set.template.HasField("required_node_affinity")


FAST = f"{attribute('speed')} == 400"


def _holding(name: str, made: Body, *given: str) -> list[Body]:
    """A gang of a pod that runs on n1, with the claim that was made for it."""
    running = pod(
        name, nodeName="n1", phase="Running", resourceClaims=claims("t"),
        containers=[{"name": "main"}],
    )  # fmt: skip
    running["status"]["resourceClaimStatuses"] = [{"name": "c0", "resourceClaimName": f"{name}-c0"}]
    return [running, made, gang(podgroups=[group("w", name)])]


def test_what_a_running_pod_asks_for_stands_beside_what_it_holds() -> None:
    sent = request(
        node("n1"), devices("n1", {"speed": 400}, {"speed": 100}), device_class(),
        template("t", exactly()), template("fast", exactly("gpu", 1, FAST)),
        *_holding("b", claim("b-c0", exactly(), given=["d0"])),
    )  # fmt: skip
    (one,) = sent.snapshot.nodes
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    (bound,) = pod_set.bound_pods
    either = f"{ONE_GPU}.fast.or.gpu"
    assert dict(pod_set.template.requests.extended) == {ONE_GPU: 1, either: 1}
    assert dict(bound.held.extended) == {ONE_GPU: 1, f"{ONE_GPU}.fast": 1, either: 1}
    assert dict(one.requested.extended) == dict(bound.held.extended)
    assert bound.held.pod_count == 1


def test_a_running_pod_that_holds_what_it_asks_for_says_nothing_of_it() -> None:
    sent = request(
        node("n1"), devices("n1", {"speed": 100}), device_class(),
        template("t", exactly()), template("fast", exactly("gpu", 1, FAST)),
        *_holding("b", claim("b-c0", exactly(), given=["d0"])),
    )  # fmt: skip
    assert not sent.gangs[0].groups[0].pod_sets[0].bound_pods[0].HasField("held")


def test_a_running_pod_holds_its_devices_whatever_it_asks_for() -> None:
    """What cannot be asked for again is said by name, and its node stays open."""
    made = claim("b-c0", {"name": "r", "firstAvailable": [{}]}, given=["d0"])
    sent = request(
        node("n1"), devices("n1", {}), device_class(), template("t", exactly()),
        *_holding("b", made),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert list(pod_set.template.unsupported) == ["spec.resourceClaims[c0]: firstAvailable"]
    assert pod_set.bound_pods[0].held.extended[ONE_GPU] == 1
    assert not sent.snapshot.nodes[0].unschedulable
    assert not sent.gangs[0].unsupported


def test_devices_that_are_looked_after_are_not_taken() -> None:
    made = claim("b-c0", exactly(adminAccess=True), given=["d0"])
    made["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    sent = request(
        node("n1"), devices("n1", {}), device_class(), template("t", exactly()),
        *_holding("b", made),
    )  # fmt: skip
    assert sent.snapshot.nodes[0].requested.extended.get(ONE_GPU, 0) == 0


def test_a_claim_that_several_pods_would_share_is_refused() -> None:
    sent = only_gang(
        node("n1"), devices("n1", {}), device_class(), claim("x", exactly()),
        *(pod(n, resourceClaims=claims(named="x")) for n in "ab"),
        gang(podgroups=[group("w", "a", "b")]),
    )  # fmt: skip
    assert list(sent.unsupported) == [
        "pod ml/a and 1 more: spec.resourceClaims[named]: several pods share it"
    ]


def fits(sent: v1.ComputePlacementRequest, pods: list[v1.PodTemplate]) -> bool:
    (one,) = sent.snapshot.nodes
    total: dict[str, int] = {}
    for asked in pods:
        for resource, amount in asked.requests.extended.items():
            total[resource] = total.get(resource, 0) + amount
    return all(
        amount <= one.allocatable.extended.get(resource, 0)
        for resource, amount in total.items()
        if resource.startswith("claims.")
    )


@pytest.mark.parametrize("seed", range(40))
def test_counts_of_overlapping_kinds_are_exact(seed: int) -> None:
    """Against brute force: who fits by the counts can be given devices, and the reverse."""
    rng = random.Random(seed)
    kinds = rng.randint(2, 4)
    gpus = [{f"k{k}": rng.random() < 0.5 for k in range(kinds)} for _ in range(rng.randint(1, 5))]
    wanted = [rng.randrange(kinds) for _ in range(rng.randint(1, 5))]
    sent = request(
        node("n1"), devices("n1", *gpus),
        *(device_class(f"k{k}", attribute(f"k{k}")) for k in range(kinds)),
        *(template(f"t{k}", exactly(f"k{k}")) for k in range(kinds)),
        *(pod(f"p{i}", resourceClaims=claims(f"t{k}")) for i, k in enumerate(wanted)),
        gang(podgroups=[group("w", *(f"p{i}" for i in range(len(wanted))))]),
    )  # fmt: skip
    by_name = {p.name: s.template for s in sent.gangs[0].groups[0].pod_sets for p in s.pods}
    templates = [by_name[f"namespaces/ml/pods/p{i}"] for i in range(len(wanted))]
    possible = any(
        all(gpus[d][f"k{k}"] for d, k in zip(order, wanted, strict=False))
        for order in itertools.permutations(range(len(gpus)), len(wanted))
    )
    assert fits(sent, templates) == possible


@pytest.mark.parametrize("seed", range(20))
def test_many_kinds_that_narrow_each_other_are_counted_exactly(seed: int) -> None:
    rng = random.Random(seed)
    gpus = [{"size": rng.choice((20, 40, 60, 80))} for _ in range(3)]
    least = [0, 10, 30, 35, 50, 55, 70, 75, 90]
    wanted = [rng.choice(least) for _ in range(3)]
    sent = request(
        node("n1"), devices("n1", *gpus), device_class(),
        *(template(f"t{n}", exactly("gpu", 1, f"{attribute('size')} >= {n}")) for n in least),
        *(pod(f"p{i}", resourceClaims=claims(f"t{n}")) for i, n in enumerate(wanted)),
        gang(podgroups=[group("w", *(f"p{i}" for i in range(3)))]),
    )  # fmt: skip
    by_name = {p.name: s.template for s in sent.gangs[0].groups[0].pod_sets for p in s.pods}
    templates = [by_name[f"namespaces/ml/pods/p{i}"] for i in range(3)]
    sizes = sorted(gpu["size"] for gpu in gpus)
    possible = all(n <= size for n, size in zip(sorted(wanted), sizes, strict=True))
    assert fits(sent, templates) == possible
    assert all(len(t.requests.extended) <= len(least) for t in templates)


def test_too_many_overlapping_kinds_are_refused() -> None:
    kinds = range(7)
    pairs = [{f"k{i}": i in pair for i in kinds} for pair in itertools.combinations(kinds, 2)]
    sent = only_gang(
        node("n1"), devices("n1", *pairs),
        *(device_class(f"k{k}", attribute(f"k{k}")) for k in kinds),
        *(template(f"t{k}", exactly(f"k{k}")) for k in kinds),
        pod("a", resourceClaims=claims("t3")), gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (text,) = sent.unsupported
    assert "7 kinds of requests choose the same devices in too many ways" in text


# --- ComputeDomains ---


def test_a_claim_on_a_channel_is_membership_of_its_domain() -> None:
    sent = request(
        node("n1"), domain("one", "ch-1"), domain("two", "ch-2"),
        pod("a", nodeName="n1", resourceClaims=claims("ch-1")),
        pod("b", resourceClaims=claims("ch-2")), gang(podgroups=[group("w", "a", "b")]),
    )  # fmt: skip
    assert sent.snapshot.nodes[0].compute_domain == "ml/one"
    assert sent.snapshot.nodes[0].compute_domain_pods == 1
    assert [s.template.compute_domain for s in sent.gangs[0].groups[0].pod_sets] == [
        "ml/one", "ml/two",
    ]  # fmt: skip
    assert not sent.gangs[0].unsupported


def test_groves_claim_and_the_class_of_the_driver_say_it_too() -> None:
    grove = [{"name": "mnnvl-claim", "resourceClaimTemplateName": "s-0-g"}]
    made = template("ch", exactly("compute-domain-default-channel.nvidia.com"))
    sent = only_gang(
        node(), made, pod("a", resourceClaims=grove), pod("b", resourceClaims=claims("ch")),
        gang(podgroups=[group("w", "a", "b")]),
    )  # fmt: skip
    assert [s.template.compute_domain for s in sent.groups[0].pod_sets] == ["ml/s-0-g", "ml/ch"]


def test_a_node_that_serves_two_domains_is_closed() -> None:
    translation = translated(
        node("n1"), domain("one", "ch-1"), domain("two", "ch-2"),
        *(pod(f"p{i}", nodeName="n1", resourceClaims=claims(f"ch-{i}")) for i in (1, 2)),
    )  # fmt: skip
    assert translation.request.snapshot.nodes[0].unschedulable


def test_a_pod_of_two_domains_is_refused() -> None:
    (text,) = only_gang(
        node(), domain("one", "ch-1"), domain("two", "ch-2"),
        pod("a", resourceClaims=claims("ch-1", "ch-2")), gang(podgroups=[group("w", "a")]),
    ).unsupported  # fmt: skip
    assert text == "pod ml/a: spec.resourceClaims: several ComputeDomains: ml/one, ml/two"
