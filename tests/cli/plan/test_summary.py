"""What became of each gang: states and counts, on the smallest instances."""

from __future__ import annotations

import pytest

from placement import v1
from placement.cli.plan.summary import MARKS, Filter, State, summarize
from tests.cli.question import GPU, RACK, gang, node, question, reply

NODES = [node("n1", gpus=8, rack="r1"), node("n2", gpus=8, rack="r2")]


@pytest.mark.parametrize(
    ("asked", "nodes", "want"),
    [
        pytest.param(gang("a", pods=2, gpus=1), "n1 n1", State.PLACED, id="all pods are new"),
        pytest.param(gang("a", pods=2, minimum=1), "n1", State.PARTLY, id="an extra waits"),
        pytest.param(
            gang("a", pods=1, minimum=1, bound=["n1"]), "", State.PARTLY, id="ran, an extra waits"
        ),
        pytest.param(gang("a", pods=0, bound=["n1"]), "", State.RUNNING, id="nothing to do"),
        pytest.param(gang("a", pods=2), "", State.WAITING, id="minimum not met"),
        pytest.param(
            gang("a", pods=1, minimum=2, bound=["n1"]), "", State.WAITING, id="half of it runs"
        ),
    ],
)
def test_states(asked: v1.PodGang, nodes: str, want: State) -> None:
    request = question(NODES, [asked])
    [told] = summarize(request, reply(request, {"a": nodes})).gangs
    assert told.state is want


def test_pods_are_counted_as_new_running_and_asked() -> None:
    """3 run, 2 are new, 1 pending pod and 4 gated ones wait."""
    asked = gang("a", pods=3, minimum=4, bound=["n1", "n1", "n2"])
    asked.groups[0].gated_count = 4
    request = question(NODES, [asked])
    [told] = summarize(request, reply(request, {"a": "n1 n1"})).gangs
    assert (told.new, told.running, told.asked, told.minimum, told.nodes) == (2, 5, 10, 4, 2)


def test_pods_that_go_or_move_are_counted_where_they_are_afterwards() -> None:
    asked = gang("a", pods=1, gpus=2, minimum=1, bound=["n1", "n1", "n2"])
    request = question(NODES, [asked])
    placement = reply(request, {"a": ""})
    placement.gangs[0].placed = True
    first, second, _ = asked.groups[0].bound_pods
    placement.evictions.add(pod=first.name, kind=v1.EvictionKind.EVICTION_KIND_PREEMPT)
    placement.evictions.add(
        pod=second.name, kind=v1.EvictionKind.EVICTION_KIND_MOVE, to_node="nodes/n2"
    )
    found = summarize(request, placement)
    assert [(s.node, s.before, s.gpus_before) for s in found.seats] == [("nodes/n2", 2, 4)]
    [told] = found.gangs
    assert (told.state, told.running, told.asked) == (State.PARTLY, 2, 4)


def test_running_pods_ask_what_their_pending_siblings_ask() -> None:
    request = question(NODES, [gang("a", pods=1, gpus=2, bound=["n1", "n1"])])
    [first, second] = summarize(request, reply(request, {"a": "n2"})).seats
    assert (first.before, first.gpus_before, first.new_gpus) == (2, 4, 0)
    assert (second.before, second.gpus_before, second.new_gpus) == (0, 0, 2)


def test_without_pending_siblings_the_gpus_of_running_pods_are_unknown() -> None:
    request = question(NODES, [gang("a", pods=0, bound=["n1"])])
    [seat] = summarize(request, reply(request, {})).seats
    assert seat.gpus_before is None
    assert seat.gpus == 0


def test_the_policy_says_what_a_gpu_is() -> None:
    request = question(NODES, [gang("a", pods=1, gpus=2)])
    request.policy.gpu_resources.append("example.com/tpu")
    assert summarize(request, reply(request, {"a": "n1"})).seats[0].gpus == 0
    request.policy.gpu_resources.append(GPU)
    assert summarize(request, reply(request, {"a": "n1"})).seats[0].gpus == 2


def test_only_gangs_on_nodes_carry_a_mark() -> None:
    request = question(NODES, [gang(n, pods=1) for n in "xyz"])
    gangs = summarize(request, reply(request, {"x": "n1", "z": "n2"})).gangs
    assert [g.mark for g in gangs] == ["A", "", "B"]


def test_marks_are_told_apart_in_both_cases() -> None:
    both = MARKS + MARKS.lower()
    assert len(set(both)) == len(both) == 2 * len(MARKS)


def test_domains_of_several_scopes_at_one_level_are_told_together() -> None:
    request = question(NODES, [gang("a", pods=2, required=RACK)])
    placement = reply(request, {"a": "n2 n2"})
    placement.gangs[0].scopes.add(name="b", level=RACK, domains=["r1"])
    [use] = summarize(request, placement).gangs[0].uses
    assert (use.level, use.required, use.domains) == (RACK, True, ("r1", "r2"))


def test_namespaces_are_named_only_when_there_are_several() -> None:
    request = question(NODES, [gang("a", pods=1), gang("b", pods=1, namespace="ops")])
    summary = summarize(request, reply(request, {}))
    assert [summary.title(g) for g in summary.gangs] == ["ml/a", "ops/b"]
    del request.gangs[1]
    summary = summarize(request, reply(request, {}))
    assert [summary.title(g) for g in summary.gangs] == ["a"]


def test_a_long_list_shows_those_that_wait_first_and_counts_the_others() -> None:
    nodes = [node(f"n{i}", gpus=8) for i in range(3)]
    gangs = [gang(f"g{i}", pods=1, gpus=8) for i in range(3)]
    request = question(nodes, [*gangs, gang("late", pods=1, gpus=8)])
    summary = summarize(request, reply(request, {f"g{i}": f"n{i}" for i in range(3)}))

    def listed(chosen: Filter) -> tuple[list[str], int]:
        shown, hidden = chosen.choose(summary)
        return [one.name for one in shown], hidden

    assert listed(Filter()) == (["g0", "g1", "g2", "late"], 0)
    assert listed(Filter(most=2)) == (["g0", "late"], 2)
    assert listed(Filter(waiting=True)) == (["late"], 0)
    assert listed(Filter(name="g1")) == (["g1"], 0)


def test_of_a_long_list_those_are_shown_that_waited_longest() -> None:
    gangs = [gang(f"g{i}", pods=1, gpus=8, created=c) for i, c in enumerate((900, 500, 700))]
    request = question([node("n", gpus=4)], gangs, as_of=1_000)
    summary = summarize(request, reply(request, {}))
    assert [one.waited for one in summary.gangs] == [100, 500, 300]
    shown, _ = Filter(most=2).choose(summary)
    assert [one.name for one in shown] == ["g1", "g2"]
