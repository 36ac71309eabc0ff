"""Queues on smallest instances: limits and guaranteed amounts, whole gangs, every ancestor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.placement import Reason, ReasonCode
from placement_service.entities.queues import GPUS
from placement_service.entities.request import CPU, BoundPod
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.judge.score import score
from tests.placed import solve
from tests.scenario import Group, Scenario, gang_name
from tests.waiting import LONG

NODES = "x1=8 x2=8 x3=8"


def reasons(scenario: Scenario, gang: str) -> tuple[Reason, ...]:
    snapshot, policy = scenario.snapshot(), scenario.policy
    solution = solve(snapshot, policy, seconds=LONG)[-1]
    result = score(snapshot, policy, name_pods(snapshot, solution.assignments))
    problem = formulate(snapshot, policy)
    found = explain(snapshot, problem, solution, result, deadline=float("inf"))
    return found[[g.name for g in snapshot.gangs].index(gang_name(gang))]


def test_a_limit_binds_though_there_is_room() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 8})
    for name in "ab":
        scenario = scenario.gang(name, pods=1, gpus=8, queue="team")
    scenario.place().expect(admitted=8)


def test_what_runs_in_a_queue_counts() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 16}, used=12)
    scenario.gang("a", pods=1, gpus=8, queue="team").place().expect(placed=())


def test_pods_that_the_request_lists_with_a_template_count() -> None:
    scenario = Scenario("x1=0/8 x2=8").queue("team", limit={GPUS: 8})
    scenario = scenario.gang("runs", pods=1, gpus=4, min=1, queue="team")
    (gang,) = scenario.gangs
    (group,) = gang.groups
    (pods,) = group.pod_sets
    there = replace(pods, pods=(), bound_pods=(BoundPod("namespaces/ml/pods/r", "nodes/x1"),))
    scenario = replace(
        scenario, gangs=(replace(gang, groups=(replace(group, pod_sets=(there,)),)),)
    )
    scenario = scenario.gang("a", pods=2, gpus=4, queue="team").gang(
        "b", pods=1, gpus=4, queue="team"
    )
    scenario.place().expect(placed=("runs", "b"))


def test_the_whole_gang_counts() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 12})
    scenario = scenario.gang("pair", pods=2, gpus=8, queue="team")
    scenario.gang("single", pods=1, gpus=8, queue="team").place().expect(placed=("single",))


def test_every_queue_above_binds() -> None:
    scenario = (
        Scenario(NODES).queue("org", limit={GPUS: 8}).queue("unit", parent="org", limit={GPUS: 16})
    )
    scenario = scenario.queue("a", parent="unit", limit={GPUS: 16}).queue(
        "b", parent="org", limit={GPUS: 16}
    )
    scenario = scenario.gang("in-a", pods=1, gpus=8, queue="a")
    scenario.gang("in-b", pods=1, gpus=8, queue="b").place().expect(admitted=8)


def test_extras_stay_below_the_limit() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 12})
    scenario.gang("a", pods=5, gpus=4, min=1, queue="team").place().expect(new={"a": 3})


def test_extras_of_a_gang_that_runs_stay_below_the_limit() -> None:
    scenario = Scenario("x1=4/8 x2=8").queue("team", limit={GPUS: 12}, used=4)
    group = Group("w", pods=4, gpus=4, min=1, on=("x1",))
    scenario.gang("a", group, queue="team").place().expect(new={"a": 2})


def test_a_limit_of_zero_allows_nothing() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 0})
    scenario.gang("a", pods=1, gpus=1, queue="team").place().expect(placed=())


def test_a_queue_over_its_limit_still_takes_pods_that_need_nothing_of_it() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 8}, used=20)
    group = Group("w", pods=1, cpus=1)
    scenario.gang("a", group, queue="team").place().expect(placed=("a",))


def test_other_resources_are_limited_too() -> None:
    scenario = Scenario(NODES).queue("team", limit={CPU: 64_000})
    group = Group("w", pods=3, cpus=32, min=1)
    scenario.gang("a", group, queue="team").place().expect(new={"a": 2})


def test_what_is_not_preemptible_stays_inside_what_is_guaranteed() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 24}, guaranteed={GPUS: 8})
    scenario = scenario.gang("fixed", pods=2, gpus=8, queue="team", not_preemptible=True)
    scenario = scenario.gang("loose", pods=2, gpus=8, queue="team")
    scenario.place().expect(placed=("loose",))


def test_what_runs_and_is_not_preemptible_counts_in_what_is_guaranteed() -> None:
    scenario = Scenario(NODES).queue("team", guaranteed={GPUS: 16}, used=8, fixed=8)
    scenario = scenario.gang("a", pods=2, gpus=8, queue="team", not_preemptible=True)
    scenario = scenario.gang("b", pods=1, gpus=8, queue="team", not_preemptible=True)
    scenario.place().expect(placed=("b",))


def test_gangs_alike_but_for_their_queue_are_told_apart() -> None:
    scenario = Scenario(NODES).queue("closed", limit={GPUS: 0}).queue("open")
    for queue in ("closed", "open"):
        for i in range(2):
            scenario = scenario.gang(f"{queue}-{i}", pods=1, gpus=8, queue=queue)
    scenario.place().expect(placed=("open-0", "open-1"))


def test_parts_under_scopes_count_in_their_own_queue() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8")
        .queue("a", limit={GPUS: 24})
        .queue("b", limit={GPUS: 8})
    )
    for name, queue in (("one", "a"), ("two", "b")):
        group = Group("w", pods=2, gpus=8, min=1, pack="rack", prefer="host")
        scenario = scenario.gang(name, group, queue=queue)
    scenario.place().expect(new={"one": 2, "two": 1})


def test_a_gang_whose_queue_is_not_there_waits_and_is_told_so() -> None:
    scenario = Scenario(NODES).gang("a", pods=1, gpus=8, queue="nowhere")
    scenario.place().expect(placed=())
    (reason,) = reasons(scenario, "a")
    assert reason.code is ReasonCode.QUEUE_UNKNOWN
    assert reason.message == "its queue nowhere does not exist."


@pytest.mark.parametrize(
    ("scenario", "code", "message"),
    [
        pytest.param(
            Scenario(NODES)
            .queue("team-a", limit={GPUS: 64}, used=56)
            .gang("a", pods=2, gpus=8, queue="team-a"),
            ReasonCode.QUEUE_LIMIT,
            "queue team-a has 8 of 64 GPUs left, the gang asks for 16.",
            id="limit",
        ),
        pytest.param(
            Scenario(NODES)
            .queue("team-a", limit={GPUS: 16})
            .gang("a", pods=1, gpus=8, queue="team-a")
            .gang("b", pods=2, gpus=8, priority=5, queue="team-a"),
            ReasonCode.QUEUE_LIMIT,
            "beside the gangs that are placed, queue team-a has 0 of 16 GPUs left, "
            "the gang asks for 8.",
            id="beside others",
        ),
        pytest.param(
            Scenario(NODES)
            .queue("org", limit={CPU: 1000})
            .queue("team-a", parent="org")
            .gang("a", Group("w", pods=1, cpus=2), queue="team-a"),
            ReasonCode.QUEUE_LIMIT,
            "queue org has 1 of 1 cpu left, the gang asks for 2.",
            id="above, cores",
        ),
        pytest.param(
            Scenario(NODES)
            .queue("org", limit={GPUS: 4})
            .queue("team-a", "org")
            .queue("team-b", "org", kept={GPUS: 8})
            .gang("a", pods=1, gpus=8, queue="team-a")
            .gang("b", pods=1, gpus=8, priority=5, queue="team-b"),
            ReasonCode.QUEUE_LIMIT,
            "queue org has, beside what team-b keeps, 4 of 4 GPUs left, the gang asks for 8.",
            id="beside what others keep",
        ),
        pytest.param(
            Scenario(NODES)
            .queue("team-a", guaranteed={GPUS: 8}, used=4, fixed=4)
            .gang("a", pods=1, gpus=8, queue="team-a", not_preemptible=True),
            ReasonCode.QUEUE_GUARANTEED,
            "of the 8 GPUs guaranteed to queue team-a 4 are left to gangs that are not "
            "preemptible, the gang asks for 8.",
            id="guaranteed",
        ),
        pytest.param(
            Scenario(NODES)
            .queue("team", limit={GPUS: 2})
            .gang(
                "a",
                Group("w", pods=1, gpus=1, others=(Group("v", pods=1, gpus=2),)),
                queue="team",
            ),
            ReasonCode.QUEUE_LIMIT,
            "queue team has 2 of 2 GPUs left, the gang asks for 3.",
            id="unlike pods of one group",
        ),
    ],
)
def test_reasons_tell_what_is_left_of_which_queue(
    scenario: Scenario, code: ReasonCode, message: str
) -> None:
    (reason,) = reasons(scenario, "a")
    assert (reason.code, reason.message) == (code, message)
    assert reason.subject.startswith("queues/")


@pytest.mark.parametrize(("pods", "who", "asked"), [(4, "1 pod", 4), (5, "2 pods", 8)])
def test_reasons_of_extras_name_the_queue(pods: int, who: str, asked: int) -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 12})
    scenario = scenario.gang("a", pods=pods, gpus=4, min=1, queue="team")
    (reason,) = reasons(scenario, "a")
    assert reason.code is ReasonCode.QUEUE_LIMIT
    wait, ask = ("waits", "it asks") if pods == 4 else ("wait", "they ask")
    assert reason.message == (
        f"{who} beyond the minimum {wait}: queue team has 0 of 12 GPUs left, {ask} for {asked}."
    )


def test_huge_amounts_do_not_overflow() -> None:
    scenario = Scenario(NODES).queue("team", limit={GPUS: 2**52, CPU: 2**53 - 1})
    scenario = scenario.queue("small", limit={CPU: 2**53 - 1}, parent="team")
    scenario = scenario.gang("a", pods=1, gpus=1, queue="team")
    scenario.gang("b", Group("w", pods=1, cpus=2**40), queue="small").place().expect(placed=("a",))
