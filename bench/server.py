"""One instance through a real server with a real client, which is what users see.

The answer is judged here, whatever the service says of it; `engine` measures the stages alone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from bench.instances import Instance
from bench.judging import Judge
from bench.measurement import Answer, Line, Step, TierLine, pending_pods
from bench.memory import children_of, forget_peak, peak_of
from placement.client import PlacementClient
from placement.v1 import Placement as PlacementMessage
from placement_service.api.wire import placements, requests
from placement_service.entities.request import Request
from placement_service.entities.solution import Tier

#: Seconds that a server may take to start.
START_SECONDS = 60.0


class NoAnswer(Exception):
    """The server did not start, or did not answer as it should."""


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
        forget_peak(self._process.pid)
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
                        progress.elapsed_seconds,
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
        return Line(
            family=instance.family,
            params=dict(instance.params),
            seed=instance.seed,
            path="grpc",
            time_limit=time_limit,
            nodes=len(snapshot.nodes),
            gangs=len(snapshot.gangs),
            pods=pending_pods(snapshot),
            # It is part of what the first answer took.
            formulate=0.0,
            first=stats.first_answer_seconds,
            proof=stats.proof_seconds,
            total=total,
            # The first answer itself is not sent; its tiers were recomputed by the service.
            greedy=Answer(placed_first, _tiers(stats.first_tiers)),
            final=after,
            end="proven" if termination.optimal else termination.limit.value,
            memory={
                "server": peak_of(self._process.pid),
                "compute": max(map(peak_of, children_of(self._process.pid)), default=0.0),
                "solver": stats.solver_memory_bytes / 2**20,
            },
            engine=stats.engine,
            request_mib=message.ByteSize() / 2**20,
            judging=judging,
            steps=steps,
            faults=judge.faults,
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


def _tiers(tiers: Sequence[Tier]) -> dict[str, TierLine]:
    return {tier.name.value: TierLine(tier.value, tier.bound) for tier in tiers}
