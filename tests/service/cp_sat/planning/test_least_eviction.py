"""The fewest pods that leave, beside all ways to leave, on clusters small enough for that."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import numpy as np
import pytest

from placement_service.cp_sat.planning.least_eviction import least_eviction
from placement_service.formulation.arrays import Ints
from placement_service.formulation.planning_questions import (
    Closed,
    EvictionQuestion,
    Freed,
    Given,
    Leaver,
    OneDomain,
    PodsOf,
    QueueRoom,
    Together,
    UnitsNeeded,
)

NODES = 4


def question(seed: int) -> EvictionQuestion:
    """Four nodes of one or two racks, gangs with and without extras, and one or two demands."""
    rng = random.Random(seed)
    demands = rng.choice((1, 2))
    sizes = [rng.choice((1, 2, 4)) for _ in range(demands)]
    amounts = np.array([[1], [2], [4]], dtype=np.int64)
    used = [0] * NODES
    leavers: list[Leaver] = []

    def pod() -> Freed | None:
        row = rng.randrange(3)
        able = [n for n in range(NODES) if used[n] + amounts[row, 0] <= 4]
        if not able:
            return None
        node = rng.choice(able)
        used[node] += int(amounts[row, 0])
        return Freed(node, row)

    for _ in range(rng.randint(1, 3)):
        pods = [p for p in (pod() for _ in range(rng.randint(1, 3))) if p]
        if not pods:
            continue
        whole = -1
        if rng.random() < 0.7:
            whole = len(leavers)
            leavers.append(Leaver(len(pods), 1, tuple(pods)))
        if rng.random() < 0.5:
            leavers.append(Leaver(1, 1, (pods[0],), whole))
    scopes = []
    if rng.random() < 0.6:
        rack = np.array([rng.choice((-1, 0, 1, 1)) for _ in range(NODES)], dtype=np.int64)
        scopes.append(OneDomain(tuple(range(rng.randint(1, demands))), rack))
    limits: tuple[Together, ...] = ()
    if leavers and rng.random() < 0.4:
        limits = (Together(tuple(PodsOf(v, one.pods) for v, one in enumerate(leavers)), 2),)
    needs = tuple(UnitsNeeded((d,), rng.randint(1, 3)) for d in range(demands))
    queues: tuple[QueueRoom, ...] = ()
    if rng.random() < 0.5:
        # Some of those who may leave are in the queue of the gang.
        given = [
            Given(v, sum(int(amounts[one.row, 0]) for one in leaver.frees))
            for v, leaver in enumerate(leavers)
            if leaver.part_of >= 0 or rng.random() < 0.7
        ]
        queues = (QueueRoom(tuple(sizes), rng.randint(-1, 6), tuple(given)),)
    shut: tuple[Closed, ...] = ()
    alone = [v for v, one in enumerate(leavers) if one.part_of < 0]
    if alone and rng.random() < 0.4:
        v = rng.choice(alone)
        nodes = np.array(sorted(rng.sample(range(NODES), 2)), dtype=np.int64)
        by = tuple(PodsOf(w, 1) for w, one in enumerate(leavers) if v in (w, one.part_of))
        shut = (Closed(rng.randrange(demands), nodes, by, 1),)
    return EvictionQuestion(
        free=4 - np.array(used, dtype=np.int64)[:, None],
        request=np.array(sizes, dtype=np.int64)[:, None],
        eligible=np.array([[rng.random() < 0.9 for _ in range(NODES)] for _ in range(demands)]),
        amounts=amounts,
        needs=needs,
        scopes=tuple(scopes),
        leavers=tuple(leavers),
        limits=limits,
        queues=queues,
        closed=shut,
    )


def fits(asked: EvictionQuestion, free: Ints, shut: set[tuple[int, int]]) -> bool:
    """Whether all units fit into what is free, in one domain of each scope; `shut` are demands and
    nodes.
    """
    units = [d for (d,), count in asked.needs for _ in range(count)]
    for domains in itertools.product(*([0, 1] for _ in asked.scopes)):
        left = free[:, 0].tolist()

        def place(i: int, left: list[int] = left, domains: tuple[int, ...] = domains) -> bool:
            if i == len(units):
                return True
            d = units[i]
            size = int(asked.request[d, 0])
            for n in range(NODES):
                outside = any(
                    d in mine and domain[n] != at
                    for (mine, domain), at in zip(asked.scopes, domains, strict=True)
                )
                if left[n] >= size and asked.eligible[d, n] and not outside and (d, n) not in shut:
                    left[n] -= size
                    if place(i + 1):
                        return True
                    left[n] += size
            return False

        if place(0):
            return True
    return False


def fewest(asked: EvictionQuestion) -> int | None:
    """By all ways to leave."""
    best: int | None = None
    for times in itertools.product(*(range(one.most + 1) for one in asked.leavers)):
        free = asked.free.copy()
        for k, leaver in zip(times, asked.leavers, strict=True):
            for node, row in leaver.frees:
                free[node] += k * asked.amounts[row]
        together = (
            sum(times[v] * pods for v, pods in limit.leavers) <= limit.most
            for limit in asked.limits
        )
        in_queues = (
            sum(count * queue.take[d] for (d,), count in asked.needs)
            <= queue.left + sum(times[v] * amount for v, amount in queue.given)
            for queue in asked.queues
        )
        shut = {
            (one.demand, n)
            for one in asked.closed
            if sum(times[v] * pods for v, pods in one.leavers) < one.pods
            for n in one.nodes.tolist()
        }
        once = not any(
            k and leaver.part_of >= 0 and times[leaver.part_of]
            for k, leaver in zip(times, asked.leavers, strict=True)
        )
        more = (
            any(k > m for k, m in zip(times, refused, strict=True)) for refused in asked.forbidden
        )
        pods = sum(k * one.pods for k, one in zip(times, asked.leavers, strict=True))
        if (
            all(together)
            and all(in_queues)
            and once
            and all(more)
            and (best is None or pods < best)
            and fits(asked, free, shut)
        ):
            best = pods
    return best


@pytest.mark.parametrize("seeds", [range(0, 40), range(40, 80)])
def test_no_way_to_leave_is_cheaper(seeds: range) -> None:
    possible = again = 0
    for seed in seeds:
        asked = question(seed)
        # Each answer is refused, as if others took its room: gangs that leave elsewhere help then.
        for refused in range(4):
            found = least_eviction(asked, deadline=time.monotonic() + 60)
            want = fewest(asked)
            if want is None:
                assert found.times is None, seed
                break
            assert found.times is not None, seed
            pods = sum(k * one.pods for k, one in zip(found.times, asked.leavers, strict=True))
            assert (pods, found.bound) == (want, want), seed
            possible += want > 0 and not refused
            again += refused > 0
            asked = replace(asked, forbidden=(*asked.forbidden, found.times))
    assert min(possible, again) >= 5


def test_without_time_counting_is_the_bound() -> None:
    """Two nodes, each full of a gang of two pods; the gang needs both."""
    amounts = np.array([[4]], dtype=np.int64)
    asked = EvictionQuestion(
        free=np.zeros((2, 1), dtype=np.int64),
        request=np.array([[8]], dtype=np.int64),
        eligible=np.ones((1, 2), dtype=bool),
        amounts=amounts,
        needs=(UnitsNeeded((0,), 2),),
        scopes=(),
        leavers=tuple(Leaver(2, 1, (Freed(n, 0), Freed(n, 0))) for n in range(2)),
        limits=(),
    )
    found = least_eviction(asked, deadline=time.monotonic() - 1)
    assert (found.times, found.bound) == (None, 4)
