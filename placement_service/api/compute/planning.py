"""Planning questions, in the compute process: first the plan, then what could be different."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from google.protobuf import duration_pb2
from google.protobuf.message import DecodeError

from placement.near_names import did_you_mean
from placement.v1 import Placement as PlacementMessage
from placement.v1 import Progress, planning_pb2
from placement_service.api.envelope import not_a_message
from placement_service.api.methods import Call
from placement_service.api.validation.names import MAX_VALUE
from placement_service.api.validation.policy import check_time_limit
from placement_service.api.wire import placements
from placement_service.api.wire.planning import (
    amount_to_proto,
    move_to_proto,
    remedy_to_proto,
)
from placement_service.api.wire.times import duration, seconds
from placement_service.entities.errors import InvalidRequest, Violation
from placement_service.entities.eviction import Eviction
from placement_service.entities.placement import Placement
from placement_service.entities.planning import Bounded, Remedy, Repacking
from placement_service.entities.progress import Interrupted, Switch
from placement_service.entities.request import Binding, PodGang, Request
from placement_service.entities.solution import Solution
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem
from placement_service.pipeline.stages import Stages
from placement_service.planning import capacity
from placement_service.planning.explain import Beside, carried_out, remedies
from placement_service.planning.repack import repack
from placement_service.planning.trial_snapshot import for_fitting

Asked = (
    planning_pb2.ExplainGangRequest
    | planning_pb2.ComputeCapacityRequest
    | planning_pb2.ComputeRepackingRequest
)

Answer = (
    planning_pb2.ExplainGangResponse
    | planning_pb2.ComputeCapacityResponse
    | planning_pb2.ComputeRepackingResponse
)

#: The messages of the calls that plan.
ASKED: Final[dict[Call, type[Asked]]] = {
    Call.EXPLAIN_GANG: planning_pb2.ExplainGangRequest,
    Call.COMPUTE_CAPACITY: planning_pb2.ComputeCapacityRequest,
    Call.COMPUTE_REPACKING: planning_pb2.ComputeRepackingRequest,
}

#: Seconds for the plan that shows what was counted.
_TO_SHOW: Final = 2.0

#: Most rows of a frontier beyond the first.
_MOST_ROWS: Final = 200

#: The part of the time that is left for what was begun.
_RESERVE: Final = 0.2

#: The part of the time that the plan gets, which comes before all else.
_SHARE: Final = 0.5


def read(call: Call, content: bytes) -> Asked:
    """The bytes of a call. Raises InvalidRequest."""
    try:
        message = ASKED[call].FromString(content)
    except DecodeError as error:
        raise not_a_message() from error
    if message.HasField("time_limit"):
        wrong = list(check_time_limit(seconds(message.time_limit)))
        if wrong:
            raise InvalidRequest(wrong)
    return message


def around(call: Call, placement: PlacementMessage) -> Answer:
    """The answer while all that is known is a plan."""
    if call is Call.EXPLAIN_GANG:
        return planning_pb2.ExplainGangResponse(placement=placement)
    return planning_pb2.ComputeCapacityResponse(placement=placement)


def news(answer: Answer) -> Progress:
    """What an answer so far tells people who watch."""
    message = Progress(elapsed=answer.elapsed)
    if isinstance(answer, planning_pb2.ExplainGangResponse):
        message.phase = f"remedies: {len(answer.remedies)} kinds found"
    elif isinstance(answer, planning_pb2.ComputeRepackingResponse):
        message.phase = f"moves: {_range(answer.pods)} pods"
    elif answer.HasField("amount"):
        of = "domains" if answer.HasField("domains") else "copies"
        message.phase = f"{_range(answer.amount)} {of}"
    else:
        message.phase = f"frontier: {len(answer.rows)} rows"
    return message


def _range(amount: planning_pb2.Amount) -> str:
    """What is known of a number: what was reached, and the bound."""
    value = str(amount.value) if amount.HasField("value") else "none found"
    bound = str(amount.bound) if amount.HasField("bound") else "not known"
    return f"{value} (bound {bound})"


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a question: its bindings, and which gangs it places."""

    bindings: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]
    placed: frozenset[str]
    message: PlacementMessage


