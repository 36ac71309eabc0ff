"""One instance to one `Line`: what it took, what was reached and what is proven.

Two paths. "engine" calls the stages in this process, each timed by itself: formulate, first
answer, search. "grpc" asks a real server with a real client, which is what users see. Either way
the answer is judged here, by the verifier and the score, whatever the engine says of it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from bench.instances import Instance
from placement.client import PlacementClient
from placement.v1 import Placement as PlacementMessage
from placement_service.api.wire import placements, requests
from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Request, Snapshot
from placement_service.entities.solution import Solution, Tier, TierName
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify

#: Values closer than this are equal.
TOLERANCE = 5e-7

#: Gangs of which it is counted how many still wait.
OLDEST = 50

#: Seconds that a server may take to start.
START_SECONDS = 60.0


class NoAnswer(Exception):
    """The server did not start, or did not answer as it should."""


@dataclass(frozen=True, slots=True)
class TierLine:
    """`bound` None: nothing is proven."""

    value: float
    bound: float | None

    @property
    def proven(self) -> bool:
        return self.bound is not None and abs(self.bound - self.value) < TOLERANCE

    @property
    def gap(self) -> float | None:
        """|bound - value| / max(1, |value|), None without a bound."""
        return (
            None if self.bound is None else abs(self.bound - self.value) / max(1, abs(self.value))
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as judged here; `tiers` by name, `placed` counts gangs.

    `oldest_left` are those of the 50 oldest gangs whose minimum does not run, None where
    the bindings are not known.
    """

    placed: int
    tiers: dict[str, TierLine]
    oldest_left: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """When a better answer or bound came, in seconds, and how far the first tier was."""

    seconds: float
    phase: str
    admitted: float
    bound: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement. Times are in seconds since the question was asked, memory in MiB.

    `formulate` is 0 over gRPC, where it is part of `first`. `proof` is None unless all tiers
    are proven that can be. `memory` is the peak of the process by name: "bench" holds
    everything of the engine path; over gRPC there are "server" and "solver". `faults` are
    broken rules and wrong claims: there should be none. `in_turn` is what comes of placing
    gangs one after another, the oldest first, and is not made over gRPC.
    """

    family: str
    params: dict[str, int | float | str]
    seed: int
    path: str
    time_limit: float
    nodes: int
    gangs: int
    pods: int
    formulate: float
    first: float
    proof: float | None
    total: float
    greedy: Answer
    final: Answer
    end: str
    memory: dict[str, float]
    engine: str
    request_mib: float = 0.0
    judging: float = 0.0
    steps: list[Step] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    in_turn: Answer | None = None

    def __str__(self) -> str:
        return str(Instance(self.family, self.params, self.seed))

    @property
    def gap(self) -> float | None:
        """Gap of the first tier that is not proven though it can be; 0 when all are."""
        for tier in TierName:
            line = self.final.tiers.get(tier.value)
            if tier.provable and line is not None and not line.proven:
                return line.gap
        return 0.0


def engine_line(instance: Instance, *, time_limit: float) -> Line:
    """Measures the stages in this process; best in a fresh one, for the peak of memory."""
    # Loading the solver does not belong to an answer.
    from placement_service.formulation.formulate import formulate
    from placement_service.formulation.named_plan import name_plan
    from placement_service.formulation.objective import to_solution
    from placement_service.formulation.plan import home_plan, oldest_first
    from placement_service.formulation.prepare import prepare
    from placement_service.heuristic.first_answer import first_answer
    from placement_service.heuristic.plan_builder import Builder
    from placement_service.search import engine

    snapshot, policy = instance.snapshot(), instance.policy()
    _forget_peak("self")
    begin = time.monotonic()
    prepared = prepare(snapshot, policy)
    problem = formulate(snapshot, policy, prepared)
    formulated = time.monotonic() - begin
    greedy = first_answer(problem)
    first = time.monotonic() - begin
    steps: list[Step] = []
    proof: float | None = first if greedy.proven else None

    def report(solution: Solution) -> None:
        nonlocal proof
        seconds = time.monotonic() - begin
        if solution.proven and proof is None:
            proof = seconds
        admitted = solution.tiers[0]
        steps.append(Step(round(seconds, 3), solution.phase, admitted.value, admitted.bound))

    final = engine.search(problem, greedy, deadline=begin + time_limit, report=report)
    total = time.monotonic() - begin
    if final.proven and proof is None:
        proof = total
    memory = _peak("self")

    judge = Judge(snapshot, policy)

    def judged(which: str, solution: Solution) -> Answer:
        plan = name_plan(snapshot, policy, prepared, solution.assignments)
        return judge.answer(which, plan.bindings, solution.tiers, plan.evictions)

    begin = time.monotonic()
    before = judged("first answer", greedy)
    judging = time.monotonic() - begin
    after = judged("last answer", final)
    # Nobody gives way for gangs that are placed one after another.
    oldest = Builder(problem).build(oldest_first, start=home_plan(problem))
    in_turn = judged("in turn", to_solution(problem, oldest))
    return _line(
        instance,
        snapshot,
        judge,
        path="engine",
        time_limit=time_limit,
        formulate=formulated,
        first=first,
        proof=proof,
        total=total,
        greedy=before,
        final=after,
        end="proven" if final.proven else final.limit.value,
        memory={"bench": memory},
        engine=_version(),
        judging=judging,
        steps=steps,
        in_turn=in_turn,
    )


class BenchServer:
    """A server in a process of its own, as it is deployed; `running` makes one."""

    def __init__(self, process: subprocess.Popen[bytes], client: PlacementClient) -> None:
        self._process = process
        self._client = client

    def line(self, instance: Instance, *, time_limit: float) -> Line:
        """Measures one call from a client's eyes."""
        snapshot, policy = instance.snapshot(), instance.policy()
        message = requests.request_to_proto(
            Request(snapshot, policy, time_limit_seconds=time_limit, label=str(instance))
        )
        _forget_peak(self._process.pid)
        begin = time.monotonic()
        steps: list[Step] = []
        placed_first = 0
        answer: PlacementMessage | None = None
        with self._client.stream(message, timeout=time_limit + START_SECONDS) as events:
            for event in events:
                if isinstance(event, PlacementMessage):
                    answer = event
                    continue
                progress = placements.parse_progress(event)
                admitted = progress.tiers[0]
                placed_first = placed_first if steps else progress.placed_gang_count
                steps.append(
                    Step(
                        round(progress.elapsed_seconds, 3),
                        progress.phase,
                        admitted.value,
                        admitted.bound,
                    )
                )
        total = time.monotonic() - begin
        if answer is None:
            raise NoAnswer("the stream ended without an answer")
        placement = placements.parse_placement(answer)
        stats, termination = placement.stats, placement.termination
        if stats is None or termination is None:
            raise NoAnswer("the answer lacks its statistics")
        judge = Judge(snapshot, policy)
        begin = time.monotonic()
        after = judge.answer("answer", placement.bindings, placement.tiers, placement.evictions)
        judging = time.monotonic() - begin
        for gang, result in zip(snapshot.gangs, placement.gangs, strict=True):
            if not result.placed and not result.reasons:
                judge.faults.append(f"{gang.name} waits without a reason")
        return _line(
            instance,
            snapshot,
            judge,
            path="grpc",
            time_limit=time_limit,
            formulate=0.0,
            first=stats.first_answer_seconds,
            proof=stats.proof_seconds,
            total=total,
            # The first answer itself is not sent; its tiers were recomputed by the service.
            greedy=Answer(placed_first, _tiers(stats.first_tiers)),
            final=after,
            end="proven" if termination.optimal else termination.limit.value,
            memory={
                "server": _peak(self._process.pid),
                "compute": max(map(_peak, _children(self._process.pid)), default=0.0),
                "solver": stats.solver_memory_bytes / 2**20,
            },
            engine=stats.engine,
            request_mib=message.ByteSize() / 2**20,
            judging=judging,
            steps=steps,
        )


