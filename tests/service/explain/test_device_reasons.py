"""Which devices keep a pod out, in words."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.placement import ReasonCode
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    Node,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.explain.device_reasons import devices_in_the_way
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.devices import patterns as device_patterns
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from tests.service.boards import (
    board,
    near,
    picky,
    pods_of,
    share,
    wholes,
    with_nics,
)
from tests.service.questions import GPU, node
from tests.waiting import LONG

PREFER = PartitionPolicy.PREFER


def reason(there: Node, gang: PodGang) -> tuple[ReasonCode, str]:
    """Why the gang waits, as the first answer leaves it."""
    question = Snapshot((there,), (gang,))
    prepared = prepare(question, Policy())
    problem = formulate(question, Policy(), prepared)
    found = first_answer(problem)
    plan = name_plan(question, Policy(), prepared, found.assignments)
    result = score(question, Policy(), *plan)
    until = time.monotonic() + LONG
    ((first, *_),) = explain(prepared.snapshot, problem, found, result, deadline=until)
    return first.code, first.message


def used(milli: int, *, gpus: int = 2) -> Node:
    plain = board(gpus=gpus, policy=PREFER)
    return replace(plain, devices=tuple(Device(i, used_milli=milli) for i in range(gpus)))


@pytest.mark.parametrize(
    ("there", "gang", "want"),
    [
        pytest.param(
            board(2, 5), wholes("four", 4)[0],
            "no partition of 4 is free on h0: 0-3 has GPU 2 in use; 4-7 has GPU 5 in use",
            id="a GPU in each",
        ),
        pytest.param(
            board(), wholes("three", 3)[0], "h0 has no partition of 3 GPUs", id="no such size"
        ),
        pytest.param(
            replace(
                board(gpus=2, policy=PREFER),
                devices=(Device(0, healthy=False), Device(1)),
            ),
            wholes("two", 2)[0],
            "1 of 2 GPUs on h0 is wholly free: GPU 0 unhealthy",
            id="unhealthy",
        ),
        pytest.param(
            board(2, 5, policy=PREFER), pods_of("four", 1, picky(4)),
            "no partition of 4 is free on h0: 0-3 has GPU 2 in use; 4-7 has GPU 5 in use",
            id="a partition that is required",
        ),
        pytest.param(
            board(gpus=2, policy=PREFER), pods_of("two", 1, picky(2)),
            "h0 has no partition of 2 GPUs",
            id="no partition at all",
        ),
        pytest.param(
            board(), pods_of("two", 1, picky(2, RequiredPartition(ring_bandwidth=200 << 30))),
            "no partition of 2 on h0 has a ring bandwidth of 200Gi/s",
            id="bandwidth",
        ),
        pytest.param(
            replace(
                board(0, gpus=4),
                partitions=(DevicePartition((0, 1), 2), DevicePartition((2, 3), 1)),
            ),
            pods_of("two", 1, picky(2)),
            "no partition of 2 with the best score, 2, is free on h0: 0-1 has GPU 0 in use",
            id="best score",
        ),
        pytest.param(
            used(500), pods_of("part", 1, share(600)),
            "no GPU on h0 has 60 % left: GPU 0 has 50 % and GPU 1 has 50 %",
            id="shares",
        ),
        pytest.param(
            replace(used(500, gpus=3), devices=(Device(0), *used(500, gpus=3).devices[1:])),
            pods_of("parts", 1, PodTemplate({PODS: 1}, device_share=DeviceShare(600, 600, 0, 2))),
            "1 of 3 GPUs on h0 has 60 % left, and a pod needs 2",
            id="several shares",
        ),
        pytest.param(
            node("plain"), pods_of("part", 1, share(600)), "plain does not list its GPUs",
            id="unlisted",
        ),
        pytest.param(
            board(gpus=1, policy=PREFER),
            pods_of("bytes", 1, PodTemplate({PODS: 1}, device_share=DeviceShare(0, 0, 1 << 30))),
            "no GPU on h0 has 1Gi memory left",
            id="memory that is not known",
        ),
        pytest.param(
            with_nics((2, 0)), pods_of("near", 1, near(1, 1)),
            "no GPU that is free on h0 is on a switch with network devices",
            id="no network",
        ),
        pytest.param(
            with_nics((1, 2), (1, 0)), pods_of("near", 1, near(2, 2)),
            "of 2 GPUs with 2 network devices h0 has 1 on switches with 2",
            id="network on one switch only",
        ),
        pytest.param(
            with_nics((1, 1), (1, 1)), pods_of("near", 1, near(1, 2)),
            "no GPU that is free on h0 has 2 network devices on its switch",
            id="network on two switches",
        ),
    ],
)  # fmt: skip
def test_the_devices_in_the_way_are_named(there: Node, gang: PodGang, want: str) -> None:
    code, text = reason(there, gang)
    assert code is ReasonCode.DEVICES
    assert want in text


GIB = 1 << 30


def some_used(there: Node, **used_milli: int) -> Node:
    """The node where so much of some devices, by their number after a ``d``, is in use."""
    devices = (
        replace(d, used_milli=used_milli.get(f"d{d.index}", 0), used_memory_milli=0)
        for d in there.devices
    )
    return replace(there, devices=tuple(devices))


def with_memory(*used: int | None, gibibytes: int = 80) -> Node:
    """Of each device so many thousandths of the memory are in use; None where it is unhealthy."""
    devices = (
        Device(i, n is not None, 0, n or 0, memory_bytes=gibibytes * GIB)
        for i, n in enumerate(used)
    )
    return replace(node("h0", gpus=len(used)), devices=tuple(devices))


def bytes_of(gibibytes: int, compute: int = 0) -> PodTemplate:
    return PodTemplate({PODS: 1}, device_share=DeviceShare(compute, 0, gibibytes * GIB))


@pytest.mark.parametrize(
    ("there", "template", "want"),
    [
        pytest.param(
            some_used(with_nics((2, 1), (2, 0)), d0=500), near(2, 2),
            "of 2 GPUs with 2 network devices h0 has 1 on switches with 1",
            id="a GPU in use is not free for who needs whole ones",
        ),
        pytest.param(
            some_used(with_nics((1, 4), (1, 1), (2, 0)), d0=1000), near(2, 2),
            "of 2 GPUs with 2 network devices h0 has 1 on switches with 1",
            id="the network of a switch without a free GPU is of no use",
        ),
        pytest.param(
            some_used(with_nics((1, 1), (1, 0)), d0=1000), near(1, 1),
            "no GPU that is free on h0 is on a switch with network devices",
            id="no free GPU near the network",
        ),
        pytest.param(
            with_nics((2, 1), (2, 1)), near(2, 2),
            "no 2 GPUs that are free on h0 have 2 network devices on their switches, one on each "
            "at least",
            id="enough of both, but not together",
        ),
        pytest.param(
            some_used(with_nics((1, 1), (1, 0)), d0=500),
            replace(share(600), same_pcie_nics=1),
            "no GPU that is free on h0 is on a switch with network devices",
            id="a share that fits elsewhere alone",
        ),
        pytest.param(
            with_memory(500, 750, None), bytes_of(60),
            "no GPU on h0 has 60Gi memory left: "
            "GPU 0 has 40Gi memory, GPU 1 has 20Gi memory and GPU 2 has none",
            id="bytes",
        ),
        pytest.param(
            with_memory(0, gibibytes=0), bytes_of(1),
            "no GPU on h0 has 1Gi memory left: GPU 0 has memory that is not known",
            id="bytes of what is not known",
        ),
        pytest.param(
            some_used(with_memory(0), d0=700), bytes_of(8, compute=400),
            "no GPU on h0 has 8Gi memory left: GPU 0 has 30 %",
            id="compute that lacks beside memory",
        ),
        pytest.param(with_memory(500), bytes_of(40), "", id="all that is left"),
        pytest.param(used(400), share(600), "", id="the rest of a GPU"),
        pytest.param(
            replace(
                board(gpus=6, policy=PREFER),
                devices=tuple(Device(i, i != 5, 1000 * (i in (0, 1, 3))) for i in range(6)),
            ),
            PodTemplate({GPU: 3, PODS: 1}),
            "2 of 6 GPUs on h0 are wholly free: GPUs 0-1, 3 in use and GPU 5 unhealthy",
            id="which are not free",
        ),
        pytest.param(node("plain"), PodTemplate({GPU: 1, PODS: 1}), "", id="only their number"),
        pytest.param(board(), PodTemplate({PODS: 1}), "", id="no GPUs"),
    ],
)  # fmt: skip
def test_what_is_short_on_a_node_is_counted(there: Node, template: PodTemplate, want: str) -> None:
    assert devices_in_the_way(there, template, Policy()) == want


def test_a_partition_of_one_is_no_plural() -> None:
    there = replace(board(), partitions=(DevicePartition((0, 1)),))
    assert "h0 has no partition of 1 GPU." in reason(there, wholes("one", 1)[0])[1]


def test_columns_that_are_rules_are_named_without_numbers() -> None:
    """Partitions are such; pods that are spread are counted in every column."""
    spread = (SpreadConstraint(1, HOSTNAME, LabelSelector((), ()), "ml", 2),)
    template = PodTemplate({GPU: 8, PODS: 1}, {"app": "x"}, spread_constraints=spread)
    _, text = reason(board(0), pods_of("eights", 2, template))
    assert "; free is 7 of 16 nvidia.com/gpu; " in text


def test_where_devices_would_do_they_are_not_named() -> None:
    assert reason(board(), wholes("nine", 9)[0])[0] is not ReasonCode.DEVICES


def test_what_takes_too_long_to_try_out_is_counted_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two GPUs of a pod need a network device each, and there are two."""
    there, gang = with_nics((2, 1), (2, 1)), pods_of("wide", 3, near(2, 2))
    assert "has room for 1 of 3 pods" in reason(there, gang)[1]
    monkeypatch.setattr(device_patterns, "MOST_STEPS", 0)
    code, text = reason(there, gang)
    assert code is ReasonCode.INSUFFICIENT_RESOURCES
    assert "has room for at most 2 of 3 pods" in text


def test_no_count_is_told_that_may_be_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU has two such parts: counted is only what fits wholly free GPUs, and that is less."""
    gang = pods_of("parts", 4, share(400, count=2))
    monkeypatch.setattr(device_patterns, "MOST_STEPS", 0)
    _, text = reason(board(gpus=4, policy=PREFER), gang)
    assert text.startswith("no way was found to fit the 4 pods together")
