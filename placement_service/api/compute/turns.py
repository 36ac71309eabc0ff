"""Whose turn it is to be computed, among the calls that wait.

The next turn goes to an address, and of that to a connection, with the fewest calls that are
computed, then to the address that had none for the longest, so that many calls of one caller, also
of many connections, come after the first call of another; and then to the call that came first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from placement_service.api.admission import address_of

#: Addresses of which it is known when they had a turn.
_MOST_KNOWN: Final = 4096


class _Call(Protocol):
    @property
    def peer(self) -> str: ...


_C = TypeVar("_C", bound=_Call)


class Turns:
    """Remembers the turns of addresses."""

    def __init__(self) -> None:
        #: The latest turns, by their number.
        self._turns: dict[str, int] = {}
        self._number = 0

    def given(self, peer: str) -> None:
        """A call of that connection is computed now."""
        self._number += 1
        address = address_of(peer)
        self._turns.pop(address, None)
        self._turns[address] = self._number
        if len(self._turns) > _MOST_KNOWN:
            del self._turns[next(iter(self._turns))]

    def next(self, waiting: Iterable[_C], computed: Iterable[str]) -> _C:
        """Of calls in the order in which they came, the one whose turn it is; `computed` are the
        connections of those that are computed.
        """
        peers = Counter(computed)
        addresses: Counter[str] = Counter()
        for peer, count in peers.items():
            addresses[address_of(peer)] += count

        def rank(call: _C) -> tuple[int, int, int]:
            address = address_of(call.peer)
            return addresses[address], peers[call.peer], self._turns.get(address, 0)

        return min(waiting, key=rank)
