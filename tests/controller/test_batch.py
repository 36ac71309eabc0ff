"""When to ask, and about whom."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.batch import (
    Backoff,
    Candidate,
    Queue,
    QueuedGang,
    Window,
    chosen,
    longest_wait,
    made_due,
    refreshed,
    tried,
    wait,
)
from controller.cluster.gang_state import Body, GangState, GroupState, Lifecycle

BACKOFF = Backoff(shortest=1.0, longest=60.0)
WINDOW = Window(idle=0.3, longest=3.0, most=100)


def state(
    name: str, *, state: Lifecycle = Lifecycle.PENDING, bound: int = 0, uid: str = "1"
) -> GangState:
    group = GroupState("worker", 2, bound, 0, (("ml", f"{name}-a"), ("ml", f"{name}-b")))
    return GangState(("ml", name), uid, 1, state, (group,))


def queue(*states: GangState, now: float = 0.0, freed: int = 0, old: Queue | None = None) -> Queue:
    return refreshed(old or {}, {s.key: s for s in states}, freed=freed, now=now, backoff=BACKOFF)


def queued(due: float) -> QueuedGang:
    return QueuedGang(state("g"), since=due, due=due)


def test_nobody_waits_for_ever() -> None:
    assert wait({}, now=5.0, window=WINDOW) == math.inf


def test_a_batch_stays_open_for_the_idle_window() -> None:
    assert wait({("ml", "g"): queued(1.0)}, now=1.0, window=WINDOW) == pytest.approx(0.3)
    assert wait({("ml", "g"): queued(1.0)}, now=1.4, window=WINDOW) == 0.0


def test_who_joins_keeps_it_open_but_not_beyond_the_longest_window() -> None:
    waiters = {("ml", str(i)): queued(i * 0.25) for i in range(13)}
    assert wait(waiters, now=2.95, window=WINDOW) == pytest.approx(0.05)
    assert wait(waiters, now=3.0, window=WINDOW) == 0.0


def test_a_full_batch_is_closed_at_once() -> None:
    waiters = {("ml", str(i)): queued(1.0) for i in range(100)}
    assert wait(waiters, now=1.0, window=WINDOW) == 0.0


def test_only_pending_gangs_wait() -> None:
    states = [s for s in Lifecycle if s is not Lifecycle.PENDING]
    assert queue(*(state(s.name, state=s) for s in states)) == {}
    assert list(queue(state("g"))) == [("ml", "g")]


def test_who_got_no_place_waits_twice_as_long_each_time_up_to_the_longest() -> None:
    waits = []
    waiting, now = queue(state("g")), 0.0
    for _ in range(8):
        waiting = tried(waiting, [("ml", "g")], freed=0, now=now, backoff=BACKOFF)
        waits.append(waiting["ml", "g"].due - now)
        now = waiting["ml", "g"].due
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_gang_that_changes_does_not_wait_on() -> None:
    waiting = tried(queue(state("g")), [("ml", "g")], freed=0, now=0.0, backoff=BACKOFF)
    same = queue(state("g"), now=0.1, old=waiting)
    assert same == waiting
    changed = queue(state("g", bound=1), now=0.1, old=waiting)
    assert changed["ml", "g"].due == 0.1
    assert changed["ml", "g"].attempts == 0


@pytest.mark.parametrize(("attempts", "want"), [(1, 1.0), (3, 4.0), (5, 10.0), (50, 10.0)])
def test_room_that_appears_ends_a_long_wait(attempts: int, want: float) -> None:
    """A cluster in which pods end all the time is not asked about without pause."""
    waiting = queue(state("g"))
    for _ in range(attempts):
        waiting = tried(waiting, [("ml", "g")], freed=0, now=0.0, backoff=BACKOFF)
    assert queue(state("g"), now=0.5, freed=1, old=waiting)["ml", "g"].due == want


def test_another_gang_of_the_same_name_begins_anew() -> None:
    waiting = tried(queue(state("g")), [("ml", "g")], freed=0, now=0.0, backoff=BACKOFF)
    assert queue(state("g", uid="2"), now=0.1, old=waiting)["ml", "g"].since == 0.1


def test_a_plan_that_was_overtaken_is_made_anew_at_once() -> None:
    waiting = tried(queue(state("g")), [("ml", "g")], freed=0, now=0.0, backoff=BACKOFF)
    assert made_due(waiting, [("ml", "g"), ("ml", "gone")], now=0.2)["ml", "g"].due == 0.2


def test_a_base_comes_before_what_scales_it_whatever_their_priorities() -> None:
    base, scaled = ("ml", "base"), ("ml", "scaled")
    order = chosen([Candidate(scaled, 9, base), Candidate(base, 1)], most=10)
    assert order == (base, scaled)


def test_a_scaled_gang_does_not_come_without_its_base() -> None:
    base, scaled = ("ml", "base"), ("ml", "scaled")
    assert chosen([Candidate(scaled, 9, base), Candidate(base, 1)], most=1) == (base,)


def test_of_too_many_the_more_important_come_first() -> None:
    candidates = [Candidate(("ml", str(i)), priority=i) for i in range(5)]
    assert chosen(candidates, most=2) == (("ml", "4"), ("ml", "3"))


def test_who_cannot_be_helped_does_not_keep_the_others_waiting() -> None:
    stuck = [Candidate(("ml", f"stuck{i}"), priority=9, attempts=3) for i in range(5)]
    assert chosen([*stuck, Candidate(("ml", "new"), priority=0)], most=2)[0] == ("ml", "new")


def some(letter: str) -> st.SearchStrategy[tuple[str, str]]:
    return st.integers(0, 15).map(lambda i: ("ml", f"{letter}{i:02}"))


def candidate(
    names: st.SearchStrategy[tuple[str, str]], bases: st.SearchStrategy[tuple[str, str] | None]
) -> st.SearchStrategy[Candidate]:
    return st.builds(
        Candidate, names, st.integers(-2, 2), bases, st.integers(0, 2), st.floats(0, 10)
    )


# A base has no base itself: translation refuses that.
candidates = st.lists(
    candidate(some("base"), st.none()) | candidate(some("scaled"), some("base")),
    unique_by=lambda c: c.key,
)


@given(candidates, st.integers(2, 40))
def test_a_batch_is_never_too_large_and_never_misses_a_base(
    given: list[Candidate], most: int
) -> None:
    order = chosen(given, most=most)
    by_key = {c.key: c for c in given}
    assert len(order) <= most
    assert len(set(order)) == len(order)
    assert set(order) <= by_key.keys()
    for key in order:
        if (base := by_key[key].base) in by_key:
            assert base in order
    if len(given) <= most:
        assert set(order) == by_key.keys()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.floats(0, 200))
def test_a_batch_is_closed_within_the_longest_window(dues: list[float], now: float) -> None:
    waiters = {("ml", str(i)): queued(due) for i, due in enumerate(dues)}
    pause = wait(waiters, now=now, window=WINDOW)
    assert pause >= 0
    assert now + pause <= max(now, min(dues) + WINDOW.longest)


@pytest.mark.parametrize(
    ("status", "since", "want"),
    [
        ("False", "1970-01-01T00:10:00Z", 400.0),
        # Since this leader knows of it, where that is longer.
        ("False", "1970-01-01T00:16:39Z", 5.0),
        ("True", "1970-01-01T00:10:00Z", 5.0),
        ("False", "", 5.0),
    ],
)
def test_who_waited_under_an_earlier_leader_waits_since_then(
    status: str, since: str, want: float
) -> None:
    condition = {"type": "Scheduled", "status": status, "lastTransitionTime": since}
    gangs: dict[tuple[str, str], Body] = {("ml", "g"): {"status": {"conditions": [condition]}}}
    waiting = queue(state("g"), now=95.0)
    assert longest_wait(waiting, gangs, now=100.0, wall=1000.0) == want
    assert longest_wait({}, gangs, now=100.0, wall=1000.0) == 0.0
