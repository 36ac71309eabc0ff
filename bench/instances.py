"""Instances: members of families, which are pure functions of a seed and a few numbers.

A family is a function of `families` with keyword-only parameters, each with a default, that
returns a `Snapshot`. Those made of real traces are in `families.traces` and need their files.

``load`` is always the whole trays that the gangs' minimums ask for over the whole trays that are
free: above 1 somebody must wait.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bench.families import evictions, traces
from bench.families.boards import boards
from bench.families.known import grove_scale, nvl72, tiny, wide
from bench.families.mix import huge, mix, ragged, sets
from bench.families.packing import cpu_shapes, pools, rack_parts
from bench.families.shared import shared
from placement_service.entities.request import Policy, Snapshot

Family = Callable[..., Snapshot]
Value = int | float | str


@dataclass(frozen=True, slots=True)
class Instance:
    """One member of a family; the same values always give the same snapshot."""

    family: str
    params: Mapping[str, Value] = field(default_factory=dict)
    seed: int = 1

    def __str__(self) -> str:
        words = [self.family, *(f"{name}={value}" for name, value in self.params.items())]
        return " ".join([*words, f"#{self.seed}"])

    def policy(self) -> Policy:
        """What the family asks under."""
        return evictions.POLICIES.get(self.family, Policy())

    def snapshot(self) -> Snapshot:
        """Raises `traces.MissingData` when the family is made of files that are not there."""
        return _aged(FAMILIES[self.family](self.seed, **self.params), self.seed)


#: When snapshots are taken, and how long gangs waited then on average, in seconds.
NOW = 1_800_000_000
MEAN_AGE = 3600.0


def _aged(snapshot: Snapshot, seed: int) -> Snapshot:
    """The snapshot with gangs that waited, whatever they ask for."""
    rng = random.Random(f"ages {seed}")
    gangs = tuple(
        replace(gang, created=NOW - int(rng.expovariate(1 / MEAN_AGE))) for gang in snapshot.gangs
    )
    return replace(snapshot, gangs=gangs, as_of=NOW)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.__name__: family
        for family in (
            tiny,
            mix,
            sets,
            pools,
            cpu_shapes,
            rack_parts,
            shared,
            nvl72,
            grove_scale,
            wide,
            huge,
            ragged,
            evictions.preempt,
            evictions.reclaim,
            evictions.repack,
            boards,
            traces.openb,
            traces.spot,
        )
    }
)


def parameters(family: str) -> dict[str, Value]:
    """The parameters of a family and their defaults."""
    signature = inspect.signature(FAMILIES[family])
    return {
        name: p.default
        for name, p in signature.parameters.items()
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }


def instance(family: str, given: Mapping[str, str], seed: int = 1) -> Instance:
    """An instance from words; raises ValueError for what the family does not take."""
    if family not in FAMILIES:
        raise ValueError(f"no family {family}; there are {', '.join(FAMILIES)}")
    known = parameters(family)
    params: dict[str, Value] = {}
    for name, text in given.items():
        if name not in known:
            raise ValueError(f"{family} takes no {name}; it takes {', '.join(known)}")
        try:
            params[name] = type(known[name])(text)
        except ValueError:
            raise ValueError(f"{name} of {family} cannot be {text!r}") from None
    return Instance(family, params, seed)
