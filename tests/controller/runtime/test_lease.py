"""Who may take the lease, and until when its holder may act, on a clock that tests turn."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.lease import PROCESS, Elector, Move, Timing, move
from placement.cluster import ApiError


def lease(holder: str, process: str, duration: int = 15) -> dict[str, Any]:
    return {
        "metadata": {"annotations": {PROCESS: process}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration},
    }


@pytest.mark.parametrize(
    ("holder", "process", "unchanged_for", "want"),
    [
        pytest.param("me", "1", 99.0, Move.RENEW, id="our own"),
        pytest.param("me", "2", 14.9, Move.WAIT, id="of a process of the same identity"),
        pytest.param("me", "2", 15.1, Move.TAKE, id="of such a process, run out"),
        pytest.param("", "1", 0.0, Move.TAKE, id="given up"),
        pytest.param("other", "1", 14.9, Move.WAIT, id="another's"),
        pytest.param("other", "2", 15.1, Move.TAKE, id="another's, run out"),
    ],
)
def test_who_may_take_it(holder: str, process: str, unchanged_for: float, want: Move) -> None:
    there = lease(holder, process)
    assert move(there, me="me", process="1", unchanged_for=unchanged_for) is want


class Server:
    """The one lease of an API server, with its check of versions."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.is_down = False

    def request(
        self, method: str, path: str, *, body: Any = None, timeout: float = 0
    ) -> dict[str, Any]:
        if self.is_down:
            raise ApiError(0, "down")
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "none")
            return {**self.lease, "spec": dict(self.lease["spec"])}
        if self.lease is not None and body["metadata"].get("resourceVersion") != str(self.version):
            raise ApiError(409, "changed")
        self.version += 1
        self.lease = {
            **body,
            "metadata": {**body["metadata"], "resourceVersion": str(self.version)},
        }
        return self.lease


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def elector(server: Server, clock: Clock, identity: str) -> Elector:
    return Elector(
        server,  # type: ignore[arg-type]
        namespace="n",
        name="l",
        identity=identity,
        timing=Timing(duration=15.0, renew_deadline=10.0, renew_period=2.0),
        clock=clock,
    )


def test_the_first_one_leads_and_the_second_waits(server: Server, clock: Clock) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    second.attempt()
    assert first.leads
    assert not second.leads
    assert first.term == 1


def test_of_two_with_the_same_identity_only_one_leads(server: Server, clock: Clock) -> None:
    """As where it is set in a file that both replicas read."""
    first, second = elector(server, clock, "same"), elector(server, clock, "same")
    for _ in range(20):
        for one in (first, second):
            one.attempt()
        assert first.leads
        assert not second.leads
        clock.now += 2.0
    second.stop()
    second.run()
    clock.now += 2.0
    first.attempt()
    assert first.leads
    assert first.term == 1


def test_a_leader_that_cannot_renew_stops_before_another_begins(
    server: Server, clock: Clock
) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    second.attempt()
    for _ in range(16):
        clock.now += 1.0
        second.attempt()
        assert not (first.leads and second.leads)
    assert not first.leads
    assert second.leads
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


def test_a_leader_held_up_does_not_believe_that_it_leads(server: Server, clock: Clock) -> None:
    first = elector(server, clock, "first")
    first.attempt()
    clock.now += 10.0
    assert not first.leads


def test_who_was_away_begins_a_new_term(server: Server, clock: Clock) -> None:
    first = elector(server, clock, "first")
    first.attempt()
    clock.now += 5.0
    first.attempt()
    assert first.term == 1
    server.is_down = True
    clock.now += 11.0
    first.attempt()
    assert not first.leads
    server.is_down = False
    first.attempt()
    assert first.leads
    assert first.term == 2


def test_times_in_the_lease_do_not_matter(server: Server, clock: Clock) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    assert server.lease is not None
    server.lease["spec"]["renewTime"] = "1970-01-01T00:00:00.000000Z"
    second.attempt()
    assert not second.leads


def test_a_lease_given_up_is_taken_at_once(server: Server, clock: Clock) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    first.stop()
    first.run()
    assert not first.leads
    second.attempt()
    assert second.leads


def test_what_stays_wrong_is_said_once(
    server: Server, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first = elector(server, clock, "first")
    for is_down in (True, True, False, True):
        server.is_down = is_down
        first.attempt()
    assert [record.getMessage() for record in caplog.records if "acquired" in record.message] == [
        "the lease n/l cannot be acquired: down"
    ] * 2


def test_a_lease_that_is_deleted_is_made_anew_by_its_holder(server: Server, clock: Clock) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    second.attempt()
    server.lease = None
    # Whichever looks first: the holder continues, and no second one leads beside it.
    second.attempt()
    assert first.leads
    assert not second.leads
    first.attempt()
    second.attempt()
    assert first.leads
    assert first.term == 1
    assert not second.leads


def test_a_lease_that_is_deleted_with_its_holder_is_taken_when_it_would_have_run_out(
    server: Server, clock: Clock
) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    second.attempt()
    server.lease = None
    for _ in range(16):
        second.attempt()
        assert not (first.leads and second.leads)
        clock.now += 1.0
    assert second.leads


def test_a_former_holder_does_not_make_anew_what_another_may_hold(
    server: Server, clock: Clock
) -> None:
    """It was held up, another one took over, and the lease was deleted: all unseen by it."""
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    second.attempt()
    clock.now += 16.0
    second.attempt()
    assert second.leads
    server.lease = None
    first.attempt()
    assert not first.leads
    second.attempt()
    assert second.leads
    first.attempt()
    assert not first.leads


def test_a_lease_given_up_and_deleted_is_made_soon(server: Server, clock: Clock) -> None:
    first, second = elector(server, clock, "first"), elector(server, clock, "second")
    first.attempt()
    first.stop()
    first.run()
    server.lease = None
    second.attempt()
    assert second.leads
