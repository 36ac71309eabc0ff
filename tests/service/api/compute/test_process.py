"""The compute process's side of the socket: one job in, frames out."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from placement.v1 import ComputePlacementResponse, StreamPlacementResponse
from placement_service.api.compute import process as compute
from placement_service.api.compute.frames import Channel, JobHead, Kind, Standing
from placement_service.api.methods import Call
from placement_service.api.snapshots.held import Held
from placement_service.entities.progress import Interrupted
from tests.service.pipeline.asking import stages
from tests.service.questions import message
from tests.waiting import LONG

Frames = list[tuple[Kind, bytes]]


def frames_of(call: Call, content: bytes, *, largest: int = 10**6, **broken: Any) -> Frames:
    """What a job is answered with."""
    ours, theirs = socket.socketpair()
    now = time.monotonic()
    versions = Held(2**20)
    job = compute._Job(JobHead(call, now, now + LONG, float("inf")), content)
    edge, channel = Channel(ours.detach()), Channel(theirs.detach())
    compute._Computation(channel, replace(stages(), **broken), largest, versions, job).run()
    channel.send(Kind.READY)
    found: Frames = []
    while True:
        kind, frame = edge.receive()
        if kind is Kind.READY:
            return found
        if kind is not Kind.STAGE:
            found.append((kind, bytes(frame)))


def test_each_better_answer_is_handed_out_before_the_last() -> None:
    found = frames_of(Call.COMPUTE_PLACEMENT, message().SerializeToString())
    kinds = [kind for kind, _ in found]
    assert kinds == [Kind.NAMED, Kind.HELD, Kind.BEST, Kind.BEST, Kind.SUMMARY, Kind.DONE]
    assert [Standing(content[0]) for kind, content in found if kind is Kind.BEST] == [
        Standing.NOTHING,
        Standing.PROVEN,
    ]
    assert found[4][1].startswith(b"optimal\n3 nodes, 1 gangs, 2 bindings")
    nothing, best = (ComputePlacementResponse.FromString(content[1:]) for _, content in found[2:4])
    last = ComputePlacementResponse.FromString(found[5][1])
    assert len(nothing.placement.bindings) == 0
    assert best.placement.bindings == last.placement.bindings


def test_only_a_stream_is_told_of_progress() -> None:
    found = frames_of(Call.STREAM_PLACEMENT, message().SerializeToString())
    events = [StreamPlacementResponse.FromString(c) for k, c in found if k is Kind.PROGRESS]
    assert events
    assert all(event.HasField("progress") for event in events)
    assert StreamPlacementResponse.FromString(found[-1][1]).HasField("placement")


def test_a_stage_that_raises_is_told_with_its_traceback() -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a defect")

    *_, (kind, content) = frames_of(
        Call.COMPUTE_PLACEMENT, message().SerializeToString(), formulate=broken
    )
    assert kind is Kind.FAILED
    assert b"ZeroDivisionError: a defect" in content


def test_a_caller_who_left_gets_no_answer() -> None:
    def leaving(*_: object) -> Any:
        raise Interrupted

    *_, (kind, content) = frames_of(
        Call.COMPUTE_PLACEMENT, message().SerializeToString(), formulate=leaving
    )
    assert (kind, content) == (Kind.CANCELLED, b"")


@pytest.mark.parametrize("content", [b"\xff", b"\x0a\x04\x0a\x02\xff\xff"])
def test_nonsense_is_refused(content: bytes) -> None:
    ((kind, status),) = frames_of(Call.COMPUTE_PLACEMENT, content)
    assert kind is Kind.REFUSED
    assert b"no message" in status


def test_an_answer_that_is_too_large_is_refused() -> None:
    *_, (kind, status) = frames_of(
        Call.COMPUTE_PLACEMENT, message().SerializeToString(), largest=50
    )
    assert kind is Kind.REFUSED
    assert b"its answer takes" in status


@pytest.mark.parametrize("deaf", ["reading", "formulating"])
def test_who_leaves_is_heard_in_the_midst_of_any_stage(
    deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def forever(*_: object) -> Any:
        begun.set()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            pass
        raise AssertionError("nobody was heard")

    ours, theirs = socket.socketpair()
    now = time.monotonic()
    head = JobHead(Call.COMPUTE_PLACEMENT, now, now + LONG, float("inf"))
    job = compute._Job(head, message().SerializeToString())
    edge, channel = Channel(ours.detach()), Channel(theirs.detach())
    deafened = stages()
    if deaf == "formulating":
        deafened = replace(deafened, formulate=forever)
    else:
        monkeypatch.setattr("placement_service.api.compute.questions.read", forever)
    work = compute._Computation(channel, deafened, 10**6, Held(2**20), job)
    thread = threading.Thread(target=work.run)
    thread.start()
    assert begun.wait(LONG)
    job.switch.interrupt()
    thread.join(LONG)
    channel.send(Kind.READY)
    kinds = []
    while Kind.READY not in kinds:
        kinds.append(edge.receive()[0])
    assert kinds[-2] is Kind.CANCELLED
