"""Neighbourhoods of the victim model: a few domains are open, the rest is as in the plan.

Which gangs give way in one block hardly depends on another one, so a few blocks at a time are
settled in a small part of the time that all take. More of them are opened at once when that no
longer helps, and fewer when it takes too long.

The solution of the linear program says where the plan may be wrong: where both agree, most good
plans do, too. So what differs is open alone at first, and where the model is sharp, beside every
choice of domains.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

from placement_service.cp_sat.linear_model import Floats
from placement_service.cp_sat.victim_model import VictimModel
from placement_service.cp_sat.victim_regions import Regions
from placement_service.formulation.plan import Plan
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep


class Neighbourhoods:
    """Better plans, goal by goal. `aim` makes the plan that a solution describes."""

    def __init__(
        self,
        state: State,
        model: VictimModel,
        rng: random.Random,
        aim: Callable[[Floats], None],
        *,
        leads: bool = False,
    ) -> None:
        """With `leads` the linear programs of the model are good enough to follow all the time."""
        self._state = state
        self._model = model
        self._aim = aim
        self._regions = Regions(model)
        self._random = rng
        self._leads = leads
        #: The last goal for which they brought nothing more, and the plan that stayed.
        self._in_vain: tuple[int, Plan] | None = None

    def improve(self, i: int, share: float, relaxed: Floats | None = None) -> None:
        """Improves the i-th goal of the plan in this share of the time, with those before it as
        good as they are. `relaxed` is a solution of the linear program for that goal.
        """
        state, p = self._state, self._state.parameters
        if self.ended_in_vain(i):
            return
        most = int(self._regions.count * p.victim_domains)
        until = state.left - state.at_most(state.left * share)
        if relaxed is not None and most >= p.fewest_domains and not state.reaches(i):
            self._open(i, (), relaxed)
        fewest, wider = p.fewest_led_domains, p.led_wider
        if not self._leads or relaxed is None:
            fewest, wider, relaxed = p.fewest_domains, p.wider, None
        width, in_vain = float(fewest), 0
        while (
            most >= p.fewest_domains
            and in_vain < p.victim_in_vain
            and not state.reaches(i)
            and state.left > max(until, p.least_seconds)
        ):
            before = state.worth
            domains = self._random.sample(range(self._regions.count), min(most, int(width)))
            settled = self._open(i, domains, relaxed)
            if state.worth.rank > before.rank:
                in_vain = 0
            else:
                in_vain += 1
                width = width + wider if settled else max(fewest, width - p.narrower)
        if in_vain == p.victim_in_vain:
            self._in_vain = i, state.plan

    def ended_in_vain(self, i: int) -> bool:
        """Whether they brought nothing more for the i-th goal of the present plan."""
        return self._in_vain == (i, self._state.plan)

    def _open(self, i: int, domains: Collection[int], relaxed: Floats | None) -> bool:
        """Settles one neighbourhood; returns false if that takes too long."""
        state, model, p = self._state, self._model, self._state.parameters
        goal = state.goals[i]
        mark = model.mark()
        for earlier, enough in zip(state.goals[:i], state.worth.enough, strict=False):
            keep(earlier, model, enough)
        found = model.whole(
            goal.terms(model) or [],
            maximize=not goal.tier.minimize,
            seconds=state.at_most(p.victim_seconds),
            nodes=p.victim_nodes,
            beyond=state.worth.enough[i],
            fixed=self._regions.fixed(state.plan, domains, relaxed),
        )
        model.undo(mark)
        if found.values is not None:
            self._aim(found.values)
        return found.proven
