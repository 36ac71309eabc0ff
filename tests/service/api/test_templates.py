"""Templates that pod sets name instead of holding them."""

from __future__ import annotations

from placement.pod_templates import put_templates_inside
from placement.v1 import ComputePlacementRequest
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from placement_service.entities.request import PODS, PodTemplate
from placement_service.entities.templates import numbered
from tests.service.questions import gang, message, snapshot


def inline() -> ComputePlacementRequest:
    """Two gangs in two namespaces whose pods ask for the same."""
    there = message(snapshot(2, (gang("a", pods=2, gpus=1), gang("b", pods=1, gpus=1))))
    other = there.gangs[1]
    other.name = other.name.replace("namespaces/ml/", "namespaces/other/")
    for pod in other.groups[0].pod_sets[0].pods:
        pod.name = pod.name.replace("namespaces/ml/", "namespaces/other/")
    for one in there.gangs:
        one.groups[0].pod_sets[0].template.required_anti_affinity.add(topology_key="rack")
    return there


def named() -> ComputePlacementRequest:
    """The same with one template in the request."""
    there = inline()
    there.pod_templates["worker"].CopyFrom(there.gangs[0].groups[0].pod_sets[0].template)
    for one in there.gangs:
        one.groups[0].pod_sets[0].ClearField("template")
        one.groups[0].pod_sets[0].template_name = "worker"
    return there


def problems(there: ComputePlacementRequest) -> list[tuple[str, str]]:
    try:
        parse_request(there)
    except InvalidRequest as error:
        return [(v.field, v.description) for v in error.violations]
    return []


def test_a_named_template_means_what_it_means_inside_the_pod_set() -> None:
    """Its terms are about the namespace of each gang that names it."""
    assert parse_request(named()) == parse_request(inline())
    one, other = parse_request(named()).snapshot.gangs
    terms = [g.groups[0].pod_sets[0].template.required_anti_affinity[0] for g in (one, other)]
    assert [term.namespaces for term in terms] == [("ml",), ("other",)]


def test_what_is_wrong_with_a_named_template_is_said_once() -> None:
    there = named()
    there.pod_templates["worker"].host_ports.add(port=70_000)
    there.pod_templates["worker"].tolerations.add(operator=7)
    assert [field for field, _ in problems(there)] == [
        'pod_templates["worker"].tolerations[0].operator',
        'pod_templates["worker"].host_ports[0].port',
    ]


def test_a_pod_set_has_one_template_that_is_there() -> None:
    there = named()
    there.gangs[0].groups[0].pod_sets[0].template.same_pcie_nics = 1
    there.gangs[1].groups[0].pod_sets[0].template_name = "wroker"
    assert problems(there) == [
        ("gangs[0].groups[0].pod_sets[0].template_name", "must be empty where template is set"),
        ("gangs[1].groups[0].pod_sets[0].template_name", '"wroker" is not in pod_templates'),
    ]


def test_a_template_that_nobody_names_is_not_read() -> None:
    there = named()
    there.pod_templates["other"].host_ports.add(port=70_000)
    assert problems(there) == []


def test_named_templates_can_be_put_inside_again() -> None:
    there = named()
    there.gangs[1].groups[0].pod_sets[0].template_name = "wroker"
    put_templates_inside(there)
    want = inline()
    want.gangs[1].groups[0].pod_sets[0].ClearField("template")
    want.gangs[1].groups[0].pod_sets[0].template_name = "wroker"
    assert there == want


def test_templates_are_alike_by_what_they_say() -> None:
    """Not by where they were made: nothing depends on the reading of messages to share objects."""
    one, same, other = (PodTemplate({PODS: 1}, {"app": app}) for app in ("a", "a", "b"))
    assert one is not same
    assert numbered([one, other, same, one]) == ((one, other), [0, 1, 0, 0])


def test_a_template_that_comes_again_is_not_read_again() -> None:
    there = message()
    there.gangs[0].groups[0].pod_sets.add().CopyFrom(there.gangs[0].groups[0].pod_sets[0])
    there.gangs[0].groups[0].pod_sets[1].pods[0].name = "namespaces/ml/pods/x"
    del there.gangs[0].groups[0].pod_sets[1].pods[1:]
    first, second = parse_request(there).snapshot.gangs[0].groups[0].pod_sets
    assert first.template is second.template


def test_one_template_in_two_namespaces_means_two_things() -> None:
    """Its terms are about the pod's own namespace."""
    there = message()
    sets = there.gangs[0].groups[0].pod_sets
    sets[0].template.required_affinity.add(topology_key="rack")
    other = there.gangs.add()
    other.CopyFrom(there.gangs[0])
    other.name = "namespaces/other/podgangs/train"
    for pod in other.groups[0].pod_sets[0].pods:
        pod.name = pod.name.replace("ml", "other")
    here = parse_request(there).snapshot.gangs
    namespaces = [
        gang.groups[0].pod_sets[0].template.required_affinity[0].namespaces for gang in here
    ]
    assert namespaces == [("ml",), ("other",)]
