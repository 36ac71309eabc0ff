"""Things by name as they are now, and which of them changed since an earlier state."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, NamedTuple, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Since(NamedTuple, Generic[_K, _V]):
    """The things that were set since a base, by name, and those that are gone."""

    set: dict[_K, _V]
    gone: list[_K]


class Known:
    """The latest state that the service knows: its digest, empty when it no longer knows any."""

    def __init__(self) -> None:
        self.digest = ""
        self._state = 0

    def learned(self, digest: str, state: int) -> bool:
        """Notes a state that the service knows if it is the latest; returns whether it is. An
        earlier one is of no use, even if the base was lost: the changes after it are forgotten.
        """
        if not digest or state < self._state:
            return False
        self.digest, self._state = digest, state
        return True

    def lost(self, digest: str) -> None:
        """Notes that the service does not know a digest."""
        if self.digest == digest:
            self.digest = ""

    def __str__(self) -> str:
        return self.digest[:14] or "nothing"


class _Change(NamedTuple, Generic[_K]):
    """A name that changed, and whether it was there before."""

    state: int
    name: _K
    was_there: bool


class Copies(Generic[_K, _V]):
    """Things by name, and the changes since the base in order. A thing in it never changes."""

    def __init__(self) -> None:
        self._now: dict[_K, _V] = {}
        self._changes: list[_Change[_K]] = []

    def __len__(self) -> int:
        return len(self._now)

    def items(self) -> dict[_K, _V]:
        """All of them."""
        return dict(self._now)

    def all(self) -> Iterable[_V]:
        """The things themselves."""
        return self._now.values()

    def differs(self, name: _K, value: _V) -> bool:
        """Whether setting it would change something."""
        return self._now.get(name) != value

    def set(self, name: _K, value: _V, state: int) -> None:
        """Sets one from this state on; that it changed is noted even where it is equal."""
        self._changes.append(_Change(state, name, name in self._now))
        self._now[name] = value

    def remove(self, names: Iterable[_K], state: int) -> None:
        """Removes those that are there from this state on."""
        for name in names:
            if self._now.pop(name, None) is not None:
                self._changes.append(_Change(state, name, was_there=True))

    def keep(self, names: Collection[_K], state: int) -> None:
        """Removes all but these."""
        self.remove([name for name in self._now if name not in names], state)

    def since(self) -> Since[_K, _V]:
        """What all changes since the base come to."""
        there: dict[_K, bool] = {}
        for change in self._changes:
            there.setdefault(change.name, change.was_there)
        return Since(
            {name: self._now[name] for name in there if name in self._now},
            [name for name, was in there.items() if was and name not in self._now],
        )

    def forget(self, state: int) -> None:
        """Drops the changes up to a state."""
        self._changes = [change for change in self._changes if change.state > state]
