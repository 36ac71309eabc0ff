"""Which running pods keep which nodes from whom until they leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from placement_service.entities.node import HostPort
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    PodAffinityTerm,
    PodGang,
    PodTemplate,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.planning.closing import Kind, closed
from placement_service.planning.leavers import Leavers
from tests.service.evictions import running, urgent
from tests.service.questions import node

RACK = "rack"
NODES = (node("a0", rack="a"), node("a1", rack="a"), node("b0", rack="b"), node("apart"))


def away_from(app: str, key: str = HOSTNAME, namespace: str = "ml") -> PodAffinityTerm:
    return PodAffinityTerm(LabelSelector((("app", app),)), key, (namespace,))


def runs(
    name: str,
    *on: str,
    keeps_away: str = "",
    key: str = HOSTNAME,
    port: int = 0,
    compute_domain: str = "",
    minimum: int | None = None,
) -> PodGang:
    one = running(name, *on, minimum=minimum)
    (group,) = one.groups
    template = replace(
        group.pod_sets[0].template,
        required_anti_affinity=(away_from(keeps_away, key),) if keeps_away else (),
        host_ports=(HostPort(port),) if port else (),
        compute_domain=compute_domain,
    )
    sets = (replace(group.pod_sets[0], template=template),)
    return replace(one, groups=(replace(group, pod_sets=sets),))


def comes(
    *, avoids: str = "", key: str = HOSTNAME, port: int = 0, compute_domain: str = ""
) -> Kind:
    template = PodTemplate(
        {PODS: 1},
        {"app": "new"},
        required_anti_affinity=(away_from(avoids, key),) if avoids else (),
        host_ports=(HostPort(port),) if port else (),
        compute_domain=compute_domain,
    )
    return Kind("ml", template)


def found(
    gangs: Iterable[PodGang], *demands: Iterable[Kind]
) -> list[tuple[int, str, dict[int, int], int]]:
    """Demand, nodes, pods of each leaver, and how many of them have to leave."""
    leavers = Leavers(Snapshot(NODES, (*gangs, urgent())), urgent())
    names = [one.name.removeprefix("nodes/") for one in NODES]
    return [
        (one.demand, " ".join(names[n] for n in one.nodes), dict(one.leavers), one.pods)
        for one in closed(leavers, [tuple(kinds) for kinds in demands])
    ]


@pytest.mark.parametrize(
    ("there", "new"),
    [
        pytest.param(runs("low", "a0", keeps_away="new"), comes(), id="keeps others away"),
        pytest.param(runs("low", "a0"), comes(avoids="low"), id="who comes avoids it"),
        pytest.param(runs("low", "a0", port=80), comes(port=80), id="host port"),
        pytest.param(
            runs("low", "a0", compute_domain="ml/x"),
            comes(compute_domain="ml/y"),
            id="another ComputeDomain",
        ),
    ],
)
def test_a_node_is_closed_until_who_keeps_it_has_left(there: PodGang, new: Kind) -> None:
    assert found([there], [new]) == [(0, "a0", {0: 1}, 1)]


@pytest.mark.parametrize(
    ("there", "new"),
    [
        pytest.param(runs("low", "a0", keeps_away="old"), comes(), id="keeps others away"),
        pytest.param(runs("low", "a0"), comes(avoids="old"), id="others are avoided"),
        pytest.param(runs("low", "a0", port=80), comes(port=81), id="another port"),
        pytest.param(
            runs("low", "a0", compute_domain="ml/x"),
            comes(compute_domain="ml/x"),
            id="the same ComputeDomain",
        ),
        pytest.param(runs("low", "a0", compute_domain="ml/x"), comes(), id="no ComputeDomain"),
    ],
)
def test_who_keeps_nobody_away_closes_nothing(there: PodGang, new: Kind) -> None:
    assert found([there], [new]) == []


def test_terms_are_about_pods_of_their_namespaces() -> None:
    elsewhere = replace(runs("low", "a0", keeps_away="new"), name="namespaces/other/podgangs/low")
    new = comes(avoids="low")
    # Its own term is about "ml", and so is that of who comes, but it runs elsewhere.
    assert found([elsewhere], [comes()]) == [(0, "a0", {0: 1}, 1)]
    assert found([replace(elsewhere, groups=runs("low", "a0").groups)], [new]) == []
    assert found([runs("low", "a0", keeps_away="new")], [Kind("other", comes().template)]) == []


def test_a_domain_is_closed_until_all_have_left_it() -> None:
    """Two of three pods are in the rack; the gang goes whole, or one of them is an extra."""
    there = runs("low", "a0", "a1", "b0", keeps_away="new", key=RACK)
    assert found([there], [comes()]) == [(0, "a0 a1", {0: 2}, 2), (0, "b0", {0: 1}, 1)]
    extra = runs("low", "a0", "a0", "b0", keeps_away="new", key=RACK, minimum=1)
    assert found([extra], [comes()]) == [
        (0, "a0 a1", {0: 2, 1: 1}, 2),
        (0, "b0", {0: 1, 2: 1}, 1),
    ]


def test_each_gang_closes_a_domain_by_itself() -> None:
    gangs = [runs(name, "a0", keeps_away="new", key=RACK) for name in ("one", "two")]
    assert found(gangs, [comes()]) == [(0, "a0 a1", {0: 1}, 1), (0, "a0 a1", {1: 1}, 1)]


def test_a_node_without_the_label_is_in_no_domain() -> None:
    assert found([runs("low", "apart", keeps_away="new", key=RACK)], [comes()]) == []


def test_only_who_may_leave_is_counted() -> None:
    """Nor who runs on a node that is not in the question."""
    stays = replace(runs("high", "a0", keeps_away="new"), priority=200)
    assert found([stays, runs("low", "gone", keeps_away="new")], [comes()]) == []


def test_a_demand_of_several_kinds_comes_as_soon_as_one_of_them_may() -> None:
    there = runs("low", "a0", port=80)
    assert found([there], [comes(), comes(port=80)]) == []
    assert found([there], [comes()], [comes(port=80), comes(port=80, avoids="low")]) == [
        (1, "a0", {0: 1}, 1)
    ]
