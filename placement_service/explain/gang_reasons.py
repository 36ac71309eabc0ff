"""Why gangs wait, in words and numbers.

For a gang that is not placed, in this order and as far as it goes:

1. Reasons that no room could change: they follow from the request.
2. What counting shows: where the most of the missing pods fit, and how many.
   On the snapshot as if no other gang waited, and, where that says something
   else, on what the plan leaves.
3. When counting rules nothing out, a trial: whether the gang fits alone. Then others took its room,
   and the gangs that did are found (see `blocking_gangs`).

For a placed gang, why pods beyond its minimum wait.

Every statement was counted, tried or proven. A count that is only an
upper bound says "at most"; where neither a count nor a proof decides, it says
that no way was found. Gangs that differ only in name share their reasons.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from placement_service.entities.deadline import OutOfTime
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.explain import wording as words
from placement_service.explain.blocking_gangs import Lack, Rivals, residual_after
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Kind, Kinds, Needs
from placement_service.explain.capacity_reasons import Shortfalls
from placement_service.explain.extra_reasons import Extras
from placement_service.explain.findings import Finding
from placement_service.explain.level_reasons import LevelReasons
from placement_service.explain.node_reasons import NodeRules
from placement_service.explain.protected_gangs import ProtectedGangs, RunningGangs
from placement_service.explain.queue_reasons import QueueReasons
from placement_service.explain.request_reasons import UNKNOWN, standing_reasons
from placement_service.explain.reservation_reasons import ReservationReasons
from placement_service.explain.volume_reasons import with_claims
from placement_service.formulation.plan import Plan, from_solution, home_plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.judge.score import Score

Reasons = tuple[Reason, ...]


def explain(
    snapshot: Snapshot,
    problem: Problem,
    solution: Solution,
    score: Score,
    /,
    *,
    asked: Snapshot | None = None,
    deadline: float,
) -> tuple[Reasons, ...]:
    """The reasons of each gang in the snapshot's order.

    `asked` is the snapshot of the request, where preparing it made another one.

    At least one for every gang that is not placed; none for a gang without
    waiting pods. All gangs are counted before any is tried. Past `deadline` (in
    `time.monotonic` seconds) no more trials begin, and gangs that have not been counted by then get
    the reasons that follow from the request.
    """
    if _nobody_waits(problem, solution, score):
        return ((),) * len(score.gangs)
    explainer = _Explainer(snapshot, asked or snapshot, problem, solution, score, deadline)
    anew = {g.anew_of: g for g in problem.gangs if g.begins_anew and g.index in explainer.plan}
    # Only those of the request, which stand before others.
    gangs = [anew.get(g.index, g) for g in problem.gangs[: len(score.gangs)]]
    for gang, outcome in zip(gangs, score.gangs, strict=True):
        if not outcome.placed:
            explainer.count(gang)
    return tuple(
        with_claims(
            explainer.extras(gang) if outcome.placed else explainer.unplaced(gang),
            snapshot.gangs[gang.index].volume_claims,
        )
        for gang, outcome in zip(gangs, score.gangs, strict=True)
    )


def _nobody_waits(problem: Problem, solution: Solution, score: Score) -> bool:
    """Whether every gang is placed, with all its extras."""
    extras = next((t.value for t in solution.tiers if t.name is TierName.EXTRA), None)
    every = sum(gang.extras for gang in problem.gangs)
    return extras == every and all(gang.placed for gang in score.gangs)


class _Counts(NamedTuple):
    """What counting is about: a problem, before a plan and after it."""

    shortfalls: Shortfalls
    empty: Headroom
    after: Headroom
    plan: Plan

    def gang(self, gang: Gang) -> Gang:
        """A gang as it is in this problem."""
        return self.shortfalls.problem.gangs[gang.index]


def _looser_counts(
    snapshot: Snapshot, looser: Problem, rules: NodeRules, solution: Solution
) -> _Counts:
    """Counts in a problem where more pods fit the devices of nodes than do."""
    kinds, plan = Kinds(snapshot, looser, rules), from_solution(looser, solution)
    empty = Headroom(kinds, ResidualCapacity(looser), many_devices=True)
    after = empty
    if plan:
        after = Headroom(kinds, residual_after(looser, plan), many_devices=True)
    return _Counts(Shortfalls(kinds), empty, after, plan)


class _Explainer:
    """Explains one answer; remembers what gangs have in common."""

    def __init__(
        self,
        snapshot: Snapshot,
        asked: Snapshot,
        problem: Problem,
        solution: Solution,
        score: Score,
        deadline: float,
    ) -> None:
        self.problem = problem
        self.snapshot = snapshot
        self._asked = asked
        self.deadline = deadline
        self.solution = solution
        # Running parts, which are not in the score, run.
        self.placed = {gang.name: True for gang in snapshot.gangs}
        self.placed |= {gang.gang: gang.placed for gang in score.gangs}
        self.tiers = {tier.name: tier for tier in solution.tiers}
        rules = NodeRules(snapshot)
        kinds = Kinds(snapshot, problem, rules)
        self.shortfalls = Shortfalls(kinds)
        self.plan = from_solution(problem, solution)
        self.empty = Headroom(kinds, ResidualCapacity(problem))
        # With nothing placed both states are the same.
        self.after = (
            Headroom(kinds, residual_after(problem, self.plan)) if self.plan else self.empty
        )
        #: What is counted: never less than there is. Trials are those of the problem.
        self._counts = _Counts(self.shortfalls, self.empty, self.after, self.plan)
        if problem.few_devices and problem.relaxation is not None:
            self._counts = _looser_counts(snapshot, problem.relaxation, rules, solution)
        self._levels = LevelReasons(snapshot, problem)
        self._queue_names = {q.name for q in snapshot.queues}
        self._reserved = ReservationReasons(snapshot, problem, rules, deadline)
        self._queues = QueueReasons(problem, self.plan)
        counts = self._counts
        self._extras = Extras(counts.shortfalls, counts.after, solution, counts.plan)
        self._builder: Builder | None = None
        self._rivals: Rivals | None = None
        self._counted: dict[object, tuple[list[Finding], list[Finding]]] = {}
        self._known: dict[object, Reasons] = {}

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    @property
    def builder(self) -> Builder:
        if self._builder is None:
            self._builder = Builder(self.problem, until=self.deadline)
        return self._builder

    @property
    def rivals(self) -> Rivals:
        if self._rivals is None:
            self._rivals = Rivals(
                self.snapshot,
                self.problem,
                self.builder,
                self.after.residual,
                self.plan,
                lambda: self.late,
            )
        return self._rivals

    @cached_property
    def _protected(self) -> tuple[ProtectedGangs, ...]:
        """Beside the plan, then where nobody gains; nothing where the policy lets nobody go."""
        if self.problem.policy.eviction is EvictionPolicy.NONE:
            return ()
        home = home_plan(self.problem)
        states = [(self.plan, self.after.residual, ReasonState.AFTER_PLAN)]
        if home != self.plan:
            states.append((home, residual_after(self.problem, home), ReasonState.EMPTY_QUEUE))
        running = RunningGangs(self._asked, self.problem)
        return tuple(
            ProtectedGangs(
                running,
                self.snapshot,
                self.builder,
                residual,
                plan,
                state,
                lambda: self.late,
            )
            for plan, residual, state in states
        )

    # --- gangs that are not placed ----------------------------------------

    def count(self, gang: Gang) -> None:
        """What counting rules out, alone and beside the plan, unless it is late."""
        key = self._class(gang)
        if key in self._counted or self.late or self._standing(gang):
            return
        if self._queues.beside(gang):
            # It does not lack room.
            return
        counts = self._counts
        mine = counts.gang(gang)
        alone = counts.shortfalls.failures(mine, counts.empty)
        same = counts.after is counts.empty
        beside = alone if same else counts.shortfalls.failures(mine, counts.after)
        self._counted[key] = (alone, beside)

    def unplaced(self, gang: Gang) -> Reasons:
        """At least one reason."""
        standing = self._standing(gang)
        if standing:
            return standing
        short = self._queues.alone(gang) or self._queues.beside(gang)
        if short:
            return short
        key = self._class(gang)
        if key not in self._known:
            if key not in self._counted:
                return (UNKNOWN,)
            self._known[key] = self._search(gang, *self._counted[key])
        return self._known[key]

    def _class(self, gang: Gang) -> object:
        """Equal for gangs that have the same reasons."""
        source = self.snapshot.gangs[gang.index]
        return (
            source.namespace,
            tuple(g.name for g in source.groups),
            gang.demands,
            gang.requirements,
            gang.scopes,
            gang.priority,
            gang.base,
            gang.previous,
            gang.queue_rows,
            tuple(g.running_count for g in source.groups),
            self._protected and self._protected[0].key(gang),
        )

    def extras(self, gang: Gang) -> Reasons:
        """Why pods of a placed gang beyond its minimum wait."""
        mine = self._counts.gang(gang)
        if not self._extras.waiting(mine):
            return ()
        standing = self._standing(gang)
        if standing:
            return self._extras.refused(mine, standing)
        short = self._queues.extras(gang, self._extras.waiting_demands(mine))
        if short:
            return short
        return () if self.late else self._extras.reasons(mine)

    def _standing(self, gang: Gang) -> Reasons:
        """Reasons that no room could change."""
        source = self.snapshot.gangs[gang.index]
        return standing_reasons(source, self.placed, self._queue_names) + tuple(
            self._levels.of(source)
        )

    def _search(self, gang: Gang, alone: Sequence[Finding], beside: Sequence[Finding]) -> Reasons:
        if alone:
            reserved = () if self.late else self._reserved.of(gang)
            counted = self._both([f.reason for f in alone], [f.reason for f in beside])
            return (*reserved, *counted, *self._kept_from(gang))
        reasons = [replace(f.reason, state=ReasonState.AFTER_PLAN) for f in beside]
        try:
            fits_alone = self._fits(gang, self.empty)
            fits_beside = not beside and self._fits(gang, self.after)
        except OutOfTime:
            return tuple(reasons) or (UNKNOWN,)
        if fits_beside:
            text = "the gang fits beside what is placed; the search ended before it was added"
            return (self._not_searched(text),)
        if fits_alone:
            if not beside:
                reasons.append(self._unknown(gang, ReasonState.AFTER_PLAN))
            reasons += self._outcompeted(gang, beside)
        else:
            reasons.append(self._unknown(gang, ReasonState.EMPTY_QUEUE))
            reasons += self._kept_from(gang)
        if not self._is_proven(TierName.ADMITTED):
            reasons.append(
                self._not_searched("the search ended before a proof that the gang has to wait")
            )
        return tuple(reasons)

    def _kept_from(self, gang: Gang) -> Reasons:
        """Running gangs whose room it could have if nothing protected them."""
        found = (protected.of(gang) for protected in self._protected if not self.late)
        return next((reasons for reasons in found if reasons), ())

    @staticmethod
    def _both(alone: Sequence[Reason], beside: Sequence[Reason]) -> Reasons:
        """What holds even alone, then what the plan adds to it."""

        def numbers(reason: Reason) -> object:
            return (reason.code, reason.level, reason.asked, reason.found)

        told = {numbers(r) for r in alone}
        more = [r for r in beside if numbers(r) not in told]
        first = [
            replace(
                r,
                message=f"even with no other gang waiting, {r.message}" if more else r.message,
                state=ReasonState.EMPTY_QUEUE,
            )
            for r in alone
        ]
        then = [
            replace(
                r,
                message=f"beside the gangs that are placed, {r.message}",
                state=ReasonState.AFTER_PLAN,
            )
            for r in more
        ]
        return (*first, *then)

    def _fits(self, gang: Gang, headroom: Headroom) -> bool:
        """Whether a trial places the gang; a no is no proof. Raises OutOfTime."""
        mark = headroom.residual.mark()
        try:
            return self.builder.place(headroom.residual, gang) is not None
        finally:
            headroom.residual.undo(mark)

    def _outcompeted(self, gang: Gang, beside: Sequence[Finding]) -> Reasons:
        same = self._counts.shortfalls is self.shortfalls
        lacks = [
            Lack(*part, f.level, f.pin)
            for f in (beside if same else ())
            for part in self._counted_alone(f.needs)
        ]
        lacks += [Lack(*part) for part in self._counted_alone(self.shortfalls.needs(gang))]
        rivals = () if self.late else self.rivals.of(gang, self.after, lacks)
        kept = self._kept_from(gang)
        if kept and not rivals:
            return kept
        own = f"its own priority is {gang.priority}"
        if rivals:
            names = [self._with_priority(gang, i) for i in rivals]
            noun = "gang" if len(rivals) == 1 else "gangs"
            running = [bool(self.problem.gangs[i].home) for i in rivals]
            verb = "go" if all(running) else "wait or go" if any(running) else "wait"
            verb += "" if len(rivals) > 1 else "es" if running[0] else "s"
            text = f"the gang fits if {noun} {words.listed(names)} {verb}; {own}."
        else:
            text = f"alone the gang would fit; {own}."
        counted = beside[0].reason if beside else None
        reason = Reason(
            ReasonCode.OUTCOMPETED,
            text,
            level=counted.level if counted else "",
            domain=counted.domain if counted else "",
            asked=counted.asked if counted else 0,
            found=counted.found if counted else 0,
            state=ReasonState.AFTER_PLAN,
        )
        return (reason, *kept)

    def _with_priority(self, gang: Gang, other: int) -> str:
        source = self.snapshot.gangs[other]
        name = words.gang_word(source.name, self.snapshot.gangs[gang.index].name)
        return f"{name} (priority {source.priority})"

    @staticmethod
    def _counted_alone(needs: Needs) -> list[tuple[Kind, int]]:
        """How many pods of each kind are missing, where no other kind would do."""
        missing: dict[int, int] = {}
        kinds = {k.number: k for need in needs for k, _ in need.kinds}
        for need in needs:
            if len(need.kinds) == 1:
                number = need.kinds[0][0].number
                missing[number] = missing.get(number, 0) + need.missing
        return [(kinds[number], count) for number, count in missing.items()]

    def _unknown(self, gang: Gang, state: ReasonState) -> Reason:
        """The reason when counts do not rule the gang out, but a trial does not place it."""
        needs = self.shortfalls.needs(gang)
        asked = words.pods(sum(n.missing for n in needs))
        only_after = state is ReasonState.AFTER_PLAN
        where = "beside the gangs that are placed" if only_after else "even with no other waiting"
        rules = self.shortfalls.kinds.rules_of(k for n in needs for k, _ in n.kinds)
        code = words.code_of(rules) if rules else ReasonCode.NO_COMBINATION
        under = f" under {words.listed(rules)}" if rules else ""
        proven = self._is_proven(TierName.ADMITTED) and (only_after or self.after is self.empty)
        if proven:
            text = f"it is proven that the {asked} do not fit together{under}, {where}"
        else:
            text = f"no way was found to fit the {asked} together{under}, {where}"
        keys = [self.problem.levels[s.required].key for s in self.shortfalls.required(gang)]
        if keys:
            text += f" ({words.required(keys)})"
        text += "; by counting alone they would"
        if rules:
            return Reason(code, f"{text}.", state=state)
        near = self.shortfalls.nearest(gang, self.after if only_after else self.empty)
        level = self.problem.levels[near.level] if near.level != CLUSTER else None
        place = f" in {self.shortfalls.say.place(near.level, near.domain)}" if level else ""
        missed = near.found < near.asked
        if missed:
            text += f", but a trial placed only {near.found} of {words.pods(near.asked)}{place}"
        elif place:
            text += f", best{place}"
        return Reason(
            code,
            f"{text}.",
            level=level.key if level else "",
            domain=level.values[near.domain] if level else "",
            asked=near.asked if missed else 0,
            found=near.found if missed else 0,
            state=state,
        )

    def _not_searched(self, text: str) -> Reason:
        gap = self.tiers[TierName.ADMITTED].gap if TierName.ADMITTED in self.tiers else None
        known = f" (gap {gap:.1%} in admitted value)" if gap else ""
        return Reason(ReasonCode.NOT_SEARCHED, f"{text}{known}.")

    def _is_proven(self, tier: TierName) -> bool:
        return tier in self.tiers and self.tiers[tier].proven
