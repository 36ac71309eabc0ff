"""What a watch does about errors, as a value. That it does so is tested in test_faults."""

from __future__ import annotations

import pytest

from controller.watch import Action, Next, after
from placement.cluster import ApiError


def todo(status: int, failures: int = 1, *, retry_after: float | None = None) -> Next:
    error = ApiError(status, "no", retry_after=retry_after)
    return after(error, failures, absent_poll=10.0, jitter=1.0)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (0, Action.RESUME),
        (401, Action.RESUME),
        (403, Action.RESUME),
        (429, Action.RESUME),
        (500, Action.RESUME),
        (503, Action.RESUME),
        (410, Action.RELIST),
        (400, Action.RELIST),
        (404, Action.ABSENT),
    ],
)
def test_what_to_do_depends_on_the_status(status: int, want: Action) -> None:
    assert todo(status).action is want


def test_lost_history_is_read_again_at_once_and_then_with_patience() -> None:
    assert todo(410).seconds == 0.0
    assert todo(410, failures=2).seconds > 0.0


def test_waits_double_up_to_a_limit() -> None:
    assert [todo(500, failures=n).seconds for n in (1, 2, 3, 40)] == [0.2, 0.4, 0.8, 15.0]


def test_jitter_halves_a_wait_at_most() -> None:
    error = ApiError(500, "no")
    assert after(error, 3, absent_poll=1.0, jitter=0.0).seconds == pytest.approx(0.4)


def test_the_servers_advice_is_followed() -> None:
    assert todo(429, retry_after=7.0).seconds == 7.0


def test_a_kind_that_is_not_there_is_looked_for_now_and_then() -> None:
    assert todo(404, failures=9) == Next(Action.ABSENT, 10.0)
