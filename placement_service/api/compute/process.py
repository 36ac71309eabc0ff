"""The compute process: ``python -m placement_service.api.compute.process --fd N``.

Everything that may take long happens here, where it can be killed: reading the bytes of a request,
the stages of `pipeline`, and writing the answer. The parent process, `pool`,
gets each better answer as soon as it is verified, so that a late stage loses only what it would
have added. The process has a solver process of its own, in its process group; both end when the
edge is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import queue
import signal
import threading
import traceback
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from google.protobuf.message import Message

from placement.v1 import placement_service_pb2
from placement_service.api.compute import planning, questions
from placement_service.api.compute.frames import Channel, JobHead, Kind, Standing, stage_frame
from placement_service.api.methods import TOLD_OF_PROGRESS, Call
from placement_service.api.snapshots import content
from placement_service.api.snapshots.held import Held
from placement_service.api.status import to_status
from placement_service.api.wire import placements
from placement_service.entities.errors import InvalidRequest, PlacementError, Violation
from placement_service.entities.placement import Placement, Progress
from placement_service.entities.progress import Interrupted, Switch, heard
from placement_service.entities.request import Request
from placement_service.entities.stages import Passed, Stage, stage, told
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.judge import Judge
from placement_service.pipeline.place import place
from placement_service.pipeline.stages import Budget, Stages, tell_nobody
from placement_service.solver_process.pool import SolverPool

#: Objects that must be left after computations before garbage is collected.
COLLECT_AFTER = 20_000

#: Characters of a reason that are left when an answer is too large.
_SHORT = 40


def main(arguments: list[str] | None = None) -> None:
    """Works until the edge is gone."""
    parser = argparse.ArgumentParser(description="The compute process of the placement service.")
    parser.add_argument("--fd", type=int, required=True, help="socket to the edge")
    parser.add_argument("--engine", required=True, help="module:function to search with")
    parser.add_argument("--solver-memory", type=int, default=0, help="limit in bytes")
    parser.add_argument("--largest-answer", type=int, required=True, help="in bytes")
    parser.add_argument("--snapshots", type=int, default=0, help="bytes of those held")
    options = parser.parse_args(arguments)

    # Ctrl-C in a terminal is for the server, which decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # When memory runs out, the kernel should kill this process, not the server.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    channel = Channel(options.fd)
    logging.basicConfig(
        level=logging.WARNING, handlers=[_Forwarding(channel)], format="%(message)s"
    )
    solver = SolverPool(1, engine=options.engine, memory_bytes=options.solver_memory)
    stages = Stages(
        formulate=formulate,
        first_answer=first_answer,
        search=solver.search,
        expecting=solver.expecting,
        call=solver.call,
        judge=Judge,
        explain=explain,
        engine=_engine_version(options.engine),
    )
    held = Held(options.snapshots)
    jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, jobs), daemon=True).start()
    threading.Thread(target=_tell_when_warm, args=(channel, solver), daemon=True).start()
    # What is loaded by now stays for ever: garbage collection need not look at it.
    gc.freeze()
    # Garbage is collected between computations, when nobody waits, and never during one.
    gc.disable()
    try:
        channel.send(Kind.READY)
        while True:
            _Computation(channel, stages, options.largest_answer, held, jobs.get()).run()
            if gc.get_count()[0] > COLLECT_AFTER:
                gc.collect()
    except OSError:
        end()


def end() -> None:
    """Ends this process and its solver, whatever they are doing."""
    os.killpg(0, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Job:
    """A request, and the snapshots to be held before it is read."""

    head: JobHead
    request: bytes
    snapshots: tuple[bytearray, ...] = ()
    switch: Switch = field(default_factory=Switch)


def _receive(channel: Channel, jobs: queue.SimpleQueue[_Job]) -> None:
    """Takes in jobs; ends the process when the edge is gone."""
    latest: _Job | None = None
    told: list[bytearray] = []
    try:
        while True:
            kind, content = channel.receive()
            if kind is Kind.JOB:
                with memoryview(content) as view:
                    head, request = JobHead.unpack(view), bytes(view[JobHead.SIZE :])
                latest = _Job(head, request, tuple(told))
                told.clear()
                jobs.put(latest)
            elif kind is Kind.SNAPSHOT:
                told.append(content)
            elif kind is Kind.CANCEL and latest is not None:
                latest.switch.interrupt()
    except (EOFError, OSError):
        end()


def _tell_when_warm(channel: Channel, solver: SolverPool) -> None:
    while not solver.wait_until_ready(60.0):
        pass
    with contextlib.suppress(OSError):
        channel.send(Kind.WARM)


class _Computation:
    """One job, from bytes to bytes."""

    def __init__(
        self,
        channel: Channel,
        stages: Stages,
        largest_answer: int,
        held: Held,
        job: _Job,
    ) -> None:
        self._channel = channel
        self._stages = stages
        self._largest = largest_answer
        self._held = held
        self._job = job
        self._question: questions.Question | None = None
        self._request_digest = ""
        #: Whether part of an answer of planning was handed out.
        self._offered_part = False

    def run(self) -> None:
        """Sends the result. Raises OSError when the edge is gone."""
        try:
            with told(self._passed):
                summary, answer = self._answer()
        except PlacementError as error:
            self._channel.send(Kind.REFUSED, to_status(error).SerializeToString())
        except Interrupted:
            self._channel.send(Kind.CANCELLED)
        except OSError:
            raise
        except Exception:
            self._channel.send(Kind.FAILED, traceback.format_exc().encode())
        else:
            self._channel.add(Kind.SUMMARY, summary.encode())
            self._channel.send(Kind.DONE, answer)
            # Nobody waits for this.
            whole = self._held.whole()
            if whole is not None:
                self._channel.send(Kind.WHOLE, whole.digest + whole.told)

    def _answer(self) -> tuple[str, bytes]:
        """What the log says about the answer, and its bytes."""
        head = self._job.head
        if head.call is Call.TRANSLATE_OBJECTS:
            with heard(self._job.switch):
                translation = questions.translation(self._job.request)
            return "translated\ntranslated", self._fitting(translation)
        if head.call in planning.ASKED:
            return self._planned(planning.read(head.call, self._job.request))
        with stage(Stage.READ), heard(self._job.switch):
            self._tell()
            request = self._read(questions.read(head.call, self._job.request, self._held))
        placement = self._placed(request, head.answer_by)
        stop = placement.termination
        end = "checked" if stop is None else "optimal" if stop.optimal else "feasible"
        summary = (
            f"{end}\n{len(request.snapshot.nodes)} nodes, {len(request.snapshot.gangs)} gangs, "
            f"{len(placement.bindings)} bindings, "
            + (f"gap {stop.gap}" if stop is not None and not stop.optimal else end)
            + f", {self._request_digest}"
        )
        return summary, self._written(placement)

    def _tell(self) -> None:
        """Holds what the request is based on."""
        for one in self._job.snapshots:
            questions.tell(self._job.head.call, bytes(one), self._held)

    def _read(self, question: questions.Question) -> Request:
        """The request of a question, of which the edge is told what is held now."""
        self._request_digest = content.text(question.digest)
        self._question = question
        # The edge needs these for a dump and the next request, and gets them with the first answer
        # to this one.
        self._channel.add(Kind.NAMED, question.digest)
        self._channel.add(Kind.HELD, b"".join(self._held.digests()))
        return question.request

    def _placed(self, request: Request, answer_by: float) -> Placement:
        head = self._job.head
        stages = self._stages
        if head.call in planning.ASKED:
            # Many small questions, of which most need no search.
            stages = replace(stages, expecting=tell_nobody)
        return place(
            request,
            stages=stages,
            budget=Budget(head.arrival, answer_by, head.deadline),
            observer=self._progress,
            interrupter=self._job.switch,
            report_defect=self._defect,
            offer=self._offer,
        )

    def _planned(self, asked: planning.Asked) -> tuple[str, bytes]:
        """The same for a question of planning."""
        with heard(self._job.switch):
            self._tell()
            request = self._read(questions.snapshot(asked.question, self._held))
        work = planning.Planning(
            self._stages,
            self._job.switch,
            self._job.head.answer_by,
            self._placed,
            self._offer_part,
        )
        answer = self._fitting(self._named(work.answer(asked, request)))
        call = self._job.head.call.name.lower().replace("_", " ")
        nodes = f"{len(request.snapshot.nodes)} nodes"
        return f"planned\n{call}, {nodes}, {self._request_digest}", answer

    def _named(self, answer: planning.Answer) -> planning.Answer:
        """An answer of planning with the digests of what was asked."""
        assert self._question is not None
        answer.request_digest = self._request_digest
        answer.snapshot_digest = self._question.snapshot_digest
        return answer

    def _passed(self, passed: Passed) -> None:
        self._channel.add(Kind.STAGE, stage_frame(passed))

    def _progress(self, progress: Progress) -> None:
        call = self._job.head.call
        if call not in TOLD_OF_PROGRESS and call not in planning.ASKED:
            return
        news = placements.progress_to_proto(progress)
        event: Message = news
        if call in TOLD_OF_PROGRESS:
            event = placement_service_pb2.StreamPlacementResponse(progress=news)
        self._channel.send(Kind.PROGRESS, event.SerializeToString())

    def _offer(self, placement: Placement) -> None:
        if self._offered_part:
            # A plan that shows what was found is less than that.
            return
        standing = Standing.FOUND if placement.tiers else Standing.NOTHING
        if placement.termination is not None and placement.termination.optimal:
            standing = Standing.PROVEN
        with contextlib.suppress(InvalidRequest):
            self._channel.send(Kind.BEST, bytes((standing,)) + self._written(placement))

    def _offer_part(self, answer: planning.Answer) -> None:
        """What was found so far of an answer of planning."""
        self._offered_part = True
        with contextlib.suppress(InvalidRequest):
            content = self._fitting(self._named(answer))
            self._channel.send(Kind.BEST, bytes((Standing.PARTIAL,)) + content)
            self._channel.send(Kind.PROGRESS, planning.news(answer).SerializeToString())

    def _defect(self, what: str, detail: str) -> str:
        self._channel.send(Kind.DEFECT, f"{what}: {detail}".encode(errors="replace"))
        return ""

    def _written(self, placement: Placement) -> bytes:
        """The answer around a placement, with less explained when that is too large.

        Raises InvalidRequest when not even the bindings are small enough.
        """
        with stage(Stage.WRITE):
            try:
                return self._fitting(self._around(placement))
            except InvalidRequest:
                return self._fitting(self._around(_with_short_reasons(placement)))

    def _around(self, placement: Placement) -> Message:
        question = self._question
        assert question is not None
        message = placements.placement_to_proto(
            replace(
                placement,
                request_digest=self._request_digest,
                snapshot_digest=question.snapshot_digest,
            )
        )
        if self._job.head.call in planning.ASKED:
            return self._named(planning.around(self._job.head.call, message))
        return questions.answer(self._job.head.call, message, question)

    def _fitting(self, answer: Message) -> bytes:
        content: bytes = answer.SerializeToString()
        if len(content) <= self._largest:
            return content
        raise InvalidRequest(
            [
                Violation(
                    "request",
                    f"its answer takes {len(content):,} bytes, the server sends at most"
                    f" {self._largest:,}",
                )
            ]
        )


def _with_short_reasons(placement: Placement) -> Placement:
    return replace(
        placement,
        gangs=tuple(
            replace(
                gang,
                reasons=tuple(
                    replace(reason, message=reason.message[:_SHORT]) for reason in gang.reasons[:1]
                ),
            )
            for gang in placement.gangs
        ),
    )


def _engine_version(engine: str) -> str:
    """Name and versions, found without loading the solver into this process."""
    versions = [f"{name} {metadata.version(name)}" for name in ("placement-service", "ortools")]
    return f"{engine} ({', '.join(versions)})"


class _Forwarding(logging.Handler):
    """Log lines go to the edge, which knows where they belong."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelno}\n{record.name}\n{self.format(record)}"
        with contextlib.suppress(OSError):
            self._channel.send(Kind.LOG, line.encode(errors="replace"))


if __name__ == "__main__":
    main()
