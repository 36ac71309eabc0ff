"""One question of medium size under a policy."""

from __future__ import annotations

import random
from typing import NamedTuple

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import ExtrasPolicy, Policy, Snapshot, Tolerance
from tests.medium.clusters import cluster, levels_of
from tests.medium.gangs import GangDraft, Room
from tests.medium.rules import RULES, all_that_runs
from tests.medium.tastes import Has, Taste, taste
from tests.strategies.words import NOW


class Drawn(NamedTuple):
    """A question under a policy, and what occurs in it."""

    snapshot: Snapshot
    policy: Policy
    taste: Taste


def draw(seed: int, number: int, *, large: bool = False) -> Drawn:
    """The question of that number; every seed has others."""
    rng = random.Random(f"{'large' if large else 'medium'}/{seed}/{number}")
    wanted = taste(rng, large=large)
    return Drawn(snapshot(rng, wanted), _policy(rng, wanted), wanted)


def snapshot(rng: random.Random, wanted: Taste) -> Snapshot:
    """A question with what is wanted."""
    levels = levels_of(rng, wanted)
    nodes = cluster(rng, wanted, levels)
    gangs = GangDraft(rng, wanted, levels, nodes).gangs()
    if Has.RUNNING in wanted:
        room = Room(rng, nodes)
        full = rng.choice((0.2, 0.5, 0.8))
        for k, gang in enumerate(gangs):
            if rng.random() < full:
                share = rng.choice((1, 1, 1, 0.5, 0.8))
                runs = room.running(gang, share)
                if runs is not None:
                    gangs[k] = runs
        nodes = room.used()
    asked = Snapshot(nodes, tuple(gangs), as_of=NOW)
    for what, change in RULES.items():
        if what in wanted:
            asked = change(rng, asked)
    return all_that_runs(asked)


def _policy(rng: random.Random, wanted: Taste) -> Policy:
    eviction = EvictionPolicy.NONE
    if Has.RUNNING in wanted and rng.random() < 0.8:
        eviction = rng.choice(tuple(EvictionPolicy))
    tolerances: tuple[Tolerance, ...] = ()
    if Has.TOLERANCES in wanted:
        tier = rng.choice(("admitted", "waiting", "extra", "topology"))
        tolerances = (Tolerance(tier, rng.choice((0.01, 0.03, 0.1))),)
    return Policy(
        eviction=eviction,
        starvation_after=rng.choice((None, 1000)),
        tolerances=tolerances,
        extras=ExtrasPolicy.WITH_PRIORITY
        if Has.EXTRAS_WITH_PRIORITY in wanted
        else ExtrasPolicy.AFTER_MINIMUMS,
    )
