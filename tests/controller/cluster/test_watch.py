"""What a watch does about errors, as a value, and when it lists anew; see `faults.test_watches`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from controller.cluster.cache import KINDS, ClusterCache
from controller.cluster.watch import Action, Next, Watcher, after
from placement.cluster import ApiError, Page
from placement.resources import NODES
from tests.kubernetes import build
from tests.waiting import LONG, wait_until


def todo(status: int, failures: int = 1, *, retry_after: float | None = None) -> Next:
    error = ApiError(status, "no", retry_after=retry_after)
    return after(error, failures, absent_poll=10.0, jitter=1.0)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (0, Action.RESUME),
        (401, Action.RESUME),
        (429, Action.RESUME),
        (500, Action.RESUME),
        (503, Action.RESUME),
        (410, Action.RELIST),
        (400, Action.RELIST),
        (403, Action.RELIST),
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


class Server:
    """Lists one node, as soon as it may, and answers watches as it is told."""

    def __init__(self, watch: Callable[[], Any] = lambda: Silence()) -> None:
        self.lists = 0
        self.watches = 0
        self.listing = threading.Semaphore(0)
        self.may_list = threading.Event()
        self.may_list.set()
        self._watch = watch

    def pages(self, resource: object, *, fields: str = "") -> Iterator[Page]:
        self.lists += 1
        name = f"n{self.lists}"
        self.listing.release()
        assert self.may_list.wait(LONG)
        yield Page((build.node(name),), "7")

    def watch(self, *args: object, **kwargs: object) -> Any:
        self.watches += 1
        return self._watch()


class Silence:
    """A watch that tells nothing until it is closed."""

    def __init__(self, ended: bool = False) -> None:
        self._ended = threading.Event()
        if ended:
            self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        self._ended.wait(LONG)
        return iter(())

    def close(self) -> None:
        self._ended.set()


class Forgetful(Silence):
    """A watch that tells one event, and then that it has lost its history."""

    def __iter__(self) -> Iterator[Any]:
        yield {"type": "MODIFIED", "object": build.node("n1")}
        yield {"type": "ERROR", "object": {"code": 410, "message": "too old"}}


@contextmanager
def watching(server: Server) -> Iterator[tuple[Watcher, ClusterCache]]:
    cache = ClusterCache("placement-service")
    for kind in KINDS:
        cache.replace(kind, [])
    cache.unsync("Node")
    watcher = Watcher(server, NODES, cache)  # type: ignore[arg-type]
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher, cache
    finally:
        server.may_list.set()
        watcher.stop()
        thread.join(LONG)
        assert not thread.is_alive()


def test_log_lines_tell_kinds_of_one_name_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with watching(Server()) as (_, cache):
        wait_until(lambda: cache.is_synced, "it is listed")
    (line,) = (one for one in caplog.records if one.message == "listed 1")
    assert (vars(line)["kind"], vars(line)["api"]) == ("Node", "v1")


def refuse(status: int) -> Any:
    raise ApiError(status, "no")


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(lambda: refuse(410), id="history lost at once"),
        pytest.param(lambda: Silence(ended=True), id="ended at once"),
    ],
)
def test_watches_that_fail_at_once_are_not_opened_without_end(watch: Callable[[], Any]) -> None:
    server = Server(watch)
    started = time.monotonic()
    with watching(server):
        wait_until(lambda: server.lists + server.watches >= 6, "it tries again")
        # Without waits it would be a matter of microseconds.
        assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(lambda: refuse(403), id="may be listed and not watched"),
        pytest.param(lambda: Silence(ended=True), id="every watch ends at once"),
    ],
)
def test_a_kind_that_cannot_be_watched_is_listed_now_and_then(watch: Callable[[], Any]) -> None:
    with watching(Server(watch)) as (_, cache):
        wait_until(lambda: ("", "n3") in cache.view().nodes, "it knows what there is now")


def test_history_that_is_lost_after_each_event_is_not_listed_without_end() -> None:
    server = Server(Forgetful)
    started = time.monotonic()
    with watching(server):
        wait_until(lambda: server.lists >= 5, "it lists anew")
        # With half of each wait.
        assert time.monotonic() - started >= (0.2 + 0.4 + 0.8) / 2


def test_a_list_that_was_begun_before_a_new_one_was_wanted_does_not_count() -> None:
    server = Server()
    server.may_list.clear()
    with watching(server) as (watcher, cache):
        assert server.listing.acquire(timeout=LONG)
        # Who leads from now on may not rely on what this list shows.
        watcher.relist()
        server.may_list.set()
        while not cache.is_synced:
            cache.wait(cache.revision, 10)
        assert cache.view().nodes.keys() == {("", "n2")}


def test_what_is_known_stops_to_be_known_until_it_is_listed_anew() -> None:
    server = Server()
    with watching(server) as (watcher, cache):
        while not cache.is_synced:
            cache.wait(cache.revision, 10)
        server.may_list.clear()
        watcher.relist()
        assert not cache.is_synced
        server.may_list.set()
        while not cache.is_synced:
            cache.wait(cache.revision, 10)
        assert server.lists == 2
