"""Stopping from another thread."""

from __future__ import annotations

import contextlib
import threading

import pytest

from placement_service.entities.progress import NEVER, Interrupted, Switch, heard


def test_callbacks_run_once_interrupted() -> None:
    switch, calls = Switch(), list[str]()
    with switch.calling(lambda: calls.append("called")):
        assert (switch.interrupted, calls) == (False, [])
        switch.interrupt()
        switch.interrupt()
    assert (switch.interrupted, calls) == (True, ["called"])


def test_a_callback_that_comes_late_runs_at_once() -> None:
    switch, calls = Switch(), list[str]()
    switch.interrupt()
    with switch.calling(lambda: calls.append("called")):
        assert calls == ["called"]


def test_a_callback_does_not_run_after_its_block() -> None:
    switch, calls = Switch(), list[str]()
    with switch.calling(lambda: calls.append("called")):
        pass
    switch.interrupt()
    assert calls == []


def test_never_never_calls() -> None:
    calls: list[str] = []
    with NEVER.calling(lambda: calls.append("called")):
        assert not NEVER.interrupted
    assert calls == []


def test_a_thread_is_interrupted_in_the_midst_of_what_it_does() -> None:
    switch = Switch()
    timer = threading.Timer(0.05, switch.interrupt)
    timer.start()

    def endless() -> None:
        while True:
            pass

    with pytest.raises(Interrupted), heard(switch):
        endless()
    timer.join()


def test_an_interruption_that_the_block_takes_for_its_own_comes_behind_it() -> None:
    switch = Switch()
    done: list[str] = []

    def careless() -> None:
        with contextlib.suppress(Exception):
            switch.interrupt()
            for _ in range(1000):
                pass
        done.append("all the same")

    with pytest.raises(Interrupted), heard(switch):
        careless()
    assert done


def test_work_that_nobody_interrupts_is_left_alone() -> None:
    switch = Switch()
    with heard(switch), heard(NEVER):
        pass
    switch.interrupt()
    for _ in range(1000):
        pass
