"""What occurs in a question: mostly a few rules, now and then none or nearly all."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum, auto


class Has(Enum):
    """What may occur beyond nodes in racks and gangs that want their GPUs."""

    MANY_LEVELS = auto()
    CROSSING_LEVELS = auto()
    BARE_NODES = auto()
    UNLIKE_NODES = auto()
    USED_NODES = auto()
    CLOSED_NODES = auto()
    SHARED_NODES = auto()
    FEW_PODS = auto()
    CPU = auto()
    CPU_ONLY = auto()
    ODD_GPUS = auto()
    STRANGE_AMOUNTS = auto()
    REQUIRED = auto()
    PREFERRED = auto()
    SCOPES_OF_GROUPS = auto()
    OTHERS_IN_A_GROUP = auto()
    EXTRAS = auto()
    SETS = auto()
    PRIORITIES = auto()
    AGES = auto()
    QUEUES = auto()
    RESERVATIONS = auto()
    SELECTORS = auto()
    AVOIDED_NODES = auto()
    RULES_BETWEEN_PODS = auto()
    HOST_PORTS = auto()
    DEVICES = auto()
    COMPUTE_DOMAINS = auto()
    PREVIOUS_NODES = auto()
    FIXED = auto()
    RUNNING = auto()
    PROTECTED = auto()
    NAMESPACES = auto()
    HOPELESS = auto()
    ONE_LARGE_GANG = auto()
    TOLERANCES = auto()
    EXTRAS_WITH_PRIORITY = auto()


#: How often each occurs where a few do; others than these in one question of six.
_OFTEN = {
    Has.REQUIRED: 0.6,
    Has.PREFERRED: 0.6,
    Has.SCOPES_OF_GROUPS: 0.4,
    Has.EXTRAS: 0.3,
    Has.AGES: 0.4,
    Has.RUNNING: 0.35,
    Has.SHARED_NODES: 0.5,
    Has.PRIORITIES: 0.3,
    Has.ONE_LARGE_GANG: 0.03,
    Has.CROSSING_LEVELS: 0.08,
    Has.TOLERANCES: 0.08,
    Has.RULES_BETWEEN_PODS: 0.12,
}


@dataclass(frozen=True, slots=True)
class Taste:
    """What occurs, how many nodes there are, and what share of what is free gangs ask for."""

    has: frozenset[Has]
    nodes: int
    gangs: int
    load: float

    def __contains__(self, what: Has) -> bool:
        return what in self.has


def taste(rng: random.Random, *, large: bool = False) -> Taste:
    """What one question has."""
    times = rng.choice((0.4, 1, 1, 1, 1, 1.5, 3))
    has = frozenset(h for h in Has if rng.random() < min(0.9, times * _OFTEN.get(h, 1 / 6)))
    nodes = rng.choice((rng.randint(30, 60), rng.randint(30, 60), rng.randint(60, 150)))
    if rng.random() < 0.12:
        nodes = rng.randint(150, 400)
    gangs = rng.randint(10, 150)
    if large:
        nodes = rng.randint(500, rng.choice((1000, 2000, 4000)))
        gangs = rng.randint(50, rng.choice((200, 1000)))
        has |= {Has.RUNNING} if rng.random() < 0.4 else set()
    return Taste(has, nodes, gangs, rng.choice((0.7, 1.0, 1.1, 1.3, 1.6, 2.5, 4)))
