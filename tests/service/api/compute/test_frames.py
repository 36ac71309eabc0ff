"""Frames between the edge and a compute process: whole, in order, however the bytes arrive."""

from __future__ import annotations

import socket

import pytest

from placement_service.api.compute.frames import HEAD, SMALL, Arriving, Channel, Frame, Kind

FRAMES = [Frame(Kind.HELD, b"held"), Frame(Kind.READY, b""), Frame(Kind.DONE, bytes(300))]


def written(frames: list[Frame]) -> bytes:
    return b"".join(HEAD.pack(f.kind, len(f.content)) + f.content for f in frames)


@pytest.mark.parametrize("size", [1, 8, 9, 10, 14, 100, 10_000])
def test_frames_are_whole_whatever_the_pieces(size: int) -> None:
    content, arriving = written(FRAMES), Arriving()
    pieces = [content[i : i + size] for i in range(0, len(content), size)]
    assert [frame for piece in pieces for frame in arriving.take(piece)] == FRAMES


def test_a_kind_that_there_is_not_ends_the_reading() -> None:
    with pytest.raises(ValueError, match="200"):
        list(Arriving().take(HEAD.pack(200, 0)))


@pytest.mark.parametrize("size", [0, 10, SMALL + 1])
def test_what_nobody_waits_for_goes_with_the_next_frame_and_before_it(size: int) -> None:
    ours, theirs = socket.socketpair()
    edge, channel = Channel(ours.detach()), Channel(theirs.detach())
    edge._socket.setblocking(False)
    channel.add(Kind.STAGE, b"one")
    channel.add(Kind.STAGE, b"two")
    with pytest.raises(BlockingIOError):
        edge.receive()
    edge._socket.setblocking(True)
    channel.send(Kind.DONE, bytes(size))
    found = [(kind, bytes(content)) for kind, content in (edge.receive() for _ in range(3))]
    assert found == [
        (Kind.STAGE, b"one"),
        (Kind.STAGE, b"two"),
        (Kind.DONE, bytes(size)),
    ]
