"""Columns by trying: what is known to be too much is not begun."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from placement_service.entities.devices import Device, DevicePartition
from placement_service.entities.request import Node
from placement_service.formulation.devices import patterns as device_patterns
from placement_service.formulation.devices.boards import Board, board_of, state_of
from placement_service.formulation.devices.patterns import (
    Listings,
    Situation,
    TooManyError,
    columns_of,
)
from placement_service.formulation.devices.wants import Want

PAIRS = tuple(
    DevicePartition(tuple(range(first, first + size)), score=first % 4)
    for size in (2, 4)
    for first in range(0, 4, size)
)


def share(milli: int) -> Want:
    return Want(1, milli, milli, whole=False)


def situation(used: Sequence[int], *, partitions: bool = True, switches: bool = False) -> Situation:
    """A board of which so much of each device is in use."""
    devices = tuple(
        Device(i, used_milli=u, used_memory_milli=u, pcie_switch=f"s{i // 2}")
        for i, u in enumerate(used)
    )
    node = Node("nodes/n", devices=devices, partitions=PAIRS if partitions else ())
    board = board_of(node, switches=switches, required=True)
    return Situation(board, state_of(board, devices))


def test_small_shares_of_many_devices_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(*_: object) -> Iterator[object]:
        raise AssertionError("a way to give devices was tried")

    monkeypatch.setattr(Board, "gifts", tried)
    # 101 amounts may be left of each of four devices: 104 million states, at most 8 of them alike.
    with pytest.raises(TooManyError):
        columns_of([situation((0, 0, 0, 0))], [share(10)], Listings())


class TestListings:
    def test_what_took_too_many_steps_is_not_tried_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(device_patterns, "MOST_STEPS", 200)
        board, other = situation((0, 0, 0, 0)), situation((0, 0, 0, 900))
        listings = Listings()
        with pytest.raises(TooManyError):
            columns_of([board], [share(300)], listings)
        columns_of([other], [share(900)], listings)

        def tried(*_: object) -> Iterator[object]:
            raise AssertionError("a way to give devices was tried")

        monkeypatch.setattr(Board, "gifts", tried)
        with pytest.raises(TooManyError):
            columns_of([other, board], [share(300)], listings)

    def test_what_is_listed_for_one_question_serves_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listings = Listings()
        known = columns_of([situation((0, 0, 0, 0))], [share(300)], listings)

        def tried(*_: object) -> Iterator[object]:
            raise AssertionError("a way to give devices was tried")

        monkeypatch.setattr(Board, "gifts", tried)
        assert columns_of([situation((0, 0, 0, 0))], [share(300)], listings) == known

    def test_nothing_is_listed_once_time_is_up(self) -> None:
        with pytest.raises(TooManyError):
            columns_of([situation((0, 0, 0, 0))], [share(300)], Listings(until=0.0))


@pytest.mark.parametrize("steps", [20, 100, 400, 2000])
def test_nothing_is_given_up_that_could_be_listed(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not begun would have ended in too many steps."""
    rng = random.Random(steps)
    monkeypatch.setattr(device_patterns, "MOST_STEPS", steps)
    given_up = 0
    for _ in range(60):
        one = situation(
            [rng.choice((0, 0, 300, 1000)) for _ in range(4)],
            partitions=rng.random() < 0.7,
            switches=rng.random() < 0.5,
        )
        wants = [share(m) for m in rng.sample((250, 300, 400, 500), 2)]
        if rng.random() < 0.5:
            wants.insert(0, Want(2))
        listing = device_patterns._Listing(wants)
        if listing.takes_too_many(one):
            given_up += 1
            with pytest.raises(TooManyError):
                listing.of_situation(one, 0)
    assert given_up or steps == 2000
