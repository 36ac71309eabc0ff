"""The devices of a node in the question who has to leave: which of them a unit gets.

c[i]   units that get some of device i, or for partitions y[p] those that get one
sum_i c[i] = number * x,  c[i] <= x      or  sum_p y[p] = x
sum of loads on i <= left[i] + what leavers give back of i       for compute and for memory
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from placement_service.cp_sat.linear_model import LinearModel
from placement_service.formulation.planning_questions import Devices, DeviceWant

#: All of a device, in thousandths.
_WHOLE: Final = 1000


def post(
    model: LinearModel, devices: Devices, units: Mapping[int, int], leaving: Mapping[int, int]
) -> None:
    """`units` are the variables of the demands on the node, `leaving` those of the leavers."""
    #: By device what is taken of it: a variable, compute and memory.
    taken: list[list[tuple[int, int, int]]] = [[] for _ in devices.left]
    for want in devices.wants:
        if want.demand < 0 or want.demand in units:
            _choose(model, want, units.get(want.demand), taken)
    for i, (compute, memory) in enumerate(devices.left):
        back = [one for one in devices.given if one.device == i]
        for of, left, given in (
            ([(v, c) for v, c, _ in taken[i]], compute, [(g.leaver, g.compute) for g in back]),
            ([(v, m) for v, _, m in taken[i]], memory, [(g.leaver, g.memory) for g in back]),
        ):
            if of:
                model.row([*of, *((leaving[v], -amount) for v, amount in given)], most=left)


def _choose(
    model: LinearModel,
    want: DeviceWant,
    units: int | None,
    taken: list[list[tuple[int, int, int]]],
) -> None:
    """The devices of some units: of a variable, or of so many that stay."""
    most = want.units if units is None else round(model.most(units))
    if want.partitions is not None:
        chosen = [model.variable(1) for _ in want.partitions]
        for y, devices in zip(chosen, want.partitions, strict=True):
            for i in devices:
                taken[i].append((y, _WHOLE, _WHOLE))
        number = 1
    else:
        chosen = [model.variable(most) for _ in want.loads]
        for c, load, of in zip(chosen, want.loads, taken, strict=True):
            of.append((c, *load))
            if units is not None:
                model.row([(c, 1), (units, -1)], most=0)
        number = want.number
    every: list[tuple[int, float]] = [(v, 1) for v in chosen]
    if units is None:
        model.row(every, least=number * most, most=number * most)
    else:
        model.row([*every, (units, -number)], least=0, most=0)
