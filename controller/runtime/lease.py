"""One leader among replicas, by a Lease of coordination.k8s.io.

Each replica judges by its own clock how long the lease has not changed; the times written
in it are for people, so wrong clocks do no harm. A leader that could not renew in time stops acting
before another may begin, even if its thread was held up: every action first asks `leads`, which
compares times and trusts no flag. The clock also counts while the machine sleeps. If a lease is
deleted its holder makes it again; others wait as long as if it existed. Replicas that were given
the same identity do not take each other's lease for their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from uuid import uuid4

from placement.cluster import ApiError, Cluster
from placement.resources import LEASES

logger = logging.getLogger(__name__)


#: Annotation with a number of the process that holds the lease.
PROCESS: Final = "placement-service/process"

#: Seconds after its end at which a lease has surely run out.
_JUST = 0.01


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds; see the settings of the same names."""

    duration: float
    renew_deadline: float
    renew_period: float


class Move(Enum):
    """What to do about the lease."""

    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


def move(lease: dict[str, Any], *, me: str, process: str, unchanged_for: float) -> Move:
    """What to do about a lease that has not changed for so many seconds, as we saw it."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity")
    if holder == me and _process(lease) == process:
        return Move.RENEW
    if not holder or unchanged_for > float(spec.get("leaseDurationSeconds") or 0):
        return Move.TAKE
    return Move.WAIT


def _process(lease: dict[str, Any]) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(PROCESS, ""))


def boot_clock() -> float:
    """Seconds since the machine started, including those that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Elector:
    """Holds the lease, or waits for it. `run` returns after `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._process = uuid4().hex
        self._timing = timing
        self._clock = clock
        self._stopped = threading.Event()
        self._until = float("-inf")
        self._led = False
        self._complained = ""
        self._term = 0
        # The version of the lease that was seen last (empty when there was none), when it was first
        # seen, and how long its holder may lead by it.
        self._seen = ""
        self._seen_at = 0.0
        self._promised = 0.0

    @property
    def leads(self) -> bool:
        """Whether we may act now."""
        return self._clock() < self._until

    @property
    def term(self) -> int:
        """Counts how often we became the leader."""
        return self._term

    def run(self) -> None:
        """Renews, or tries to take the lease, until stopped; then gives it up."""
        while not self._stopped.is_set():
            self.attempt()
            self._stopped.wait(self._pause())
        self._give_up()

    def stop(self) -> None:
        """Ends `run`. All that acts as the leader must have ended before."""
        self._stopped.set()

    def _pause(self) -> float:
        """Seconds until the next look: when another's lease runs out, if that is sooner."""
        left = self._seen_at + self._promised - self._clock()
        waits = not self.leads and left > 0
        return min(self._timing.renew_period, left + _JUST) if waits else self._timing.renew_period

    def attempt(self) -> None:
        """Reads the lease once and does what is to be done."""
        now = self._clock()
        try:
            self._attempt(now)
        except ApiError as error:
            self._complain(error)
        else:
            self._complained = ""
        self._tell()

    def _complain(self, error: ApiError) -> None:
        """Logs an error once, until it is another one: errors here may last long."""
        if error.status == 409 or self._complained == str(error):  # 409: another was faster.
            return
        self._complained = str(error)
        logger.warning(
            "the lease %s/%s cannot be acquired: %s",
            self._namespace,
            self._name,
            error,
            extra={"status": error.status},
        )

    def _attempt(self, now: float) -> None:
        path = LEASES.path_of(self._name, self._namespace)
        # An answer after the next attempt is of no use.
        timeout = max(1.0, self._timing.renew_deadline / 2)
        try:
            lease = self._cluster.request("GET", path, timeout=timeout)
        except ApiError as error:
            if error.status != 404:
                raise
            if self._seen:
                self._seen, self._seen_at = "", now
            if not self.leads and now - self._seen_at < self._promised:
                # Deleted; its holder does not know yet, and continues for a while.
                return
            body = self._body({}, now=_micro_time(), transitions=0)
            made = self._cluster.request(
                "POST", LEASES.path_in(self._namespace), body=body, timeout=timeout
            )
            self._hold(made, now)
            return
        version = lease["metadata"].get("resourceVersion", "")
        if version != self._seen:
            self._seen, self._seen_at = version, now
        spec = lease.get("spec") or {}
        self._promised = float(spec.get("leaseDurationSeconds") or 0)
        todo = move(
            lease,
            me=self._identity,
            process=self._process,
            unchanged_for=now - self._seen_at,
        )
        if todo is Move.WAIT:
            self._until = float("-inf")
            return
        transitions = int(spec.get("leaseTransitions") or 0) + (todo is Move.TAKE)
        acquired = spec.get("acquireTime") if todo is Move.RENEW else None
        body = self._body(
            lease["metadata"], now=_micro_time(), transitions=transitions, acquired=acquired
        )
        self._hold(self._cluster.request("PUT", path, body=body, timeout=timeout), now)

    def _hold(self, lease: dict[str, Any], since: float) -> None:
        """The lease is ours, counted from before we asked for it."""
        if not self.leads:
            self._term += 1
        self._seen, self._seen_at = lease["metadata"].get("resourceVersion", ""), since
        self._promised = self._timing.duration
        self._until = since + self._timing.renew_deadline

    def _give_up(self) -> None:
        """Lets the next leader begin at once, if the lease is ours."""
        if not self.leads:
            return
        self._until = float("-inf")
        try:
            path = LEASES.path_of(self._name, self._namespace)
            lease = self._cluster.request("GET", path)
            holder = (lease.get("spec") or {}).get("holderIdentity")
            if holder == self._identity and _process(lease) == self._process:
                lease["spec"]["holderIdentity"] = ""
                lease["spec"]["leaseDurationSeconds"] = 1
                self._cluster.request("PUT", path, body=lease)
        except ApiError as error:
            logger.warning("lease not given up: %s", error)
        self._tell()

    def _tell(self) -> None:
        leads = self.leads
        if leads != self._led:
            self._led = leads
            logger.info("leading" if leads else "not leading", extra={"identity": self._identity})

    def _body(
        self,
        metadata: dict[str, Any],
        *,
        now: str,
        transitions: int,
        acquired: str | None = None,
    ) -> dict[str, Any]:
        kept = {k: v for k, v in metadata.items() if k != "managedFields"}
        kept["annotations"] = {**(metadata.get("annotations") or {}), PROCESS: self._process}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**kept, "name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                # Whole seconds, and never less than what is promised.
                "leaseDurationSeconds": max(1, -int(-self._timing.duration // 1)),
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
