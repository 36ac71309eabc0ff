"""Counting by configurations: tight bounds where nodes are unlike, and plans that reach them.

Rows and patterns combine one reference and one set of nodes at a time. Where several shapes of
units share domains with several types of nodes, they allow more than fits in each domain.
"""

from __future__ import annotations

import time

from placement_service.cp_sat.configuration_master import ConfigurationMaster
from placement_service.cp_sat.solving import Var, span
from placement_service.entities.solution import TierName
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.orders import orders
from placement_service.search.configuration_plan import Realisation
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend
from placement_service.search.plan_columns import plan_columns


def settle_configurations(state: State, *, assigned: bool = False) -> bool:
    """Bounds and plans of what gets room, where rows leave that open and nodes of a domain are
    unlike, or those of different domains are and no blocks were `assigned`.

    Returns whether it found a better plan.
    """
    found = state.configurations if tells_more(state, assigned=assigned) else None
    if found is None:
        return False
    state.phase = "configure"
    with state.ground.configuration_master() as master:
        for column in plan_columns(found, state.plan):
            master.columns.lp.add(column)
        descent = Configuring(state, master)
        descend(state.goals, master, descent.settle)
    descent.realise()
    return descent.helped


def tells_more(state: State, *, assigned: bool = False) -> bool:
    """Whether configurations may improve on bounds or on plans there are."""
    if state.open_tier not in (TierName.ADMITTED, TierName.WAITING) or state.left <= 0:
        return False
    found = state.configurations
    # Else rows say nearly the same, and plans are found otherwise.
    return found is not None and (found.unlike or (found.several and not assigned))


class Configuring:
    """Settles goal after goal. `proves` is true while every goal before was held at its bound,
    `helped` once a plan was better than the one before.
    """

    def __init__(self, state: State, master: ConfigurationMaster) -> None:
        self.state = state
        self.master = master
        self.proves = True
        self._realisation = Realisation(master.configurations)
        self._fresh = False
        self.helped = False

    def settle(self, i: int, terms: Terms[Var]) -> int | None:
        """Settles the i-th goal as far as configurations can; returns what to hold it at, None to
        stop.
        """
        state, goal = self.state, self.state.goals[i]
        if goal.tier is not TierName.ADMITTED:
            self.realise()
        if goal.tier.minimize or state.left <= 0:
            return None
        floor = state.worth.floors[i]
        if floor is not None:
            return floor
        if self.proves and state.reaches(i):
            return state.bounds[i]
        if not any(span([term]) for term in terms):
            return 0
        p, now = state.parameters, time.monotonic()
        late = now + state.at_most(state.left * p.configuration_bound_share)
        unlike = self.master.configurations.unlike
        share = p.configuration_share_unlike if unlike else p.configuration_share
        deadline = now + state.at_most(state.left * share)
        bound = self.master.columns.bound(terms, maximize=True, deadline=late)
        if self.proves:
            state.learn(i, bound)
            bound = state.bounds[i]
        value = self._fill(terms, bound, deadline)
        if value is None:
            return None
        self._fresh = True
        self.proves = self.proves and value == bound
        self.master.columns.narrow(value)
        return value

    def _fill(self, terms: Terms[Var], bound: int, deadline: float) -> int | None:
        """The best filling of configurations that cost hardly any of the bound; where it lacks
        more than that, of all that a better one may use: none of these costs more than it lacks.
        Where nodes of a domain are unlike and it is far from the bound, that is of no use: then a
        dive has the time.
        """
        p, columns = self.state.parameters, self.master.columns
        hardly = int(p.configuration_slack * bound)
        slack: int | None = hardly
        best = self._fill_briefly(terms, bound, deadline, slack)
        unlike = columns.configurations.unlike
        far = unlike and (best is None or bound - best > p.configuration_far * bound)
        if not far and (best is None or bound - best > hardly):
            slack = None if best is None else bound - best
            better = self._fill_briefly(terms, bound, deadline, slack, beyond=best)
            best = best if better is None else better
        if unlike and (best is None or bound - best > hardly):
            now = time.monotonic()
            share = 1.0 if far else p.configuration_dive_share
            better = columns.dive(
                terms,
                bound,
                maximize=True,
                whole=[admission.placed for admission in self.master.admissions()],
                leave=p.configuration_leave,
                most=p.configuration_columns,
                enough=hardly,
                deadline=now + self.state.at_most((deadline - now) * share),
                beyond=best,
            )
            best = best if better is None else better
        left = deadline - time.monotonic()
        if best == bound or left <= p.least_seconds:
            return best
        more = columns.refill(
            terms,
            bound,
            maximize=True,
            seconds=left,
            effort=p.configuration_effort,
            slack=slack,
            beyond=best,
        )
        return best if more is None else more

    def _fill_briefly(
        self,
        terms: Terms[Var],
        bound: int,
        deadline: float,
        slack: int | None,
        beyond: int | None = None,
    ) -> int | None:
        p = self.state.parameters
        left = max(deadline - time.monotonic(), p.least_seconds)
        share = self.state.at_most(left * p.configuration_brief_share)
        return self.master.columns.fill(
            terms, bound, maximize=True, seconds=share, slack=slack, beyond=beyond
        )

    def realise(self) -> None:
        """Makes plans of the last result."""
        state, p = self.state, self.state.parameters
        if not self._fresh or self.master.filling is None or state.left <= 0:
            return
        self._fresh = False
        plan = self._realisation.plan(
            self.master.filling,
            seconds=state.at_most(state.left / 4),
            effort=p.configuration_assignment_effort,
        )
        built = state.builder.build(
            orders(state.problem).required_first, start=plan, until=state.deadline
        )
        self.helped = state.accept(built) or self.helped
