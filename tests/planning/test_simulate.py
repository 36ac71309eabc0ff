"""Traces of a few jobs whose course can be told by hand."""

from __future__ import annotations

import threading

import pytest

from placement import v1
from placement.planning.planner import Ask
from placement.planning.simulate import (
    Job,
    Outcome,
    Run,
    columns_not_read,
    each,
    read_jobs,
    simulate,
)
from tests.planning.clusters import node, request
from tests.waiting import LONG


def job(name: str, submit: float, duration: float, *, gpus: int = 8, priority: int = 0) -> Job:
    return Job(name, submit, duration, pods=1, gpus=gpus, minimum=1, priority=priority)


def run(ask: Ask, *jobs: Job, policy: v1.Policy | None = None, nodes: int = 1) -> Outcome:
    asked = request([node(f"n{i}") for i in range(nodes)], [])
    return simulate(asked, jobs, policy or v1.Policy(), ask=lambda r: ask(r, 10.0))


def started(outcome: Outcome) -> dict[str, float | None]:
    return {run.job.name: run.started for run in outcome.runs}


def test_jobs_wait_for_the_room_that_others_leave(ask: Ask) -> None:
    outcome = run(ask, job("a", 0, 100), job("b", 10, 50), job("c", 20, 10, gpus=4))
    assert started(outcome) == {"a": 0, "b": 100, "c": 150}
    assert outcome.end == 160
    assert outcome.utilisation == pytest.approx((100 * 8 + 50 * 8 + 10 * 4) / (8 * 160))
    assert outcome.wait(0.5) == 90


def test_a_trace_that_is_ended_early_tells_what_was_until_then(ask: Ask) -> None:
    asked = request([node("n0")], [])
    looks = iter([False, False, True])
    outcome = simulate(
        asked,
        [job("a", 0, 100), job("b", 10, 50), job("c", 20, 10)],
        v1.Policy(),
        ask=lambda r: ask(r, 10.0),
        stops=lambda: next(looks),
    )
    assert started(outcome) == {"a": 0, "b": None, "c": None}
    assert (outcome.stopped, outcome.end, outcome.utilisation) == (10, 10, 1.0)


def test_a_job_that_fits_nowhere_never_starts(ask: Ask) -> None:
    assert started(run(ask, job("large", 0, 10, gpus=16), job("a", 0, 5))) == {
        "large": None,
        "a": 0,
    }


def test_jobs_tolerate_the_taint_of_their_gpus_and_say_why_they_wait(ask: Ask) -> None:
    tainted = node("n0")
    tainted.taints.add(key="nvidia.com/gpu", effect=v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE)
    jobs = (job("a", 0, 10), job("large", 0, 10, gpus=16))
    outcome = simulate(request([tainted], []), jobs, v1.Policy(), ask=lambda r: ask(r, 10.0))
    ran, waits = outcome.runs
    assert (ran.started, ran.why, waits.started) == (0, "", None)
    assert "16 nvidia.com/gpu" in waits.why


def test_policies_are_run_at_once_and_told_in_their_order() -> None:
    both = threading.Barrier(2, timeout=LONG)

    def one(policy: v1.Policy) -> Outcome:
        both.wait()
        return Outcome((), policy.starvation_after.seconds, None)

    policies = [v1.Policy(starvation_after={"seconds": s}) for s in (2, 1)]
    assert [found.end for found in each(one, policies, at_once=2)] == [2, 1]


def test_higher_priority_goes_first_and_with_eviction_at_once(ask: Ask) -> None:
    jobs = [job("low", 0, 100), job("high", 10, 10, priority=5)]
    assert started(run(ask, *jobs)) == {"low": 0, "high": 100}
    preempt = v1.Policy(eviction=v1.EvictionPolicy.EVICTION_POLICY_PREEMPT)
    outcome = run(ask, *jobs, policy=preempt)
    assert started(outcome) == {"low": 20, "high": 10}
    assert [run.starts for run in outcome.runs] == [2, 1]
    assert outcome.end == 120


def test_what_an_eviction_leaves_over_is_given_away_at_once(ask: Ask) -> None:
    """ "high" needs one of the two nodes that "wide" leaves; the other is for "small"."""
    wide = Job("wide", 0, 100, pods=2, gpus=8, minimum=2)
    jobs = [wide, job("small", 5, 10), job("high", 10, 500, priority=5)]
    preempt = v1.Policy(eviction=v1.EvictionPolicy.EVICTION_POLICY_PREEMPT)
    outcome = run(ask, *jobs, policy=preempt, nodes=2)
    assert started(outcome) == {"wide": 510, "small": 10, "high": 10}


def test_what_was_moved_holds_its_room_where_it_is_then(ask: Ask) -> None:
    repack = v1.Policy(eviction=v1.EvictionPolicy.EVICTION_POLICY_REPACK)
    early = [job("a", 0, 100, gpus=4), job("x", 0, 10, gpus=4)]
    beside = [job("b", 1, 100, gpus=4), job("y", 1, 9, gpus=4)]
    late = [job("whole", 20, 50), job("half", 21, 10, gpus=4)]
    outcome = run(ask, *early, *beside, *late, policy=repack, nodes=2)
    assert started(outcome) == {"a": 0, "x": 0, "b": 1, "y": 1, "whole": 20, "half": 70}


