"""What fits the devices of nodes, found by trying, as columns of resources.

For each board all multisets of pods that it serves are listed; boards that are alike share
the work. A column is a row a >= 0 over the kinds of pods: a pod takes its a, a node offers
the most that any of its multisets takes. So every multiset keeps every column; and columns are
added until each multiset that does not fit breaks one on its board (`separation`). Where such a
multiset lies below a convex combination of those that fit, no column can exclude it. Then the board
offers less: patterns are given up until columns can exclude the rest (`offers`). `most` is the
offer if no pattern is given up. It allows all that fits, and is a relaxation.

A running pod that may go has devices of its own while it stays, and is a kind of its own on
its board: the first such pods of all boards are one kind, and so are the second ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import le
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.devices.boards import Board, State
from placement_service.formulation.devices.separation import Point, separate
from placement_service.formulation.devices.wants import NONE, Load, Want

#: Multisets that are listed for all boards of a question at most; with more, nothing is listed.
MOST_STEPS = 300_000
#: Patterns of one board between which columns are sought.
MOST_PATTERNS = 400
#: States of one device that are counted.
MOST_STATES = 1000
#: Running pods of one board that may go.
MOST_HOMES = 6
#: Rows that are tried; far fewer are needed in the end.
MOST_ROWS = 400


class TooManyError(Exception):
    """There are more multisets than are worth listing, or than there is time for."""


class Home(NamedTuple):
    """A running pod that may go: what it takes of which devices, by position."""

    loads: tuple[tuple[int, Load], ...]
    nics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """A board, what is left of it when all `homes` are gone, and those that may stay; None for one
    of another situation of the board.
    """

    board: Board
    state: State
    homes: tuple[Home | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """`takes[c]` is what a pod of each kind takes of column c; homes come behind the wants.

    `offers[b][c]` and `most[b][c]` are what the b-th situation offers.
    """

    takes: tuple[Point, ...]
    offers: tuple[Point, ...]
    most: tuple[Point, ...]

    @property
    def exact(self) -> bool:
        """Whether the columns describe exactly what fits."""
        return self.offers == self.most


@dataclass(slots=True)
class Listings:
    """What is listed for several questions about the same devices, `until` time is up.

    `too_many` are situations, with what was wanted there, that took too many steps together.
    """

    until: float = math.inf
    known: dict[tuple[Want, ...], _Listing] = field(default_factory=dict)
    too_many: list[tuple[tuple[Want, ...], frozenset[Situation]]] = field(default_factory=list)


def columns_of(
    situations: Sequence[Situation], wants: Sequence[Want], listings: Listings
) -> Columns:
    """Columns for pods of some kinds on some boards. Raises TooManyError."""
    kinds, distinct = tuple(wants), frozenset(situations) if listings.too_many else frozenset()
    if any(wants == kinds and there <= distinct for wants, there in listings.too_many):
        raise TooManyError
    try:
        return _listed(situations, wants, listings)
    except TooManyError:
        listings.too_many.append((kinds, frozenset(situations)))
        raise


def _listed(situations: Sequence[Situation], wants: Sequence[Want], listings: Listings) -> Columns:
    listing = listings.known.setdefault(tuple(wants), _Listing(wants, listings.until))
    listing.steps = 0
    homes = max((len(s.homes) for s in situations), default=0)
    if homes > MOST_HOMES:
        raise TooManyError
    if situations and listing.takes_too_many(max(situations, key=_left)):
        raise TooManyError
    fitting = [listing.of_situation(s, homes) for s in situations]
    sets = {found: _Set.of(found) for found in dict.fromkeys(fitting)}
    most = {found: s.patterns for found, s in sets.items()}
    rows: dict[Point, None] = {}
    # The largest first: the rows that these need mostly serve the others as well.
    for found in sorted(sets, key=lambda s: (-len(s), sorted(s))):
        sets[found].tell_apart(rows)
    takes = _needed(np.array(list(rows), dtype=np.int64), list(sets.values()))
    return Columns(
        tuple(map(tuple, takes.tolist())),
        tuple(_offers(takes, sets[found].patterns) for found in fitting),
        tuple(_offers(takes, most[found]) for found in fitting),
    )


def _left(situation: Situation) -> int:
    return sum(map(sum, situation.state.left))


def _offers(rows: Ints, patterns: Ints) -> Point:
    return tuple((rows @ patterns.T).max(axis=1).tolist()) if len(rows) else ()


_NOTHING = frozenset((0,))

#: Bits of a number that hold how many pods of one kind a multiset has; fewer than `MOST_STEPS`.
_BITS = 20


@dataclass(slots=True)
class _Listing:
    """The multisets that fit, by state.

    While they are listed a multiset is one number, with the count of each kind in bits of its own.
    """

    wants: Sequence[Want]
    until: float = math.inf
    steps: int = 0
    known: dict[object, frozenset[int]] = field(default_factory=dict)
    points: dict[frozenset[int], frozenset[Point]] = field(default_factory=dict)
    numbers: dict[object, int] = field(default_factory=dict)

    def takes_too_many(self, s: Situation) -> bool:
        """Whether shares alone bring a board into more states than there are steps left. No more
        states of all devices are alike than the board has symmetries.
        """
        board, states = s.board, 1
        counts: dict[tuple[Load, int], int] = {}
        for device in zip(s.state.left, board.memory, strict=True):
            if device not in counts:
                counts[device] = self._states(*device)
            states *= counts[device]
            if states > MOST_STEPS * board.symmetries:
                return True
        return states * len(board.indices) > MOST_STEPS * board.symmetries

    def _states(self, left: Load, memory: int) -> int:
        """How often shares of a device leave another amount of it, `MOST_STATES` at most."""
        loads = {
            load
            for want in self.wants
            if want.number == 1 and not (want.whole or want.nics)
            if (load := want.load(memory)) is not None and load != NONE
        }
        found, new = {left}, [left]
        while new and len(found) < MOST_STATES:
            rest = new.pop()
            more = {load.off(rest) for load in loads if load.fits(rest)} - found
            found |= more
            new += more
        return len(found)

    def of_situation(self, s: Situation, homes: int) -> frozenset[Point]:
        """Points over the wants and `homes` further kinds."""
        if not homes:
            return self.fitting(s.board, s.state)
        found: set[Point] = set()
        able = {h: home for h, home in enumerate(s.homes) if home is not None}
        for size in range(len(able) + 1):
            for stay in combinations(able, size):
                state = s.state
                for h in stay:
                    state = _with_home(state, able[h])
                tail = tuple(int(h in stay) for h in range(homes))
                fitting = self.fitting(s.board, state)
                self._step(len(fitting))
                found |= {x + tail for x in fitting}
        return frozenset(found)

    def fitting(self, board: Board, state: State) -> frozenset[Point]:
        """All multisets of the wants that fit a state."""
        found = self._from(board, state, board.key(state, self.numbers), 0)
        if found not in self.points:
            shifts = [_BITS * k for k in range(len(self.wants))]
            count = (1 << _BITS) - 1
            self.points[found] = frozenset(
                tuple([x >> shift & count for shift in shifts]) for x in found
            )
        return self.points[found]

    def _from(self, board: Board, state: State, alike: object, first: int) -> frozenset[int]:
        """Those of the wants from `first` on; `alike` is the key of the state."""
        key = alike, first
        if key in self.known:
            return self.known[key]
        if first == len(self.wants):
            return _NOTHING
        found = set(self._from(board, state, alike, first + 1))
        one = 1 << _BITS * first
        seen: set[object] = set()
        for gift in board.gifts(state, self.wants[first]):
            after = board.key(gift.after, self.numbers)
            if after in seen:
                continue
            seen.add(after)
            fitting = self._from(board, gift.after, after, first)
            self._step(len(board.indices) + len(fitting))
            found.update([x + one for x in fitting])
        result = self.known[key] = frozenset(found)
        return result

    def _step(self, count: int) -> None:
        self.steps += count
        if self.steps > MOST_STEPS or time.monotonic() > self.until:
            raise TooManyError


def _with_home(state: State, home: Home) -> State:
    left = list(state.left)
    for i, load in home.loads:
        left[i] = load.off(left[i])
    return State(tuple(left), tuple(a - b for a, b in zip(state.nics, home.nics, strict=True)))


def _maximal(fitting: Iterable[Point]) -> list[Point]:
    points = set(fitting)
    return sorted(p for p in points if not any(_raised(p, k) in points for k in range(len(p))))


def _raised(point: Point, k: int, by: int = 1) -> Point:
    return (*point[:k], point[k] + by, *point[k + 1 :])


def _least_outside(fitting: frozenset[Point]) -> list[Point]:
    """The multisets that do not fit although all smaller ones do."""
    found: set[Point] = set()
    for point in fitting:
        for k in range(len(point)):
            out = _raised(point, k)
            if out not in fitting and out not in found:
                smaller = (_raised(out, j, -1) for j in range(len(out)) if out[j])
                if all(s in fitting for s in smaller):
                    found.add(out)
    return sorted(found)


@dataclass(slots=True)
class _Set:
    """What fits some boards: `patterns` are the largest, `outside` the smallest that do not."""

    patterns: Ints
    outside: Ints

    @classmethod
    def of(cls, fitting: frozenset[Point]) -> _Set:
        patterns = np.array(_maximal(fitting), dtype=np.int64)
        if len(patterns) > MOST_PATTERNS:
            raise TooManyError
        size = patterns.shape[1]
        outside = np.array(_least_outside(fitting), dtype=np.int64).reshape(-1, size)
        return cls(patterns, outside)

    def tell_apart(self, rows: dict[Point, None]) -> None:
        """Adds rows until they say what fits; gives up patterns where no row can."""
        for out in self.outside:
            while not any(out @ row > (self.patterns @ row).max() for row in map(np.array, rows)):
                found = separate(self.patterns, tuple(map(int, out)))
                if found.row is not None:
                    rows[found.row] = None
                    if len(rows) > MOST_ROWS:
                        raise TooManyError
                    break
                # Of the patterns around it, the one that serves fewest pods is given up.
                self._give_up(min(found.inside, key=lambda p: (sum(p), p)))

    def _give_up(self, gone: Point) -> None:
        rest = [p for p in map(tuple, self.patterns.tolist()) if p != gone]
        below = (_raised(gone, k, -1) for k in range(len(gone)) if gone[k])
        rest += [b for b in below if not any(all(map(le, b, p)) for p in rest)]
        self.patterns = np.array(sorted(rest), dtype=np.int64)

    def breaks(self, rows: Ints) -> Bools:
        """Which rows [R] tell each multiset outside apart [R, O]."""
        most: Ints = (rows @ self.patterns.T).max(axis=1)
        broken: Bools = rows @ self.outside.T > most[:, None]
        return broken


def _needed(rows: Ints, sets: Sequence[_Set]) -> Ints:
    """The rows that are needed to tell apart what the others do not."""
    if not len(rows):
        return rows
    breaks = np.concatenate([s.breaks(rows) for s in sets], axis=1)
    times = breaks.sum(axis=0)
    kept = np.ones(len(rows), dtype=bool)
    # Rows that exclude the fewest are dropped first.
    for r in np.argsort(breaks.sum(axis=1), kind="stable"):
        if (times[breaks[r]] > 1).all():
            kept[r] = False
            times -= breaks[r]
    return rows[kept]


def by_kind(columns: Columns, kind: int) -> Mapping[int, int]:
    """What a pod of a kind takes of each column, as far as it takes any."""
    return {c: row[kind] for c, row in enumerate(columns.takes) if row[kind]}
