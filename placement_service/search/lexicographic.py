"""Settling the tiers one by one with the pooled model of the whole problem.

Gangs that kinds cannot describe (`kinds.is_plain`) stay as the plan has them,
and then nothing is proven. Otherwise the model takes no plan for worse than it
is, so its bounds are bounds of the problem.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from placement_service.cp_sat.aggregate_model import Pooled, pooled_size
from placement_service.cp_sat.part_types import is_plain
from placement_service.cp_sat.solving import Terms
from placement_service.formulation.objective import priorities, worth
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State

#: Variables up to which the model is tried on the whole problem, and thoroughly.
MAX_VARIABLES = 8_000
MAX_THOROUGH_VARIABLES = 3_000
#: Deterministic time of each solve.
EFFORT = 0.5
#: The same when it is done thoroughly.
THOROUGH_EFFORT = 5.0
THOROUGH_TOPOLOGY_EFFORT = 2.0


def settle(state: State, *, thorough: bool = False) -> None:
    """Better plans and better bounds of all tiers, where the problem is small enough.

    `thorough` is for gangs or extras that are still open: it first finds out which parts
    fit into which domains together, and then takes more time.
    """
    most = MAX_THOROUGH_VARIABLES if thorough else MAX_VARIABLES
    plain = {g.index for g in state.problem.gangs if is_plain(state.counting, state.forest, g)}
    gangs = [state.problem.gangs[i] for i in plain]
    # What a split costs the model knows only roughly: it is not where topology is settled.
    done = state.extra_is_proven if thorough else state.proven
    if done or state.left <= 0 or not gangs:
        return
    if pooled_size(state.problem, state.forest, gangs) <= most:
        settler = _Settler(state, plain, thorough)
        if settler.model.size <= most and (settler.proves or not thorough):
            state.phase = "exact"
            if thorough:
                settler.model.tell_what_fits(time.monotonic() + settler.seconds)
            settler.run()


class _Settler:
    def __init__(self, state: State, plain: set[int], thorough: bool) -> None:
        self.state = state
        self.thorough = thorough
        self.problem = state.problem
        self.plain = plain
        self.fixed = {i: units for i, units in state.plan.items() if i not in plain}
        self.outside = worth(self.problem, self.fixed)
        self.model = self._build()
        others = (g for g in self.problem.gangs if g.index not in plain and g.placeable)
        self.proves = self.model.kinds.exact and not any(g.pending or g.extras for g in others)

    def _build(self) -> Pooled:
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self.fixed)
        return Pooled(
            self.state.counting,
            self.state.forest,
            [self.problem.gangs[i] for i in sorted(self.plain)],
            np.arange(self.problem.node_count),
            residual.free,
            self.fixed,
        )

    @property
    def seconds(self) -> float:
        """For one step."""
        return self.state.at_most(self.state.left / 4)

    def run(self) -> None:
        if self._admitted() and self._extras():
            self._topology()

    def _admitted(self) -> bool:
        state = self.state
        for i, priority in enumerate(priorities(self.problem)):
            terms = self.model.admitted(priority)
            if state.worth.admitted[i] < state.facts.admitted[i] and not self.thorough:
                self._reach(i)
            if state.worth.admitted[i] < state.facts.admitted[i]:
                bound = self._best(self.model, terms, maximize=True)
                if bound is not None:
                    bound += self.outside.admitted[i]
                    if bound < state.facts.admitted[i]:
                        state.learn(state.with_admitted(i, bound))
            if state.worth.admitted[i] < state.facts.admitted[i]:
                return False
            if terms:
                self._hold(self.model, i)
        return True

    def _hold(self, model: Pooled, i: int) -> None:
        """Keep the i-th priority at what was reached."""
        terms = model.admitted(priorities(self.problem)[i])
        model.hold(terms, at_least=self.state.worth.admitted[i] - self.outside.admitted[i])

    def _reach(self, i: int) -> None:
        """Look for a plan that is as good as the bound, and no other.

        Where little may be left over that is far easier than to climb there.
        """
        if self.state.left <= 0:
            return
        model = self._build()
        for k in range(i):
            if model.admitted(priorities(self.problem)[k]):
                self._hold(model, k)
        model.hold(
            model.admitted(priorities(self.problem)[i]),
            at_least=self.state.facts.admitted[i] - self.outside.admitted[i],
        )
        answer = model.solve(
            [], maximize=True, hint=None, seconds=self.seconds, effort=EFFORT, linear=1
        )
        if answer.plan is not None:
            self.state.accept({**self.fixed, **answer.plan})

    def _extras(self) -> bool:
        state, model = self.state, self.model
        if not state.extra_is_proven:
            bound = self._best(model, model.extras, maximize=True)
            if bound is not None and bound < state.facts.extra:
                # What was proven of the topology took more extras for granted.
                state.learn(replace(state.facts, extra=bound, topology=0))
            if not state.extra_is_proven:
                return False
        if model.extras:
            model.hold(model.extras, at_least=state.worth.extra - self.outside.extra)
        return True

    def _topology(self) -> None:
        if not self.state.proven:
            bound = self._best(self.model, self.model.costs, maximize=False)
            if bound is not None and bound > self.state.facts.topology:
                self.state.learn(replace(self.state.facts, topology=bound))

    def _best(self, model: Pooled, terms: Terms, *, maximize: bool) -> int | None:
        """Settle one goal: take a better plan, return the bound if it proves anything."""
        if self.state.left <= 0:
            return None
        effort = EFFORT
        if self.thorough:
            effort = THOROUGH_EFFORT if maximize else THOROUGH_TOPOLOGY_EFFORT
        answer = model.solve(
            terms,
            maximize=maximize,
            hint=self.state.plan,
            seconds=self.seconds,
            effort=effort,
        )
        if answer.plan is not None:
            self.state.accept({**self.fixed, **answer.plan})
        return answer.bound if self.proves else None
