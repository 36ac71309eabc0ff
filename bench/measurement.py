"""What is measured of one instance: what it took, what was reached and what is proven."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.instances import Instance
from placement_service.entities.request import Snapshot
from placement_service.entities.solution import TierName

#: Values closer than this are equal.
TOLERANCE = 5e-7


@dataclass(frozen=True, slots=True)
class TierLine:
    """`bound` None: nothing is proven."""

    value: float
    bound: float | None

    @property
    def proven(self) -> bool:
        return self.bound is not None and abs(self.bound - self.value) < TOLERANCE

    @property
    def gap(self) -> float | None:
        """|bound - value| / max(1, |value|), None without a bound."""
        return (
            None if self.bound is None else abs(self.bound - self.value) / max(1, abs(self.value))
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as judged here; `tiers` by name, `placed` counts gangs.

    `oldest_left` are those of the 50 oldest gangs whose minimum does not run, None where
    the bindings are not known.
    """

    placed: int
    tiers: dict[str, TierLine]
    oldest_left: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """When a better answer or bound came, in seconds, and how far the first tier was."""

    seconds: float
    phase: str
    admitted: float
    bound: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement. Times are in seconds since the question was asked, memory in MiB.

    `formulate` is 0 over gRPC, where it is part of `first`. `proof` is None unless all tiers
    are proven that can be. `memory` is the peak of the process by name: "bench" holds
    everything of the engine path; over gRPC there are "server" and "solver". `faults` are
    broken rules and wrong claims: there should be none. `in_turn` is what comes of placing
    gangs one after another, the oldest first, and is not made over gRPC.
    """

    family: str
    params: dict[str, int | float | str]
    seed: int
    path: str
    time_limit: float
    nodes: int
    gangs: int
    pods: int
    formulate: float
    first: float
    proof: float | None
    total: float
    greedy: Answer
    final: Answer
    end: str
    memory: dict[str, float]
    engine: str
    request_mib: float = 0.0
    judging: float = 0.0
    steps: list[Step] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    in_turn: Answer | None = None

    def __str__(self) -> str:
        return str(Instance(self.family, self.params, self.seed))

    @property
    def gap(self) -> float | None:
        """Gap of the first tier that is not proven though it can be; 0 when all are."""
        for tier in TierName:
            line = self.final.tiers.get(tier.value)
            if tier.provable and line is not None and not line.proven:
                return line.gap
        return 0.0


def pending_pods(snapshot: Snapshot) -> int:
    """How many pods wait."""
    return sum(group.pending_count for gang in snapshot.gangs for group in gang.groups)
