"""Koordinator's Reservations: who may use them, what they still hold, and when they end."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from placement import v1
from placement.kubernetes import Objects, translate
from tests.kubernetes.build import (
    Body,
    container,
    gang,
    group,
    node,
    pod,
    problems,
    request,
    said,
    template,
    thing,
    translated,
)

AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
USES = "scheduling.koordinator.sh/reservation-allocated"
BY_LABEL = [{"labelSelector": {"matchLabels": {"app": "x"}}}]


def reservation(
    name: str = "r", *, phase: str = "Available", where: str = "n1", metadata: Body | None = None,
    allocatable: Body | None = None, owners: Any = BY_LABEL, **spec: Any,
) -> Body:  # fmt: skip
    held = {"nvidia.com/gpu": "4", "cpu": "2"} if allocatable is None else allocatable
    inside = {"spec": {"containers": [container(gpu="4")]}}
    return thing(
        "Reservation", "scheduling.koordinator.sh/v1alpha1", name, metadata=metadata or {},
        spec={"template": inside, "owners": owners, **spec},
        status={"phase": phase, "nodeName": where, "allocatable": held},
    )  # fmt: skip


def only(*bodies: Body) -> v1.Reservation:
    (found,) = request(node("n1"), *bodies).snapshot.reservations
    return found


def none(*bodies: Body) -> bool:
    return not request(node("n1"), *bodies).snapshot.reservations


def user(name: str, **requests: str) -> Body:
    notes = {USES: json.dumps({"name": "r", "uid": "u"})}
    return pod(
        name, nodeName="n1", phase="Running", metadata={"annotations": notes},
        containers=[container(**requests)],
    )  # fmt: skip


def test_a_phase_that_is_none_is_a_problem() -> None:
    phases = "Pending, Available, Waiting, Succeeded, Failed"
    assert problems(node("n1"), reservation(phase="available")) == [
        ("Reservation r", "status.phase", f"must be one of {phases}, not available")
    ]


def test_a_field_of_an_affinity_that_is_not_known_is_refused_by_name() -> None:
    picky = pod("a", metadata={"annotations": {AFFINITY: json.dumps({"nam": "r"})}})
    (sent,) = request(node("n1"), picky, gang(podgroups=[group("w", "a")])).gangs
    assert list(sent.unsupported) == [f"pod ml/a: metadata.annotations[{AFFINITY}]: nam"]


def test_a_reservation_holds_what_it_was_given_for_its_owners() -> None:
    found = only(reservation(metadata={"labels": {"tier": "a"}}))
    assert (found.name, found.node) == ("reservations/r", "nodes/n1")
    assert found.held == v1.Resources(cpu_millis=2000, extended={"nvidia.com/gpu": 4})
    (owner,) = found.owners
    assert dict(owner.selector.match_labels) == {"app": "x"}
    assert (found.allocate_once, found.restricted, found.closed) == (True, False, False)
    assert dict(found.labels) == {"tier": "a"}


def test_without_a_status_of_what_it_has_its_template_counts() -> None:
    body = reservation()
    del body["status"]["allocatable"]
    assert only(body).held == v1.Resources(extended={"nvidia.com/gpu": 4})


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed", ""])
def test_only_an_available_or_waiting_one_holds(phase: str) -> None:
    assert none(reservation(phase=phase))


def test_what_owners_use_is_not_held_any_more() -> None:
    sent = request(
        node("n1"), reservation(allocateOnce=False), user("a", gpu="3", cpu="1"),
        gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (found,) = sent.snapshot.reservations
    assert found.held == v1.Resources(cpu_millis=1000, extended={"nvidia.com/gpu": 1})
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    assert pod_set.bound_pods[0].reservation == "reservations/r"
    assert sent.snapshot.nodes[0].requested.extended == {"nvidia.com/gpu": 3}


def test_one_that_serves_a_single_pod_and_has_it_holds_nothing() -> None:
    assert none(reservation(), user("a", gpu="1"))


NOON = datetime.fromisoformat("2026-01-01T12:00:00+00:00")


@pytest.mark.parametrize(
    ("spec", "created", "holds"),
    [
        ({"expires": "2026-01-01T11:59:59Z"}, None, False),
        ({"expires": "2026-01-01T12:00:01Z"}, None, True),
        ({"expires": "2026-01-01T12:00:00Z"}, None, True),
        ({"expires": "2026-01-02T00:00:00Z", "ttl": "1h"}, "2026-01-01T10:59:00Z", False),
        ({"expires": "2026-01-01T11:59:59Z", "ttl": "9h"}, "2026-01-01T10:59:00Z", False),
        ({"expires": "2026-01-01T11:59:59Z", "ttl": "0s"}, None, True),
        ({"ttl": "2562047h47m16.854775807s"}, "9000-01-01T00:00:00Z", True),
        ({"ttl": "1h"}, "2026-01-01T10:59:00Z", False),
        ({"ttl": "1h30m"}, "2026-01-01T10:59:00Z", True),
        ({"ttl": "0s"}, "2020-01-01T00:00:00Z", True),
        ({}, "2025-12-31T11:00:00Z", False),
        ({}, "2025-12-31T13:00:00Z", True),
    ],
)
def test_an_expired_one_holds_nothing(spec: Body, created: str | None, holds: bool) -> None:
    body = reservation(metadata={"creationTimestamp": created} if created else {}, **spec)
    sent = translate(Objects.of([node("n1"), body]), as_of=NOON).request
    assert bool(sent.snapshot.reservations) == holds


def test_who_owns_is_found_by_reference_controller_or_both() -> None:
    controlled = pod("c", metadata={"ownerReferences": [
        {"kind": "Job", "name": "j", "controller": True}]})  # fmt: skip
    owners = [
        {"object": {"namespace": "ml", "name": "a"}},
        {"controller": {"kind": "Job", "name": "j"}},
        {"object": {"name": "b"}, "labelSelector": {"matchLabels": {"app": "y"}}},
    ]
    found = only(
        reservation(owners=owners), pod("a"), pod("b", labels={"app": "y"}), controlled, pod("d")
    )
    assert [o.pod.rpartition("/")[2] for o in found.owners] == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("owner", "owns"),
    [
        ({"object": {}}, True),
        ({"object": {"kind": "Pod", "namespace": "ml", "name": "a", "uid": "u-a"}}, True),
        ({"object": {"kind": "Job", "name": "a"}}, False),
        ({"object": {"namespace": "other", "name": "a"}}, False),
        ({"object": {"name": "b"}}, False),
        ({"object": {"uid": "another"}}, False),
        ({"object": {"name": "a"}, "labelSelector": {"matchLabels": {"app": "y"}}}, False),
        ({"controller": {"kind": "Job", "name": "j", "uid": "u-j"}}, True),
        ({"controller": {"namespace": "ml", "uid": "u-j"}}, True),
        ({"controller": {"namespace": "other", "uid": "u-j"}}, False),
        ({"controller": {"kind": "Job", "name": "other"}}, False),
        ({"controller": {"kind": "ReplicaSet", "name": "j"}}, False),
        ({"controller": {"uid": "another"}}, False),
        ({"controller": {"kind": "Thing", "name": "t"}}, False),
        ({"object": {"name": "b"}, "controller": {"name": "j"}}, False),
    ],
)
def test_all_that_is_said_of_an_owner_has_to_be_so(owner: Body, owns: bool) -> None:
    owned_by = [
        {"kind": "Thing", "name": "t", "uid": "u-t"},
        {"kind": "Job", "name": "j", "uid": "u-j", "controller": True},
    ]
    one = pod("a", labels={"app": "x"}, metadata={"uid": "u-a", "ownerReferences": owned_by})
    found = only(reservation(owners=[owner]), one)
    assert [o.pod for o in found.owners] == ["namespaces/ml/pods/a"] * owns


@pytest.mark.parametrize(
    ("toleration", "effect", "owns"),
    [
        (None, "NoSchedule", False),
        (None, "PreferNoSchedule", True),
        ({"operator": "Exists"}, "NoSchedule", True),
        ({"key": "k", "operator": "Exists"}, "NoSchedule", True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, "NoSchedule", True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, "NoSchedule", False),
        ({"key": "other", "operator": "Exists"}, "NoSchedule", False),
        ({"key": "k", "value": "v"}, "NoExecute", True),
        ({"key": "k", "value": "w"}, "NoExecute", False),
        ({"key": "other", "value": "v"}, "NoExecute", False),
    ],
)
def test_taints_are_for_owners_that_tolerate_them(
    toleration: Body | None, effect: str, owns: bool
) -> None:
    tainted = reservation(taints=[{"key": "k", "value": "v", "effect": effect}])
    tolerations = [] if toleration is None else [toleration]
    found = only(tainted, pod("a", labels={"app": "x"}, tolerations=tolerations))
    assert [o.pod for o in found.owners] == ["namespaces/ml/pods/a"] * owns


def test_one_that_nobody_may_use_still_holds() -> None:
    assert only(reservation(owners=[{"object": {"name": "gone"}}])).closed
    assert only(reservation(unschedulable=True)).closed


def test_one_that_waits_for_its_room_holds_it_and_serves_nobody() -> None:
    found = only(reservation(phase="Waiting", preAllocation=True))
    assert found.closed
    assert found.held.extended["nvidia.com/gpu"] == 4


@pytest.mark.parametrize(("policy", "names"), [("Restricted", ["nvidia.com/gpu"]), ("Aligned", [])])
def test_a_restricted_one_says_what_is_used_up(policy: str, names: list[str]) -> None:
    found = only(
        reservation(allocateOnce=False, allocatePolicy=policy), user("a", cpu="1", gpu="4")
    )
    assert found.held.cpu_millis == 1000
    assert list(found.used_up) == names


@pytest.mark.parametrize("policy", ["restricted", "Default"])
def test_a_policy_that_is_not_there_is_a_problem(policy: str) -> None:
    assert problems(node("n1"), reservation(allocatePolicy=policy)) == [
        ("Reservation r", "spec.allocatePolicy", f"must be Aligned or Restricted, not {policy}")
    ]


def test_an_owner_that_says_nothing_is_every_pod() -> None:
    found = only(reservation(owners=[{}]), pod("a"))
    assert [(o.pod, o.HasField("selector"), o.selector) for o in found.owners] == [
        ("", True, v1.LabelSelector())
    ]
    assert not found.closed
    tainted = reservation(owners=[{}], taints=[{"key": "k", "effect": "NoSchedule"}])
    patient = pod("b", tolerations=[{"operator": "Exists"}])
    (owner,) = only(tainted, pod("a"), patient).owners
    assert owner.pod == "namespaces/ml/pods/b"


def test_without_owners_it_is_nobody_s() -> None:
    found = only(reservation(owners=[]), pod("a"))
    assert found.closed
    assert not found.owners


def test_devices_that_users_have_are_not_held() -> None:
    def devices(*minors: int) -> str:
        return json.dumps({"gpu": [{"minor": m, "resources": {}} for m in minors]})

    key = "scheduling.koordinator.sh/device-allocated"
    holder = reservation(metadata={"annotations": {key: devices(0, 1, 2)}}, allocateOnce=False)
    taken = user("a", gpu="1")
    taken["metadata"]["annotations"][key] = devices(1)
    assert list(only(holder, taken).devices) == [0, 2]


def test_a_reservation_on_an_unknown_node_is_left_out_with_a_warning() -> None:
    translation = translated(node("n1"), reservation(where="n9"))
    assert not translation.request.snapshot.reservations
    assert "Reservation r: status.nodeName: the node is not in the input" in said(
        translation.warnings
    )


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        ({"name": "r"}, v1.ReservationSelector(name="reservations/r")),
        ({"reservationSelector": {}}, v1.ReservationSelector()),
        (
            {"reservationSelector": {"a": "b"}},
            v1.ReservationSelector(
                terms=[
                    v1.NodeSelectorTerm(
                        match_expressions=[
                            v1.SelectorRequirement(
                                key="a",
                                operator=v1.SelectorOperator.SELECTOR_OPERATOR_IN,
                                values=["b"],
                            )
                        ]
                    )
                ]
            ),
        ),
    ],
)
def test_a_pod_may_insist_on_reservations(affinity: Body, want: v1.ReservationSelector) -> None:
    made = template(metadata={"annotations": {AFFINITY: json.dumps(affinity)}})
    assert made.required_reservation == want


def test_a_pod_may_look_through_reservations() -> None:
    labels = {"scheduling.koordinator.sh/reservation-ignored": "true"}
    assert template(labels=labels).ignores_reservations


@pytest.mark.parametrize("text", ["{", "[]", '{"name": 3}', '{"reservationSelector": 1}'])
def test_an_annotation_that_cannot_be_read_is_a_problem(text: str) -> None:
    found = problems(pod("a", metadata={"annotations": {AFFINITY: text}}))
    assert [field.startswith(f"metadata.annotations[{AFFINITY}]") for _, field, _ in found] == [
        True
    ]


def test_labels_that_owners_are_matched_by_are_sent() -> None:
    sent = request(
        node("n1"), reservation(), pod("a", labels={"app": "x", "other": "y"}),
        gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    assert dict(sent.gangs[0].groups[0].pod_sets[0].template.labels) == {"app": "x"}


def test_pods_that_are_named_together_get_a_label_that_says_so() -> None:
    """The one of the set that is not named is a set of its own, and no owner."""
    controlled = {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}
    owners = [{"controller": {"kind": "Job", "name": "j"}}, *BY_LABEL]
    sent = request(
        node("n1"), reservation(owners=owners, allocateOnce=False),
        pod("a", metadata=controlled), pod("b", metadata=controlled), pod("c"),
        gang(podgroups=[group("w", "a", "b", "c")]),
    )  # fmt: skip
    own = {"reservations/r": "owner"}
    assert [dict(o.selector.match_labels) for o in sent.snapshot.reservations[0].owners] == [
        {"app": "x"},
        own,
    ]
    sets = sent.gangs[0].groups[0].pod_sets
    assert [(len(s.pods), dict(s.template.labels)) for s in sets] == [(2, own), (1, {})]


def test_a_pod_that_several_reservations_name_gets_a_label_of_each() -> None:
    named = [{"object": {"namespace": "ml", "name": "a"}}]
    sent = request(
        node("n1"), reservation("r", owners=named), reservation("s", owners=named), pod("a"),
        gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (one,) = sent.gangs[0].groups[0].pod_sets
    assert dict(one.template.labels) == {"reservations/r": "owner", "reservations/s": "owner"}
    assert not any(o.pod for r in sent.snapshot.reservations for o in r.owners)
