"""Counting by configurations: tight bounds where nodes are unlike, and plans that reach them.

Rows and patterns combine one reference and one set of nodes at a time. Where several shapes of
units share domains with several types of nodes, they allow more than fits in each domain.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from placement_service.cp_sat.configurations.lp import Column
from placement_service.cp_sat.configurations.master import ConfigurationMaster, Filling
from placement_service.cp_sat.solving import Var, span
from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.orders import orders
from placement_service.search.configurations.plan import Realisation
from placement_service.search.configurations.plan_columns import plan_columns
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend, keep


def settle_configurations(state: State, *, assigned: bool = False) -> bool:
    """Bounds and plans of what gets room, where rows leave that open and nodes of a domain are
    unlike, or those of different domains are and no blocks were `assigned`.

    Returns whether it found a better plan.
    """
    found = state.configurations if tells_more(state, assigned=assigned) else None
    if found is None:
        return False
    state.phase = "configure"
    begun, worth = state.plan, state.worth
    held = plan_columns(found, begun)
    with state.ground.configuration_master() as master:
        for column in held.values():
            master.columns.lp.add(column)
        descent = Configuring(state, master)
        descend(state.goals, master, descent.settle)
        descent.realise()
        at = state.topology
        if state.worth.values[at] > worth.values[at]:
            # More gangs got room, and lie in more domains. Few domains need to hold anything else.
            descent.realise_near(begun, held)
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
        state = self.state
        if not self._fresh or self.master.filling is None or state.left <= 0:
            return
        self._fresh = False
        self._realise(self.master.filling)

    def realise_near(self, begun: Plan, held: Mapping[int, Column]) -> None:
        """Makes a plan that reaches as much before topology, and leaves most domains as they were
        `held` when it was `begun`.
        """
        state, p = self.state, self.state.parameters
        seconds = state.at_most(state.left * p.configuration_near_share)
        if seconds < p.configuration_near_seconds:
            return
        for goal, reached in zip(state.goals[: state.topology], state.worth.enough, strict=False):
            keep(goal, self.master, reached)
        if self.master.columns.keep(held, seconds=seconds):
            assert self.master.filling is not None
            self._realise(self.master.filling, begun)

    def _realise(self, filling: Filling, near: Plan | None = None) -> None:
        state, p = self.state, self.state.parameters
        plan = self._realisation.plan(
            filling,
            seconds=state.at_most(state.left / 4),
            effort=p.configuration_assignment_effort,
            near=near,
        )
        built = state.builder.build(
            orders(state.problem).required_first, start=plan, until=state.deadline
        )
        self.helped = state.accept(built) or self.helped
