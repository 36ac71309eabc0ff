"""Stopping from another thread."""

from __future__ import annotations

from placement_service.entities.progress import NEVER, Switch


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
