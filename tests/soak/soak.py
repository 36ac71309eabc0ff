"""A server under fire: nonsense, floods, stalls, kills, stops, and renewed certificates.

All of it on the loopback interface, for as long as told, and repeatable as far as threads are.
What is asked is in `questions`. What must hold in the end: the server did not die, nothing it
answered broke a rule, no answer was late, and memory came back.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from placement.v1 import ComputePlacementRequest, ComputePlacementResponse
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from placement_service.judge.verify import verify
from tests.certificates import renew
from tests.soak import questions
from tests.soak.figures import Figures
from tests.soak.served import Served

COMPUTE = "/placement.v1.PlacementService/ComputePlacement"

#: What a request may end with. INTERNAL is a defect of the service, unless we killed what
#: worked on it.
ALLOWED = frozenset(
    {
        "OK",
        "INVALID_ARGUMENT",
        "RESOURCE_EXHAUSTED",
        "DEADLINE_EXCEEDED",
        "UNAVAILABLE",
        # A mutated base names a snapshot that nobody sent.
        "FAILED_PRECONDITION",
    }
)

#: Seconds within which a renewal has had its effect.
RENEWAL = 4.0

#: Seconds beyond a deadline after which the client itself gives up.
PATIENCE = 20.0


#: What a soak has to have asked and done at least once.
REQUESTS = frozenset({"honest", "mutated fields", "mutated bytes", "growing shapes", "flood"})
DISTURBANCES = frozenset(
    {
        "connections",
        "stalled calls",
        "SIGKILL of a process",
        "SIGSTOP of a process",
        "SIGSTOP of the server",
        "renewals",
        "half-written certificates",
    }
)

#: Seconds between two lines about how it goes.
TOLD_EVERY = 60.0

#: Seconds that a soak goes on at most when something has not yet been done.
LONGEST = 120.0


def soak(
    folder: Path, *, seconds: float, seed: int = 0, slack: float = 0.0, pace: float = 1.0
) -> Figures:
    """Soaks a server of its own for so many seconds, and until everything was done once.

    `slack` is added to the time that an answer may take, for machines that others use too.
    `pace` is a factor of the pauses between disturbances.
    `folder` gets certificates and the server's log.
    """
    return _Soak(folder, seed, slack, pace).run(seconds)


def ask_shapes(folder: Path, *, count: int, seed: int = 0, slack: float = 0.0) -> Figures:
    """Asks a server of its own so many growing shapes, two at a time, and does nothing else.

    Questions that it refuses because it is busy are asked anew and do not count.
    """
    return _Soak(folder, seed, slack).run_shapes(count)


class _Soak:
    def __init__(self, folder: Path, seed: int, slack: float, pace: float = 1.0) -> None:
        self._folder = folder
        self._seed = seed
        self._slack = slack
        self._pace = pace
        self._figures = Figures()
        self._over = threading.Event()
        #: When the server, or what computes for it, was last disturbed by us.
        self._disturbed = 0.0
        #: When certificates were renewed: in the moment in which the last listener ends, calls
        #: that begin there may be cancelled, and connections are made anew.
        self._renewed = 0.0

    def run(self, seconds: float) -> Figures:
        """Everything at once."""
        works = (
            self._honest,
            self._honest,
            self._mutated,
            self._torn,
            self._growing,
            self._flood,
            self._stall,
            self._knock,
            self._disturb,
            self._renew,
            self._probe,
        )

        def is_done(passed: float) -> bool:
            figures = self._figures
            done = (
                figures.codes["OK"] > 0
                and figures.requests.keys() >= REQUESTS
                and figures.disturbances.keys() >= DISTURBANCES
            )
            return passed > seconds and (done or passed > seconds + LONGEST)

        return self._run(works, is_done, processes=2)

    def run_shapes(self, count: int) -> Figures:
        """Growing shapes, and nothing else."""
        # A process that was late and is replaced is not waited for.
        return self._run(
            (self._growing, self._growing, self._probe),
            lambda _: self._figures.shapes.total() >= count,
            processes=4,
        )

    def _run(
        self,
        works: Sequence[Callable[[random.Random], None]],
        is_done: Callable[[float], bool],
        *,
        processes: int,
    ) -> Figures:
        """Works at once, each in a thread, until it is done, which is told what time passed."""
        figures = self._figures
        with Served(self._folder, processes=processes) as server:
            self._server = server
            self._ask_until_answered()
            figures.memory_before = server.settled_memory()
            threads = [
                threading.Thread(target=self._repeat, args=(work, number), name=work.__name__)
                for number, work in enumerate(works)
            ]
            begin = time.monotonic()
            for thread in threads:
                thread.start()
            told = begin
            try:
                while not is_done(time.monotonic() - begin) and server.alive:
                    time.sleep(0.1)
                    if time.monotonic() > told + TOLD_EVERY:
                        told = time.monotonic()
                        print(figures.line(), file=sys.stderr, flush=True)
                interrupted = False
            except KeyboardInterrupt:
                # The figures so far are an answer, too; the server was interrupted as well.
                interrupted = True
            figures.seconds = time.monotonic() - begin
            self._over.set()
            for thread in threads:
                thread.join()
            if interrupted:
                return figures
            if server.alive:
                self._ask_until_answered()
                figures.memory_after = server.settled_memory()
            figures.deaths += not server.ended_well()
        return figures

    def _pause(self, seconds: float) -> None:
        self._over.wait(seconds * self._pace)

    # --- What is done to it ---

    def _ask_until_answered(self) -> None:
        request = questions.honest(random.Random(1), nodes=4, gangs=3)
        request.time_limit.FromMilliseconds(10_000)
        end = time.monotonic() + 90
        while True:
            try:
                with self._server.channel() as channel:
                    call = channel.unary_unary(COMPUTE, bytes, ComputePlacementResponse.FromString)
                    answer = call(request.SerializeToString(), timeout=30)
                    self._check(request, answer)
                    return
            except grpc.RpcError as error:
                if time.monotonic() > end or not self._server.alive:
                    raise AssertionError(f"the server does not answer: {error}") from error
                time.sleep(0.2)

    def _repeat(self, work: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(self._seed * 1000 + number)
        while not self._over.is_set():
            try:
                work(rng)
            except Exception as error:
                self._fault(f"{work.__name__}: {error!r}")
                self._over.wait(1.0)

    def _honest(self, rng: random.Random) -> None:
        with self._server.channel() as channel:
            for _ in range(rng.randint(1, 6)):
                self._ask(channel, "honest", questions.honest(rng))

    def _mutated(self, rng: random.Random) -> None:
        with self._server.channel() as channel:
            for _ in range(20):
                request = questions.mutated(rng, questions.honest(rng))
                self._ask(channel, "mutated fields", request)

    def _torn(self, rng: random.Random) -> None:
        with self._server.channel() as channel:
            for _ in range(20):
                content = questions.torn(rng, questions.honest(rng).SerializeToString())
                self._ask_bytes(channel, "mutated bytes", content)

    def _growing(self, rng: random.Random) -> None:
        with self._server.channel() as channel:
            for _ in range(10):
                if self._over.is_set():
                    break
                shape = rng.choice(questions.SHAPES)
                request = shape(rng, rng.choice((50, 300, 1000, 3000)))
                request.time_limit.FromMilliseconds(rng.choice((200, 800)))
                code, answer = self._ask(channel, "growing shapes", request)
                if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
                    self._over.wait(0.3)
                    continue
                with self._figures.lock:
                    self._figures.shapes[shape.__name__] += 1
                    if code == "INVALID_ARGUMENT":
                        self._figures.refused[shape.__name__] += 1
                    elif code != "OK" or not answer.placement.tiers:
                        self._figures.without_plan[shape.__name__] += 1

    def _flood(self, rng: random.Random) -> None:
        content = questions.honest(rng).SerializeToString()
        with self._server.channel() as channel:
            call = channel.unary_unary(COMPUTE, bytes, bytes)
            calls = [call.future(content, timeout=PATIENCE) for _ in range(30)]
            for one in calls:
                if rng.random() < 0.3:
                    one.cancel()
            for one in calls:
                self._count("flood", one.code().name)
        self._pause(3.0)

    def _stall(self, rng: random.Random) -> None:
        """Calls whose message never comes, or comes in part, and readers who leave."""
        done = threading.Event()

        def nothing() -> Iterator[bytes]:
            done.wait()
            yield from ()

        with self._server.channel() as channel:
            call = channel.stream_stream(COMPUTE, bytes, bytes)
            calls: list[Any] = [call(nothing(), timeout=PATIENCE) for _ in range(40)]
            self._pause(rng.uniform(0.5, 4.0))
            for one in calls:
                one.cancel()
            done.set()
        self._figures.disturbances["stalled calls"] += len(calls)

    def _knock(self, rng: random.Random) -> None:
        """Connections that close at once, half-way through a handshake, or talk nonsense."""
        for _ in range(20):
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", self._server.port), 1) as one,
            ):
                match rng.randrange(4):
                    case 0:
                        one.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                    case 1:
                        one.sendall(rng.randbytes(300))
                    case 2:
                        one.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self._figures.disturbances["connections"] += 1
        self._over.wait(0.1)

    def _disturb(self, rng: random.Random) -> None:
        """Kills and stops a process that computes, and stops the server for a moment."""
        for what in (signal.SIGKILL, signal.SIGSTOP):
            self._pause(rng.uniform(1.0, 5.0))
            _, *others = self._server.processes()
            self._disturbed = time.monotonic()
            if others:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(others), what)
                self._figures.disturbances[f"{what.name} of a process"] += 1
        if rng.random() < 0.5 or not self._figures.disturbances["SIGSTOP of the server"]:
            self._pause(rng.uniform(1.0, 5.0))
            self._disturbed = time.monotonic()
            self._server.process.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.05, 0.5))
            self._server.process.send_signal(signal.SIGCONT)
            self._disturbed = time.monotonic()
            self._figures.disturbances["SIGSTOP of the server"] += 1

    def _renew(self, rng: random.Random) -> None:
        """New certificates, and now and then half of one for a moment."""
        certificate = self._folder / "server.crt"
        self._pause(rng.uniform(1.5, 4.0))
        renew(self._folder, "server")
        self._renewed = time.monotonic()
        self._figures.disturbances["renewals"] += 1
        if rng.random() < 0.4 or not self._figures.disturbances["half-written certificates"]:
            self._pause(rng.uniform(1.5, 4.0))
            whole = certificate.read_bytes()
            certificate.write_bytes(whole[: len(whole) // 2])
            self._over.wait(1.5)
            certificate.write_bytes(whole)
            self._figures.disturbances["half-written certificates"] += 1

    def _probe(self, rng: random.Random) -> None:
        begin = time.monotonic()
        with self._server.channel() as channel:
            try:
                health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=PATIENCE
                )
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self._fault(f"health: {error.code().name} {error.details()}")
        took = time.monotonic() - begin
        if begin > self._disturbed + 1.0:
            self._figures.slowest_health = max(self._figures.slowest_health, took)
        self._over.wait(0.2)

    # --- What is made of it ---

    def _ask(
        self, channel: grpc.Channel, kind: str, request: ComputePlacementRequest
    ) -> tuple[str, ComputePlacementResponse]:
        """How it ended, and the answer, which is empty unless it ended well."""
        code, content = self._ask_bytes(
            channel,
            kind,
            request.SerializeToString(),
            limit=request.time_limit.ToMilliseconds() / 1000,
        )
        answer = ComputePlacementResponse.FromString(content)
        if code == "OK":
            self._check(request, answer)
        return code, answer

    def _ask_bytes(
        self, channel: grpc.Channel, kind: str, content: bytes, limit: float | None = None
    ) -> tuple[str, bytes]:
        call = channel.unary_unary(COMPUTE, bytes, bytes)
        with suppress(grpc.RpcError):
            # Shaking hands is not the answer's time.
            health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=PATIENCE, wait_for_ready=True
            )
        begin = time.monotonic()
        answer = b""
        try:
            answer = call(content, timeout=PATIENCE if limit is None else limit + PATIENCE)
            code, text = "OK", ""
        except grpc.RpcError as error:
            code, text = error.code().name, str(error.details())
        took = time.monotonic() - begin
        if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
            self._over.wait(0.1)
        self._count(kind, code)
        renewed = self._renewed > begin - RENEWAL
        calm = not renewed and self._disturbed < begin - 1.0
        if code not in ALLOWED and (calm or code not in ("INTERNAL", "CANCELLED")):
            self._fault(f"{kind}: {code}: {text[:200]}")
        if limit is not None and code != "UNAVAILABLE":
            past = took - limit
            if not renewed and self._disturbed < begin:
                with self._figures.lock:
                    self._figures.latest = max(self._figures.latest, past)
                if past > 0.1 * limit + 0.2 + self._slack:
                    self._figures.late.append(f"{kind}: {code} after {took:.2f} of {limit:g} s")
        return code, answer

    def _check(self, request: ComputePlacementRequest, answer: ComputePlacementResponse) -> None:
        placement = parse_placement(answer.placement)
        try:
            question = parse_request(request)
        except InvalidRequest as error:
            # What could not be read in time was not checked either; nothing is placed then.
            if placement.bindings or placement.evictions:
                self._fault(f"an invalid request got a plan: {error}")
            return
        broken = verify(question.snapshot, question.policy, placement.bindings, placement.evictions)
        if broken:
            self._fault(f"an answer breaks a rule: {broken[0]}")
        unexplained = [g.name for g in placement.gangs if not g.placed and not g.reasons]
        if unexplained:
            self._fault(f"gangs wait without a reason: {unexplained[:3]}")

    def _count(self, kind: str, code: str) -> None:
        with self._figures.lock:
            self._figures.requests[kind] += 1
            self._figures.codes[code] += 1

    def _fault(self, what: str) -> None:
        self._figures.faults.append(what)
