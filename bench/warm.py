"""A scheduler that asks about one gang after another on a cluster that hardly changes.

Each request names the snapshot of the answer before, changes ten nodes of it, and asks for one
gang of 2 to 32 pods that needs a rack. The server is real, in a process of its own; time on its
side is what `SolveStats.elapsed` says, from the request's arrival on.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bench.families.building import (
    HALF_TRAY,
    NAMESPACE,
    ONE_GPU,
    RACK,
    WHOLE_TRAY,
    in_use,
    nvl_cluster,
)
from bench.instances import NOW
from placement.client import PlacementClient
from placement.errors import PlacementError
from placement.sessions import Session
from placement.v1 import ComputePlacementRequest, Placement, TerminationReason
from placement.v1 import Node as NodeMessage
from placement_service.api.wire.requests import request_to_proto
from placement_service.entities.request import (
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    Request,
    Snapshot,
)

#: Seconds that the server may take to start.
BOOT_SECONDS = 60.0

#: Requests before measuring: the cluster is told, and code is warm.
WARM_UP = 20


class Spread(NamedTuple):
    """Milliseconds."""

    p50: float
    p95: float
    p99: float
    worst: float


class Measured(NamedTuple):
    """What a run of requests took.

    `cpu` is the milliseconds of processor time that all processes of the server took for a
    request, which a busy machine changes little; memory is theirs together, in MiB.
    """

    nodes: int
    requests: int
    server: Spread
    client: Spread
    proven: int
    placed: int
    seconds: float
    cpu: float
    memory_before: float
    memory_after: float


@dataclass(slots=True)
class Cluster:
    """Machines of `mix` as messages, of which some change with every request."""

    rng: random.Random
    nodes: list[Node]
    questions: int = 0

    @classmethod
    def of(cls, seed: int, blocks: int) -> Cluster:
        rng = random.Random(f"warm {seed}")
        return cls(rng, nvl_cluster(rng, blocks=blocks, racks=20))

    def messages(self) -> Iterator[NodeMessage]:
        """All nodes."""
        yield from _messages(self.nodes)

    def changed(self, count: int) -> Iterator[NodeMessage]:
        """Some nodes, of which other GPUs are in use now."""
        changed = []
        for i in self.rng.sample(range(len(self.nodes)), count):
            node = self.nodes[i]
            if any("gpu" in resource for resource in node.allocatable):
                node = self.nodes[i] = replace(node, requested=in_use(self.rng.choice((0, 1, 4))))
            changed.append(node)
        yield from _messages(changed)

    def question(self) -> ComputePlacementRequest:
        """One gang that needs a rack."""
        self.questions += 1
        name = f"w{self.questions}"
        template = self.rng.choice((WHOLE_TRAY, HALF_TRAY, ONE_GPU))
        count = self.rng.randint(2, 32)
        pods = tuple(Pod(f"namespaces/{NAMESPACE}/pods/{name}-{i}") for i in range(count))
        gang = PodGang(
            f"namespaces/{NAMESPACE}/podgangs/{name}",
            (PodGroup("worker", count, (PodSet(template, pods),)),),
            packing_scopes=(PackingScope("all", ("worker",), required_level=RACK),),
            created=NOW - 60,
        )
        return request_to_proto(Request(Snapshot((), (gang,), as_of=NOW), label=name))


def _messages(nodes: Sequence[Node]) -> Iterator[NodeMessage]:
    yield from request_to_proto(Request(Snapshot(tuple(nodes), ()))).snapshot.nodes


def measure(*, seed: int, requests: int, blocks: int, changes: int, rate: float) -> Measured:
    """Asks so many requests, at most `rate` a second; 0 is as fast as answers come."""
    cluster = Cluster.of(seed, blocks)
    with _server() as (address, process), PlacementClient(address) as client:
        session = client.session()
        session.cluster.set_nodes(*cluster.messages())
        for _ in range(WARM_UP):
            _asked(session, cluster, changes)
        before, cpu = _memory(process), _cpu_seconds(process)
        begin = time.monotonic()
        client_ms, placements = [], []
        for i in range(requests):
            if rate:
                time.sleep(max(0.0, begin + i / rate - time.monotonic()))
            took, placement = _asked(session, cluster, changes)
            client_ms.append(took)
            placements.append(_Answer.of(placement))
        return Measured(
            nodes=len(cluster.nodes),
            requests=requests,
            server=_spread([answer.server_ms for answer in placements]),
            client=_spread(client_ms),
            proven=sum(answer.proven for answer in placements),
            placed=sum(answer.placed for answer in placements),
            seconds=time.monotonic() - begin,
            cpu=1000 * (_cpu_seconds(process) - cpu) / requests,
            memory_before=before,
            memory_after=_memory(process),
        )


class _Answer(NamedTuple):
    server_ms: float
    proven: bool
    placed: bool

    @classmethod
    def of(cls, placement: Placement) -> _Answer:
        return cls(
            placement.stats.elapsed.ToNanoseconds() / 1e6,
            placement.termination.reason == TerminationReason.TERMINATION_REASON_OPTIMAL,
            placement.gangs[0].placed,
        )


def _asked(session: Session, cluster: Cluster, changes: int) -> tuple[float, Placement]:
    """The milliseconds that a call took, and its answer."""
    session.cluster.set_nodes(*cluster.changed(changes))
    question = cluster.question()
    begin = time.perf_counter()
    placement = session.compute(question)
    return 1000 * (time.perf_counter() - begin), placement


def _spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    return Spread(at(0.5), at(0.95), at(0.99), ordered[-1])


@contextmanager
def _server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server with one compute process, and its address."""
    code = (
        "import sys\n"
        "from placement_service.api.server import make_server\n"
        "from placement_service.api.settings import Settings\n"
        "server = make_server(Settings(port=0, max_concurrent=1))\n"
        "port = server.start()\n"
        f"assert server.wait_until_warm({BOOT_SECONDS})\n"
        "print(port, flush=True)\n"
        "sys.stdin.read()\n"
        "server.stop(0)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise PlacementError("the server did not start")
        yield f"127.0.0.1:{port}", process
    finally:
        process.stdin.close()
        process.wait()


def _memory(process: subprocess.Popen[str]) -> float:
    """Resident memory of a process and all below it, in MiB."""
    pages = sum(int((at / "statm").read_text().split()[1]) for at in _below(process))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Processor time that a process and all below it have taken."""
    stats = [(at / "stat").read_text().rpartition(")")[2].split() for at in _below(process)]
    return sum(int(s[11]) + int(s[12]) for s in stats) / os.sysconf("SC_CLK_TCK")


def _below(process: subprocess.Popen[str]) -> list[Path]:
    """A process and all below it, in /proc."""
    found, waiting = [], [process.pid]
    while waiting:
        at = Path(f"/proc/{waiting.pop()}")
        found.append(at)
        for task in (at / "task").iterdir():
            waiting += map(int, (task / "children").read_text().split())
    return found


def report(found: Measured) -> str:
    """A few lines for people."""
    rate = found.requests / found.seconds
    return "\n".join(
        (
            f"{found.requests} requests of one gang, {found.nodes} nodes, {rate:.0f} a second:"
            f" {found.placed} placed, {found.proven} proven",
            *(
                f"{side:<7} p50 {s.p50:6.1f} ms   p95 {s.p95:6.1f} ms   p99 {s.p99:6.1f} ms"
                f"   worst {s.worst:6.1f} ms"
                for side, s in (("server", found.server), ("client", found.client))
            ),
            f"server  {found.cpu:.1f} ms of processor time a request",
            f"memory  {found.memory_before:.0f} MiB before, {found.memory_after:.0f} MiB after",
        )
    )
