"""Which calls may send their request now, which may stay with it, and which are refused.

A call costs nothing until it may send its request. Only a few calls may do so at a time, and fewer
of one connection, so that calls whose message never arrives do not keep others out. With its
request a call takes a place. Places are limited by number (calls that are computed, and calls that
wait) and by bytes. When all are taken, a caller that has fewer places gets that of the latest
waiting call of the caller that has most. All of this runs on the edge's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from placement_service.entities.errors import Busy, Draining, NotArrived

#: Calls that may wait to send their request.
MOST_EXPECTED = 512

#: Seconds that a request may take to arrive while others wait to send theirs.
PATIENCE = 2.0

#: Seconds between two checks of that.
_GLANCE = 0.2

_T = TypeVar("_T")


class Admission:
    """Decides which calls come in."""

    def __init__(
        self,
        *,
        places: int,
        pending: int,
        held_bytes: int,
        arriving: int,
        retry_after_seconds: float,
        arrival_seconds: float,
    ) -> None:
        self._places = places
        self._pending = pending
        self._most_bytes = held_bytes
        self._most_arriving = arriving
        self._most_of_peer = max(1, arriving // 2)
        self._retry_after_seconds = retry_after_seconds
        self._arrival_seconds = arrival_seconds
        #: Calls that hold a place, in the order in which they came.
        self._inside: list[Place] = []
        #: Whether new calls are refused.
        self.draining = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._arriving: Counter[str] = Counter()
        self._expected: list[_Expected] = []

    @property
    def present(self) -> int:
        """Calls that hold a place."""
        return len(self._inside)

    @property
    def held_bytes(self) -> int:
        """Bytes of the requests of those calls."""
        return sum(place.size for place in self._inside)

    def drain(self) -> None:
        """Admits no more calls from now on; calls that are inside continue."""
        self.draining = True

    async def wait_until_empty(self, timeout: float) -> bool:
        """Whether no call is inside, after waiting `timeout` seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._empty.wait()
        return self._empty.is_set()

    async def arrival(self, peer: str, read: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Reads a message of a connection, when it is its turn to come.

        Raises Draining, Busy, or NotArrived when it does not come in time.
        """
        self._check()
        if self.present >= self._places and _gives_way(self._waiting, peer, _one) is None:
            raise self._busy()
        if len(self._expected) >= MOST_EXPECTED:
            crowd = _gives_way(self._expected, peer, _one)
            why = "as many calls as may wait to send their request"
            if crowd is None:
                raise self._busy(why)
            self._expected.remove(crowd)
            crowd.turn.set_exception(self._busy(why))
        loop = asyncio.get_running_loop()
        end = loop.time() + self._arrival_seconds
        await self._let_in(peer, end)
        coming = asyncio.ensure_future(read())
        try:
            begin = loop.time()
            while True:
                left = end - loop.time()
                done, _ = await asyncio.wait({coming}, timeout=max(0.0, min(_GLANCE, left)))
                if done:
                    return coming.result()
                if left <= 0:
                    raise NotArrived(seconds=self._arrival_seconds)
                if self._expected and loop.time() > begin + PATIENCE:
                    raise self._busy("the request came slowly, and others wait to arrive")
        finally:
            if not coming.done():
                # Ends with its call; its result is not needed.
                coming.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._leave(peer)

    @contextmanager
    def place(self, peer: str, size: int) -> Iterator[Place]:
        """A place for a request of so many bytes; raises Draining, or Busy when none is free."""
        self._check()
        while self.present >= self._places:
            self._send_away(_gives_way(self._waiting, peer, _one))
        while self.present and self.held_bytes + size > self._most_bytes:
            why = "the requests that wait hold as many bytes as may"
            self._send_away(_gives_way(self._waiting, peer, _size, size), why)
        mine = Place(peer, size)
        self._inside.append(mine)
        self._empty.clear()
        try:
            yield mine
        finally:
            self._vacate(mine)

    @property
    def _waiting(self) -> list[Place]:
        """Admitted calls that wait for their turn."""
        return [place for place in self._inside if place.waits]

    def _send_away(self, place: Place | None, why: str = "") -> None:
        """Refuses a call that waits; raises Busy when there is none."""
        if place is None or place.turn is None:
            raise self._busy(why)
        place.turn.set_exception(self._busy(why))
        self._vacate(place)

    def _vacate(self, place: Place) -> None:
        with contextlib.suppress(ValueError):
            self._inside.remove(place)
        if not self._inside:
            self._empty.set()

    def busy(self) -> Busy:
        """The error of a call whose turn did not come."""
        return self._busy("its turn did not come within its time")

    def _check(self) -> None:
        if self.draining:
            raise Draining

    def _busy(self, why: str = "") -> Busy:
        return Busy(
            maximum_pending=self._pending,
            retry_after_seconds=self._retry_after_seconds,
            why=why,
        )

    async def _let_in(self, peer: str, end: float) -> None:
        if not self._expected and self._may_arrive(peer):
            self._arriving[peer] += 1
            return
        me = _Expected(peer)
        self._expected.append(me)
        self._let_others_in()
        try:
            async with asyncio.timeout_at(end):
                await me.turn
        except TimeoutError:
            if not me.turn.done() or me.turn.cancelled():
                # It may have been ready to send: the server did not let it.
                why = (
                    f"its turn to send its request did not come within {self._arrival_seconds:g} s"
                )
                raise self._busy(why) from None
        except asyncio.CancelledError:
            if me.turn.done() and not me.turn.cancelled() and me.turn.exception() is None:
                self._leave(peer)
            raise
        finally:
            if me in self._expected:
                self._expected.remove(me)

    def _leave(self, peer: str) -> None:
        self._arriving[peer] -= 1
        if not self._arriving[peer]:
            del self._arriving[peer]
        self._let_others_in()

    def _let_others_in(self) -> None:
        while self._arriving.total() < self._most_arriving:
            # The turn of a call that was cancelled is done before it leaves.
            able = [
                one for one in self._expected if self._may_arrive(one.peer) and not one.turn.done()
            ]
            if not able:
                return
            # Many calls of one caller come after the first call of another.
            hosts: Counter[str] = Counter()
            for peer, count in self._arriving.items():
                hosts[address_of(peer)] += count
            one = min(able, key=lambda one: (hosts[address_of(one.peer)], self._arriving[one.peer]))
            self._arriving[one.peer] += 1
            self._expected.remove(one)
            one.turn.set_result(None)

    def _may_arrive(self, peer: str) -> bool:
        return (
            self._arriving.total() < self._most_arriving
            and self._arriving[peer] < self._most_of_peer
        )


class _Of(Protocol):
    """A call of a connection."""

    @property
    def peer(self) -> str: ...


_C = TypeVar("_C", bound=_Of)


def _one(call: _Of) -> int:
    return 1


def _size(place: Place) -> int:
    return place.size


def _gives_way(
    calls: Sequence[_C], peer: str, weight: Callable[[_C], int], more: int = 1
) -> _C | None:
    """The call that has to leave: the latest of the address that has most, and there of the
    connection that has most. None where the connection that asks for `more` would then have as much
    as that one still has.
    """
    hosts, peers = Counter[str](), Counter[str]()
    for call in calls:
        hosts[address_of(call.peer)] += weight(call)
        peers[call.peer] += weight(call)

    def held(of: str) -> _Held:
        return _Held(hosts[address_of(of)], peers[of])

    most = max(reversed(calls), key=lambda call: held(call.peer), default=None)
    if most is None:
        return None
    mine, theirs = held(peer), held(most.peer)
    if address_of(most.peer) == address_of(peer):
        return most if mine.by_peer + more < theirs.by_peer else None
    return most if mine.by_host + more < theirs.by_host else None


class _Held(NamedTuple):
    """How much the calls of an address and those of one connection have."""

    by_host: int
    by_peer: int


def address_of(peer: str) -> str:
    """The address of a connection, without its port."""
    return peer.rpartition(":")[0]


class Place:
    """The place of a call, with the bytes of its request."""

    def __init__(self, peer: str, size: int) -> None:
        self.peer = peer
        self.size = size
        #: Done when the call's turn comes; it may be refused until then.
        self.turn: asyncio.Future[Any] | None = None

    @property
    def waits(self) -> bool:
        """Whether it has arrived and still waits for its turn."""
        return self.turn is not None and not self.turn.done()


class _Expected:
    """A call that waits to send its request."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
