"""Who may use what a victim leaves."""

from __future__ import annotations

from placement_service.entities.request import PodGang
from placement_service.judge.outcome import EvictedPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.preempting import may_preempt
from placement_service.judge.rules.reclaiming import Reclaiming


class Rights:
    """The gangs that may use what each victim leaves: what is moved leaves its room to all."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reclaiming = Reclaiming(plan)

    def may_use(self, gang: PodGang, victim: EvictedPod) -> bool:
        """Whether a gang may use the room of a victim, its ports and its place."""
        return (
            victim.moves
            or may_preempt(self._plan, gang, victim)
            or self._reclaiming.may_use(gang, victim)
        )
