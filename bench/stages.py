"""CPU time of each stage from the bytes of a request to the bytes of its first answer.

The stages run in this process one after another, as the compute process runs them; CPU time
and not wall time, so that a busy machine measures the same. Each is the best of some runs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from bench.instances import Instance
from placement.v1 import placement_service_pb2
from placement_service.api.wire import placements, requests
from placement_service.entities.naming.pod_assignment import count_pods
from placement_service.entities.placement import Placement
from placement_service.entities.request import Request

T = TypeVar("T")


class Stage(NamedTuple):
    name: str
    milliseconds: float


class _Clock:
    """The best CPU time of each stage over all runs, in the order of the first."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}

    def time(self, stage: str, work: Callable[[], T]) -> T:
        begin = time.process_time()
        result = work()
        taken = 1000 * (time.process_time() - begin)
        self.best[stage] = min(taken, self.best.get(stage, taken))
        return result


def stages(instance: Instance, *, runs: int = 3) -> list[Stage]:
    """CPU milliseconds by stage."""
    message = requests.request_to_proto(Request(instance.snapshot(), instance.policy()))
    content = message.SerializeToString()
    del message
    clock = _Clock()
    # As in a compute process, which collects between computations.
    gc.freeze()
    gc.disable()
    try:
        for _ in range(runs):
            _run(content, clock)
            gc.collect()
    finally:
        gc.enable()
    found = [Stage(*item) for item in clock.best.items()]
    return [*found, Stage("together", sum(stage.milliseconds for stage in found))]


def _run(content: bytes, clock: _Clock) -> None:
    from placement_service.formulation.formulate import formulate
    from placement_service.formulation.named_plan import PlanNames
    from placement_service.formulation.prepare import prepare
    from placement_service.heuristic.first_answer import first_answer
    from placement_service.judge.judge import Judge

    message = clock.time(
        "bytes to message",
        lambda: placement_service_pb2.ComputePlacementRequest.FromString(content),
    )
    request = clock.time("message to values", lambda: requests.parse_request(message))
    snapshot, policy = request.snapshot, request.policy
    prepared = clock.time("prepare", lambda: prepare(snapshot, policy))
    problem = clock.time("formulate", lambda: formulate(snapshot, policy, prepared))
    solution = clock.time("first answer", lambda: first_answer(problem, count_pods(snapshot, ())))
    names = PlanNames(snapshot, policy, prepared)
    plan = clock.time("name", lambda: names.plan(solution.assignments))
    clock.time("name again", lambda: names.plan(solution.assignments))
    judge = clock.time("read for the judge", lambda: Judge(snapshot, policy))
    verdict = clock.time("judge", lambda: judge.judge(*plan))
    if verdict.score is None:
        raise ValueError(verdict.violations[0])
    found = Placement(bindings=plan.bindings, evictions=plan.evictions)
    clock.time("write", lambda: placements.placement_to_proto(found).SerializeToString())
