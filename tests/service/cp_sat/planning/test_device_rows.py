"""The fewest pods that leave where it matters which GPUs come free, beside all ways to leave."""

from __future__ import annotations

import itertools
import random
import time

import numpy as np
import pytest

from placement_service.cp_sat.planning.least_eviction import least_eviction
from placement_service.formulation.devices.wants import ALL, Load
from placement_service.formulation.planning_questions import (
    Devices,
    DeviceWant,
    EvictionQuestion,
    Freed,
    Leaver,
    OnDevice,
    UnitsNeeded,
)

#: GPUs of the node, and the partitions of it.
GPUS = 4
PARTITIONS = {1: ((0,), (1,), (2,), (3,)), 2: ((0, 1), (2, 3)), 4: ((0, 1, 2, 3),)}


def question(seed: int) -> EvictionQuestion:
    """One node with shared GPUs. Nothing but its GPUs is short."""
    rng = random.Random(seed)
    left = [[1000, 1000] for _ in range(GPUS)]
    given: list[OnDevice] = []
    leavers: list[Leaver] = []
    for _ in range(rng.randint(2, 5)):
        device, compute = rng.randrange(GPUS), rng.choice((250, 500, 1000))
        memory = min(1000, compute + rng.choice((0, 0, 250)))
        if left[device][0] >= compute and left[device][1] >= memory:
            left[device][0] -= compute
            left[device][1] -= memory
            given.append(OnDevice(len(leavers), device, compute, memory))
            leavers.append(Leaver(rng.choice((1, 1, 2)), 1, (Freed(0, 0),)))
    wants, needs = [], []
    for d in range(rng.choice((1, 2))):
        load = rng.choice((ALL, ALL, Load(500, 500), Load(250, 500)))
        number = rng.choice((1, 2)) if load == ALL else 1
        partitions = PARTITIONS[number] if load == ALL and rng.random() < 0.5 else None
        wants.append(DeviceWant(d, 0, number, (load,) * GPUS, partitions))
        needs.append(UnitsNeeded((d,), rng.randint(1, 2)))
    if rng.random() < 0.3:
        wants.append(DeviceWant(-1, 1, 1, (Load(500, 500),) * GPUS, None))
    demands = len(needs)
    return EvictionQuestion(
        free=np.full((1, 1), 100, dtype=np.int64),
        request=np.ones((demands, 1), dtype=np.int64),
        eligible=np.ones((demands, 1), dtype=bool),
        amounts=np.ones((1, 1), dtype=np.int64),
        needs=tuple(needs),
        scopes=(),
        leavers=tuple(leavers),
        limits=(),
        devices=(Devices(0, tuple(Load(*one) for one in left), tuple(given), tuple(wants)),),
    )


def fits(asked: EvictionQuestion, gone: tuple[int, ...]) -> bool:
    """Whether all units find their GPUs once some have left."""
    (devices,) = asked.devices
    left = [list(one) for one in devices.left]
    for one in devices.given:
        left[one.device][0] += gone[one.leaver] * one.compute
        left[one.device][1] += gone[one.leaver] * one.memory
    counts = {of[0]: count for of, count in asked.needs}
    units = [w for w in devices.wants for _ in range(counts.get(w.demand, w.units))]

    def place(i: int) -> bool:
        if i == len(units):
            return True
        want = units[i]
        sets = want.partitions or itertools.combinations(range(GPUS), want.number)
        for chosen in sets:
            loads = [want.loads[g] for g in chosen]
            if all(load.fits(Load(*left[g])) for g, load in zip(chosen, loads, strict=True)):
                for g, load in zip(chosen, loads, strict=True):
                    left[g] = list(load.off(Load(*left[g])))
                if place(i + 1):
                    return True
                for g, load in zip(chosen, loads, strict=True):
                    left[g] = [left[g][0] + load.compute, left[g][1] + load.memory]
        return False

    return place(0)


@pytest.mark.parametrize("seeds", [range(0, 60), range(60, 120)])
def test_no_way_to_leave_is_cheaper(seeds: range) -> None:
    possible = impossible = 0
    for seed in seeds:
        asked = question(seed)
        ways = itertools.product((0, 1), repeat=len(asked.leavers))
        costs = [
            sum(k * leaver.pods for k, leaver in zip(gone, asked.leavers, strict=True))
            for gone in ways
            if fits(asked, gone)
        ]
        found = least_eviction(asked, deadline=time.monotonic() + 60)
        if not costs:
            assert found.times is None, seed
            impossible += 1
            continue
        assert found.times is not None, seed
        pods = sum(k * one.pods for k, one in zip(found.times, asked.leavers, strict=True))
        assert (pods, found.bound) == (min(costs), min(costs)), seed
        possible += min(costs) > 0
    assert min(possible, impossible) >= 3
