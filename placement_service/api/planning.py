"""Questions of planning, in the compute process: first the plan, then what could be otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from google.protobuf.message import DecodeError, Message

from placement.v1 import Placement as PlacementMessage
from placement.v1 import planning_pb2
from placement_service import pipeline
from placement_service.api.envelope import not_a_message
from placement_service.api.methods import Call
from placement_service.api.wire import placements
from placement_service.api.wire.planning import remedy_to_proto
from placement_service.api.wire.times import duration
from placement_service.entities.errors import InvalidRequest, Violation
from placement_service.entities.eviction import Eviction
from placement_service.entities.placement import Placement
from placement_service.entities.planning import Remedy
from placement_service.entities.progress import Interrupted, Switch
from placement_service.entities.request import Binding, Request
from placement_service.entities.solution import Solution
from placement_service.formulation.problem import Problem
from placement_service.planning.explain import remedies

Asked = planning_pb2.ExplainGangRequest | planning_pb2.ComputeCapacityRequest

#: The messages of the calls that plan.
ASKED: Final[dict[Call, type[Asked]]] = {
    Call.EXPLAIN_GANG: planning_pb2.ExplainGangRequest,
    Call.COMPUTE_CAPACITY: planning_pb2.ComputeCapacityRequest,
}

#: The part of the time that the plan gets, which comes before all else.
_SHARE: Final = 0.5


def read(call: Call, content: bytes) -> Asked:
    """The bytes of a call. Raises InvalidRequest."""
    try:
        return ASKED[call].FromString(content)
    except DecodeError as error:
        raise not_a_message() from error


def around(call: Call, placement: PlacementMessage) -> Message:
    """The answer while all that is known is a plan."""
    if call is Call.EXPLAIN_GANG:
        return planning_pb2.ExplainGangResponse(placement=placement)
    return planning_pb2.ComputeCapacityResponse(placement=placement)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a question: what it binds, and who is placed by it."""

    bindings: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]
    placed: frozenset[str]
    message: PlacementMessage


@dataclass(frozen=True, slots=True, eq=False)
class Planning:
    """What one computation works with. `place` answers a question by a time."""

    stages: pipeline.Stages
    switch: Switch
    answer_by: float
    place: Callable[[Request, float], Placement]

    def answer(self, asked: Asked, request: Request) -> Message:
        """The answer to a question of planning about a valid request. Raises InvalidRequest."""
        assert isinstance(asked, planning_pb2.ExplainGangRequest)
        return self._explained(asked, request)

    def _explained(
        self, asked: planning_pb2.ExplainGangRequest, request: Request
    ) -> planning_pb2.ExplainGangResponse:
        _check_gang("gang", asked.gang, request)
        if asked.HasField("plan"):
            plan = self._told(asked.plan, request)
        else:
            plan = self._computed(request)
        begin = time.monotonic()
        found: tuple[Remedy, ...] = ()
        if asked.gang not in plan.placed:
            found = remedies(
                request.snapshot,
                request.policy,
                asked.gang,
                bindings=plan.bindings,
                evictions=plan.evictions,
                placed=plan.placed,
                solver=_Solver(self.stages, self.switch),
                deadline=self.answer_by,
                levels=asked.levels,
            )
        response = planning_pb2.ExplainGangResponse(
            remedies=map(remedy_to_proto, found), elapsed=duration(time.monotonic() - begin)
        )
        response.placement.MergeFrom(plan.message)
        return response

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
        """The plan that a caller has; raises InvalidRequest when it breaks a rule."""
        told = placements.parse_placement(message)
        question = request.snapshot, request.policy, told.bindings, told.evictions
        broken = self.stages.verify(*question)
        if broken:
            raise InvalidRequest([Violation("plan", text) for text in broken[:100]], len(broken))
        score = self.stages.score(*question)
        placed = frozenset(gang.gang for gang in score.gangs if gang.placed)
        return _Plan(told.bindings, told.evictions, placed, message)


@dataclass(frozen=True, slots=True)
class _Solver:
    """The solver of one computation, which ends when nobody waits for it any more."""

    stages: pipeline.Stages
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


def _check_gang(field: str, name: str, request: Request) -> None:
    known = [gang.name for gang in request.snapshot.gangs]
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidRequest([Violation(field, f"there is no gang {name!r}{hint}")])