@contextlib.contextmanager
def running(processors: Sequence[int] = ()) -> Iterator[BenchServer]:
    """Runs a server on a free port, with its solver process warm; on some processors, or on all."""
    mine = os.sched_getaffinity(0)
    with socket.socket() as holder:
        # The server may still listen on the port, and no other process gets it.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        # Processes keep the processors of the one that started them.
        os.sched_setaffinity(0, processors or mine)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "placement_service"],
                env={
                    # No settings of the shell: the service is measured with its defaults.
                    **{k: v for k, v in os.environ.items() if not k.startswith("PLACEMENT_")},
                    "PLACEMENT_HOST": "127.0.0.1",
                    "PLACEMENT_PORT": str(port),
                    "PLACEMENT_LOG_LEVEL": "WARNING",
                    "PLACEMENT_MAX_MESSAGE_BYTES": str(2**31 - 1),
                },
            )
        finally:
            os.sched_setaffinity(0, mine)
        try:
            with PlacementClient(f"127.0.0.1:{port}", timeout=START_SECONDS) as client:
                server = BenchServer(process, client)
                _wait_for(port, process)
                server.line(Instance("tiny"), time_limit=START_SECONDS / 2)
                yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)
    raise NoAnswer("the server did not start")


class Judge:
    """Recomputes what an answer is worth and collects what is wrong with it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        pending = [i for i, gang in enumerate(snapshot.gangs) if gang.is_pending]
        self._oldest = sorted(pending, key=lambda i: snapshot.gangs[i].created or 0)[:OLDEST]
        self.faults: list[str] = []

    def answer(
        self,
        which: str,
        bindings: Sequence[Binding],
        claimed: Sequence[Tier],
        evictions: Sequence[Eviction] = (),
    ) -> Answer:
        violations = verify(self._snapshot, self._policy, bindings, evictions)
        self.faults += [f"{which}: {violation}" for violation in violations[:3]]
        judged = score(self._snapshot, self._policy, bindings, evictions)
        for tier in claimed:
            self._check(which, tier, judged)
        bounds = {tier.name: tier.bound for tier in claimed}
        return Answer(
            sum(gang.placed for gang in judged.gangs),
            {name.value: TierLine(judged.value(name), bounds.get(name)) for name in TierName},
            sum(not judged.gangs[i].placed for i in self._oldest),
        )

    def _check(self, which: str, tier: Tier, judged: Score) -> None:
        value = judged.value(tier.name)
        if abs(tier.value - value) > TOLERANCE:
            self.faults.append(f"{which}: {tier.name.value} is {value:g}, not {tier.value:g}")
        if tier.bound is not None:
            beyond = (tier.bound - value) if tier.name.minimize else (value - tier.bound)
            if beyond > TOLERANCE:
                self.faults.append(
                    f"{which}: {tier.name.value} is {value:g}, past its bound {tier.bound:g}"
                )


def _line(
    instance: Instance,
    snapshot: Snapshot,
    judge: Judge,
    *,
    path: str,
    time_limit: float,
    formulate: float,
    first: float,
    proof: float | None,
    total: float,
    greedy: Answer,
    final: Answer,
    end: str,
    memory: dict[str, float],
    engine: str,
    judging: float,
    steps: list[Step],
    request_mib: float = 0.0,
    in_turn: Answer | None = None,
) -> Line:
    return Line(
        family=instance.family,
        params=dict(instance.params),
        seed=instance.seed,
        path=path,
        time_limit=time_limit,
        nodes=len(snapshot.nodes),
        gangs=len(snapshot.gangs),
        pods=sum(group.pending_count for gang in snapshot.gangs for group in gang.groups),
        formulate=round(formulate, 4),
        first=round(first, 4),
        proof=None if proof is None else round(proof, 4),
        total=round(total, 4),
        greedy=greedy,
        final=final,
        end=end,
        memory={name: round(mib, 1) for name, mib in memory.items()},
        engine=engine,
        request_mib=round(request_mib, 3),
        judging=round(judging, 4),
        steps=steps,
        faults=judge.faults,
        in_turn=in_turn,
    )


def _tiers(tiers: Sequence[Tier]) -> dict[str, TierLine]:
    return {tier.name.value: TierLine(tier.value, tier.bound) for tier in tiers}


def _version() -> str:
    return f"placement-service {metadata.version('placement-service')}"


def _children(process: int) -> list[int]:
    """The processes that a process has started; none where the kernel does not tell."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def _forget_peak(process: int | str) -> None:
    """Starts the peak of a process's memory anew, where the kernel lets us."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/clear_refs").write_text("5")


def _peak(process: int | str) -> float:
    """Peak resident memory in MiB; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
