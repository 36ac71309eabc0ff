"""Gangs give way whose host ports, or rules about other pods, are in the way; there is room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.request import (
    HOSTNAME,
    HostPort,
    PodAffinityTerm,
    PodGang,
    Policy,
    RunningPod,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction.running_rules import MOST_TERMS
from placement_service.formulation.formulate import formulate
from placement_service.formulation.prepare import prepare
from placement_service.judge.verify import verify
from tests.service.evictions import PREEMPT, REPACK, opened, running, urgent
from tests.service.questions import GPU, gang, node
from tests.service.search.answering import answer

PORT = HostPort(80)


def asking(one: PodGang, **fields: Any) -> PodGang:
    """The gang, with more in the template of all its pods."""
    return replace(
        one,
        groups=tuple(
            replace(
                group,
                pod_sets=tuple(
                    replace(s, template=replace(s.template, **fields)) for s in group.pod_sets
                ),
            )
            for group in one.groups
        ),
    )


def listed(*gangs: PodGang) -> tuple[RunningPod, ...]:
    """What the request says of the running pods of these gangs."""
    return tuple(
        RunningPod(pod.name, pod.node, s.template.labels, s.template.required_anti_affinity)
        for one in gangs
        for group in one.groups
        for s in group.pod_sets
        for pod in s.bound_pods
    )


def away(app: str, key: str = HOSTNAME) -> tuple[PodAffinityTerm, ...]:
    return (PodAffinityTerm(LabelSelector((("app", app),)), key, ("ml",)),)


# --- host ports --------------------------------------------------------------------


def test_a_gang_gives_way_whose_host_port_is_in_the_way() -> None:
    """A gang of two pods has it on one node, one of one pod on the other."""
    two = asking(running("two", "n0", "n2", gpus=1), host_ports=(PORT,))
    one = asking(running("one", "n1", gpus=1), host_ports=(PORT,))
    mine = asking(urgent(1), host_ports=(PORT,))
    at = tuple(replace(node(f"n{i}", used=1), host_ports=(PORT,)) for i in range(3))
    result = answer(Snapshot(at, (two, one, mine)), PREEMPT)
    assert [b.node for b in result.bindings] == ["nodes/n1"]
    assert result.evicted() == ["one"]
    assert result.solution.proven


@pytest.mark.parametrize("priority", [0, 100])
def test_a_port_serves_nobody_of_the_priority_of_its_victim(priority: int) -> None:
    """Somebody else evicts the gang; its port is then free, but not for its equals."""
    old = asking(running("old", "n0", gpus=8), host_ports=(PORT,))
    mine = asking(replace(gang("mine", pods=1, gpus=0), priority=priority), host_ports=(PORT,))
    at = (replace(node("n0", used=8), host_ports=(PORT,)),)
    result = answer(Snapshot(at, (old, urgent(8), mine)), PREEMPT)
    assert result.evicted() == ["old"]
    assert len(result.bindings) == 1 + (priority > 0)
    assert result.solution.proven


def test_a_moved_pod_takes_a_node_where_its_port_is_free() -> None:
    """The gang of eight wants a whole node; the port is free on the last node alone."""
    old = asking(running("old", "n0", gpus=1), host_ports=(PORT,))
    other = replace(
        asking(running("other", "n1", gpus=1), host_ports=(PORT,)), not_preemptible=True
    )
    ports = {"n0": (PORT,), "n1": (PORT,), "n2": ()}
    used = {"n0": 1, "n1": 1, "n2": 4}
    at = tuple(replace(node(n, used=used[n]), host_ports=p) for n, p in ports.items())
    result = answer(Snapshot(at, (old, other, urgent(8))), REPACK)
    assert [(e.node, e.to_node) for e in result.evictions] == [("nodes/n0", "nodes/n2")]
    assert [b.node for b in result.bindings] == ["nodes/n0"]
    assert result.solution.proven


@pytest.mark.parametrize(
    ("on_node", "beside"),
    [
        pytest.param((), (), id="that the node does not list"),
        pytest.param((PORT, HostPort(80, "TCP", "10.0.0.1")), (), id="of which others have a part"),
        pytest.param((PORT,), (PORT,), id="that another pod has, too"),
    ],
)
def test_a_gang_stays_with_a_port(
    on_node: tuple[HostPort, ...], beside: tuple[HostPort, ...]
) -> None:
    old = asking(running("old", "n0", gpus=1), host_ports=(PORT,))
    other = asking(running("other", "n0", gpus=1, priority=100), host_ports=beside)
    at = replace(node("n0", used=2), host_ports=on_node)
    assert not opened(Snapshot((at,), (old, other, urgent())))


# --- rules about other pods --------------------------------------------------------


@pytest.mark.parametrize("key", [HOSTNAME, "rack"])
def test_a_gang_is_evicted_that_keeps_others_away(key: str) -> None:
    old = asking(running("old", "n0", gpus=1), required_anti_affinity=away("urgent", key))
    mine = asking(urgent(1), labels={"app": "urgent"})
    at = (node("n0", used=1, rack="r0"),)
    result = answer(Snapshot(at, (old, mine), listed(old)), PREEMPT)
    assert result.evicted() == ["old"]
    assert len(result.bindings) == 1
    assert result.solution.proven


@pytest.mark.parametrize(("key", "to"), [(HOSTNAME, "n1"), ("rack", "n2")])
def test_a_gang_is_moved_that_keeps_others_away(key: str, to: str) -> None:
    """The waiting pod has room on the first node only, and there no pod of the gang stays."""
    old = asking(running("old", "n0", gpus=1), required_anti_affinity=away("urgent", key))
    mine = asking(urgent(2), labels={"app": "urgent"})
    at = (
        node("n0", used=1, rack="r0"),
        node("n1", gpus=1, rack="r0"),
        node("n2", gpus=1, rack="r1"),
    )
    result = answer(Snapshot(at, (old, mine), listed(old)), REPACK)
    moved = [e.to_node for e in result.evictions]
    assert moved in ([f"nodes/{to}"], ["nodes/n2"])
    assert [b.node for b in result.bindings] == ["nodes/n0"]
    assert result.solution.proven


def test_pods_that_avoid_each_other_do_so_where_they_are_moved() -> None:
    """Two of them share neither the node that is free nor the one with a third pod like them."""
    term = away("old")
    old = asking(running("old", "n0", "n1", gpus=1), required_anti_affinity=term)
    like = replace(running("like", "n2", gpus=1), not_preemptible=True)
    like = asking(like, labels={"app": "old"})
    at = tuple(node(f"n{i}", gpus=4 if i > 1 else 2, used=i < 3) for i in range(5))
    new = replace(gang("new", pods=2, gpus=2), priority=100)
    result = answer(Snapshot(at[:4], (old, like, new), listed(old, like)), REPACK)
    assert not [b for b in result.bindings if b.node in ("nodes/n0", "nodes/n1")]
    assert result.solution.proven
    crowded = replace(new, groups=gang("new", pods=4, gpus=2).groups)
    result = answer(Snapshot(at[:4], (old, like, crowded), listed(old, like)), REPACK)
    assert not result.bindings
    result = answer(Snapshot(at, (old, like, crowded), listed(old, like)), REPACK)
    assert len(result.bindings) == 4
    assert result.solution.proven


def test_pods_of_a_gang_that_keep_others_away_stay_together() -> None:
    """They keep away the pod that comes, but not each other."""
    old = asking(running("old", "n0", "n0", gpus=1), required_anti_affinity=away("urgent"))
    mine = asking(urgent(1), labels={"app": "urgent"})
    at = (node("n0", used=2), node("n1"))
    result = answer(Snapshot(at, (old, mine), listed(old)), PREEMPT)
    assert not result.evictions
    assert [b.node for b in result.bindings] == ["nodes/n1"]
    assert result.solution.proven


@pytest.mark.parametrize("carrier", ["old", "mine"])
def test_a_place_serves_nobody_of_the_priority_of_its_victim(carrier: str) -> None:
    old, mine = running("old", "n0", gpus=8), gang("mine", pods=1, gpus=1)
    mine = asking(mine, labels={"app": "mine"})
    old = asking(old, required_anti_affinity=away("mine", "rack") if carrier == "old" else ())
    mine = asking(mine, required_anti_affinity=away("old", "rack") if carrier == "mine" else ())
    at = (node("n0", used=8, rack="r0"), node("n1", gpus=2, rack="r0"))
    result = answer(Snapshot(at, (old, mine, urgent(8)), listed(old)), PREEMPT)
    assert result.evicted() == ["old"]
    assert [b.gang[-6:] for b in result.bindings] == ["urgent"]
    assert result.solution.proven
    # For a gang above it the place is free.
    high = replace(mine, priority=1)
    assert len(answer(Snapshot(at, (old, high, urgent(8)), listed(old)), PREEMPT).bindings) == 2


def test_a_rule_counts_that_only_the_list_of_running_pods_tells() -> None:
    old, mine = running("old", "n0", gpus=8), asking(gang("mine", pods=1, gpus=1))
    keeping = replace(listed(old)[0], required_anti_affinity=away("mine", "rack"))
    at = (node("n0", used=8, rack="r0"), node("n1", gpus=2, rack="r0"))
    mine = asking(mine, labels={"app": "mine"})
    result = answer(Snapshot(at, (old, mine, urgent(8)), (keeping,)), PREEMPT)
    assert result.evicted() == ["old"]
    assert [b.gang[-6:] for b in result.bindings] == ["urgent"]


@pytest.mark.parametrize("policy", [PREEMPT, REPACK])
@pytest.mark.parametrize(
    ("said", "avoided", "bound"),
    [
        pytest.param({"labels": {"app": "friend"}}, "friend", 0, id="with other labels"),
        pytest.param({"node": "nodes/n1"}, "old", 1, id="on another node"),
    ],
)
def test_a_gang_stays_that_is_listed_otherwise_than_in_its_sets(
    policy: Policy, said: dict[str, Any], avoided: str, bound: int
) -> None:
    """What the list says decides where the gang that waits has room."""
    old = running("old", "n0", gpus=1)
    mine = asking(urgent(1), required_anti_affinity=away(avoided))
    other = replace(listed(old)[0], **said)
    at = (node("n0", used=1), node("n1", gpus=0))
    result = answer(Snapshot(at, (old, mine), (other,)), policy)
    assert not result.evictions
    assert len(result.bindings) == bound


def test_a_gang_is_not_moved_near_a_pod_that_keeps_it_away() -> None:
    """A rule that no waiting pod meets need not be listed; its gang tells it all the same."""
    old = running("old", "n0", gpus=1)
    keeper = asking(running("keeper", "n1", gpus=1), required_anti_affinity=away("old"))
    at = (node("n0", used=1), node("n1", used=1))
    question = Snapshot(at, (old, keeper, urgent(8)))
    assert not answer(question, REPACK).bindings
    careless = answer(
        replace(question, gangs=(old, running("keeper", "n1", gpus=1), urgent(8))), REPACK
    )
    (broken,) = verify(question, REPACK, careless.bindings, careless.evictions)
    assert "keeps pod namespaces/ml/pods/old-0 away" in broken
    elsewhere = replace(question, nodes=(*at, node("n2", gpus=1)))
    result = answer(elsewhere, REPACK)
    assert [(e.pod[-8:], e.to_node) for e in result.evictions] in (
        [("ds/old-0", "nodes/n2")],
        [("keeper-0", "nodes/n2")],
    )
    assert result.solution.proven


def test_labels_that_no_rule_looks_at_may_be_listed_otherwise() -> None:
    old = running("old", "n0", gpus=8)
    listed_old = replace(listed(old)[0], labels={"app": "old", "pod-index": "0"})
    mine = asking(urgent(8), required_anti_affinity=away("friend"))
    result = answer(Snapshot((node("n0", used=8),), (old, mine), (listed_old,)), PREEMPT)
    assert result.evicted() == ["old"]


def test_what_a_running_pod_asked_of_others_when_it_came_does_not_matter() -> None:
    """It requires a pod that is gone, and is spread worse than it may be."""
    gone = (PodAffinityTerm(LabelSelector((("app", "gone"),)), HOSTNAME, ("ml",)),)
    skew = (SpreadConstraint(1, HOSTNAME, LabelSelector((("app", "old"),)), "ml"),)
    old = asking(
        running("old", *["n0"] * 3, gpus=1), required_affinity=gone, spread_constraints=skew
    )
    at = (node("n0", used=3), node("n1", gpus=1))
    question = Snapshot(at, (old, urgent(8)), listed(old))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["old"] * 3
    assert result.solution.proven
    # With less to place all of it stays.
    assert not answer(replace(question, gangs=(old, urgent(5))), PREEMPT).evictions


def test_a_gang_near_a_pod_that_it_keeps_away_stays() -> None:
    """No plan could put them together, but they run."""
    old = asking(running("old", "n0", gpus=1), required_anti_affinity=away("friend"))
    friend = RunningPod("namespaces/ml/pods/friend", "nodes/n0", {"app": "friend"})
    question = Snapshot((node("n0", used=2),), (old, urgent(8)), (*listed(old), friend))
    assert not opened(question)
    assert opened(replace(question, running_pods=(*listed(old), replace(friend, node="nodes/x"))))
    # Where it stays its value counts, and no bound forgets that.
    full = answer(question, PREEMPT)
    admitted = next(t for t in full.solution.tiers if t.name is TierName.ADMITTED)
    assert admitted.bound is None or admitted.bound >= admitted.value


# --- ComputeDomains ----------------------------------------------------------------


def in_domains(members: int, *gangs: PodGang) -> Snapshot:
    """Nodes n0 and n1 serve a domain with a pod of a gang of two each, n2 with one of its own.

    So many pods are said to be in the domain of n2. A pod that is in none has room everywhere.
    """
    two = asking(running("two", "n0", "n1", gpus=1), compute_domain="ml/two")
    one = asking(running("one", "n2", gpus=1), compute_domain="ml/one")
    serves = [("ml/two", 1), ("ml/two", 1), ("ml/one", members)]
    at = tuple(
        replace(node(f"n{i}", used=1), compute_domain=domain, compute_domain_pods=pods)
        for i, (domain, pods) in enumerate(serves)
    )
    return Snapshot(at, (two, one, *gangs))


@pytest.mark.parametrize(
    ("members", "evicted"),
    [
        pytest.param(1, ["one"], id="the fewest pods"),
        pytest.param(2, ["two", "two"], id="not where a pod stays in the domain"),
        pytest.param(0, ["two", "two"], id="not where one may stay"),
    ],
)
def test_a_gang_gives_way_whose_compute_domain_is_in_the_way(
    members: int, evicted: list[str]
) -> None:
    mine = asking(urgent(1), compute_domain="ml/mine")
    result = answer(in_domains(members, mine), PREEMPT)
    assert result.evicted() == evicted
    assert len(result.bindings) == 1
    assert result.solution.proven
    # Another pod of that domain needs nobody to go.
    same = asking(urgent(1), compute_domain="ml/two")
    assert not answer(in_domains(members, same), PREEMPT).evictions


def test_a_gang_in_a_compute_domain_is_not_moved() -> None:
    """With REPACK nothing is proven, because a rule would let it go."""
    mine = asking(urgent(1), compute_domain="ml/mine")
    result = answer(in_domains(1, mine), REPACK)
    assert not result.evictions
    assert not result.solution.proven


@pytest.mark.parametrize("priority", [0, 1])
def test_a_node_serves_no_other_domain_of_the_priority_of_its_victim(priority: int) -> None:
    """A gang without a domain evicts both pods of one, for their GPUs."""
    old = asking(running("old", "n0", "n0", gpus=4), compute_domain="ml/old")
    mine = asking(gang("mine", pods=1, gpus=0), compute_domain="ml/mine")
    at = replace(node("n0", used=8), compute_domain="ml/old", compute_domain_pods=2)
    question = Snapshot((at,), (old, replace(mine, priority=priority), urgent(8)))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["old", "old"]
    assert len(result.bindings) == 1 + priority
    assert result.solution.proven


def test_a_domain_ends_only_with_all_of_its_pods() -> None:
    """Two pods are in the domain, and one of them is an extra."""
    old = asking(running("old", "n0", "n0", gpus=1, minimum=1), compute_domain="ml/old")
    mine = asking(urgent(1), compute_domain="ml/mine")
    at = replace(node("n0", used=2), compute_domain="ml/old", compute_domain_pods=2)
    assert answer(Snapshot((at,), (old, mine)), PREEMPT).evicted() == ["old", "old"]


def test_a_gang_stays_on_a_node_with_pods_of_two_domains() -> None:
    one, two = (asking(running(d, "n0", gpus=1), compute_domain=f"ml/{d}") for d in ("one", "two"))
    question = Snapshot((node("n0", used=2),), (one, two, urgent(8)))
    assert not opened(question)
    assert opened(replace(question, gangs=(one, urgent(8)))) == [0]


def test_one_pod_on_each_node_that_keeps_others_away_is_a_column() -> None:
    """So no pod class is under a rule across nodes, which some models leave out."""
    mine = asking(urgent(1), compute_domain="ml/mine")
    problem = formulate(in_domains(1, mine), PREEMPT)
    assert not problem.special.any()
    assert not problem.rules


@pytest.mark.parametrize(("count", "moves"), [(MOST_TERMS, True), (MOST_TERMS + 1, False)])
def test_gangs_stay_where_each_of_many_keeps_others_away(count: int, moves: bool) -> None:
    """Each would be a kind of pods of its own for every model. They are evicted all the same."""
    at = tuple(node(f"n{i}", used=1) for i in range(count))
    gangs = tuple(
        asking(
            running(f"g{i}", f"n{i}", gpus=1),
            labels={"app": f"g{i}"},
            required_anti_affinity=away(f"g{i}"),
        )
        for i in range(count)
    )
    question = Snapshot(at, (*gangs, urgent()), listed(*gangs))
    assert bool(opened(question, REPACK)) is moves
    assert len(opened(question, PREEMPT)) == count
    # Where pods that avoid each other have no room on one node anyway, it does not matter.
    whole = tuple(asking(gang, requests={GPU: 8}) for gang in gangs)
    full = tuple(node(f"n{i}", used=8) for i in range(count))
    without = replace(question, nodes=full, gangs=(*whole, urgent()))
    assert len(prepare(without, REPACK).opened) == count
