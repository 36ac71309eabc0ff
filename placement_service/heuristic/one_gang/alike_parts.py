"""Parts that each need one domain for so many pods of one class: placed together.

The replicas of a gang are alike. Which of them goes where does not matter, so domains are
sorted once and filled one after another, the tightest first, with as many parts as each holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.indices import ClassIdx, DemandIdx
from placement_service.formulation.problem import DemandUnits
from placement_service.heuristic.one_gang.domain_choice import DemandOf, DomainChoice
from placement_service.heuristic.one_gang.regions import Region


class Alike(NamedTuple):
    """What a part asks for that is nothing but some pods in one domain."""

    level: int
    pod_class: ClassIdx
    units: int


class Run(NamedTuple):
    """Parts in a row that ask for the same, and for what; None for all others."""

    alike: Alike | None
    parts: list[Part]


class PartsIn(NamedTuple):
    """A domain, and how many parts go there."""

    domain: int
    times: int


def runs(gang: DomainChoice, parts: Sequence[Part]) -> Iterator[Run]:
    """The parts in their order, in runs."""
    for alike, some in groupby(parts, key=lambda part: _alike(gang, part)):
        yield Run(alike, list(some))


def _alike(gang: DomainChoice, part: Part) -> Alike | None:
    if part.children or part.required < 0 or part.preferred >= 0:
        return None
    assert part.scope is not None
    demands = _wanted(gang, part)
    if part.scope.pin >= 0 or len(demands) != 1:
        return None
    pod_class = gang.gang.demands[demands[0]].pod_class
    if gang.is_one_by_one(pod_class):
        return None
    return Alike(part.required, pod_class, gang.want[demands[0]])


def _wanted(gang: DomainChoice, part: Part) -> list[int]:
    return [d for d in part.loose if gang.want[d]]


def most(gang: DomainChoice, alike: Alike, region: Region, count: int) -> Sequence[PartsIn]:
    """The domains for up to `count` parts in a region."""
    level, pod_class, units = alike
    own = gang.topology.domains(region, level)
    room = gang.room(pod_class, level, region, own)
    parts = room // units
    able = parts.nonzero()[0]
    if not len(able):
        return ()
    domains = able if own is None else own[able]
    room, parts = room[able], parts[able]
    inside = gang.own_room(pod_class, level, region)
    held = None if inside is None else inside[domains]
    order = gang.best_first(DemandOf(pod_class, units), level, domains, room, held)
    times = np.zeros(len(order), dtype=np.int64)
    if held is not None:
        # As one by one: nodes that others want come after all that they do not.
        times = _first(np.minimum(parts, held // units)[order], count)
    times += _first(parts[order] - times, count - int(times.sum()))
    used = times > 0
    return list(map(PartsIn, domains[order[used]].tolist(), times[used].tolist()))


def _first(parts: Ints, count: int) -> Ints:
    """Of so many parts in each place the first ones, up to a count."""
    before = parts.cumsum() - parts
    return np.clip(count - before, 0, parts)


def place_alike(
    gang: DomainChoice,
    alike: Alike,
    parts: Sequence[Part],
    region: Region,
    homes: Sequence[PartsIn],
) -> None:
    """Place parts in the domains that `most` has found."""
    regions = [gang.topology.narrowed(region, alike.level, home.domain) for home in homes]
    counts = [home.times * alike.units for home in homes]
    chosen = gang.topology.choice.best_in_each(gang.residual, alike.pod_class, regions, counts)
    demands = [DemandIdx(_wanted(gang, part)[0]) for part in parts]
    gang.take_in_turn([DemandUnits(demand, alike.units) for demand in demands], chosen)
