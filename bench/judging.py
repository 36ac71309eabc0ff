"""The judge of the benchmarks: what an answer is worth, whatever the engine says of it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measurement import TOLERANCE, Answer, TierLine
from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.entities.solution import Tier, TierName
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify

#: Gangs of which it is counted how many still wait.
OLDEST = 50


class Judge:
    """Recomputes what an answer is worth and collects what is wrong with it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        pending = [i for i, gang in enumerate(snapshot.gangs) if gang.is_pending]
        self._oldest = sorted(pending, key=lambda i: snapshot.gangs[i].created or 0)[:OLDEST]
        self.faults: list[str] = []

    def answer(
        self,
        which: str,
        bindings: Sequence[Binding],
        claimed: Sequence[Tier],
        evictions: Sequence[Eviction] = (),
    ) -> Answer:
        violations = verify(self._snapshot, self._policy, bindings, evictions)
        self.faults += [f"{which}: {violation}" for violation in violations[:3]]
        judged = score(self._snapshot, self._policy, bindings, evictions)
        for tier in claimed:
            self._check(which, tier, judged)
        bounds = {tier.name: tier.bound for tier in claimed}
        return Answer(
            sum(gang.placed for gang in judged.gangs),
            {name.value: TierLine(judged.value(name), bounds.get(name)) for name in TierName},
            sum(not judged.gangs[i].placed for i in self._oldest),
        )

    def _check(self, which: str, tier: Tier, judged: Score) -> None:
        value = judged.value(tier.name)
        if abs(tier.value - value) > TOLERANCE:
            self.faults.append(f"{which}: {tier.name.value} is {value:g}, not {tier.value:g}")
        if tier.bound is not None:
            beyond = (tier.bound - value) if tier.name.minimize else (value - tier.bound)
            if beyond > TOLERANCE:
                self.faults.append(
                    f"{which}: {tier.name.value} is {value:g}, past its bound {tier.bound:g}"
                )
