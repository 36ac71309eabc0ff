"""Running pods that stay at home, in the exact model; and the budgets that keep them there."""

from __future__ import annotations

from ortools.sat.python import cp_model

from placement_service.cp_sat.exact.variables import ExactVariables
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.eviction.disruption_budgets import kept_of
from placement_service.formulation.plan import pods_of
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.goal import Terms


class HomePods:
    """For each open gang and demand, the pods that stay as linear terms."""

    def __init__(self, variables: ExactVariables) -> None:
        self._variables = variables
        self.terms: dict[tuple[int, int], Terms[Var]] = {}
        for g in variables.gangs:
            if g.keeps:
                self._of_movable(g)
            else:
                for home in g.home:
                    here = variables.at_class[g.index, home.demand].values()
                    mine = self.terms.setdefault((g.index, home.demand), [])
                    mine += [(v, pods_of(g, home.demand)) for v in here]

    def _of_movable(self, g: Gang) -> None:
        """A gang moves whole, where it may, or only its extras do."""
        cp = self._variables.cp
        stays = cp.new_int_var(int(g.only_extras), 1, "")
        for whole in self._variables.problem.gangs:
            if whole.part == g.index and whole.pending:
                # Pods that move are new ones, and a gang gets these only with its minimum.
                cp.add(stays >= 1 - self._variables.placed(whole.index))
        kept: dict[tuple[int, int], Var] = {}
        for home in g.home:
            for j, v in self._variables.at_class[g.index, home.demand].items():
                nodes = self._variables.classes[j].nodes
                if home.node in nodes and (home.demand, j) not in kept:
                    # All nodes of a class are home to equally many.
                    most = home.units * len(nodes)
                    k = kept[home.demand, j] = cp.new_int_var(0, most, "")
                    cp.add(k <= v)
                    cp.add(k <= most * stays)
                    if home.demand in g.only_stays:
                        cp.add(v == k)
        for requirement, least in zip(g.requirements, g.keeps, strict=True):
            mine = [k for (d, _), k in kept.items() if d in requirement.demands]
            cp.add(cp_model.LinearExpr.sum(mine) >= least * stays)
        for (d, _), k in kept.items():
            self.terms.setdefault((g.index, d), []).append((k, pods_of(g, d)))

    def budgets_hold(self, variables: ExactVariables) -> None:
        """Enough pods of every disruption budget stay, those of fixed gangs counted."""
        for budget in variables.problem.budgets:
            mine = [t for key in sorted(budget.demands) for t in self.terms.get(key, ())]
            if mine:
                least = budget.least - kept_of(variables.problem, variables.fixed, budget)
                variables.cp.add(dot(mine) >= least)