@dataclass(frozen=True, slots=True, eq=False)
class Planning:
    """What one computation works with. `place` answers a question by a time.

    `offer` is told what is known of the answer, whenever that is more.
    """

    stages: Stages
    switch: Switch
    answer_by: float
    place: Callable[[Request, float], Placement]
    offer: Callable[[Answer], None]

    @property
    def deadline(self) -> float:
        """When nothing more is begun: what is under way still has to end, and the answer to be
        sent.
        """
        return self.answer_by - _RESERVE * max(0.0, self.answer_by - time.monotonic())

    def answer(self, asked: Asked, request: Request) -> Answer:
        """The answer to a question of planning about a valid request. Raises InvalidRequest."""
        if isinstance(asked, planning_pb2.ExplainGangRequest):
            return self._explained(asked, request)
        if isinstance(asked, planning_pb2.ComputeRepackingRequest):
            return self._repacked(asked, request)
        match asked.WhichOneof("asked"):
            case "copies":
                return self._copies(asked, request)
            case "domains":
                return self._missing(asked, request)
            case "frontier":
                return self._frontier(asked, request)
        raise InvalidRequest([Violation("asked", "nothing is asked")])

    def _explained(
        self, asked: planning_pb2.ExplainGangRequest, request: Request
    ) -> planning_pb2.ExplainGangResponse:
        _gang("gang", asked.gang, request)
        if asked.HasField("plan"):
            plan = self._told(asked.plan, request)
        else:
            plan = self._computed(request)
        begin = time.monotonic()

        def answer(found: Sequence[Remedy]) -> planning_pb2.ExplainGangResponse:
            response = planning_pb2.ExplainGangResponse(
                remedies=map(remedy_to_proto, found), elapsed=_since(begin)
            )
            response.placement.MergeFrom(plan.message)
            return response

        found: Sequence[Remedy] = ()
        self.offer(answer(found))
        if asked.gang not in plan.placed:
            found = remedies(
                request.snapshot,
                request.policy,
                asked.gang,
                Beside(plan.bindings, plan.evictions, plan.placed),
                solver=self._solver(),
                deadline=self.deadline,
                levels=asked.levels,
                report=lambda some: self.offer(answer(some)),
            )
        return answer(found)

    def _copies(
        self, asked: planning_pb2.ComputeCapacityRequest, request: Request
    ) -> planning_pb2.ComputeCapacityResponse:
        gang = _gang("copies.gang", asked.copies.gang, request)
        plan = self._computed(request)
        begin = time.monotonic()

        def answer(amount: Bounded) -> planning_pb2.ComputeCapacityResponse:
            return _capacity(plan.message, amount=amount, begin=begin)

        self.offer(answer(Bounded(None, None)))
        found = capacity.copies(
            self._cluster(request, plan), gang, report=lambda one: self.offer(answer(one))
        )
        return answer(found)

    def _missing(
        self, asked: planning_pb2.ComputeCapacityRequest, request: Request
    ) -> planning_pb2.ComputeCapacityResponse:
        begin = time.monotonic()
        domains = _domains("domains", asked.domains, request, asked.levels)

        def answer(amount: Bounded) -> planning_pb2.ComputeCapacityResponse:
            return planning_pb2.ComputeCapacityResponse(
                amount=amount_to_proto(amount),
                domains=planning_pb2.FurtherDomains(level=domains.level, like=domains.like),
                elapsed=_since(begin),
            )

        self.offer(answer(Bounded(None, None)))
        found = capacity.missing(
            domains,
            request.policy,
            solver=self._solver(),
            deadline=self.deadline,
            report=lambda amount: self.offer(answer(amount)),
        )
        response = answer(found.domains)
        if found.snapshot is not None and found.solution is not None:
            policy = for_fitting(request.policy)
            prepared = prepare(found.snapshot, policy)
            plan = name_plan(found.snapshot, policy, prepared, found.solution.assignments)
            shown = replace(request, snapshot=found.snapshot, policy=policy, previous=plan.bindings)
            # The question is not how well it is placed.
            until = min(self.answer_by, time.monotonic() + _TO_SHOW)
            placement = self.place(shown, until)
            response.placement.MergeFrom(placements.placement_to_proto(placement))
        return response

    def _frontier(
        self, asked: planning_pb2.ComputeCapacityRequest, request: Request
    ) -> planning_pb2.ComputeCapacityResponse:
        question = asked.frontier
        gangs = [
            _gang(f"frontier.gangs[{i}]", name, request) for i, name in enumerate(question.gangs)
        ]
        if not gangs or not 0 <= question.most <= _MOST_ROWS:
            text = f"names no gang, or more than {_MOST_ROWS} domains"
            raise InvalidRequest([Violation("frontier", text)])
        domains = _domains("frontier.domains", question.domains, request, asked.levels)
        plan = self._computed(request)
        begin = time.monotonic()

        def answer(rows: Sequence[capacity.Row]) -> planning_pb2.ComputeCapacityResponse:
            response = _capacity(plan.message, begin=begin)
            response.domains.level, response.domains.like = domains.level, domains.like
            for row in rows:
                response.rows.add(domains=row.domains, copies=map(amount_to_proto, row.copies))
            return response

        self.offer(answer(()))
        rows = capacity.frontier(
            self._cluster(request, plan),
            domains,
            gangs,
            question.most,
            report=lambda some: self.offer(answer(some)),
        )
        return answer(rows)

    def _cluster(self, request: Request, plan: _Plan) -> capacity.Cluster:
        return capacity.Cluster.after(
            carried_out(request.snapshot, plan.evictions),
            request.policy,
            plan.bindings,
            plan.placed,
            self._solver(),
            self.deadline,
        )

    def _solver(self) -> _Solver:
        return _Solver(self.stages, self.switch)

    def _repacked(
        self, asked: planning_pb2.ComputeRepackingRequest, request: Request
    ) -> planning_pb2.ComputeRepackingResponse:
        begin = time.monotonic()
        known = {v for v in request.snapshot.columns.label(asked.level) if v is not None}
        if not known:
            keys = {key for labels in request.snapshot.columns.labels.kinds for key in labels}
            text = f"there is no node label {_cut(asked.level)}{_near(asked.level, keys)}"
            raise InvalidRequest([Violation("level", text)])
        if not 0 < asked.count <= len(known):
            text = f"there are {len(known)} domains of {asked.level}, not {asked.count}"
            raise InvalidRequest([Violation("count", text)])

        def answer(found: Repacking) -> planning_pb2.ComputeRepackingResponse:
            return planning_pb2.ComputeRepackingResponse(
                moves=map(move_to_proto, found.moves),
                freed=found.freed,
                pods=amount_to_proto(found.pods),
                elapsed=_since(begin),
            )

        self.offer(answer(Repacking((), (), Bounded(None, None))))
        found = repack(
            request.snapshot,
            request.policy,
            asked.level,
            asked.count,
            solver=self._solver(),
            deadline=self.deadline,
            report=lambda bound: self.offer(answer(Repacking((), (), Bounded(None, bound)))),
        )
        return answer(found)

    def _computed(self, request: Request) -> _Plan:
        begin = time.monotonic()
        placement = self.place(request, begin + _SHARE * (self.answer_by - begin))
        return _Plan(
            placement.bindings,
            placement.evictions,
            frozenset(gang.name for gang in placement.gangs if gang.placed),
            placements.placement_to_proto(placement),
        )

    def _told(self, message: PlacementMessage, request: Request) -> _Plan:
        """The plan that the caller sent; raises InvalidRequest when it breaks a rule."""
        told = placements.parse_placement(message)
        judge = self.stages.judge(request.snapshot, request.policy)
        broken, score = judge.judge(told.bindings, told.evictions)
        if score is None:
            raise InvalidRequest([Violation("plan", text) for text in broken[:100]], len(broken))
        placed = frozenset(gang.gang for gang in score.gangs if gang.placed)
        return _Plan(told.bindings, told.evictions, placed, message)


