"""A trace of jobs on a cluster: when each job would have run under a policy.

Time jumps from event to event. Whenever jobs have arrived or ended, the service is asked
about all that waits beside all that runs, and what it binds starts at once. A job that is
evicted waits again and starts anew; the service is asked again at once then, for an answer gives
room that it takes from some to those of higher priority alone. Pods that run in the request at the
start run throughout, or wait again when they are evicted; gangs that wait in it are left out.

A trace may be ended early: what has happened until then is the outcome.
"""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from math import ceil
from typing import Final, TypeVar

from placement.planning.changes import bound_pods, copy_of, keep, without
from placement.planning.gpus import gpus_in, most_common_gpu
from placement.planning.planner import carried_out
from placement.v1 import (
    ComputePlacementRequest,
    PackingScope,
    Placement,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Resources,
    TolerationOperator,
)

T = TypeVar("T")
N = TypeVar("N", int, float)

#: When the trace begins, if the request does not say what time it is.
_BEGIN: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NAMESPACE: Final = "simulation"
#: Evicted jobs start anew; a job that never ends must not keep the trace from ending.
_MOST_STARTS: Final = 100
#: Answers at one moment: evictions of one may make room for another.
_MOST_ANSWERS: Final = 10

#: What the service takes.
_MOST_PODS: Final = 1_000_000
_MOST_GPUS: Final = 2**53
#: Seconds; moments are told to the microsecond.
_SHORTEST: Final = 1e-6
_LONGEST: Final = 1e10
#: The pods of a job have its name and a number behind.
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,240}[A-Za-z0-9])?")
_QUEUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?")
#: Other numbers of Python, such as 1_0, are slips of the pen.
_NUMBER: Final = re.compile(r"[-+.0-9eE]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Job:
    """One line of a trace; times in seconds from its start, `gpus` of each pod."""

    name: str
    submit: float
    duration: float
    pods: int
    gpus: int
    minimum: int
    required: str = ""
    priority: int = 0
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a job: when it started last, None when it never did, and how often.

    `why` it waits in the end, "" for one that runs or ran.
    """

    job: Job
    started: float | None
    starts: int
    why: str = ""

    @property
    def waited(self) -> float | None:
        """Seconds from its arrival to its last start."""
        return None if self.started is None else self.started - self.job.submit


@dataclass(frozen=True, slots=True)
class Outcome:
    """The trace under one policy.

    `utilisation` is GPU seconds of jobs, also of those that were evicted later, over GPU seconds of
    the cluster until `end`, the time when the last job that ran ended; None for a cluster without
    GPUs. `stopped` is the time
    that the trace had come to when it was ended early, None when it was run whole.
    """

    runs: tuple[Run, ...]
    end: float
    utilisation: float | None
    stopped: float | None = None

    def wait(self, share: float) -> float | None:
        """The shortest time that this share of the jobs that ran did not wait longer than."""
        waits = sorted(run.waited for run in self.runs if run.waited is not None)
        return waits[max(0, ceil(share * len(waits)) - 1)] if waits else None


#: The columns of a trace.
_COLUMNS: Final = tuple(column.name for column in fields(Job))


def read_jobs(lines: Iterable[str]) -> tuple[Job, ...]:
    """The jobs of a trace in CSV, by arrival. Raises ValueError naming every wrong line."""
    try:
        return _read_jobs(csv.DictReader(lines))
    except csv.Error as error:
        raise ValueError(f"cannot be read: {error}") from error


def _read_jobs(rows: csv.DictReader[str]) -> tuple[Job, ...]:
    columns = rows.fieldnames or ()
    missing = {"submit", "duration", "pods", "gpus"} - set(columns)
    if missing:
        raise ValueError(f"the header lacks {', '.join(sorted(missing))}")
    if repeated := sorted({c for c in columns if columns.count(c) > 1 and c in _COLUMNS}):
        raise ValueError(f"the header has {', '.join(repeated)} more than once")
    jobs: list[Job] = []
    problems: list[str] = []
    names: set[str] = set()
    for row in rows:
        number = rows.line_num
        wrong: list[str] = []
        job = _job(row, number, wrong)
        if job.name in names:
            wrong.append(f"name {job.name} is there more than once")
        problems += [f"line {number}: {what}" for what in wrong]
        names.add(job.name)
        jobs.append(job)
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(sorted(jobs, key=lambda job: job.submit))


def columns_not_read(header: str) -> dict[str, str]:
    """The columns of a trace that mean nothing here, each with the one that may be meant."""
    names = next(csv.reader([header]), [])
    others = [name for name in names if name and name not in _COLUMNS]
    return {n: next(iter(get_close_matches(n, _COLUMNS, 1, 0.75)), "") for n in others}


def simulate(
    request: ComputePlacementRequest,
    jobs: Iterable[Job],
    policy: Policy,
    *,
    ask: Callable[[ComputePlacementRequest], Placement],
    stops: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run the trace under a policy, until `stops` says so before an event.

    Raises OverflowError for a trace that goes on beyond the year 9999.
    """
    simulation = _Simulation(request, policy, ask)
    return simulation.run(sorted(jobs, key=lambda job: job.submit), stops)


def each(run: Callable[[T], Outcome], traces: Iterable[T], *, at_once: int) -> list[Outcome]:
    """The result of each trace, in their order, so many at once.

    Threads are enough: the services compute in processes of their own. The first
    error ends all runs that have not begun, and is raised when those that have are over.
    """
    with ThreadPoolExecutor(at_once) as threads:
        runs = [threads.submit(run, trace) for trace in traces]
        try:
            return [one.result() for one in runs]
        finally:
            for one in runs:
                one.cancel()


class _Simulation:
    def __init__(
        self,
        request: ComputePlacementRequest,
        policy: Policy,
        ask: Callable[[ComputePlacementRequest], Placement],
    ) -> None:
        self._ask = ask
        self._now = copy_of(request)
        self._now.policy.CopyFrom(policy)
        for gang in self._now.gangs:
            for group in gang.groups:
                for pod_set in group.pod_sets:
                    del pod_set.pods[:]
                keep(group.pod_sets, lambda pod_set: bool(pod_set.bound_pods))
        keep(self._now.gangs, lambda g: any(x.bound_pods or x.pod_sets for x in g.groups))
        snapshot = request.snapshot
        known = snapshot.HasField("as_of")
        self._begin = snapshot.as_of.ToDatetime(UTC) if known else _BEGIN
        self._gpu = most_common_gpu(snapshot.nodes, policy)
        self._jobs: dict[str, Job] = {}
        self._why: dict[str, str] = {}
        self._started: dict[str, float] = {}
        self._starts: dict[str, int] = {}
        self._waiting: set[str] = set()
        #: When a job ends, its name, and which start of it that is.
        self._ends: list[tuple[float, str, int]] = []
        #: GPU seconds of jobs until the last event.
        self._used = 0.0

    def run(self, jobs: list[Job], stops: Callable[[], bool]) -> Outcome:
        arriving = list(reversed(jobs))
        clock = end = 0.0
        while arriving or self._ends:
            if stops():
                return self._outcome(jobs, clock, stopped=clock)
            times = [arriving[-1].submit] if arriving else []
            last, clock = clock, min([*times, *(one[0] for one in self._ends[:1])])
            self._used += (clock - last) * self._gpus()
            while self._ends and self._ends[0][0] <= clock:
                _, name, start = heapq.heappop(self._ends)
                if name not in self._waiting and self._starts[name] == start:
                    self._now = without(self._now, name)
                    end = clock
            while arriving and arriving[-1].submit <= clock:
                self._arrive(arriving.pop())
            for _ in range(_MOST_ANSWERS):
                if not self._any_waits() or not self._plan(clock):
                    break
        return self._outcome(jobs, end)

    def _any_waits(self) -> bool:
        return any(s.pods for gang in self._now.gangs for g in gang.groups for s in g.pod_sets)

    def _arrive(self, job: Job) -> None:
        name = _gang_name(job)
        self._jobs[name] = job
        self._starts[name] = 0
        self._waiting.add(name)
        self._now.gangs.append(_gang(job, self._begin, self._gpu))

    def _plan(self, clock: float) -> bool:
        """Asks, and carries the answer out. Returns whether it left room: it evicts pods that come
        to no other node.
        """
        self._now.snapshot.as_of.FromDatetime(self._begin + timedelta(seconds=clock))
        placement = self._ask(copy_of(self._now))
        losers = {one.gang for one in placement.evictions if one.gang in self._jobs}
        now = carried_out(self._now, placement)
        up = {result.name for result in placement.gangs if result.placed}
        for result in placement.gangs:
            self._why[result.name] = "; ".join(reason.message for reason in result.reasons[:1])
        for name in losers - up:
            if self._starts[name] < _MOST_STARTS:
                self._waiting.add(name)
            else:
                now = without(now, name)
        for name in sorted(self._waiting & up):
            self._waiting.discard(name)
            self._started[name] = clock
            self._starts[name] += 1
            ends = clock + self._jobs[name].duration
            heapq.heappush(self._ends, (ends, name, self._starts[name]))
        self._now = now
        return any(not one.to_node for one in placement.evictions)

    def _outcome(self, jobs: list[Job], end: float, *, stopped: float | None = None) -> Outcome:
        runs = []
        for job in jobs:
            name = _gang_name(job)
            started = None if name in self._waiting else self._started.get(name)
            why = self._why.get(name, "") if started is None else ""
            runs.append(Run(job, started, self._starts.get(name, 0), why))
        total = sum(
            gpus_in(node.allocatable, self._now.policy) for node in self._now.snapshot.nodes
        )
        share = self._used / (total * end) if total and end else None
        return Outcome(tuple(runs), end, share, stopped)

    def _gpus(self) -> int:
        """GPUs of all jobs that run now."""
        return sum(
            len(bound_pods(gang)) * self._jobs[gang.name].gpus
            for gang in self._now.gangs
            if gang.name in self._jobs
        )


def _job(row: dict[str, str], number: int, wrong: list[str]) -> Job:
    """The job of a line, with harmless values for what is wrong with it."""
    if None in row:
        wrong.append("holds more values than the header has columns")
    good = len(wrong)
    pods = _number(row, "pods", int, wrong, 1, _MOST_PODS)
    most = pods if len(wrong) == good else _MOST_PODS
    name = row.get("name") or f"job-{number}"
    if not _NAME.fullmatch(name):
        wrong.append(f"name must be letters, digits, '-', '_' and '.', not {name!r}")
    queue = row.get("queue") or ""
    if queue and not _QUEUE.fullmatch(queue):
        wrong.append(f"queue {queue!r} is not a name")
    minimum, priority = row.get("minimum"), row.get("priority")
    return Job(
        name=name,
        submit=_number(row, "submit", float, wrong, 0, _LONGEST),
        duration=_number(row, "duration", float, wrong, _SHORTEST, _LONGEST),
        pods=pods,
        gpus=_number(row, "gpus", int, wrong, 0, _MOST_GPUS),
        minimum=_number(row, "minimum", int, wrong, 1, most) if minimum else pods,
        required=row.get("required") or "",
        priority=_number(row, "priority", int, wrong, -(2**31), 2**31 - 1) if priority else 0,
        queue=queue,
    )


def _number(
    row: Mapping[str, str | None],
    column: str,
    kind: Callable[[str], N],
    wrong: list[str],
    least: float,
    most: float,
) -> N:
    text = row.get(column) or ""
    try:
        if not _NUMBER.fullmatch(text.strip()):
            raise ValueError
        number = kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        wrong.append(f"{column} must be {what}, not {text!r}" if text else f"{column} is missing")
        return kind("1")
    if not least <= number <= most:
        wrong.append(f"{column} must be from {least:.16g} to {most:.16g}, not {text.strip()}")
    return number


def _gang_name(job: Job) -> str:
    return f"namespaces/{_NAMESPACE}/podgangs/{job.name}"


def _gang(job: Job, begin: datetime, gpu: str) -> PodGang:
    template = PodTemplate(requests=Resources(extended={gpu: job.gpus} if job.gpus else {}))
    if job.gpus:
        # As the API server does, which keeps other pods away from nodes with such a taint.
        template.tolerations.add(key=gpu, operator=TolerationOperator.TOLERATION_OPERATOR_EXISTS)
    pods = [
        Pod(name=f"namespaces/{_NAMESPACE}/pods/{job.name}-{index}", rank=index)
        for index in range(job.pods)
    ]
    gang = PodGang(
        name=_gang_name(job),
        priority=job.priority,
        queue=f"queues/{job.queue}" if job.queue else "",
        groups=[
            PodGroup(
                name="pods",
                min_replicas=job.minimum,
                pod_sets=[PodSet(template=template, pods=pods)],
            )
        ],
        packing_scopes=(
            [PackingScope(name=job.name, required_level=job.required)] if job.required else []
        ),
    )
    gang.create_time.FromDatetime(begin + timedelta(seconds=job.submit))
    return gang