def test_pods_beyond_the_minimum_come_when_there_is_room_and_are_counted(ask: Ask) -> None:
    outcome = run(ask, job("a", 0, 10, gpus=4), Job("b", 0, 100, pods=2, gpus=4, minimum=1))
    assert started(outcome) == {"a": 0, "b": 0}
    assert outcome.utilisation == 1.0


def test_devices_that_are_in_use_break_their_partitions(ask: Ask) -> None:
    board = node("n0", gpus=4)
    board.partition_policy = v1.PartitionPolicy.PARTITION_POLICY_HONOR
    board.devices.extend(v1.Device(index=i) for i in range(4))
    for devices in ([0], [1], [2], [3], [0, 1], [2, 3]):
        board.partitions.add(devices=devices)
    jobs = [job(name, i, ends - i, gpus=1) for i, (name, ends) in enumerate(
        {"a": 100, "b": 10, "c": 50, "d": 10}.items()
    )]  # fmt: skip
    outcome = simulate(
        request([board], []), [*jobs, job("pair", 20, 1, gpus=2)], v1.Policy(),
        ask=lambda r: ask(r, 10.0),
    )  # fmt: skip
    assert started(outcome) == {"a": 0, "b": 1, "c": 2, "d": 3, "pair": 50}


def test_half_of_two_jobs_waited_no_longer_than_the_first() -> None:
    runs = tuple(Run(job(str(wait), 0, 1), wait, 1) for wait in (0.0, 90.0))
    assert [Outcome(runs, 91, None).wait(share) for share in (0.5, 0.95, 1.0)] == [0, 90, 90]


def test_a_trace_is_csv_with_a_header() -> None:
    text = "name,submit,duration,pods,gpus,minimum,required\nB_1,5,10,4,8,2,rack\n,1,1,1,0,,\n"
    assert read_jobs(text.splitlines()) == (
        Job("job-3", 1, 1, 1, 0, 1),
        Job("B_1", 5, 10, 4, 8, 2, "rack"),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a,0,1,1,1,3000000000", "priority must be from -2147483648 to 2147483647"),
        ("a,0,1,2000000000,1,0", "pods must be from 1 to 1000000"),
        ("a,0,1,1,99999999999999999999,0", "gpus must be from 0 to 9007199254740992"),
        ("job 1,0,1,1,1,0", "name must be letters, digits"),
        ("a,0,1,1,1,0,team a", "queue 'team a' is not a name"),
        ("a,0,1,1_0,1,0", "pods must be a whole number, not '1_0'"),
    ],
)
def test_what_the_service_would_not_take_is_named_with_its_line(line: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{told}"):
        read_jobs(["name,submit,duration,pods,gpus,priority,queue", line])


def test_a_value_that_csv_does_not_take_is_told() -> None:
    with pytest.raises(ValueError, match="cannot be read: field larger than field limit"):
        read_jobs(["name,submit,duration,pods,gpus", "a" * 200_000 + ",0,1,1,1"])


def test_columns_that_mean_nothing_are_found_and_none_is_there_twice() -> None:
    assert columns_not_read("name,submit,priorty,user") == {"priorty": "priority", "user": ""}
    with pytest.raises(ValueError, match="the header has pods more than once"):
        read_jobs(["submit,duration,pods,gpus,pods", "0,1,1,1,1"])
    with pytest.raises(ValueError, match="line 2: holds more values than the header has columns"):
        read_jobs(["submit,duration,pods,gpus", "0,1,1,1,5"])


def test_every_wrong_line_of_a_trace_is_named() -> None:
    header = "name,submit,duration,pods,gpus"
    with pytest.raises(ValueError, match="the header lacks gpus"):
        read_jobs(["submit,duration,pods"])
    with pytest.raises(ValueError, match=r"line 2: .*\nline 3: .*\nline 5: ") as raised:
        read_jobs([header, "a,0,1,0,8", "b,x,1,1,1", "c,0,1,1,1", "c,0,1,1,1"])
    assert "line 4" not in str(raised.value)
    with pytest.raises(ValueError, match="line 3: gpus is missing\n") as raised:
        read_jobs([header, "", "a,0,1,1", "b,x,1,1,1", "c,0,1,1.5,1"])
    assert "line 4: submit must be a number, not 'x'" in str(raised.value)
    assert "line 5: pods must be a whole number, not '1.5'" in str(raised.value)
    with pytest.raises(ValueError, match="line 2") as raised:
        read_jobs([header, "a b,-1,nan,0,8GiB"])
    assert str(raised.value).splitlines() == [
        "line 2: pods must be from 1 to 1000000, not 0",
        "line 2: name must be letters, digits, '-', '_' and '.', not 'a b'",
        "line 2: submit must be from 0 to 10000000000, not -1",
        "line 2: duration must be a number, not 'nan'",
        "line 2: gpus must be a whole number, not '8GiB'",
    ]
