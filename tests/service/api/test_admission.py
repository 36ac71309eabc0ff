"""The door of the service: bounded, in order, and honest about why it is shut."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from placement_service.api.admission import Admission
from placement_service.entities.errors import Busy, DeadlineTooShort, Draining
from placement_service.entities.progress import NEVER, Interrupted, Switch
from tests.waiting import LONG, wait_until

FOREVER = float("inf")


def door(max_concurrent: int = 1, max_pending: int = 1) -> Admission:
    return Admission(
        max_concurrent=max_concurrent, max_pending=max_pending, retry_after_seconds=1.0
    )


def test_places_are_bounded_by_the_computing_and_the_waiting() -> None:
    admission = door(max_concurrent=2, max_pending=1)
    with ExitStack() as inside:
        for _ in range(3):
            inside.enter_context(admission.place())
        with pytest.raises(Busy), admission.place():
            pass
    with admission.place():
        pass


def test_a_drained_door_is_shut_and_those_inside_stay() -> None:
    admission = door()
    with admission.place():
        admission.drain()
        with admission.turn(deadline=FOREVER, interrupter=NEVER):
            assert not admission.wait_until_empty(0.0)
        with pytest.raises(Draining), admission.place():
            pass
    assert admission.wait_until_empty(0.0)


def test_turns_are_taken_in_order_and_one_at_a_time() -> None:
    admission = door(max_concurrent=1, max_pending=8)
    order: list[int] = []

    def take(number: int) -> None:
        with admission.turn(deadline=FOREVER, interrupter=NEVER):
            order.append(number)
            time.sleep(0.01)

    with ThreadPoolExecutor(8) as threads, admission.turn(deadline=FOREVER, interrupter=NEVER):
        for number in range(5):
            threads.submit(take, number)
            wait_until(lambda: len(admission._queue) > number, "it waits")  # noqa: B023
        assert order == []
    assert order == [0, 1, 2, 3, 4]


def test_waiting_ends_with_the_deadline() -> None:
    admission = door()
    with (
        admission.turn(deadline=FOREVER, interrupter=NEVER),
        pytest.raises(DeadlineTooShort),
        admission.turn(deadline=time.monotonic() + 0.05, interrupter=NEVER),
    ):
        pass
    with admission.turn(deadline=FOREVER, interrupter=NEVER):
        pass


def test_waiting_ends_when_the_caller_leaves() -> None:
    admission = door()
    switch = Switch()
    with admission.turn(deadline=FOREVER, interrupter=NEVER):
        threading.Timer(0.05, switch.interrupt).start()
        with (
            pytest.raises(Interrupted),
            admission.turn(deadline=time.monotonic() + LONG, interrupter=switch),
        ):
            pass


def test_a_turn_is_free_again_after_an_error() -> None:
    admission = door()
    with pytest.raises(ZeroDivisionError), admission.turn(deadline=FOREVER, interrupter=NEVER):
        raise ZeroDivisionError
    with admission.turn(deadline=time.monotonic(), interrupter=NEVER):
        pass