@dataclass(frozen=True, slots=True)
class _Solver:
    """The solver of one computation, which ends when nobody waits for it any longer."""

    stages: Stages
    switch: Switch

    def search(self, problem: Problem, start: Solution, /, *, deadline: float) -> Solution:
        found = self.stages.search(
            problem, start, deadline=deadline, interrupter=self.switch, report=lambda _: None
        )
        self._check()
        return found.solution

    def call(self, function: str, argument: object, /, *, deadline: float) -> object | None:
        value = self.stages.call(function, argument, deadline=deadline, interrupter=self.switch)
        self._check()
        return value

    def _check(self) -> None:
        if self.switch.interrupted:
            raise Interrupted


def _since(begin: float) -> duration_pb2.Duration:
    return duration(time.monotonic() - begin)


def _capacity(
    plan: PlacementMessage, *, begin: float, amount: Bounded | None = None
) -> planning_pb2.ComputeCapacityResponse:
    response = planning_pb2.ComputeCapacityResponse(elapsed=_since(begin))
    response.placement.MergeFrom(plan)
    if amount is not None:
        response.amount.MergeFrom(amount_to_proto(amount))
    return response


def _gang(field: str, name: str, request: Request) -> PodGang:
    """The gang of that name. Raises InvalidRequest with the nearest one."""
    gangs = {gang.name: gang for gang in request.snapshot.gangs}
    if name not in gangs:
        text = f"there is no gang {_cut(name)!r}{_near(name, gangs)}"
        raise InvalidRequest([Violation(field, text)])
    if any(group.fixed_pods for group in gangs[name].groups) and field != "gang":
        text = f"{name!r} cannot be copied: what its running pods ask for is not told"
        raise InvalidRequest([Violation(field, text)])
    return gangs[name]


def _domains(
    field: str,
    asked: planning_pb2.FurtherDomains,
    request: Request,
    levels: Sequence[str],
) -> capacity.Domains:
    """The domains that may be added. Raises InvalidRequest with the nearest names."""
    try:
        return capacity.Domains(request.snapshot, asked.level, asked.like, levels)
    except KeyError:
        known = {v for v in request.snapshot.columns.label(asked.level) if v is not None}
    if known:
        text = f"there is no {asked.level} {_cut(asked.like)}{_near(asked.like, known)}"
        raise InvalidRequest([Violation(f"{field}.like", text)])
    keys = {key for labels in request.snapshot.columns.labels.kinds for key in labels}
    text = f"there is no node label {_cut(asked.level)}{_near(asked.level, keys)}"
    raise InvalidRequest([Violation(f"{field}.level", text)])


def _cut(name: str) -> str:
    """A name for a message; no name of anything is longer."""
    return name if len(name) <= MAX_VALUE else name[:MAX_VALUE] + "..."


def _near(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known) if len(name) <= MAX_VALUE else ""
