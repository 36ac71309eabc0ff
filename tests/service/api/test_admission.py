"""The door of the service: bounded, fair, and honest about why it is shut."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any

import pytest

from placement_service.api import admission as module
from placement_service.api.admission import Admission
from placement_service.entities.errors import Busy, Draining, NotArrived
from tests.waiting import LONG

Turn = asyncio.Future[None]

#: Requests that arrive at once, half of them of one connection.
ARRIVING = 8


def door(places: int = 2, held_bytes: int = 100, arrival_seconds: float = 10 * LONG) -> Admission:
    return Admission(
        places=places,
        pending=1,
        held_bytes=held_bytes,
        arriving=ARRIVING,
        retry_after_seconds=1.0,
        arrival_seconds=arrival_seconds,
    )


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody makes room because time passes."""
    monkeypatch.setattr(module, "PATIENCE", 10 * LONG)


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


async def never() -> bytes:
    await asyncio.Event().wait()
    raise AssertionError("nothing comes")


async def at_once() -> bytes:
    return b"request"


async def reading(admission: Admission, peer: str, count: int) -> list[asyncio.Task[bytes]]:
    """Calls of a connection whose message does not come, once they wait for it."""
    tasks = [asyncio.ensure_future(admission.arrival(peer, never)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_places_are_bounded_by_number_and_by_bytes() -> None:
    async def work() -> None:
        admission = door(places=2, held_bytes=100)
        with ExitStack() as inside:
            inside.enter_context(admission.place("a", 60))
            with pytest.raises(Busy, match="as many bytes as may"), admission.place("b", 41):
                pass
            inside.enter_context(admission.place("b", 40))
            with pytest.raises(Busy, match="1 requests wait already"), admission.place("c", 0):
                pass
        assert (admission.present, admission.held_bytes) == (0, 0)

    run(work())


def test_a_request_larger_than_all_bytes_still_gets_in_alone() -> None:
    async def work() -> None:
        with door(held_bytes=10).place("a", 1000):
            pass

    run(work())


async def waiting(admission: Admission, inside: ExitStack, peer: str, size: int = 1) -> Turn:
    """The turn of a call that has come, and waits."""
    place = inside.enter_context(admission.place(peer, size))
    place.turn = asyncio.get_running_loop().create_future()
    return place.turn


def test_who_fills_all_places_makes_room_for_others() -> None:
    async def work() -> None:
        admission = door(places=4)
        with ExitStack() as inside:
            greedy = [await waiting(admission, inside, "a:1") for _ in range(4)]
            assert await admission.arrival("b:1", at_once) == b"request"
            await waiting(admission, inside, "b:1")
            # Another connection of the same address counts with it, and still has fewer.
            await waiting(admission, inside, "a:2")
            assert [turn.done() for turn in greedy] == [False, False, True, True]
            await waiting(admission, inside, "b:2")
            assert [turn.done() for turn in greedy] == [False, True, True, True]
            for turn in greedy[1:]:
                with pytest.raises(Busy):
                    turn.result()
            # Now each address has its half, and no call gives way any longer.
            for peer in ("a:1", "a:2", "b:1", "b:2"):
                with pytest.raises(Busy), admission.place(peer, 1):
                    pass
                with pytest.raises(Busy):
                    await admission.arrival(peer, never)
        assert (admission.present, admission.held_bytes) == (0, 0)

    run(work())


def test_those_whose_turn_has_come_give_way_to_nobody() -> None:
    async def work() -> None:
        admission = door(places=2)
        with ExitStack() as inside:
            for turn in [await waiting(admission, inside, "a:1") for _ in range(2)]:
                turn.set_result(None)
            with pytest.raises(Busy), admission.place("b:1", 1):
                pass

    run(work())


def test_who_holds_all_bytes_makes_room_for_others() -> None:
    async def work() -> None:
        admission = door(places=9, held_bytes=100)
        with ExitStack() as inside:
            greedy = [await waiting(admission, inside, "a:1", 30) for _ in range(3)]
            await waiting(admission, inside, "b:1", 20)
            assert [turn.done() for turn in greedy] == [False, False, True]
            with pytest.raises(Busy, match="as many bytes as may"), admission.place("b:2", 60):
                pass
            assert admission.held_bytes == 80

    run(work())


def test_a_full_door_refuses_before_a_request_is_sent() -> None:
    async def work() -> None:
        admission = door(places=1)
        with admission.place("a", 1), pytest.raises(Busy):
            await admission.arrival("a", never)

    run(work())


def test_a_drained_door_is_shut_and_those_inside_stay() -> None:
    async def work() -> None:
        admission = door()
        with admission.place("a", 1):
            admission.drain()
            assert not await admission.wait_until_empty(0.0)
            with pytest.raises(Draining), admission.place("a", 1):
                pass
            with pytest.raises(Draining):
                await admission.arrival("a", at_once)
        assert await admission.wait_until_empty(0.0)

    run(work())


def test_a_message_that_does_not_come_is_not_waited_for() -> None:
    async def work() -> None:
        admission = door(arrival_seconds=0.05)
        with pytest.raises(NotArrived, match=r"within 0\.05 s"):
            await admission.arrival("a", never)
        assert await admission.arrival("a", at_once) == b"request"

    run(work())


@pytest.mark.usefixtures("patient")
def test_calls_without_message_of_one_connection_keep_no_other_out() -> None:
    async def work() -> None:
        admission = door()
        idle = await reading(admission, "hostile", 100)
        async with asyncio.timeout(LONG):
            assert await admission.arrival("honest", at_once) == b"request"
        await end(idle)

    run(work())


def test_calls_without_message_of_many_connections_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    monkeypatch.setattr(module, "_GLANCE", 0.01)

    async def work() -> None:
        admission = door()
        idle = [task for peer in "abcd" for task in await reading(admission, peer, 3)]
        assert await admission.arrival("honest", at_once) == b"request"
        assert any(isinstance(task.exception(), Busy) for task in idle if task.done())
        await end(idle)

    run(work())


@pytest.mark.usefixtures("patient")
def test_the_next_to_send_is_of_the_connection_with_the_fewest_that_do() -> None:
    async def work() -> None:
        admission = door()
        idle = [await reading(admission, peer, 60) for peer in ("a:1", "a:2")]
        honest = asyncio.ensure_future(admission.arrival("b:1", at_once))
        neighbour = asyncio.ensure_future(admission.arrival("a:3", at_once))
        await asyncio.sleep(0)
        assert not honest.done()
        arriving = [task for tasks in idle for task in tasks[: ARRIVING // 2]]
        async with asyncio.timeout(LONG):
            await end(arriving[:1])
            assert await honest == b"request"
            await neighbour
        await end([task for tasks in idle for task in tasks])
        assert not admission._arriving.total()

    run(work())


@pytest.mark.usefixtures("patient")
def test_those_of_an_address_who_come_by_many_connections_are_behind_all_others() -> None:
    async def work() -> None:
        admission = door()
        idle = [task for i in range(60) for task in await reading(admission, f"hostile:{i}", 1)]
        order: list[str] = []

        async def noted(peer: str) -> None:
            await admission.arrival(peer, at_once)
            order.append(peer)

        others = [asyncio.ensure_future(noted(peer)) for peer in ("hostile:99", "honest:1")]
        await asyncio.sleep(0)
        async with asyncio.timeout(LONG):
            # One that sends leaves, then all that wait.
            await end(idle[:1])
            await others[1]
            await end(idle)
            await others[0]
        assert order == ["honest:1", "hostile:99"]

    run(work())


def test_who_was_never_let_in_to_send_may_come_again() -> None:
    async def work() -> None:
        admission = door(arrival_seconds=0.3)
        idle = await reading(admission, "a", ARRIVING // 2)
        with pytest.raises(Busy, match=r"its turn to send its request did not come within 0\.3 s"):
            await admission.arrival("a", at_once)
        await end(idle)

    run(work())


def test_those_who_wait_to_send_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EXPECTED", 5)

    async def work() -> None:
        admission = door()
        idle = await reading(admission, "hostile", ARRIVING // 2 + 5)
        with pytest.raises(Busy, match="wait to send"):
            await admission.arrival("hostile", at_once)
        # The latest call of the address with most gives way to another, which waits for its turn.
        other = await reading(admission, "other", 1)
        with pytest.raises(Busy, match="wait to send"):
            await idle[-1]
        assert not any(task.done() for task in (*idle[:-1], *other))
        await end(idle + other)
        assert not admission._arriving.total()

    run(work())


@pytest.mark.usefixtures("patient")
def test_a_caller_who_leaves_while_arriving_leaves_nothing_behind() -> None:
    async def work() -> None:
        admission = door()
        for _ in range(3):
            await end(await reading(admission, "a", 20))
        async with asyncio.timeout(LONG):
            for peer in ("a", "b"):
                assert await admission.arrival(peer, at_once) == b"request"
        assert not admission._expected
        assert not admission._arriving.total()

    run(work())
