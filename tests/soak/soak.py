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
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from placement.v1 import ComputePlacementRequest, ComputePlacementResponse
from placement_service.api.wire.placements import parse_placement
from placement_service.api.wire.requests import parse_request
from placement_service.judge.verify import verify
from tests.certificates import issue, renew
from tests.ports import reserve
from tests.soak import questions

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


@dataclass
class Figures:
    """What happened. Shared by threads; `lock` is for what is more than one step."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    disturbances: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    deaths: int = 0
    late: list[str] = field(default_factory=list)
    latest: float = 0.0
    slowest_health: float = 0.0
    memory_before: int = 0
    memory_after: int = 0

    def lines(self) -> Iterator[str]:
        """The figures for people."""
        yield f"requests         {self.requests.total()}: {_listed(self.requests)}"
        yield f"ended with       {_listed(self.codes)}"
        yield f"disturbances     {_listed(self.disturbances)}"
        yield f"faults           {len(self.faults)}"
        yield f"deaths           {self.deaths}"
        yield f"late answers     {len(self.late)} (at most {self.latest:+.2f} s past the limit)"
        yield f"slowest health   {self.slowest_health:.2f} s"
        yield (
            f"memory           {self.memory_before / 2**20:.0f} MiB before,"
            f" {self.memory_after / 2**20:.0f} MiB after"
        )
        yield from (f"fault: {fault}" for fault in self.faults[:20])
        yield from (f"late: {late}" for late in self.late[:20])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def soak(folder: Path, *, seconds: float, seed: int = 0, slack: float = 0.0) -> Figures:
    """Soaks a server of its own for so many seconds.

    `slack` is added to the time that an answer may take, for machines that others use too.
    `folder` gets certificates and the server's log.
    """
    return _Soak(folder, seconds, seed, slack).run()


def ask_shapes(folder: Path, *, count: int, seed: int = 0, slack: float = 0.0) -> Figures:
    """Asks a server of its own so many growing shapes, two at a time, and does nothing else."""
    return _Soak(folder, 0.0, seed, slack).run_shapes(count)


class _Soak:
    def __init__(self, folder: Path, seconds: float, seed: int, slack: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._seed = seed
        self._slack = slack
        self._figures = Figures()
        self._over = threading.Event()
        #: When the server, or what computes for it, was last disturbed by us.
        self._disturbed = 0.0
        #: When certificates were renewed: in the moment in which the last listener ends, calls
        #: that begin there may be cancelled, and connections are made anew.
        self._renewed = 0.0
        self._port = reserve()
        issue(folder, "server")
        self._ca = (folder / "ca.crt").read_bytes()

    def run(self) -> Figures:
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
        return self._run(works, lambda: time.sleep(self._seconds))

    def run_shapes(self, count: int) -> Figures:
        def wait() -> None:
            while self._figures.requests.total() < count and self._server.poll() is None:
                time.sleep(0.1)

        return self._run((self._growing, self._growing, self._probe), wait)

    def _run(
        self, works: Sequence[Callable[[random.Random], None]], wait: Callable[[], None]
    ) -> Figures:
        """Everything at once until the waiting ends."""
        figures = self._figures
        with self._served() as server:
            self._server = server
            self._ask_until_answered()
            self._settle()
            figures.memory_before = self._memory()
            threads = [
                threading.Thread(target=self._repeat, args=(work, number), name=work.__name__)
                for number, work in enumerate(works)
            ]
            for thread in threads:
                thread.start()
            wait()
            self._over.set()
            for thread in threads:
                thread.join()
            if server.poll() is None:
                self._ask_until_answered()
                self._settle()
                figures.memory_after = self._memory()
                server.terminate()
                if server.wait(60) != 0:
                    figures.deaths += 1
            else:
                figures.deaths += 1
        return figures

    # --- The server ---

    @contextmanager
    def _served(self) -> Iterator[subprocess.Popen[bytes]]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")}
        with (self._folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "placement_service"],
                stderr=log,
                env={
                    **ours,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PLACEMENT_PORT": str(self._port),
                    "PLACEMENT_TLS_CERTIFICATE": str(self._folder / "server.crt"),
                    "PLACEMENT_TLS_KEY": str(self._folder / "server.key"),
                    "PLACEMENT_MAX_CONCURRENT": "2",
                    "PLACEMENT_MAX_PENDING": "8",
                    "PLACEMENT_ARRIVAL_TIMEOUT": "3",
                },
            )
            try:
                yield server
            finally:
                server.kill()
                server.wait()

    @contextmanager
    def _channel(self) -> Iterator[grpc.Channel]:
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
        )
        credentials = grpc.ssl_channel_credentials(self._ca)
        with grpc.secure_channel(f"localhost:{self._port}", credentials, options) as channel:
            yield channel

    def _processes(self) -> list[int]:
        """The server, its compute processes and their solvers."""
        found = [self._server.pid]
        for pid in found:
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def _memory(self) -> int:
        """Bytes of resident memory of all of them that are not shared."""
        total = 0
        for pid in self._processes():
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith(("Private_Clean:", "Private_Dirty:")):
                        total += int(line.split()[1]) * 1024
        return total

    def _settle(self) -> None:
        time.sleep(2.0)

    def _ask_until_answered(self) -> None:
        request = questions.honest(random.Random(1))
        request.time_limit.FromMilliseconds(10_000)
        end = time.monotonic() + 90
        while True:
            try:
                with self._channel() as channel:
                    call = channel.unary_unary(COMPUTE, bytes, ComputePlacementResponse.FromString)
                    answer = call(request.SerializeToString(), timeout=30)
                    self._check(request, answer)
                    return
            except grpc.RpcError as error:
                if time.monotonic() > end or self._server.poll() is not None:
                    raise AssertionError(f"the server does not answer: {error}") from error
                time.sleep(0.2)

    # --- What is done to it ---

    def _repeat(self, work: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(self._seed * 1000 + number)
        while not self._over.is_set():
            try:
                work(rng)
            except Exception as error:
                self._fault(f"{work.__name__}: {error!r}")
                self._over.wait(1.0)

    def _honest(self, rng: random.Random) -> None:
        with self._channel() as channel:
            for _ in range(rng.randint(1, 6)):
                self._ask(channel, "honest", questions.honest(rng))

    def _mutated(self, rng: random.Random) -> None:
        with self._channel() as channel:
            for _ in range(20):
                request = questions.mutated(rng, questions.honest(rng))
                self._ask(channel, "mutated fields", request)

    def _torn(self, rng: random.Random) -> None:
        with self._channel() as channel:
            for _ in range(20):
                content = questions.torn(rng, questions.honest(rng).SerializeToString())
                self._ask_bytes(channel, "mutated bytes", content)

    def _growing(self, rng: random.Random) -> None:
        request = rng.choice(questions.SHAPES)(rng, rng.choice((50, 300, 1000, 3000)))
        request.time_limit.FromMilliseconds(rng.choice((300, 1000)))
        with self._channel() as channel:
            self._ask(channel, "growing shapes", request)

    def _flood(self, rng: random.Random) -> None:
        content = questions.honest(rng).SerializeToString()
        with self._channel() as channel:
            call = channel.unary_unary(COMPUTE, bytes, bytes)
            calls = [call.future(content, timeout=PATIENCE) for _ in range(30)]
            for one in calls:
                if rng.random() < 0.3:
                    one.cancel()
            for one in calls:
                self._count("flood", one.code().name)
        self._over.wait(3.0)

    def _stall(self, rng: random.Random) -> None:
        """Calls whose message never comes, or comes in part, and readers who leave."""
        done = threading.Event()

        def nothing() -> Iterator[bytes]:
            done.wait()
            yield from ()

        with self._channel() as channel:
            call = channel.stream_stream(COMPUTE, bytes, bytes)
            calls: list[Any] = [call(nothing(), timeout=PATIENCE) for _ in range(40)]
            self._over.wait(rng.uniform(0.5, 4.0))
            for one in calls:
                one.cancel()
            done.set()
        self._figures.disturbances["stalled calls"] += len(calls)

    def _knock(self, rng: random.Random) -> None:
        """Connections that close at once, half-way through a handshake, or talk nonsense."""
        for _ in range(20):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as one:
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
        """Kills or stops a process that computes, or stops the server for a moment."""
        self._over.wait(rng.uniform(1.0, 5.0))
        server, *others = self._processes()
        self._disturbed = time.monotonic()
        if others and rng.random() < 0.8:
            what = rng.choice((signal.SIGKILL, signal.SIGSTOP))
            with suppress(ProcessLookupError):
                os.kill(rng.choice(others), what)
            self._figures.disturbances[f"{what.name} of a process"] += 1
        else:
            os.kill(server, signal.SIGSTOP)
            time.sleep(rng.uniform(0.05, 0.5))
            os.kill(server, signal.SIGCONT)
            self._disturbed = time.monotonic()
            self._figures.disturbances["SIGSTOP of the server"] += 1

    def _renew(self, rng: random.Random) -> None:
        """New certificates, or half of one for a moment."""
        self._over.wait(rng.uniform(1.5, 4.0))
        certificate = self._folder / "server.crt"
        if rng.random() < 0.3:
            whole = certificate.read_bytes()
            certificate.write_bytes(whole[: len(whole) // 2])
            self._over.wait(1.5)
            certificate.write_bytes(whole)
            self._figures.disturbances["half-written certificates"] += 1
        else:
            renew(self._folder, "server")
            self._renewed = time.monotonic()
            self._figures.disturbances["renewals"] += 1

    def _probe(self, rng: random.Random) -> None:
        begin = time.monotonic()
        with self._channel() as channel:
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

    def _ask(self, channel: grpc.Channel, kind: str, request: ComputePlacementRequest) -> None:
        answer = self._ask_bytes(
            channel,
            kind,
            request.SerializeToString(),
            limit=request.time_limit.ToMilliseconds() / 1000,
        )
        if answer is not None:
            self._check(request, ComputePlacementResponse.FromString(answer))

    def _ask_bytes(
        self, channel: grpc.Channel, kind: str, content: bytes, limit: float | None = None
    ) -> bytes | None:
        call = channel.unary_unary(COMPUTE, bytes, bytes)
        with suppress(grpc.RpcError):
            # Shaking hands is not the answer's time.
            health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=PATIENCE, wait_for_ready=True
            )
        begin = time.monotonic()
        answer: bytes | None = None
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
        return answer

    def _check(self, request: ComputePlacementRequest, answer: ComputePlacementResponse) -> None:
        question = parse_request(request)
        placement = parse_placement(answer.placement)
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
